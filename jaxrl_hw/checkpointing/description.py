"""A checkpoint's description: its format's number, its own checksum, and how older ones are read.

Format 2 (this version's): format, iteration, episode_return, config (the run's settings), leaves
(see `arrays.Description`) and crc. Format 1 had iteration, episode_return and leaves alone.

The checksum is computed in the same way in every format from 2 on: so a description that was
damaged is told from one that a newer version wrote.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Callable, Mapping
from typing import Any

from jaxrl_hw.checkpointing.arrays import Arrays, DamagedError
from jaxrl_hw.errors import UserError

FORMAT = 2
"""What this version writes. Raised with every change that an older version could not read; the way
from the number before goes into `MIGRATIONS`, and tests/golden/make.py keeps a file of it."""

Meta = dict[str, Any]
Migration = Callable[[Arrays, Meta], tuple[Arrays, Meta]]

_FIRST = {"iteration", "episode_return", "leaves"}


def seal(meta: Mapping[str, Any]) -> Meta:
    """The description with this version's number, and the checksum of it all."""
    numbered = {"format": FORMAT, **meta}
    return {**numbered, "crc": _crc(numbered)}


def unseal(meta: Any) -> Meta:
    """The description as it was given to `seal`, and its format's number.

    Raises DamagedError where it is not what was written, UserError where a newer version wrote it.
    """
    if not isinstance(meta, dict):
        raise DamagedError("its description is incomplete")
    if set(meta) == _FIRST:
        return {"format": 1, **meta}
    rest = {name: value for name, value in meta.items() if name != "crc"}
    if meta.get("crc") != _crc(rest):
        raise DamagedError("its description is not what was written")
    if rest["format"] > FORMAT:
        raise UserError(
            f"saved by a newer version of jaxrl_hw: it has format {rest['format']}, this version "
            f"reads up to {FORMAT}; update jaxrl_hw"
        )
    return rest


def _without_config(arrays: Arrays, meta: Meta) -> tuple[Arrays, Meta]:
    """1 to 2: the settings were in the run's config.json only."""
    return arrays, {**meta, "config": {}}


MIGRATIONS: dict[int, Migration] = {1: _without_config}
"""From each older format to the one after it: (arrays, description) -> (arrays, description)."""


def upgrade(arrays: Arrays, meta: Meta) -> tuple[Arrays, Meta]:
    """Arrays and description of any older format as those of this one."""
    for number in range(meta["format"], FORMAT):
        arrays, meta = MIGRATIONS[number](arrays, meta)
        meta = {**meta, "format": number + 1}
    return arrays, meta


def _crc(meta: Mapping[str, Any]) -> int:
    # Of the content, not of the file's text: spaces and the order of names carry nothing.
    return zlib.crc32(json.dumps(meta, sort_keys=True, separators=(",", ":")).encode())
