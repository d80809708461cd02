"""The manifest of a packed run: every file with its size and SHA-256, and the allowed names."""

from __future__ import annotations

import json
import re
from dataclasses import asdict, dataclass
from pathlib import PurePosixPath
from typing import Any, TypeGuard

from jaxrl_hw.errors import UserError

FORMAT = 1
MANIFEST = "manifest.json"
CHECKPOINTS, POLICY = "checkpoints", "policy"
REQUIRED = "config.json"
FILES = (REQUIRED, "plan.json", "sessions.jsonl", "metrics.jsonl", "report.html")

_SHA256 = re.compile(r"[0-9a-f]{64}")
_INSIDE = re.compile(rf"(?:{CHECKPOINTS}/[0-9]+|{POLICY})/.+")
_LONGEST = 1000


@dataclass(frozen=True)
class Entry:
    """One file."""

    size: int
    """Bytes."""
    sha256: str
    """Hexadecimal."""


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

    Raises:
      UserError: it is damaged, of another format, or lists what no run has; names `source`.
    """
    try:
        record = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise _damaged(source, "it is not JSON") from error
    if not isinstance(record, dict) or not isinstance(record.get("files"), dict):
        raise _damaged(source, 'it has no "files"')
    if record.get("format") != FORMAT:
        raise UserError(
            f"{MANIFEST} in {source} has format {record.get('format')!r}, this version reads "
            f"format {FORMAT}: use the version of jaxrl_hw that packed it"
        )
    files = {str(path): _entry(value, path, source) for path, value in record["files"].items()}
    _check_paths(files, source)
    iteration, best = record.get("iteration"), record.get("best")
    if not _is_count(iteration) or not (best is None or _is_count(best)):
        raise _damaged(source, f'"iteration" and "best" are {iteration!r} and {best!r}, not counts')
    return Manifest(str(record.get("name", "")), iteration, best, files)


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


def _check_paths(files: dict[str, Entry], source: str) -> None:
    for path in files:
        reason = unsafe(path)
        if not reason and path not in FILES and not _INSIDE.fullmatch(path):
            reason = "is not part of a run"
        if not reason and any(str(parent) in files for parent in PurePosixPath(path).parents):
            reason = "lies in a file"
        if reason:
            raise UserError(f"{source} is refused: {MANIFEST} lists {path[:200]!r}, which {reason}")
    if REQUIRED not in files:
        raise _damaged(source, f"it does not list {REQUIRED}")


def _entry(value: Any, path: str, source: str) -> Entry:
    record = value if isinstance(value, dict) else {}
    size, digest = record.get("size"), record.get("sha256")
    if not _is_count(size) or not isinstance(digest, str) or not _SHA256.fullmatch(digest):
        raise _damaged(source, f"{path[:200]!r} needs a size and a SHA-256")
    return Entry(size, digest)


def _is_count(value: Any) -> TypeGuard[int]:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 2**63


def _damaged(source: str, what: str) -> UserError:
    return UserError(f"{MANIFEST} in {source} is damaged: {what}; pack the run again")
