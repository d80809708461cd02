"""Any one damaged file of a checkpoint: the same bits come back, or those of the one before."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import jax
import pytest

from jaxrl_hw import Run, UserError
from jaxrl_hw.checkpointing import description
from jaxrl_hw.checkpointing.checkpoint import Checkpoints
from jaxrl_hw.checkpointing.leaves import to_arrays
from jaxrl_hw.checkpointing.store import best_checkpoint
from jaxrl_hw.train import main

pytestmark = pytest.mark.slow

Damage = Callable[[bytes], bytes | None]


def bits(state: Any) -> dict[str, tuple[str, tuple[int, ...], bytes]]:
    """Every leaf, to the last bit."""
    arrays, _ = to_arrays(state)
    return {name: (str(a.dtype), a.shape, a.tobytes()) for name, a in arrays.items()}


@pytest.fixture(scope="module")
def real(train_run: Callable[..., Run], tmp_path_factory: pytest.TempPathFactory) -> Run:
    """A cartpole run with checkpoints 1 and 2."""
    folder = tmp_path_factory.mktemp("real") / "run"
    return train_run("cartpole", folder, save_every=1, num_envs=8)


@pytest.fixture
def copy(real: Run, tmp_path: Path) -> Path:
    return Path(shutil.copytree(real.folder, tmp_path / "copy"))


def flip(data: bytes, place: int, bit: int = 0) -> bytes:
    return data[:place] + bytes([data[place] ^ (1 << bit)]) + data[place + 1 :]


def damages(file: Path) -> Iterator[tuple[str, Damage]]:
    """Ways to damage a file: the content that is left, None where the file is gone."""
    size = file.stat().st_size
    yield "deleted", lambda data: None
    yield "empty", lambda data: b""
    yield "cut", lambda data: data[: len(data) // 2]
    yield "cut by a byte", lambda data: data[:-1]
    places = {0, 1, size // 4, size // 2, 3 * size // 4, size - 1}
    for place in sorted(p for p in places if 0 <= p < size):
        yield f"flipped at {place}", lambda data, p=place: flip(data, p, p % 8)


def test_every_damaged_file_gives_the_same_bits_or_the_checkpoint_before(
    real: Run, copy: Path
) -> None:
    warnings: list[str] = []
    form = jax.eval_shape(lambda: real.state)
    folder = copy / "checkpoints" / "2"
    outcomes = {"same": 0, "before": 0}
    with Checkpoints(copy / "checkpoints", warn=warnings.append) as checkpoints:
        good = {n: bits(checkpoints.restore(form, n)[0]) for n in (1, 2)}
        files = sorted(path for path in folder.rglob("*") if path.is_file())
        assert len(files) >= 8
        for file in files:
            data = file.read_bytes()
            for what, damage in damages(file):
                left = damage(data)
                file.unlink() if left is None else file.write_bytes(left)
                warnings.clear()
                state, iteration = checkpoints.restore(form)
                file.write_bytes(data)
                where = f"{file.relative_to(folder)} {what}"
                assert bits(state) == good[iteration], where
                if iteration == 2:
                    outcomes["same"] += 1
                    assert warnings == [], where
                else:
                    outcomes["before"] += 1
                    assert len(warnings) == 1, where
                    assert str(folder) in warnings[0]
                    assert "\n" not in warnings[0]
        assert bits(checkpoints.restore(form)[0]) == good[2]
    assert outcomes["before"] > 30  # those of the arrays and of the description
    assert outcomes["same"] > 10  # Orbax's notes for itself


def test_no_damage_to_the_description_passes_unnoticed(real: Run) -> None:
    # damaged anywhere, it is the same description or refused as damaged
    path = real.folder / "checkpoints/2/meta/metadata"
    text = path.read_bytes()
    whole = description.unseal(json.loads(text))
    noticed = 0
    for place in range(0, len(text), 3):
        for damaged in (flip(text, place, place % 7), text[:place] + b"7" + text[place + 1 :]):
            try:
                assert description.unseal(json.loads(damaged)) == whole
            except UserError:
                pytest.fail(f"a newer version's, with byte {place} damaged")
            except (ValueError, description.DamagedError):
                noticed += 1
    assert noticed > 0.5 * len(text)


@pytest.mark.parametrize("name", ["iteration", "episode_return", "format"])
def test_a_digit_of_the_description_does_not_pass_unnoticed(copy: Path, name: str) -> None:
    path = copy / "checkpoints/2/meta/metadata"
    meta = json.loads(path.read_text())
    path.write_text(json.dumps({**meta, name: 9}))
    warnings: list[str] = []
    with Checkpoints(copy / "checkpoints", warn=warnings.append) as checkpoints:
        best = best_checkpoint(checkpoints.store.sound())
        assert best is None or best.iteration != 2
        with pytest.raises(description.DamagedError):
            description.unseal(json.loads(path.read_text()))


def test_a_checkpoint_under_another_iterations_name_is_not_taken_for_it(
    real: Run, copy: Path
) -> None:
    (copy / "checkpoints/2").rename(copy / "checkpoints/7")
    warnings: list[str] = []
    with Checkpoints(copy / "checkpoints", warn=warnings.append) as checkpoints:
        state, iteration = checkpoints.restore(jax.eval_shape(lambda: real.state))
    assert iteration == int(state.iteration) == 1
    assert "iteration 2" in warnings[0]


def again(folder: Path, iterations: int) -> list[str]:
    argv = ["--robot", "cartpole", "--run-dir", str(folder), "--iterations", str(iterations)]
    return argv


def test_the_command_says_what_is_damaged_in_one_line_and_goes_on_from_the_one_before(
    copy: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (copy / "checkpoints/2/state/manifest.ocdbt").write_bytes(b"")
    assert main(again(copy, 3)) == 0
    said = capsys.readouterr().out.splitlines()
    assert sum(str(copy / "checkpoints/2") in line for line in said) == 1
    rows = [json.loads(line) for line in (copy / "metrics.jsonl").read_text().splitlines()]
    assert [row["iteration"] for row in rows] == [1, 2, 3]
    with Checkpoints(copy / "checkpoints") as checkpoints:
        assert checkpoints.iterations() == [1, 2, 3]  # the damaged one was made anew


def test_where_all_are_damaged_the_command_names_them_and_deletes_nothing(
    copy: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for number in (1, 2):
        path = copy / f"checkpoints/{number}/meta/metadata"
        path.write_bytes(flip(path.read_bytes(), 40))
    files = {path: path.read_bytes() for path in copy.rglob("*") if path.is_file()}
    assert main(again(copy, 3)) == 1
    err = capsys.readouterr().err
    assert err.startswith("error: ")
    assert err.count("\n") == 1
    for number in (1, 2):
        assert str(copy / f"checkpoints/{number}") in err
    assert {path: path.read_bytes() for path in copy.rglob("*") if path.is_file()} == files
