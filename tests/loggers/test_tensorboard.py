"""TensorBoard files hold scalars, texts and films at their iteration; a failure is a warning."""

from __future__ import annotations

import io
import json
import struct
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from jaxrl_hw.checkpointing.run_dir import RunDir
from jaxrl_hw.cli.shown_film import show_in_tensorboard
from jaxrl_hw.evaluation.video import write_film
from jaxrl_hw.loggers.markdown import sessions_text
from jaxrl_hw.loggers.tensorboard import TensorBoardLog


def events(directory: Path) -> list[Any]:
    """Read TFRecords: length (8 bytes), its CRC (4), the record, its CRC (4)."""
    from tensorboardX.proto.event_pb2 import Event

    found = []
    for path in sorted(directory.iterdir()):
        data, at = path.read_bytes(), 0
        while at < len(data):
            (length,) = struct.unpack("<Q", data[at : at + 8])
            found.append(Event.FromString(data[at + 12 : at + 12 + length]))
            at += 16 + length
    return found


def test_scalars_by_name_and_iteration(tmp_path):
    log = TensorBoardLog(tmp_path / "tb")
    log.append(1, {"iteration": 1, "episode_return": None, "loss/policy": np.float32(0.5)})
    log.append(2, {"iteration": 2, "episode_return": 3, "loss/policy": 0.25, "name": "g1"})
    log.close()
    rows = [
        (e.step, {v.tag: v.simple_value for v in e.summary.value})
        for e in events(tmp_path / "tb")
        if e.HasField("summary")
    ]
    assert rows == [(1, {"loss/policy": 0.5}), (2, {"episode_return": 3.0, "loss/policy": 0.25})]


def test_a_resumed_session_purges_what_it_writes_again(tmp_path):
    log = TensorBoardLog(tmp_path, purge_step=51)
    log.append(51, {"x": 1.0})
    log.close()
    starts = [e.step for e in events(tmp_path) if e.HasField("session_log")]
    assert starts == [51]


def test_switched_off_writes_nothing(tmp_path):
    log = TensorBoardLog(tmp_path / "tb", enabled=False)
    log.append(1, {"x": 1.0})
    log.close()
    assert not (tmp_path / "tb").exists()


def test_failing_is_one_warning(tmp_path):
    (tmp_path / "tb").write_text("a file in its place")
    warnings: list[str] = []
    log = TensorBoardLog(tmp_path / "tb", warn=warnings.append)
    for iteration in range(3):
        log.append(iteration, {"x": 1.0})
    log.close()
    assert len(warnings) == 1
    assert str(tmp_path / "tb") in warnings[0]


def texts(directory: Path) -> list[tuple[int, str, str]]:
    """Step, name and text of each text, oldest first."""
    return [
        (e.step, v.tag.split("/")[0], v.tensor.string_val[0].decode())
        for e in events(directory)
        for v in e.summary.value
        if v.metadata.plugin_data.plugin_name == "text"
    ]


def test_texts_stand_at_their_iteration(tmp_path):
    log = TensorBoardLog(tmp_path, purge_step=1)
    log.texts(1, lambda: {"plan": "| robot | g1 |"})
    log.append(1, {"x": 1.0})
    log.close()
    assert texts(tmp_path) == [(1, "plan", "| robot | g1 |")]
    kinds = [(e.step, e.HasField("session_log")) for e in events(tmp_path)]
    assert kinds[1] == (1, True), "what TensorBoard is to drop comes first"


def test_a_text_that_cannot_be_made_is_one_warning(tmp_path):
    def fail() -> dict[str, str]:
        raise OSError("sessions.jsonl is gone")

    warnings: list[str] = []
    log = TensorBoardLog(tmp_path, warn=warnings.append)
    for iteration in range(3):
        log.texts(iteration, fail)
    assert len(warnings) == 1


