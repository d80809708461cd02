"""An allocation fails in the middle of a run: it goes on with less, and the learner with it."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import numpy as np
import pytest

from jaxrl_hw import load_run
from jaxrl_hw.train import main
from jaxrl_hw.training import build as building
from jaxrl_hw.types import TrainState

SMALL = [
    *("--robot", "cartpole", "--physics", "native", "--num-envs", "16", "--no-tensorboard"),
    *("--ppo.unroll", "4", "--ppo.epochs", "2", "--ppo.minibatches", "2"),
    *("--net.policy", "16", "--net.value", "16", "--cartpole.episode-s", "1"),
]
NO_ROOM = "RESOURCE_EXHAUSTED: Out of memory while trying to allocate {} bytes."

pytestmark = pytest.mark.usefixtures("quick_compile")


class Faulty:
    """The real train step, whose device runs out of memory at one iteration, once."""

    def __init__(self, at: int, *, after_collecting: bool = False, asked: int = 1 << 30) -> None:
        self.at, self.after_collecting, self.asked = at, after_collecting, asked
        self.seen: list[TrainState] = []  # what each step was given, on the host
        self.failed = False

    def around(self, step: Any) -> Any:
        def stepping(state: TrainState) -> Any:
            kept = state._replace(key=jax.random.key_data(state.key))
            self.seen.append(jax.tree.map(np.array, kept))
            if int(state.iteration) + 1 == self.at and not self.failed:
                self.failed = True
                if self.after_collecting:
                    step(state)  # the environments' memory is the step's now
                raise jax.errors.JaxRuntimeError(NO_ROOM.format(self.asked))
            return step(state)

        return stepping


@pytest.fixture
def faulty(monkeypatch: pytest.MonkeyPatch) -> Callable[..., Faulty]:
    def make(at: int, **more: Any) -> Faulty:
        fault, build = Faulty(at, **more), building.build

        def building_with_fault(*args: Any, **kwargs: Any) -> building.Built:
            built = build(*args, **kwargs)
            return built._replace(step=fault.around(built.step))

        monkeypatch.setattr(building, "build", building_with_fault)
        return fault

    return make


@pytest.fixture
def crowded_compiler(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The compiler lacks memory the first time; the list tells what it was asked for."""
    build, asked = building.build, []

    def failing(plan: Any, env: Any, *args: Any, **kwargs: Any) -> building.Built:
        asked.append(env.num_envs)
        if len(asked) == 1:
            raise jax.errors.JaxRuntimeError(NO_ROOM.format(1 << 30))
        return build(plan, env, *args, **kwargs)

    monkeypatch.setattr(building, "build", failing)
    return asked


def lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def same_learner(a: TrainState, b: TrainState) -> bool:
    kept = [(s.learner, s.key, s.iteration, s.env_steps) for s in (a, b)]
    pairs = zip(*map(jax.tree.leaves, kept), strict=True)
    return all(np.array_equal(x, y) for x, y in pairs)


def same_state(a: TrainState, b: TrainState) -> bool:
    """As `same_learner`, and the environments too; b as `Faulty` keeps it."""
    a = a._replace(key=jax.random.key_data(a.key))
    pairs = zip(*map(jax.tree.leaves, (a, b)), strict=True)
    return all(np.array_equal(x, y) for x, y in pairs)


