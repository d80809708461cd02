"""metrics.jsonl holds complete rows only, of plain numbers, whatever happened before."""

from __future__ import annotations

import json
import resource

import jax.numpy as jnp
import numpy as np
import pytest

from jaxrl_hw.errors import UserError
from jaxrl_hw.loggers.jsonl import MetricsLog, read_columns, read_rows


def test_numbers_of_every_kind_become_plain_ones(tmp_path):
    log = MetricsLog(tmp_path / "metrics.jsonl")
    log.append(
        {
            "iteration": np.int32(1),
            "a": jnp.float32(0.5),
            "b": jnp.bfloat16(2),
            "n": float("nan"),
            "i": np.float64("inf"),
            "j": jnp.float32(-jnp.inf),
            "t": np.bool_(True),
            "none": None,
        }
    )
    text = (tmp_path / "metrics.jsonl").read_text()
    assert text == (
        '{"iteration": 1, "a": 0.5, "b": 2.0, "n": null, "i": null, "j": null, "t": true, '
        '"none": null}\n'
    )


def test_columns_fill_what_a_row_lacks(tmp_path):
    log = MetricsLog(tmp_path / "m")
    log.append({"iteration": 1, "a": 2.0})
    log.append({"iteration": 2, "b": 3.0})
    assert read_columns(tmp_path / "m") == {"iteration": [1, 2], "a": [2.0, None], "b": [None, 3.0]}


def test_truncating_drops_later_rows_and_a_cut_line_and_appending_goes_on(tmp_path):
    path = tmp_path / "m"
    log = MetricsLog(path)
    for iteration in range(1, 6):
        log.append({"iteration": iteration, "x": iteration / 3})
    with path.open("a") as file:
        file.write('{"iteration": 6, "x"')
    assert read_columns(path)["iteration"] == [1, 2, 3, 4, 5]
    before = path.read_text().splitlines()[:3]
    assert log.truncate_after(3) == 2
    assert path.read_text().splitlines() == before
    log.append({"iteration": 4})
    assert read_columns(path)["iteration"] == [1, 2, 3, 4]
    assert [p.name for p in tmp_path.iterdir()] == ["m"]


def test_a_malformed_line_is_named(tmp_path):
    path = tmp_path / "m"
    path.write_text('{"iteration": 1}\nrubbish\n{"iteration": 3}\n')
    for read in (read_rows, lambda p: MetricsLog(p).truncate_after(1)):
        with pytest.raises(UserError, match=r"m\b.*\b2\b"):
            read(path)
    with pytest.raises(UserError, match="none"):
        read_rows(tmp_path / "none")
    assert MetricsLog(tmp_path / "none").truncate_after(1) == 0


def test_rows_wait_for_a_full_disk(tmp_path):
    warnings: list[str] = []
    log = MetricsLog(tmp_path / "m", warn=warnings.append)
    log.append({"iteration": 1})
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (25, hard))  # room for half a row
    try:
        log.append({"iteration": 2})
        log.append({"iteration": 3})
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert len(warnings) == 1
    assert read_columns(tmp_path / "m") == {"iteration": [1]}
    log.append({"iteration": 4})
    lines = (tmp_path / "m").read_text().splitlines()
    assert [json.loads(line)["iteration"] for line in lines] == [1, 2, 3, 4]
