"""Checkpoints of every older version are read, those of a newer one refused."""

from __future__ import annotations

import importlib.util
import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from jaxrl_hw import load_run
from jaxrl_hw.checkpointing import description
from jaxrl_hw.checkpointing.checkpoint import Checkpoints
from jaxrl_hw.checkpointing.restore import read_checkpoint, restore_from
from jaxrl_hw.errors import UserError
from jaxrl_hw.train import main

GOLDEN = Path(__file__).parents[1] / "golden"
FORMATS = range(1, description.FORMAT + 1)


@pytest.fixture(scope="module")
def digest() -> Callable[[Any], str]:
    """The script's own: SHA-256 over all leaves of a state."""
    spec = importlib.util.spec_from_file_location("golden_make", GOLDEN / "make.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.digest


@pytest.mark.slow
@pytest.mark.parametrize("number", FORMATS)
def test_a_checkpoint_of_every_format_comes_back_and_its_run_goes_on(
    number: int, digest: Callable[[Any], str], tmp_path: Path
) -> None:
    folder = Path(shutil.copytree(GOLDEN / f"format-{number}", tmp_path / "run"))
    expected = json.loads((folder / "expected.json").read_text())
    run = load_run(folder)
    assert run.iteration == expected["iteration"] == 2
    assert digest(run.state) == expected["sha256"]
    assert description.read_meta(folder / "checkpoints/2")["format"] == number
    assert main(["--robot", "cartpole", "--run-dir", str(folder), "--iterations", "3"]) == 0
    rows = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    assert [row["iteration"] for row in rows] == [1, 2, 3]
    meta = description.read_meta(folder / "checkpoints/3")
    assert (meta["format"], meta["iteration"]) == (description.FORMAT, 3)
    assert meta["config"] == json.loads((folder / "config.json").read_text())["config"]


def test_the_golden_files_are_small_and_one_per_format() -> None:
    assert {path.name for path in GOLDEN.glob("format-*")} == {f"format-{n}" for n in FORMATS}
    files = [path for path in GOLDEN.rglob("*") if path.is_file() and path.suffix != ".pyc"]
    assert sum(path.stat().st_size for path in files) < 100_000
    assert set(description.MIGRATIONS) == set(range(1, description.FORMAT))


def as_newer(folder: Path) -> None:
    """Make a checkpoint into one of the next format, as far as this version can know it."""
    path = folder / "meta/metadata"
    meta = description.unseal(json.loads(path.read_text()))
    later = {**meta, "format": description.FORMAT + 1, "what": "this version does not know"}
    path.write_text(json.dumps(description.seal(later)))


def test_a_newer_format_is_refused_in_one_line_and_nothing_older_taken(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = Path(shutil.copytree(GOLDEN / f"format-{description.FORMAT}", tmp_path / "run"))
    shutil.copytree(folder / "checkpoints/2", folder / "checkpoints/1")
    as_newer(folder / "checkpoints/2")
    before = {p: p.read_bytes() for p in folder.rglob("*") if p.is_file()}
    assert main(["--robot", "cartpole", "--run-dir", str(folder), "--iterations", "3"]) == 2
    err = capsys.readouterr().err
    assert err.count("\n") == 1
    for part in ("checkpoints/2", f"format {description.FORMAT + 1}"):
        assert part in err
    assert {p: p.read_bytes() for p in folder.rglob("*") if p.is_file()} == before
    with pytest.raises(UserError, match=f"format {description.FORMAT + 1}"):
        restore_from(folder / "checkpoints/2", {})


def test_a_migration_changes_arrays_and_description_before_the_form_is_compared(
    tmp_path: Path,
) -> None:
    with Checkpoints(tmp_path, config={"seed": 3}) as checkpoints:
        checkpoints.save(
            4, {"w": np.arange(3, dtype="float32"), "b": np.zeros((2, 0), "float32")}, {}
        )

    def rename(arrays: Any, meta: description.Meta) -> tuple[Any, description.Meta]:
        leaves = {"weights" if k == "w" else k: v for k, v in meta["leaves"].items()}
        arrays = {"weights" if k == "w" else k: 2 * v for k, v in arrays.items()}
        return arrays, {**meta, "leaves": leaves}

    steps = {**description.MIGRATIONS, description.FORMAT: rename}
    form = {"weights": np.zeros(3, "float32"), "b": np.zeros((2, 0), "float32")}
    seen: list[Any] = []

    def from_config(config: dict[str, Any]) -> Any:
        seen.append(config)
        return form

    state, iteration = read_checkpoint(tmp_path / "4", from_config, steps)
    assert iteration == 4
    assert seen == [{"seed": 3}]
    np.testing.assert_array_equal(state["weights"], [0.0, 2.0, 4.0])
    assert state["b"].shape == (2, 0)