def test_a_line_per_session_whatever_its_record_lacks():
    whole = {
        "started": "2026-11-21T08:50:12+0000",
        "hardware": "EPYC | 2 cores",
        "num_envs": 64,
        "first_iteration": 1,
        "last_iteration": 40,
        "seconds": 5.5,
        "ended": "time limit",
    }
    _, _, first, second = sessions_text([whole, {"ended": "killed"}])["sessions"].splitlines()
    cells = [cell.strip() for cell in first.replace("\\|", "/").split("|")[1:-1]]
    assert cells == [
        *("1", "2026-11-21 08:50", "EPYC / 2 cores", "64", "1 to 40", "5.5 s", "time limit")
    ]
    assert second.count("|") == 8
    assert "killed" in second


@pytest.mark.slow
def test_a_run_s_plan_config_and_sessions_are_texts(train_run, tmp_path):
    folder = tmp_path / "run"
    train_run("cartpole", folder, tensorboard=True)
    time.sleep(1.1)  # files are named after the second
    train_run("cartpole", folder, tensorboard=True, iterations=3, num_envs=16)
    found = texts(folder / "tensorboard")
    places = [(step, name) for step, name, _ in found]
    each = [[(i, "plan"), (i, "config"), (end, "sessions")] for i, end in ((1, 2), (3, 3))]
    assert places == [*each[0], *each[1]]
    by_place = {(step, name): text for step, name, text in found}
    assert "cartpole" in by_place[1, "plan"]
    settings = json.loads(by_place[3, "config"].strip("`"))
    assert settings == RunDir(folder).read_config()
    last = by_place[3, "sessions"].splitlines()[2:]
    assert ["1 to 2" in last[0], "3 to 3" in last[1], len(last)] == [True, True, 2]
    starts = [e.step for e in events(folder / "tensorboard") if e.HasField("session_log")]
    assert starts == [1, 3], "what a session before wrote from there on is dropped"


def moving(path: Path, shade: int) -> Path:
    """A film of half a second."""
    frames = [np.full((90, 160, 3), shade + 10 * i, np.uint8) for i in range(12)]
    path.parent.mkdir(parents=True, exist_ok=True)
    write_film(path, frames, (160, 90), 25.0)
    return path


def films(directory: Path) -> list[tuple[int, bytes]]:
    found = [e for e in events(directory / "film") if e.summary.value]
    return [(e.step, e.summary.value[0].image.encoded_image_string) for e in found]


def test_a_film_is_an_image_that_moves_and_replaces_that_of_its_iteration(tmp_path):
    run = RunDir(tmp_path)
    first = moving(run.videos / "20.mp4", 40)
    show_in_tensorboard(run, 20, first)
    assert not run.tensorboard.exists(), "a run without TensorBoard files stays so"
    run.tensorboard.mkdir()
    show_in_tensorboard(run, 20, first)
    show_in_tensorboard(run, 5, moving(run.videos / "5.mp4", 40))
    (_, before), (step, data) = films(run.tensorboard)
    assert step == 20
    with Image.open(io.BytesIO(data)) as picture:
        assert (picture.width, picture.height, picture.is_animated) == (320, 180, True)
    show_in_tensorboard(run, 5, moving(first, 90))
    show_in_tensorboard(run, 7, moving(tmp_path / "elsewhere" / "7.mp4", 40))
    assert [step for step, _ in films(run.tensorboard)] == [5, 20]
    assert films(run.tensorboard)[0][1] != before
    assert len(list((run.tensorboard / "film").iterdir())) == 2, "nothing half-written is left"


def test_a_film_that_cannot_be_read_is_a_note(tmp_path, capsys):
    run = RunDir(tmp_path)
    run.tensorboard.mkdir()
    run.videos.mkdir()
    (run.videos / "1.mp4").write_text("no film")
    show_in_tensorboard(run, 1, run.videos / "1.mp4")
    assert capsys.readouterr().err.count("\n") == 1
    assert list(run.tensorboard.iterdir()) == []
