"""SAC, DQN and PPO beside their peers: what is measured, equal sizes, and what is refused."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from jaxrl_hw.cli.flags import parse

PEER = os.environ.get("JAXRL_HW_PEER_PYTHON", "")
HAS_PEER = (
    bool(PEER)
    and not subprocess.run(
        [
            PEER,
            "-c",
            "import importlib.util as u; assert u.find_spec('brax') and u.find_spec('rejax')",
        ],
        capture_output=True,
        check=False,
    ).returncode
)
WRITES = """
import json, sys
with open(sys.argv[1], "a") as file:
    for row in json.loads(sys.argv[2]):
        file.write(json.dumps(row) + "\\n")
"""
"""A program that writes metrics as a training does."""
TINY = ["num_envs=8", "updates=2", "batch_size=16", "learning_starts=32", "replay=64", "chunk=2"]
TINY += ["chunks=5"]


@pytest.fixture(scope="module")
def versus(script: Any) -> Iterator[Any]:
    with script("versus_peers") as module:
        yield module


def writing(rows_of: Any) -> Any:
    """What starts a run: a program that writes rows_of(side, sizes)."""

    def command(side: str, sizes: Mapping[str, Any], place: Path) -> tuple[list[str], Path]:
        metrics = place / "metrics.jsonl"
        rows = json.dumps(rows_of(side, sizes))
        return [sys.executable, "-c", WRITES, str(metrics), rows], metrics

    return command


def test_gradient_steps_count_from_when_nothing_compiles_and_ratios_within_rounds(
    versus: Any, tmp_path: Path
) -> None:
    def rows(side: str, sizes: Mapping[str, Any]) -> list[dict[str, float]]:
        # 2 chunks of 2 iterations of 8 environments compile: 32 env steps after the first 32
        rate = {"jaxrl_hw": (40.0, 160.0), "rejax-dqn": (20.0, 10.0)}[side][sizes["seed"]]
        slow = [{"env_steps": steps, "wall_s": steps * 9.0} for steps in (16, 32, 48)]
        start = slow[-1]["wall_s"] + 99.0
        steps = (64, 80, 96, 112)
        return slow + [{"env_steps": n, "wall_s": start + (n - 64) / rate} for n in steps]

    out = tmp_path / "found.json"
    words = ["--only", "dqn", "--repeats", "2", "--out", str(out), "--set", *TINY]
    assert versus.main(words, writing(rows)) == 0
    record = json.loads(out.read_text())
    ours, peer = record["rows"]
    assert (ours["side"], peer["side"]) == ("jaxrl_hw", "rejax-dqn")
    assert [run["env_steps_per_s"] for run in ours["runs"]] == pytest.approx([40, 160])
    assert ours["updates_per_s"] == pytest.approx(25)  # 2 for each 8 env steps
    assert peer["times_this"]["updates_per_s"] == pytest.approx([9, 2, 16])
    assert ours["times_this"]["updates_per_s"] == pytest.approx([1, 1, 1])
    assert peer["to_return_s"] is None
    assert 0 < peer["first_chunk_s"] < 60
    assert record["sizes"]["dqn"]["replay"] == 64
    assert str(tmp_path) not in record["command"]


def test_the_return_is_the_mean_of_the_last_hundred_episodes_on_both_sides(
    versus: Any, tmp_path: Path
) -> None:
    def rows(side: str, sizes: Mapping[str, Any]) -> list[dict[str, float | None]]:
        if side == "brax-ppo":
            returns = [(10, 1.0), (20, 29.0), (30, 31.0), (40, 40.0)]
            return [{"env_steps": n, "wall_s": n, "return": x} for n, x in returns]
        # the last hundred: 60 of 0 and 40 of 90 are 36, then 28, then 45
        ended = [(10, 90, 90.0), (20, 0, 90.0), (30, 60, 0.0), (40, 70, 40.0), (50, 50, 50.0)]
        return [
            {"env_steps": n, "wall_s": n, "episodes_ended": count, "episode_return": mean}
            for n, count, mean in ended
        ]

    out = tmp_path / "found.json"
    words = ["--only", "ant", "--repeats", "1", "--out", str(out), "--to-return"]
    for wanted, ours, peer in ((28, 30, 20), (37, 50, 40), (44, 50, None), (99, None, None)):
        assert versus.main([*words, str(wanted)], writing(rows)) == 0
        found = json.loads(out.read_text())["rows"]
        assert [row["to_return_env_steps"] for row in found] == [ours, peer]
        assert (found[0]["to_return_s"] is None) == (ours is None)


def test_what_cannot_be_used_is_refused_before_anything_runs(
    versus: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    bare = [sys.executable, "-m", "venv", "--without-pip", str(tmp_path / "bare")]
    subprocess.run(bare, check=True)
    for wrong in (
        ["--peer-python", str(tmp_path / "bare" / "bin" / "python")],
        ["--peer-python", str(tmp_path / "no-such-python")],
        ["--only", "sak"],
        ["--sides", "braxsac"],
        ["--only", "dqn", "--sides", "brax-sac"],
        ["--repeats", "0"],
        ["--set", "num_envs=0"],
        ["--only", "sac", "--set", "unroll=5"],
        ["--only", "sac", "--set", "env=5"],
        ["--only", "sac", "--set", "batch_size=100000"],
        ["--only", "sac", "--set", "chunks=2"],
        ["--only", "ant", "--set", "num_envs=12"],
    ):
        assert versus.main([*wrong, "--out", str(tmp_path / "result.json")]) == 2, wrong
        assert len(capsys.readouterr().err.splitlines()) == 1
    assert not (tmp_path / "result.json").exists()


def test_our_sides_have_the_sizes_of_the_peers(versus: Any) -> None:
    args = versus.parsed([])
    found = {}
    for name in ("sac", "dqn", "ant"):
        sizes = {**versus.sizes_of(name, args), "seed": 3}
        found[name] = config = parse(versus.our_flags(sizes), "train", "")
        assert (config.num_envs, config.seed, config.eval_every) == (sizes["num_envs"], 3, 0)
        assert config.brax.backend == sizes["backend"]
        assert config.net.memory == "none"
        if name != "ant":
            own = getattr(config, name)
            assert (own.train_freq, own.gradient_steps) == (1, sizes["updates"])
            assert (own.batch_size, own.buffer_size) == (sizes["batch_size"], sizes["replay"])
            assert (own.gamma, own.tau) == (sizes["gamma"], sizes["tau"])
            assert config.net.activation == "relu"
    assert found["sac"].net.policy == found["sac"].net.value == (256, 256)
    assert (found["sac"].sac.policy_delay, found["sac"].sac.layer_norm) == (1, False)
    assert (found["dqn"].dqn.widths, found["dqn"].discrete_actions) == ((128, 128), 5)
    ppo = found["ant"].ppo
    assert (ppo.unroll, ppo.minibatch_size, ppo.epochs, ppo.clip) == (20, 320, 4, 0.3)
    assert found["ant"].net.value == (256,) * 5


@pytest.mark.slow
def test_our_sides_learn_as_often_as_they_are_told(versus: Any, tmp_path: Path) -> None:
    pytest.importorskip("brax", reason="brax is not installed")
    out = tmp_path / "found.json"
    words = ["--sides", "jaxrl_hw", "--repeats", "1", "--out", str(out), "--set", *TINY]
    assert versus.main(["--only", "sac,dqn", *words]) == 0
    for row in json.loads(out.read_text())["rows"]:
        assert row["updates_per_s"] == pytest.approx(row["env_steps_per_s"] / 4)
        assert row["updates_per_s"] > 0


@pytest.mark.slow
@pytest.mark.skipif(not HAS_PEER, reason="no JAXRL_HW_PEER_PYTHON with brax and rejax is given")
@pytest.mark.parametrize(("case", "sides"), [("sac", 2), ("dqn", 1)])
def test_the_peers_train_at_the_same_sizes(
    versus: Any, tmp_path: Path, case: str, sides: int
) -> None:
    out = tmp_path / "found.json"
    peers = [side for side in versus.CASES[case].sides if side != "jaxrl_hw"]
    words = ["--only", case, "--sides", ",".join(peers), "--repeats", "1", "--out", str(out)]
    assert versus.main([*words, "--peer-python", PEER, "--set", *TINY]) == 0
    rows = json.loads(out.read_text())["rows"]
    assert len(rows) == sides
    assert all(row["updates_per_s"] > 0 and row["first_chunk_s"] > 0 for row in rows)
