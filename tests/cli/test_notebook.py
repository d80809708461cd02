"""A notebook runs the commands in processes of their own."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from jaxrl_hw.cli.notebook import film, run, train
from jaxrl_hw.errors import RunError


class Impatient:
    """A cell that is interrupted at the first iteration."""

    def __init__(self) -> None:
        self.rows: list[Mapping[str, Any]] = []
        self.said: list[str] = []

    def plan(self, rows: list[tuple[str, str]]) -> None:
        self.said += [name for name, _ in rows]

    def progress(self, row: Mapping[str, Any]) -> None:
        self.rows.append(row)
        if len(self.rows) == 1:
            raise KeyboardInterrupt

    def message(self, text: str) -> None:
        self.said.append(text)

    warning = finish = message

    def close(self) -> None:
        pass


@pytest.mark.slow
def test_an_interrupted_cell_leaves_a_run_that_is_saved(tmp_path: Path) -> None:
    cell, folder = Impatient(), tmp_path / "run"
    flags = ["--robot", "cartpole", "--num-envs", 8, "--iterations", 100000, "--run-dir", folder]
    assert train(*flags, "--no-tensorboard", shown=cell) == 75
    assert "robot" in cell.said
    rows = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    saved = max(int(path.name) for path in (folder / "checkpoints").iterdir())
    assert saved == rows[-1]["iteration"] >= 1


def test_a_command_that_fails_says_why(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(RunError, match="2"):
        run("play", "--run-dir", tmp_path / "nothing")
    assert "nothing" in capsys.readouterr().out
    assert "no run" in run("runs", "list", tmp_path, show=False)
    assert capsys.readouterr().out == ""


def test_a_replay_is_shown_without_its_file(tmp_path: Path) -> None:
    page = tmp_path / "walk.html"
    page.write_text('<p class="x">a & b</p>')
    shown = film(page, width=640)._repr_html_()
    assert "&lt;p class=&quot;x&quot;&gt;a &amp; b&lt;/p&gt;" in shown
    assert str(page) not in shown
