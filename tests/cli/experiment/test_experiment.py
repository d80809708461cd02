"""An experiment is stopped, continues, and keeps what fails apart."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from jaxrl_hw.experiment import main

MANIFEST = """
robots: [cartpole]
base:
  num_envs: 8
  iterations: {goal}
  tensorboard: false
  save_every: 5
  net: {{policy: [16], value: [16]}}
  ppo: {{unroll: 4, epochs: 1, minibatch_size: 16}}
variants:
  good: {{}}
  greedy: {{memory_limit: 1MB}}
"""


def sessions(run: Path) -> list[tuple[int, int, str]]:
    lines = map(json.loads, (run / "sessions.jsonl").read_text().splitlines())
    return [(x["first_iteration"], x["last_iteration"], x["ended"]) for x in lines]


def outcomes(out: Path) -> dict[str, str]:
    found = json.loads((out / "summary.json").read_text())["experiment"]
    return {run["name"]: run["status"] for run in found["runs"]}


@pytest.mark.slow
def test_it_stops_saved_continues_and_keeps_a_failure_apart(tmp_path, capsys):
    manifest, out = tmp_path / "plan.yaml", tmp_path / "out"
    good, greedy = "cartpole-ppo-good-0", "cartpole-ppo-greedy-0"
    manifest.write_text(MANIFEST.format(goal=1_000_000))
    words = [str(manifest), "--out", str(out)]
    command = [sys.executable, "-m", "jaxrl_hw.experiment", *words]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        metrics, end = out / good / "metrics.jsonl", time.monotonic() + 300
        while not metrics.exists() or not metrics.read_text().count("\n"):
            assert process.poll() is None
            assert time.monotonic() < end
            time.sleep(0.1)
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=300)
    assert process.returncode == 75
    assert outcomes(out) == {good: "stopped", greedy: "waiting"}
    ((first, last, why),) = sessions(out / good)
    assert (first, why) == (1, "SIGTERM")
    assert last == len(metrics.read_text().splitlines())

    manifest.write_text(MANIFEST.format(goal=last + 2))
    assert main(words) == 1
    assert outcomes(out) == {good: "done", greedy: "failed"}
    assert sessions(out / good)[1:] == [(last + 1, last + 2, "goal")]
    page = (out / "report.html").read_text()
    assert "1 MB" in page, "the failure's reason"

    manifest.write_text(MANIFEST.format(goal=last + 2).partition("  greedy")[0])
    capsys.readouterr()
    assert main(words) == 0
    assert outcomes(out) == {good: "done"}
    assert len(sessions(out / good)) == 2, "what is done is left alone"
