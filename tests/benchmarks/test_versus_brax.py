"""The library beside Brax PPO: what it runs, what it reads, and that a missing peer is refused."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
PEER = os.environ.get("JAXRL_HW_PEER_PYTHON", "")
ENDS = """
import json, sys, time
rows = [None, 1e6, *map(float, sys.argv[3].split(","))]
for number, rate in enumerate(rows, start=1):
    error = None if number == 1 else 1.0 / number
    row = {"iteration": number, "env_steps_per_s": rate, "tracking/velocity_error": error}
    with open(sys.argv[1], "a") as file:
        file.write(json.dumps(row) + "\\n")
time.sleep(float(sys.argv[2]))
"""
"""A program that writes metrics as a training does, and then sleeps."""


@pytest.fixture(scope="module")
def versus(script: Any) -> Iterator[Any]:
    with script("versus_brax") as module:
        yield module


def trainings(rates: dict[str, list[str]], sleep: str = "0") -> Any:
    """What starts a run: a program with the next of a side's rates of iterations."""

    def command(side: str, args: Any, place: Path, seed: int) -> tuple[list[str], Path]:
        (place / "model.json").write_text('{"impl": "jax"}')
        metrics = place / "metrics.jsonl"
        return [sys.executable, "-c", ENDS, str(metrics), sleep, rates[side][seed]], metrics

    return command


def test_medians_are_over_rounds_and_ratios_within_them(versus: Any, tmp_path: Path) -> None:
    out = tmp_path / "result.json"
    rates = {"feet": ["40,20,30", "100,100", "6,6"], "shapes": ["10,10", "20,20", "3,3"]}
    words = ["--only", "feet,shapes", "--iterations", "5", "--out", str(out)]
    assert versus.main(words, trainings(rates)) == 0
    record = json.loads(out.read_text())
    feet, shapes = record["rows"]
    assert [run["env_steps_per_s"] for run in feet["runs"]] == [30, 100, 6]
    assert (feet["env_steps_per_s"], shapes["env_steps_per_s"]) == (30, 10)
    assert feet["times_brax"] is None
    assert 0 < feet["first_iteration_s"] < 60
    assert feet["peak_resident_bytes"] > 1_000_000
    assert str(tmp_path) not in record["command"]
    ours = [versus.Timing(rate, 1.0, 1, None) for rate in (30, 100, 6)]
    peers = [versus.Timing(rate, 1.0, 1, None) for rate in (10, 20, 3)]
    row = versus.row("feet", {"feet": ours, "brax": peers})
    assert row["times_brax"] == 3
    assert row["times_brax_range"] == [2, 5]


def test_a_run_ends_when_it_has_met_the_error_and_its_failure_is_told(
    versus: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "result.json"
    words = ["--only", "feet", "--repeats", "1", "--out", str(out), "--to-error"]
    slow = trainings({"feet": ["5,5,5"]}, sleep="600")
    assert versus.main([*words, "0.3"], slow) == 0
    assert 0 < json.loads(out.read_text())["rows"][0]["to_error_s"] < 120
    assert versus.main([*words, "0.1", "--limit", "1"], slow) == 0
    assert json.loads(out.read_text())["rows"][0]["to_error_s"] is None
    capsys.readouterr()
    assert versus.main(words[:-1], trainings({"feet": ["not a number"]})) == 1
    assert "ValueError" in capsys.readouterr().err


def test_what_cannot_be_used_is_refused_before_anything_runs(
    versus: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    bare = [sys.executable, "-m", "venv", "--without-pip", str(tmp_path / "bare")]
    subprocess.run(bare, check=True)
    python = str(tmp_path / "bare" / "bin" / "python")
    for wrong in (
        ["--only", "brax", "--peer-python", python],
        ["--only", "brax", "--peer-python", str(tmp_path / "no-such-python")],
        ["--only", "foot"],
        ["--num-envs", "10", "--minibatches", "4"],
        ["--iterations", "2"],
    ):
        assert versus.main([*wrong, "--out", str(tmp_path / "result.json")]) == 2
        assert len(capsys.readouterr().err.splitlines()) == 1
    assert not (tmp_path / "result.json").exists()


OUR_SIDES = """
import json, mujoco
import versus_brax
from jaxrl_hw.cli.flags import parse
from jaxrl_hw.config.resolve import robot_spec
args = versus_brax.parsed(["--num-envs", "64", "--unroll", "10", "--minibatches", "4"])
found = {}
for side in ("feet", "mjx", "shapes", "preset"):
    config = parse(versus_brax.our_flags(side, args, 7), "train", "")
    model = mujoco.MjModel.from_xml_path(str(robot_spec(config).mjcf))
    found[side] = {
        "size": [config.num_envs, config.ppo.unroll, config.ppo.epochs, config.ppo.minibatch_size],
        "net": [*config.net.policy, *config.net.value],
        "rest": [config.seed, config.timestep, config.iterations, config.net.memory],
        "physics": config.physics,
        "pairs": int(model.npair),
        "soles": int(((model.geom_conaffinity > 0) & (model.geom_bodyid > 0)).sum()),
        "mass": float(model.body_mass.sum()),
        "inertia": float(model.body_inertia.sum()),
    }
print(json.dumps(found))
"""


@pytest.mark.slow
def test_our_sides_train_the_same_sizes_and_differ_in_what_collides() -> None:
    done = subprocess.run(
        [sys.executable, "-c", OUR_SIDES],
        cwd=ROOT / "benchmarks",
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=True,
    )
    found = json.loads(done.stdout)
    feet, mjx, shapes, preset = (found[name] for name in ("feet", "mjx", "shapes", "preset"))
    for side in found.values():
        assert side["size"] == [64, 10, 4, 160]
        assert side["net"] == [512, 256, 128] * 2
        assert side["rest"][:3] == [7, 0.002, 6]
        assert side["soles"] == 8
        assert side["mass"] == pytest.approx(33.341142, abs=1e-5)
        assert side["inertia"] == pytest.approx(shapes["inertia"], rel=1e-6)
    assert (feet["pairs"], mjx["pairs"], shapes["pairs"], preset["pairs"]) == (3, 3, 38, 38)
    assert (feet["physics"], mjx["physics"]) == ("auto", "mjx")
    assert (shapes["rest"][3], preset["rest"][3]) == ("none", "history")


@pytest.mark.slow
@pytest.mark.skipif(not PEER, reason="no JAXRL_HW_PEER_PYTHON with brax and playground is given")
def test_brax_trains_playgrounds_g1(versus: Any, tmp_path: Path) -> None:
    out = tmp_path / "result.json"
    words = ["--only", "brax", "--num-envs", "8", "--unroll", "2", "--epochs", "1"]
    words += ["--minibatches", "2", "--net", "16", "--iterations", "3", "--repeats", "1"]
    assert versus.main([*words, "--peer-python", PEER, "--out", str(out)]) == 0
    record = json.loads(out.read_text())
    assert record["rows"][0]["env_steps_per_s"] > 0
    assert record["peer"]["joints"] == 29
    assert record["peer"]["physics_steps_per_control_step"] == 10
