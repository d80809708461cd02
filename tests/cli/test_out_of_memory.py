"""An allocation fails in the middle of a run: the run continues smaller and keeps the learner."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import jax
import numpy as np
import pytest

from jaxrl_hw import RunError, fit, load_run
from jaxrl_hw.cli.flags import parse
from jaxrl_hw.loggers.console import Console
from jaxrl_hw.training.build import Build, Built, build_step
from jaxrl_hw.types import TrainState

SMALL = [
    *("--robot", "cartpole", "--physics", "native", "--num-envs", "16", "--no-tensorboard"),
    *("--ppo.unroll", "4", "--ppo.epochs", "2", "--ppo.minibatch-size", "32"),
    *("--net.policy", "16", "--net.value", "16", "--cartpole.episode-s", "1"),
]
NO_ROOM = "RESOURCE_EXHAUSTED: Out of memory while trying to allocate {} bytes."

pytestmark = pytest.mark.slow


class Faulty:
    """Builds the real train step, whose device runs out of memory at one iteration, once."""

    def __init__(self, at: int, *, after_collecting: bool = False, asked: int = 1 << 30) -> None:
        self.at, self.after_collecting, self.asked = at, after_collecting, asked
        self.seen: list[TrainState] = []  # what each step was given, on the host
        self.failed = False
        self.may_resize: list[bool] = []  # of each build

    def __call__(self, *args: Any, **kwargs: Any) -> Built:
        self.may_resize.append(bool(kwargs["may_resize"]))
        built = build_step(*args, **kwargs)
        return built._replace(step=self.around(built.step))

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


class CrowdedCompiler:
    """The compiler lacks memory the first time."""

    def __init__(self) -> None:
        self.asked: list[int] = []

    def __call__(self, plan: Any, env: Any, *args: Any, **kwargs: Any) -> Built:
        self.asked.append(env.num_envs)
        if len(self.asked) == 1:
            raise jax.errors.JaxRuntimeError(NO_ROOM.format(1 << 30))
        return build_step(plan, env, *args, **kwargs)


def train(folder: Path, iterations: int, *flags: str, build: Build | None = None) -> str:
    """Train; what the console shows, in one line."""
    shown = io.StringIO()
    argv = [*SMALL, "--run-dir", str(folder), "--iterations", str(iterations), *flags]
    fit(parse(argv), console=Console(shown), build=build)
    return " ".join(shown.getvalue().split())


def config_of(folder: Path) -> Any:
    return json.loads((folder / "config.json").read_text())["config"]


def size_of(folder: Path) -> tuple[int, int]:
    """Environments, and samples of a minibatch, of the run's last session."""
    config = config_of(folder)
    return config["num_envs"], config["ppo"]["minibatch_size"]


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
    return all(np.array_equal(x, y, equal_nan=True) for x, y in pairs)


@pytest.mark.parametrize(
    ("at", "save_every"),
    [(1, "100"), (5, "100"), (5, "1")],  # with 1 a checkpoint is being written
)
def test_the_run_is_finished_with_fewer_environments_and_the_learner_is_whole(
    at: int, save_every: str, tmp_path: Path
) -> None:
    fault = Faulty(at)
    shown = train(tmp_path, 8, "--save-every", save_every, build=fault)
    assert same_learner(fault.seen[at - 1], fault.seen[at]), "nothing of it is lost"
    rows = lines(tmp_path / "metrics.jsonl")
    assert [row["iteration"] for row in rows] == list(range(1, 9))
    assert rows[-1]["env_steps"] == 4 * (16 * (at - 1) + 8 * (9 - at))
    first, second = lines(tmp_path / "sessions.jsonl")
    assert (first["num_envs"], first["ended"]) == (16, "out of memory")
    assert (second["num_envs"], second["first_iteration"], second["ended"]) == (8, at, "goal")
    for figure in (f"iteration {at}", "16 environments", "1.1 GB", "8 environments"):
        assert figure in shown
    assert size_of(tmp_path) == (8, 32)
    assert load_run(tmp_path).iteration == 8
    if at > 1:  # the rescued learner was saved before the run continued
        rescued = load_run(tmp_path, at - 1).state
        assert int(rescued.iteration) == at - 1
        number = jax.tree.leaves(rescued.env_state)[0].shape[0]
        assert number == {"100": 8, "1": 16}[save_every], "unless that was done before"


def test_a_compiler_that_lacks_memory_is_given_fewer_environments(tmp_path: Path) -> None:
    compiler = CrowdedCompiler()
    train(tmp_path, 2, build=compiler)
    assert compiler.asked == [16, 8]
    assert [s["num_envs"] for s in lines(tmp_path / "sessions.jsonl")] == [8]
    assert lines(tmp_path / "metrics.jsonl")[-1]["env_steps"] == 2 * 4 * 8


def test_the_same_command_continues_with_the_number_that_fits(tmp_path: Path) -> None:
    auto = ("--num-envs", "auto", "--max-envs", "16", "--save-every", "100")
    fault = Faulty(2)
    train(tmp_path, 3, *auto, build=fault)
    assert fault.may_resize == [True, False], "the compiler's figures do not raise it again"
    train(tmp_path, 5, *auto)
    assert [s["num_envs"] for s in lines(tmp_path / "sessions.jsonl")] == [16, 8, 8]


def test_an_update_that_lacks_the_memory_of_its_temporaries_gets_smaller_minibatches(
    tmp_path: Path,
) -> None:
    fault = Faulty(3, after_collecting=True)
    shown = train(tmp_path, 4, build=fault)
    assert same_learner(fault.seen[2], fault.seen[3])
    assert "4 minibatches of 16 samples" in shown
    assert size_of(tmp_path) == (16, 16)


