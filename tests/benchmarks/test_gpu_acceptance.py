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
    assert acceptance.main([*asked, "--only", "flags"]) == 0
    assert record(tmp_path)["steps"]["flags"]["status"] == "does not apply"
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
    assert steps["precision"]["why"]
    assert steps["sizing"] == sizing
    (page,) = tmp_path.glob("*.md")
    assert [line.split(":")[0] for line in page.read_text().splitlines() if ": " in line] == [
        *("| sizing", "| flags", "| precision", "| peer")
    ]


def test_what_cannot_be_used_is_refused_in_one_line(
    acceptance: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for wrong in (["--only", "dcotor"], ["--robot", "g11"], ["--fast"]):
        assert acceptance.main([*wrong, "--out", str(tmp_path)]) == 2
        assert len(capsys.readouterr().err.splitlines()) == 1
    assert not list(tmp_path.iterdir())
