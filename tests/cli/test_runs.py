"""python -m jaxrl_hw.runs with a run that was really trained: shown, packed, moved, continued."""

from __future__ import annotations

import io
import json
import os
import shutil
import zipfile
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from jaxrl_hw import Run, fit, preset_config
from jaxrl_hw.loggers.console import Console
from jaxrl_hw.runs import main
from jaxrl_hw.train import main as train

pytestmark = pytest.mark.slow

BY_THE_CLOCK = {"wall_s", "iterations_per_min", "env_steps_per_s", "memory_bytes"}


class Trained(NamedTuple):
    """A run of two sessions, 1 to 2 and 3 to 5 of 6, and what was seen of it in the second."""

    folder: Path
    packed: Path
    listed: dict[str, Any]


def rows(folder: Path) -> list[dict[str, Any]]:
    lines = (folder / "metrics.jsonl").read_text().splitlines()
    return [{k: v for k, v in json.loads(x).items() if k not in BY_THE_CLOCK} for x in lines]


def show(folder: Path, capsys: pytest.CaptureFixture[str]) -> dict[str, Any]:
    capsys.readouterr()
    assert main(["show", str(folder), "--json"]) == 0
    return dict(json.loads(capsys.readouterr().out))


@pytest.fixture(scope="module")
def trained(
    train_run: Callable[..., Run],
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Trained]:
    place = tmp_path_factory.mktemp("machine")
    folder, packed, seen = place / "runs" / "pole", place / "pole.zip", io.StringIO()
    task = replace(preset_config("cartpole").cartpole, episode_s=0.1)
    run = train_run("cartpole", folder, cartpole=task, save_every=1, keep=2)

    def callback(row: dict[str, Any]) -> bool:
        if row["iteration"] == 5:
            with pytest.MonkeyPatch.context() as patch:
                patch.setattr("sys.stdout", seen)
                assert main(["list", str(folder.parent), "--json"]) == 0
            assert main(["pack", str(folder), "--out", str(packed)]) == 0
        return bool(row["iteration"] == 5)

    fit(replace(run.config, iterations=6), callback, Console(io.StringIO()))
    yield Trained(folder, packed, json.loads(seen.getvalue())["runs"][0])
    shutil.rmtree(place)


def test_a_run_in_training_is_listed_as_such(trained: Trained) -> None:
    found = trained.listed
    assert (found["status"], found["done"], found["goal"]) == ("training", 5, 6)
    assert str(os.getpid()) in found["why"]
    assert found["last_session"]["first_iteration"] == 3


def test_its_sessions_and_checkpoints_are_shown(
    trained: Trained, capsys: pytest.CaptureFixture[str]
) -> None:
    found = show(trained.folder, capsys)
    assert (found["status"], found["resumable"], found["robot"]) == ("ready", True, "cartpole")
    spans = [(s["first_iteration"], s["last_iteration"], s["ended"]) for s in found["sessions"]]
    assert spans == [(1, 2, "goal"), (3, 5, "callback")]
    assert all(s["num_envs"] == 16 and s["seconds"] > 0 for s in found["sessions"])
    there = {save["iteration"]: save for save in found["checkpoints"]}
    assert {4, 5} <= set(there)
    returns = {row["iteration"]: row["episode_return"] for row in rows(trained.folder)}
    assert {n: save["episode_return"] for n, save in there.items()} == {
        n: returns[n] for n in there
    }
    assert found["best_return"] == max(save["episode_return"] for save in there.values())
    assert main(["show", str(trained.folder)]) == 0
    said = capsys.readouterr().out
    for text in ("cartpole", "5 of 6", "3 to 5", "callback", found["command"]):
        assert text in said


def test_packed_in_training_it_goes_on_elsewhere_as_if_it_had_never_moved(
    trained: Trained, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with zipfile.ZipFile(trained.packed) as archive:
        assert "session.open" not in archive.namelist()
    folder = tmp_path / "elsewhere" / "pole"
    assert main(["unpack", str(trained.packed), "--out", str(folder)]) == 0
    assert f"python -m jaxrl_hw.train --run-dir {folder}" in capsys.readouterr().out
    saved = show(folder, capsys)["saved"]
    assert 2 <= saved <= 5  # the newest that was complete
    assert str(trained.folder.parent) not in (folder / "config.json").read_text()
    before = sorted(path.stat().st_mtime_ns for path in trained.folder.rglob("*"))

    assert train(["--run-dir", str(folder)]) == 0

    after = rows(folder)
    assert [row["iteration"] for row in after] == [1, 2, 3, 4, 5, 6]
    assert after[:5] == rows(trained.folder)
    found = show(folder, capsys)
    assert found["status"] == "done"
    spans = [(s["first_iteration"], s["last_iteration"], s["ended"]) for s in found["sessions"]]
    assert spans == [(1, 2, "goal"), (3, saved, "packed"), (saved + 1, 6, "goal")]
    # and the run that stayed was not touched
    assert sorted(path.stat().st_mtime_ns for path in trained.folder.rglob("*")) == before
