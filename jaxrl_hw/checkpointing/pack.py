"""One zip of what is worth taking along: the newest and the best checkpoint, policy, history."""

from __future__ import annotations

import contextlib
import hashlib
import io
import json
import os
import time
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO, NamedTuple

from jaxrl_hw.checkpointing import listing
from jaxrl_hw.checkpointing.manifest import (
    CHECKPOINTS,
    FILES,
    LINES,
    MANIFEST,
    POLICY,
    Entry,
    Manifest,
    unsafe,
)
from jaxrl_hw.checkpointing.run_dir import RunDir, check_run, name_of
from jaxrl_hw.checkpointing.sessions import closing_record, open_session
from jaxrl_hw.errors import RunError, UserError

_CHUNK = 1 << 20
_ATTEMPTS = 5


class Packed(NamedTuple):
    """A zip that has been written."""

    path: Path
    size: int
    """Bytes."""
    manifest: Manifest


class _ChangedError(Exception):
    """The training has replaced or deleted what was being read."""


@dataclass(frozen=True)
class _Part:
    """One file to be packed."""

    name: str
    source: Path | bytes
    whole_lines: bool = False
    """Leave out a last line that is still being written."""


def pack(folder: Path, out: Path | None = None, force: bool = False) -> Packed:
    """Write a run that can be continued elsewhere as one zip, whole or not at all.

    The run may be in training: checkpoints are taken as they were complete, and where one goes
    while it is read the zip is begun again.

    Args:
      folder: the run's.
      out: the zip; the run's name in the current folder unless given.
      force: whether a file of that name may be replaced.

    Raises:
      UserError: no run, nothing to continue in it, or `out` cannot be used.
      RunError: the disk refuses, or the run keeps changing.
    """
    check_run(folder)
    if RunDir(folder).read_config() is None:
        raise UserError(f"{folder} has no config.json, so nothing could continue it")
    name = name_of(folder)
    out = (out or Path(f"{name}.zip")).expanduser()
    _check_out(out, force)
    temporary = out.with_name(f".{out.name}.{os.getpid()}.part")
    try:
        manifest = _write(folder, name, temporary)
        size = temporary.stat().st_size
        _check_out(out, force)
        os.replace(temporary, out)
    except OSError as error:
        raise RunError(f"cannot pack {folder} as {out}: {error.strerror or error}") from error
    finally:
        temporary.unlink(missing_ok=True)
    return Packed(out, size, manifest)


def _check_out(out: Path, force: bool) -> None:
    if out.is_dir():
        raise UserError(f"--out {out} is a folder; name a file, such as {out / 'run.zip'}")
    if out.exists() and not force:
        raise UserError(f"{out} exists; --force replaces it, --out FILE.zip names another")
    if not out.parent.is_dir():
        raise UserError(f"--out {out} lies in a folder that does not exist; make it first")


def _write(folder: Path, name: str, path: Path) -> Manifest:
    for _ in range(_ATTEMPTS):
        try:
            with open(path, "wb") as file:
                manifest = _write_zip(folder, name, file)
                file.flush()
                os.fsync(file.fileno())
            return manifest
        except (_ChangedError, FileNotFoundError, NotADirectoryError):
            time.sleep(0.2)  # until the training is done with its checkpoints
    raise RunError(f"{folder} changed at each of {_ATTEMPTS} attempts to pack it; try again")


def _write_zip(folder: Path, name: str, file: IO[bytes]) -> Manifest:
    run = RunDir(folder)
    saves = listing.saved_checkpoints(run.checkpoints)
    newest, best = listing.newest(saves), listing.best(saves)
    if newest is None:
        what = "every checkpoint is damaged" if saves else "it has no checkpoint yet"
        raise UserError(f"{folder} cannot be packed: {what}; train it first")
    taken = [newest.folder] if best is None or best is newest else [newest.folder, best.folder]
    folders = [(f"{CHECKPOINTS}/{path.name}", path) for path in taken] + [(POLICY, run.policy)]
    before = [_files(path) for _, path in folders]
    entries: dict[str, Entry] = {}
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        for part in _parts(run, folders, newest.iteration):
            reason = unsafe(part.name)
            if reason:
                raise UserError(f"{part.name!r} in {folder} {reason}; rename it, then pack again")
            entries[part.name] = _add(archive, part)
        if before != [_files(path) for _, path in folders]:
            raise _ChangedError
        manifest = Manifest(name, newest.iteration, best.iteration if best else None, entries)
        _add(archive, _Part(MANIFEST, manifest.encode()))
    return manifest


