"""The acceptance of a GPU, at its smallest on a CPU: results add up, and a step fails alone."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest


@pytest.fixture(scope="module")
def acceptance(script: Any) -> Iterator[Any]:
    with script("gpu_acceptance") as module:
        yield module


def record(folder: Path) -> dict[str, Any]:
    (path,) = folder.glob("gpu-acceptance-*.json")
    found: dict[str, Any] = json.loads(path.read_text())
    return found


@pytest.mark.slow
def test_steps_run_alone_and_their_results_add_up(
    acceptance: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = ["--tiny", "--out", str(tmp_path)]
    assert acceptance.main([*asked, "--only", "sizing"]) == 0
    sizing = record(tmp_path)["steps"]["sizing"]
    assert sizing["status"] == "pass"
    assert sizing["figures"]["env_steps_per_s"] > 0
    assert sizing["figures"]["measured_bytes"]["peak"] > 100_000_000
    for name in ("flags", "oom"):
        assert acceptance.main([*asked, "--only", name]) == 0
        assert record(tmp_path)["steps"][name]["status"] == "does not apply"
    # a step that fails has its reason, and takes nothing from the others
    monkeypatch.setenv("JAX_PLATFORMS", "no_such_platform")
    assert acceptance.main([*asked, "--only", "precision"]) == 1
    # the peer is not installed beside the library
    monkeypatch.delenv("JAXRL_HW_PEER_PYTHON", raising=False)
    assert acceptance.main([*asked, "--only", "peer"]) == 1
    steps = record(tmp_path)["steps"]
    assert steps["peer"]["status"] == "fail"
    assert "brax" in steps["peer"]["why"]
    assert steps["precision"]["status"] == "fail"
    for kind in ("float32", "bfloat16"):
        assert kind in steps["precision"]["why"]
    assert steps["sizing"] == sizing
    (page,) = tmp_path.glob("*.md")
    assert [line.split(":")[0] for line in page.read_text().splitlines() if ": " in line] == [
        *("| sizing", "| flags", "| oom", "| precision", "| peer")
    ]


@pytest.mark.slow
def test_the_engines_are_tabled_at_each_size(acceptance: Any, tmp_path: Path) -> None:
    assert acceptance.main(["--tiny", "--only", "engines", "--out", str(tmp_path)]) == 0
    figures = record(tmp_path)["steps"]["engines"]["figures"]
    assert [row["num_envs"] for row in figures["rows"]] == [16, 32]
    assert all(row["env_steps_per_s"] > 0 for row in figures["rows"])
    assert (figures["substeps"], figures["asked"]) == (4, {})
    (page,) = tmp_path.glob("*.md")
    for row in figures["rows"]:
        assert f"| native | {row['num_envs']} | {row['env_steps_per_s']:,} |" in page.read_text()


@pytest.mark.slow
def test_a_killed_run_is_held_against_an_undisturbed_one(acceptance: Any, tmp_path: Path) -> None:
    assert acceptance.main(["--tiny", "--only", "resume", "--out", str(tmp_path)]) == 0
    figures = record(tmp_path)["steps"]["resume"]["figures"]
    assert len(figures["kills"]) == 1
    assert (figures["same_metrics"], figures["same_state"]) == (True, True)


@pytest.mark.slow
def test_a_trained_policy_is_evaluated(acceptance: Any, tmp_path: Path) -> None:
    assert acceptance.main(["--tiny", "--only", "training", "--out", str(tmp_path)]) == 0
    figures = record(tmp_path)["steps"]["training"]["figures"]
    assert figures["env_steps"] > 0
    assert 0.0 <= figures["mean"]["upright_share"] <= 1.0
    assert figures["curve"][0]["env_steps"] <= figures["env_steps"]


@pytest.mark.slow
def test_the_doctor_tells_every_row(acceptance: Any, tmp_path: Path) -> None:
    code = acceptance.main(["--tiny", "--only", "doctor", "--out", str(tmp_path)])
    doctor = record(tmp_path)["steps"]["doctor"]
    bad = [row for row in doctor["figures"]["rows"] if row["status"] == "fail"]
    assert len(doctor["figures"]["rows"]) > 20
    assert (doctor["status"], code) == (("fail", 1) if bad else ("pass", 0))


def test_what_cannot_be_used_is_refused_in_one_line(
    acceptance: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for wrong in (["--only", "dcotor"], ["--robot", "g11"], ["--fast"]):
        assert acceptance.main([*wrong, "--out", str(tmp_path)]) == 2
        assert len(capsys.readouterr().err.splitlines()) == 1
    assert not list(tmp_path.iterdir())
