"""Pushes from every direction, in every phase of the gait."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest


@pytest.fixture(scope="module")
def pushes(script: Any) -> Iterator[Any]:
    with script("push_directions") as module:
        yield module


def test_every_command_meets_every_direction_in_every_phase(pushes: Any) -> None:
    found = pushes.plan(directions=4, phases=2)
    assert len(set(found)) == len(found) == len(pushes.COMMANDS) * 4 * 2
    assert {push.direction for push in found} == {0.0, 90.0, 180.0, 270.0}
    assert {push.phase for push in found} == {0.25, 0.75}


def test_the_table_counts_by_command_side_and_phase(pushes: Any) -> None:
    rows = [
        {**push._asdict(), "fell_after_s": 0.6 if falls else None}
        for push in pushes.plan(directions=4, phases=2)
        for falls in [push.command == "stand" and push.direction == 90.0 and push.phase < 0.5]
    ]
    *table, left, right = pushes.table(rows)
    cells = {line.split("|")[1].strip(): line.split("|")[2:-1] for line in table}
    assert [cell.strip() for cell in cells["stand"]] == ["12 %", "25 %", "0 %", "-"]
    assert [cell.strip() for cell in cells["any of these"]] == ["2 %", "5 %", "0 %", "-"]
    assert left.endswith(": 20 %, 0 %")
    assert right.endswith(": 0 %, 0 %")


@pytest.mark.parametrize(
    "words",
    [
        [],
        ["--policy", "zoo:g2"],
        ["--policy", "zoo:go1", "--directions", "0"],
        ["--policy", "zoo:go1", "--phases", "many"],
        ["--policy", "zoo:go1", "--out", "no/such/folder/found.json"],
    ],
)
def test_bad_input_exits_with_2(pushes: Any, words: list[str]) -> None:
    assert pushes.main(words) == 2


@pytest.mark.slow
def test_a_hard_push_fells_a_robot_and_none_does_not(pushes: Any, tmp_path: Path) -> None:
    out, fallen = tmp_path / "found.json", {}
    for speed in ("0", "8"):
        words = ["--policy", "zoo:go1", "--directions", "2", "--phases", "1", "--speed", speed]
        assert pushes.main([*words, "--out", str(out)]) == 0
        rows = json.loads(out.read_text())["pushes"]
        assert len(rows) == len(pushes.COMMANDS) * 2
        fallen[speed] = [row["fell_after_s"] for row in rows if row["fell_after_s"] is not None]
    assert fallen["0"] == []
    assert len(fallen["8"]) >= 5
    assert all(0.0 < seconds <= pushes.AFTER_S for seconds in fallen["8"])
