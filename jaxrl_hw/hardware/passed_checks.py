"""What the doctor has found to be right on a device, kept on disk until a version changes."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Mapping
from pathlib import Path

from jaxrl_hw.types.process import cache_folder

_PATH = "passed_checks.json"


def remember(check: str, device: str, versions: Mapping[str, str]) -> None:
    """Keep that a check passed; a cache folder that cannot be written is left alone.

    check: its name, such as "warp".
    device: the GPU's name.
    versions: of the packages that it passed with, by name.
    """
    known = _read() | {f"{check} on {device}": dict(versions)}
    path = _path()
    with contextlib.suppress(OSError):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(known, indent=1) + "\n", encoding="utf-8")


def has_passed(check: str, device: str, versions: Mapping[str, str]) -> bool:
    """Whether a check is known to have passed on a device with these very versions."""
    return _read().get(f"{check} on {device}") == dict(versions)


def _path() -> Path:
    return cache_folder() / _PATH


def _read() -> dict[str, dict[str, str]]:
    try:
        known = json.loads(_path().read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return known if isinstance(known, dict) else {}
