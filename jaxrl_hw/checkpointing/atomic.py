"""Writes files that are whole or absent; reads JSON and names a damaged file."""

from __future__ import annotations

import json
import os
import tempfile
from pathlib import Path
from typing import Any

from jaxrl_hw.errors import RunError, UserError


def write_json(path: Path, value: Any) -> None:
    """Write `value` as JSON, as `write_bytes` does."""
    write_bytes(path, (json.dumps(value, indent=2, ensure_ascii=False) + "\n").encode())


def write_bytes(path: Path, data: bytes) -> None:
    """Replace a file in one step; after a crash it is the old one or the new one.

    Raises RunError where the file cannot be written.
    """
    temporary = ""
    try:
        descriptor, temporary = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
        with os.fdopen(descriptor, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        os.chmod(temporary, 0o666 & ~_umask())  # mkstemp makes a file that only its owner can read
        os.replace(temporary, path)
    except OSError as error:
        if temporary and os.path.exists(temporary):
            os.unlink(temporary)
        raise RunError(f"cannot write {path}: {error.strerror or error}") from error


def read_json(path: Path, advice: str) -> Any | None:
    """The value in a JSON file, None without a file.

    Raises UserError with the file's name and `advice` where it is not JSON, RunError where it
    cannot be read.
    """
    try:
        text = path.read_text(encoding="utf-8")
    except (FileNotFoundError, NotADirectoryError):
        return None
    except UnicodeDecodeError as error:
        raise UserError(f"{path} is not a text file: {advice}") from error
    except OSError as error:
        raise RunError(f"cannot read {path}: {error.strerror or error}") from error
    try:
        return json.loads(text)
    except ValueError as error:
        problem = "is empty" if not text.strip() else f"is not valid JSON ({error})"
        raise UserError(f"{path} {problem}: {advice}") from error


def _umask() -> int:
    # Only setting the mask returns it.
    mask = os.umask(0o022)
    os.umask(mask)
    return mask
