"""Files and folders: written whole or not at all, read with errors that name them."""

from __future__ import annotations

import contextlib
import itertools
import json
import os
import secrets
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from jaxrl_hw.errors import RunError, UserError


@contextlib.contextmanager
def disk_errors(doing: str) -> Iterator[None]:
    """Turn an OSError into a RunError: `cannot <doing>: <why>`."""
    try:
        yield
    except OSError as error:
        raise RunError(f"cannot {doing}: {error.strerror or error}") from error


def existing(path: Path) -> Path:
    """The path, or the nearest folder above it that exists."""
    return next(place for place in (path, *path.absolute().parents) if place.exists())


def free_bytes(path: Path) -> int | None:
    """Room on the disk that holds a path, or would; None where unknown."""
    try:
        return shutil.disk_usage(existing(path)).free
    except OSError:
        return None


def free_name(path: Path) -> Path:
    """The first of `path.1`, `path.2`, ... that does not exist."""
    names = (path.with_name(f"{path.name}.{n}") for n in itertools.count(1))
    return next(name for name in names if not name.exists())


def write_json(path: Path, value: Any) -> None:
    """Write `value` as JSON, as `write_bytes` does."""
    write_bytes(path, (json.dumps(value, indent=2, ensure_ascii=False) + "\n").encode())


def write_bytes(path: Path, data: bytes) -> None:
    """Replace a file in one step; after a crash it is the old one or the new one.

    Raises RunError where the file cannot be written.
    """
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
    with disk_errors(f"write {path}"):
        try:
            with open(temporary, "xb") as file:
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
            temporary.replace(path)
        finally:
            temporary.unlink(missing_ok=True)


def read_json(path: Path, advice: str) -> Any | None:
    """The value in a JSON file, None without a file.

    Raises UserError with the file's name and `advice` where it is not JSON, RunError where it
    cannot be read.
    """
    with disk_errors(f"read {path}"):
        try:
            data = path.read_bytes()
        except (FileNotFoundError, NotADirectoryError):
            return None
    try:
        return json.loads(data.decode())
    except ValueError as error:
        problem = f"is not valid JSON ({error})" if data.strip() else "is empty"
        if isinstance(error, UnicodeDecodeError):
            problem = "is not a text file"
        raise UserError(f"{path} {problem}: {advice}") from error