@pytest.mark.parametrize("at", [1, 5])
@pytest.mark.parametrize("save_every", ["100", "1"])  # with 1 a checkpoint is being written
def test_the_run_is_finished_with_fewer_environments_and_the_learner_is_whole(
    at: int,
    save_every: str,
    faulty: Callable[..., Faulty],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    fault = faulty(at)
    argv = [*SMALL, "--run-dir", str(tmp_path), "--iterations", "8", "--save-every", save_every]
    assert main(argv) == 0
    assert same_learner(fault.seen[at - 1], fault.seen[at]), "nothing of it is lost"
    rows = lines(tmp_path / "metrics.jsonl")
    assert [row["iteration"] for row in rows] == list(range(1, 9))
    assert rows[-1]["env_steps"] == 4 * (16 * (at - 1) + 8 * (9 - at))
    first, second = lines(tmp_path / "sessions.jsonl")
    assert (first["num_envs"], first["ended"]) == (16, "out of memory")
    assert (second["num_envs"], second["first_iteration"], second["ended"]) == (8, at, "goal")
    said = " ".join(capsys.readouterr().out.split())
    assert f"out of memory in iteration {at} with 16 environments (1.1 GB asked for)" in said
    assert json.loads((tmp_path / "config.json").read_text())["config"]["num_envs"] == 8
    assert load_run(tmp_path).iteration == 8
    if at > 1:  # what was rescued was saved before it went on
        rescued = load_run(tmp_path, at - 1).state
        assert int(rescued.iteration) == at - 1
        number = jax.tree.leaves(rescued.env_state)[0].shape[0]
        assert number == {"100": 8, "1": 16}[save_every], "unless that was done before"


def test_a_compiler_that_lacks_memory_is_given_fewer_environments(
    crowded_compiler: list[int], tmp_path: Path
) -> None:
    assert main([*SMALL, "--run-dir", str(tmp_path), "--iterations", "2"]) == 0
    assert crowded_compiler == [16, 8]
    assert [s["num_envs"] for s in lines(tmp_path / "sessions.jsonl")] == [8]
    assert lines(tmp_path / "metrics.jsonl")[-1]["env_steps"] == 2 * 4 * 8


def test_the_same_command_goes_on_with_the_number_that_fits(
    faulty: Callable[..., Faulty], tmp_path: Path
) -> None:
    auto = [word if word != "16" or i != 5 else "auto" for i, word in enumerate(SMALL)]
    auto += ["--max-envs", "16", "--run-dir", str(tmp_path), "--save-every", "100"]
    faulty(2)
    assert main([*auto, "--iterations", "3"]) == 0
    assert main([*auto, "--iterations", "5"]) == 0
    assert [s["num_envs"] for s in lines(tmp_path / "sessions.jsonl")] == [16, 8, 8]


def test_an_update_that_wants_the_room_of_its_temporaries_gets_smaller_minibatches(
    faulty: Callable[..., Faulty], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    fault = faulty(3, after_collecting=True)
    argv = [*SMALL, "--run-dir", str(tmp_path), "--iterations", "4"]
    assert main(argv) == 0
    assert same_learner(fault.seen[2], fault.seen[3])
    assert "goes on with minibatches of 16 samples, half as many" in capsys.readouterr().out
    config = json.loads((tmp_path / "config.json").read_text())["config"]
    assert (config["num_envs"], config["ppo"]["minibatches"]) == (16, 4)


@pytest.mark.parametrize("after_collecting", [False, True])
def test_the_same_command_does_not_ask_again_for_what_did_not_fit(
    after_collecting: bool,
    faulty: Callable[..., Faulty],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    faulty(2, after_collecting=after_collecting)
    argv = [*SMALL, "--run-dir", str(tmp_path)]
    assert main([*argv, "--iterations", "3"]) == 0
    config = json.loads((tmp_path / "config.json").read_text())["config"]
    size = (config["num_envs"], config["ppo"]["minibatches"])
    assert size == ((16, 4) if after_collecting else (8, 2)), "one of them is half"
    before = load_run(tmp_path).state
    capsys.readouterr()
    seen = faulty(0).seen
    assert main([*argv, "--iterations", "5"]) == 0
    said = " ".join(capsys.readouterr().out.split())
    assert "memory did not do for 16 environments in 2 minibatches" in said
    assert f"goes on with {size[0]} environments in {size[1]} minibatches" in said
    assert same_state(before, seen[0]), "it goes on to the last bit"
    # who wants to can try again, and so can another machine
    assert main([*argv, "--iterations", "6", "--override-config"]) == 0
    assert lines(tmp_path / "sessions.jsonl")[-1]["num_envs"] == 16
    assert "memory did not do" not in capsys.readouterr().out


def test_another_device_is_asked_for_all_of_it(
    faulty: Callable[..., Faulty], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    faulty(2)
    argv = [*SMALL, "--run-dir", str(tmp_path)]
    assert main([*argv, "--iterations", "3"]) == 0
    sessions = tmp_path / "sessions.jsonl"
    moved = [{**line, "hardware": "elsewhere"} for line in lines(sessions)]
    sessions.write_text("".join(json.dumps(line) + "\n" for line in moved))
    capsys.readouterr()
    assert main([*argv, "--iterations", "4"]) == 0
    assert "num_envs was 8, now 16" in " ".join(capsys.readouterr().out.split())
    assert lines(sessions)[-1]["num_envs"] == 16


def test_an_update_that_lacks_a_little_gets_fewer_environments(
    faulty: Callable[..., Faulty], tmp_path: Path
) -> None:
    faulty(3, after_collecting=True, asked=64)
    assert main([*SMALL, "--run-dir", str(tmp_path), "--iterations", "4"]) == 0
    config = json.loads((tmp_path / "config.json").read_text())["config"]
    assert (config["num_envs"], config["ppo"]["minibatches"]) == (8, 2)


def test_who_wants_it_to_fail_is_told_in_a_line_and_can_go_on(
    faulty: Callable[..., Faulty], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    faulty(4)
    argv = [*SMALL, "--run-dir", str(tmp_path), "--iterations", "5", "--save-every", "2"]
    assert main([*argv, "--on-oom", "fail"]) == 1
    err = capsys.readouterr().err
    assert err.count("\n") == 1
    assert "out of memory in iteration 4 with 16 environments" in err
    assert lines(tmp_path / "sessions.jsonl")[-1]["ended"] == "out of memory"
    assert main(argv) == 0
    assert [row["iteration"] for row in lines(tmp_path / "metrics.jsonl")] == [1, 2, 3, 4, 5]


def test_where_nothing_is_left_to_halve_it_ends_in_a_line(
    faulty: Callable[..., Faulty], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    faulty(2)
    argv = [*SMALL, "--num-envs", "1", "--run-dir", str(tmp_path), "--iterations", "3"]
    assert main(argv) == 1
    err = capsys.readouterr().err
    assert err.count("\n") == 1
    assert "no fewer will do" in err
