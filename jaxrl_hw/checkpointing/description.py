"""A checkpoint's description: format number, checksums, migrations and score. Needs no JAX.

Format 2 (this version): format, iteration, episode_return, stage, evaluation (its figures or null),
exact_resume (false where a replay is left out; older files lack these two), config (the run's
settings), leaves (a `Description`) and crc. Format 1 had iteration, episode_return and leaves only.

Every format from 2 on computes `crc` in the same way. This tells a damaged description from one
that a newer version wrote.
"""

from __future__ import annotations

import json
import math
import zlib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from jaxrl_hw.errors import UserError

if TYPE_CHECKING:
    import numpy as np

FORMAT = 2
"""The format that this version writes. A change that an older version cannot read raises it, adds
the step from the old number to `MIGRATIONS`, and keeps an old file with tests/golden/make.py."""

META = "meta"
"""The folder in a checkpoint that holds the description."""

Arrays = dict[str, "np.ndarray"]
"""A state's leaves by name."""
Description = dict[str, dict[str, Any]]
"""Per leaf: dtype, shape, crc (CRC-32 of its bytes) and, for random keys, impl."""
Meta = dict[str, Any]
Migrations = Mapping[int, Callable[[Arrays, Meta], tuple[Arrays, Meta]]]

_FORMAT_1 = {"iteration", "episode_return", "leaves"}


class DamagedError(Exception):
    """The bytes on disk differ from the bytes that were written."""


EVALUATION = "eval/"
"""Before the names of an evaluation's figures in a row of metrics.jsonl."""


class Score(NamedTuple):
    """How good a checkpoint is. Tuples compare: one with an evaluation is better than any without,
    then a later curriculum stage wins at any merit."""

    is_evaluated: bool
    stage: int
    """How many stages of the curriculum had begun."""
    merit: tuple[float, ...]
    """The higher, the better: (-robots that fell, -velocity error), or else (mean return,)."""


def seal(meta: Mapping[str, Any]) -> Meta:
    """Add the format number and a checksum to a description."""
    numbered = {"format": FORMAT, **meta}
    return {**numbered, "crc": _crc(numbered)}


def unseal(meta: Any, newest: int = FORMAT) -> Meta:
    """Check a description and return it without its checksum.

    Raises DamagedError where the checksum disagrees, UserError where its format is above `newest`.
    """
    if not isinstance(meta, dict):
        raise DamagedError("the description is incomplete")
    if set(meta) == _FORMAT_1:
        return {"format": 1, **meta}
    rest = {name: value for name, value in meta.items() if name != "crc"}
    if meta.get("crc") != _crc(rest):
        raise DamagedError("the description differs from what was written")
    if rest["format"] > newest:
        raise UserError(
            f"saved by a newer version of jaxrl_hw: it has format {rest['format']}, this version "
            f"reads up to {newest}; update jaxrl_hw"
        )
    return rest


def read_meta(folder: Path, newest: int = FORMAT) -> Meta:
    """The description in a checkpoint folder, checked, in the format it was written in.

    Raises OSError, DamagedError, or UserError where a newer version wrote it.
    """
    try:
        value = json.loads((folder / META / "metadata").read_text(encoding="utf-8"))
    except (ValueError, RecursionError) as error:
        raise DamagedError("the description is not JSON") from error
    return unseal(value, newest)


def _without_config(arrays: Arrays, meta: Meta) -> tuple[Arrays, Meta]:
    """1 to 2: only the run's config.json had the settings."""
    return arrays, {**meta, "config": {}}


MIGRATIONS: Migrations = {1: _without_config}
"""The step from each older format to the next one."""


def upgrade(arrays: Arrays, meta: Meta, migrations: Migrations = MIGRATIONS) -> tuple[Arrays, Meta]:
    """Convert arrays and description of an older format, one migration after the other."""
    for number in range(meta["format"], max(migrations) + 1):
        arrays, meta = migrations[number](arrays, meta)
        meta = {**meta, "format": number + 1}
    return arrays, meta


def evaluation_of(row: Mapping[str, Any]) -> dict[str, float | None] | None:
    """The figures of the evaluation in a row of metrics.jsonl; None where it has none."""
    found = {name: row[name] for name in row if name.startswith(EVALUATION)}
    return {name.removeprefix(EVALUATION): finite(value) for name, value in found.items()} or None


def is_exact(meta: Mapping[str, Any]) -> bool:
    """Whether a run continues from a checkpoint to the last bit: it holds the replay, if any."""
    config = meta.get("config")
    left_out = isinstance(config, Mapping) and config.get("save_replay") == "no"
    return bool(meta.get("exact_resume", not left_out))


def score(meta: Mapping[str, Any]) -> Score | None:
    """The score of a checkpoint; None where it has no evaluation and no episode had ended."""
    merit = _evaluated_merit(meta.get("evaluation"))
    value = finite(meta.get("episode_return"))
    if merit is None and value is None:
        return None
    stage = meta.get("stage")
    if not isinstance(stage, int):
        stage = _stage_of_old(meta.get("config"), meta.get("iteration"))
    return Score(merit is not None, stage, merit or (value or 0.0,))


def _evaluated_merit(figures: Any) -> tuple[float, ...] | None:
    """Fewer robots that fell, pushed or not, then a smaller error; None without the figures."""
    if not isinstance(figures, Mapping):
        return None
    names = ("falls", "pushed_falls", "velocity_error")
    falls, pushed, error = (finite(figures.get(name)) for name in names)
    if falls is None or pushed is None or error is None:
        return None
    return -(falls + pushed), -error


def finite(value: Any) -> float | None:
    """A number that can be compared and written as JSON; None for anything else."""
    if isinstance(value, bool) or not hasattr(value, "__float__"):
        return None
    number = float(value)
    return number if math.isfinite(number) else None


def _stage_of_old(config: Any, iteration: Any) -> int:
    """The stage of a checkpoint without the key "stage": its settings have the boundaries."""
    joystick = config.get("joystick") if isinstance(config, Mapping) else None
    if not isinstance(joystick, Mapping) or not isinstance(iteration, int):
        return 0
    stages = [joystick.get(name) for name in ("later", "last", "finish")]
    begins = [stage.get("iteration") for stage in stages if isinstance(stage, Mapping)]
    return sum(isinstance(begin, int) and 0 < begin < iteration for begin in begins)


def _crc(meta: Mapping[str, Any]) -> int:
    # Of the content, not of the file's text: white space and the order of names do not matter.
    return zlib.crc32(json.dumps(meta, sort_keys=True, separators=(",", ":")).encode())
