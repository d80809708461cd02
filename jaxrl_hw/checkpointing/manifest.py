"""The manifest of a packed run: every file with its size and SHA-256, and the allowed names."""

from __future__ import annotations

import json
import re
from dataclasses import asdict, dataclass
from pathlib import PurePosixPath
from typing import Any

from jaxrl_hw.checkpointing.run_dir import SMALL_FILES
from jaxrl_hw.errors import UserError

FORMAT = 1
MANIFEST = "manifest.json"
FILES = (*SMALL_FILES, "report.html")

_SHA256 = re.compile(r"[0-9a-f]{64}")
_INSIDE = re.compile("(?:checkpoints/[0-9]+|policy)/.+")
_LONGEST = 1000


@dataclass(frozen=True)
class Entry:
    """One file."""

    size: int  # bytes
    sha256: str  # hexadecimal


@dataclass(frozen=True)
class Manifest:
    """The contents of a zip, without the manifest itself."""

    name: str
    """Of the run."""
    iteration: int
    """Of its newest checkpoint."""
    best: int | None
    """Iteration of the best one."""
    files: dict[str, Entry]
    """By path in the run's folder, with slashes."""

    @property
    def size(self) -> int:
        """Bytes of all files, unpacked."""
        return sum(entry.size for entry in self.files.values())

    def encode(self) -> bytes:
        """The manifest as a file."""
        return (json.dumps({"format": FORMAT, **asdict(self)}, indent=2) + "\n").encode()


def decode(data: bytes, source: str) -> Manifest:
    """Read the manifest of a zip; every path in it is safe and belongs to a run.

    Raises UserError, naming `source`, where it is damaged, of another format or lists what no run
    has.
    """
    try:
        record = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise UserError(f"{MANIFEST} in {source} is not JSON; pack the run again") from error
    match record:
        case {"format": number} if number != FORMAT:
            raise UserError(
                f"{MANIFEST} in {source} has format {number!r}, this version reads format "
                f"{FORMAT}: use the version of jaxrl_hw that packed it"
            )
        case {"name": str(name), "iteration": int(iteration), "best": best, "files": dict(files)}:
            entries = {path: _entry(path, files, source) for path in files}
            if "config.json" in entries and (best is None or isinstance(best, int)):
                return Manifest(name, iteration, best, entries)
    raise UserError(f"{MANIFEST} in {source} is incomplete; pack the run again")


def unsafe(path: str) -> str:
    """Why a path may not be written below a folder, "" where it may.

    The rules hold on every system: a zip may be packed on one and unpacked on another.
    """
    if not path or not path.isprintable():
        return "is empty or has characters that cannot be printed"
    if len(path) > _LONGEST:
        return f"is longer than {_LONGEST} characters"
    if path.startswith("/") or "\\" in path or ":" in path:
        return "is absolute, names a drive, or has a backslash"
    if any(part in ("", ".", "..") for part in path.split("/")):
        return "leads out of its folder or has an empty part"
    return ""


def _entry(path: str, files: dict[str, Any], source: str) -> Entry:
    reason = unsafe(path)
    if not reason and path not in FILES and not _INSIDE.fullmatch(path):
        reason = "is not part of a run"
    if not reason and any(str(parent) in files for parent in PurePosixPath(path).parents):
        reason = "lies in a file"
    match files[path]:
        case {"size": int(size), "sha256": str(digest)} if size >= 0 and _SHA256.fullmatch(digest):
            if not reason:
                return Entry(size, digest)
    reason = reason or "has no size and SHA-256"
    raise UserError(f"{source} is refused: {MANIFEST} lists {path[:200]!r}, which {reason}")
