"""The benchmark of several devices, in a tiny size."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from PIL import Image


@pytest.mark.slow
def test_both_tables_are_measured_and_drawn(
    script: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("JAXRL_HW_CACHE", str(tmp_path / "cache"))
    argv = ["--robot", "cartpole", "--each", "8", "--devices", "2", "--sizes", "16"]
    argv += ["--net", "8"]
    with script("scaling") as bench:
        assert bench.main([*argv, "--rounds", "1", "--out", str(tmp_path)]) == 0
    record = json.loads((tmp_path / "scaling-cpu.json").read_text())
    (two,) = record["by_devices"]
    assert (two["devices"], two["num_envs"], two["of_first"]) == (2, 16, 1.0)
    assert two["of_one_device"] > 0 < two["env_steps_per_s"]
    (size,) = record["by_size"]
    assert (size["num_envs"], size["of_first"]) == (16, 1.0)
    assert size["us_per_env_step"] > 0
    with Image.open(tmp_path / "scaling-cpu.png") as picture:
        assert picture.width > picture.height > 300


def test_sizes_that_are_none_end_with_code_2(script: Any, tmp_path: Path) -> None:
    with script("scaling") as bench:
        assert bench.main(["--rounds", "0", "--out", str(tmp_path / "out")]) == 2
    assert not (tmp_path / "out").exists()
