"""TensorBoard files hold every scalar at its iteration, and their failure is only a warning."""

from __future__ import annotations

import struct
from pathlib import Path
from typing import Any

import numpy as np

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