@pytest.mark.parametrize("after_collecting", [False, True])
def test_the_same_command_does_not_try_again_what_did_not_fit(
    after_collecting: bool, tmp_path: Path
) -> None:
    train(tmp_path, 3, build=Faulty(2, after_collecting=after_collecting))
    size = size_of(tmp_path)
    assert size == ((16, 16) if after_collecting else (8, 32)), "one of them is half"
    before, watched = load_run(tmp_path).state, Faulty(0)
    shown = train(tmp_path, 5, build=watched)
    for number, samples in ((16, 32), size):
        assert f"{number} environments" in shown
        assert f"minibatches of {samples} samples" in shown
    assert same_state(before, watched.seen[0]), "it continues to the last bit"
    # --override-config tries again
    train(tmp_path, 6, "--override-config")
    assert lines(tmp_path / "sessions.jsonl")[-1]["num_envs"] == 16
    assert size_of(tmp_path) == (16, 32)


def test_fewer_environments_keep_the_unroll_that_was_chosen_for_more(tmp_path: Path) -> None:
    flags = ("--num-envs", "256", "--ppo.unroll", "0", "--ppo.minibatch-size", "1024")
    train(tmp_path, 2, *flags, build=Faulty(2))
    train(tmp_path, 3, *flags)
    config = config_of(tmp_path)
    assert (config["num_envs"], config["ppo"]["unroll"]) == (128, 24)
    assert config["ppo"]["minibatch_size"] == 1024
    steps = [row["env_steps"] for row in lines(tmp_path / "metrics.jsonl")]
    assert steps == [24 * 256, 24 * (256 + 128), 24 * (256 + 2 * 128)]


def test_another_device_tries_the_size_that_is_asked_for(tmp_path: Path) -> None:
    train(tmp_path, 3, build=Faulty(2))
    sessions = tmp_path / "sessions.jsonl"
    moved = [{**line, "hardware": "elsewhere"} for line in lines(sessions)]
    sessions.write_text("".join(json.dumps(line) + "\n" for line in moved))
    train(tmp_path, 4)
    assert lines(sessions)[-1]["num_envs"] == 16


def test_an_update_that_lacks_little_gets_fewer_environments(tmp_path: Path) -> None:
    train(tmp_path, 4, build=Faulty(3, after_collecting=True, asked=64))
    assert size_of(tmp_path) == (8, 32)


def test_with_on_oom_fail_the_run_fails_and_can_be_continued(tmp_path: Path) -> None:
    with pytest.raises(RunError) as failure:
        train(tmp_path, 5, "--save-every", "2", "--on-oom", "fail", build=Faulty(4))
    assert "iteration 4 with 16 environments" in str(failure.value)
    assert "\n" not in str(failure.value)
    assert lines(tmp_path / "sessions.jsonl")[-1]["ended"] == "out of memory"
    train(tmp_path, 5, "--save-every", "2")
    assert [row["iteration"] for row in lines(tmp_path / "metrics.jsonl")] == [1, 2, 3, 4, 5]


def test_one_environment_gets_half_the_unroll_and_the_run_keeps_it(tmp_path: Path) -> None:
    fault = Faulty(2)
    train(tmp_path, 3, "--num-envs", "1", build=fault)
    assert same_learner(fault.seen[1], fault.seen[2])
    before, watched = load_run(tmp_path).state, Faulty(0)
    train(tmp_path, 4, "--num-envs", "1", build=watched)  # with --ppo.unroll 4, as before
    assert same_state(before, watched.seen[0]), "it continues to the last bit"
    assert config_of(tmp_path)["ppo"]["unroll"] == 2
    assert [row["env_steps"] for row in lines(tmp_path / "metrics.jsonl")] == [4, 6, 8, 10]


def test_where_nothing_is_left_to_halve_the_run_fails(tmp_path: Path) -> None:
    with pytest.raises(RunError) as failure:
        train(tmp_path, 3, "--num-envs", "1", "--ppo.unroll", "1", build=Faulty(2))
    assert "iteration 2 with 1 environments" in str(failure.value)
    assert "\n" not in str(failure.value)


REPLAY = [
    *("--robot", "cartpole_discrete", "--algo", "dqn", "--physics", "native", "--num-envs", "8"),
    *("--dqn.widths", "8", "--dqn.buffer-size", "800", "--dqn.learning-starts", "64"),
    *("--dqn.gradient-steps", "1", "--no-tensorboard", "--cartpole.episode-s", "1"),
]


@pytest.mark.parametrize("after_collecting", [False, True])
def test_a_replay_is_halved_first_and_the_networks_are_kept(
    after_collecting: bool, tmp_path: Path
) -> None:
    fault = Faulty(4, after_collecting=after_collecting)
    words = [*REPLAY, "--run-dir", str(tmp_path), "--iterations", "5", "--save-every", "100"]
    run = fit(parse(words), console=Console(io.StringIO()), build=fault)
    before, after = fault.seen[3], fault.seen[4]
    kept = [s.learner._replace(replay=()) for s in (before, after)]
    assert all(np.array_equal(*pair) for pair in zip(*map(jax.tree.leaves, kept), strict=True))
    filled = [int(state.replay.filled) for state in (before, after)]
    assert filled == [24, 0], "another size starts empty"
    assert after.replay.reward.shape == (50, 8)
    config = config_of(tmp_path)
    assert (config["dqn"]["buffer_size"], config["num_envs"]) == (400, 8)
    assert int(run.state.iteration) == 5
    again = fit(parse(words[:-2] + ["--save-every", "50"]), console=Console(io.StringIO()))
    assert config_of(tmp_path)["dqn"]["buffer_size"] == 400, "what fitted stays"
    assert int(again.state.replay.filled) == int(run.state.replay.filled)
