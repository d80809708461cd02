"""Writes files that are whole or absent; reads JSON and names a damaged file."""

from __future__ import annotations

import contextlib
import json
import os
import secrets
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