def _parts(run: RunDir, folders: list[tuple[str, Path]], iteration: int) -> Iterator[_Part]:
    """What goes into the zip; small files first, so that a reader of the zip finds them soon."""
    for name in FILES:
        path = run.path / name
        if path == run.config_json:
            yield _Part(name, _config(run))
        elif path == run.sessions_jsonl:
            yield _Part(name, _sessions(run, iteration))
        elif path.is_file():
            yield _Part(name, path, whole_lines=name in LINES)
    for name, folder in folders:
        for inside in _files(folder):
            yield _Part(f"{name}/{inside}", folder / inside)


def _files(folder: Path) -> dict[str, tuple[int, int, int]]:
    """The files below a folder, and what tells one from another that takes its place."""
    found = {}
    for root, _, names in os.walk(folder):
        for name in names:
            path = Path(root) / name
            stat = path.stat()
            stamp = (stat.st_ino, stat.st_size, stat.st_mtime_ns)
            found[path.relative_to(folder).as_posix()] = stamp
    return dict(sorted(found.items()))


def _config(run: RunDir) -> bytes:
    """config.json without the places of this machine: elsewhere they are nothing, or another's."""
    record = json.loads(run.config_json.read_bytes())
    for name in {"run_dir", "mirror"} & record["config"].keys():
        record["config"][name] = ""
    return (json.dumps(record, indent=2, ensure_ascii=False) + "\n").encode()


def _sessions(run: RunDir, iteration: int) -> bytes:
    """sessions.jsonl, with a line for the session that is open: its note stays behind."""
    opened = open_session(run)
    try:
        records = run.read_sessions()
    except ValueError as error:
        raise UserError(f"{run.sessions_jsonl} is not a text file; delete or restore it") from error
    if opened != open_session(run):
        raise _ChangedError
    closing = closing_record(opened, records, iteration) if opened else None
    records = [*records, closing] if closing else records
    return "".join(json.dumps(line, ensure_ascii=False) + "\n" for line in records).encode()


def _add(archive: zipfile.ZipFile, part: _Part) -> Entry:
    with contextlib.ExitStack() as stack:
        if isinstance(part.source, bytes):
            source: IO[bytes] = io.BytesIO(part.source)
            size, changed = len(part.source), time.time()
        else:
            source = stack.enter_context(open(part.source, "rb"))
            stat = os.fstat(source.fileno())
            # what a training appends from now on belongs to the next zip
            size = _whole_lines(source, stat.st_size) if part.whole_lines else stat.st_size
            changed = stat.st_mtime
        info = zipfile.ZipInfo(part.name, _zip_time(changed))
        info.compress_type = zipfile.ZIP_DEFLATED
        info.external_attr = 0o100644 << 16
        info.file_size = size
        digest, left = hashlib.sha256(), size
        with archive.open(info, "w") as target:
            while left:
                chunk = source.read(min(_CHUNK, left))
                if not chunk:
                    raise _ChangedError
                digest.update(chunk)
                target.write(chunk)
                left -= len(chunk)
    return Entry(size, digest.hexdigest())


def _whole_lines(file: IO[bytes], size: int) -> int:
    """Bytes up to the end of the last whole line; the file is left at its beginning."""
    end = size
    while end > 0:
        start = max(0, end - _CHUNK)
        file.seek(start)
        place = file.read(end - start).rfind(b"\n")
        if place >= 0:
            end = start + place + 1
            break
        end = start
    file.seek(0)
    return end


def _zip_time(seconds: float) -> tuple[int, int, int, int, int, int]:
    year, month, day, hour, minute, second = time.localtime(seconds)[:6]
    if not 1980 <= year <= 2107:  # all that a zip can say
        return (1980, 1, 1, 0, 0, 0)
    return (year, month, day, hour, minute, second)
