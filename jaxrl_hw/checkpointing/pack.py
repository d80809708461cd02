"""Packs a run as one zip: newest and best checkpoint, policy, settings and history."""

from __future__ import annotations

import hashlib
import io
import json
import os
import time
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import IO, NamedTuple

from jaxrl_hw.checkpointing import store
from jaxrl_hw.checkpointing.manifest import (
    CHECKPOINTS,
    FILES,
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

_Stamps = dict[str, tuple[int, int, int]]


class Packed(NamedTuple):
    """A zip that has been written."""

    path: Path
    size: int  # bytes
    manifest: Manifest


class _ChangedError(Exception):
    """A training replaced or deleted a file while it was read."""


def pack(folder: Path, out: Path | None = None, force: bool = False) -> Packed:
    """Write a run as one zip from which it can continue elsewhere, whole or not at all.

    The run may be in training. Where it deletes a checkpoint that is being read, packing starts
    again.

    Args:
      folder: the run's.
      out: the zip; by default the run's name in the current folder.
      force: whether to replace a file of that name.

    Raises:
      UserError: the folder holds no run or no checkpoint, or `out` cannot be used.
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
            time.sleep(0.2)  # until the training has finished its checkpoint
    raise RunError(f"{folder} changed at each of {_ATTEMPTS} attempts to pack it; try again")


def _write_zip(folder: Path, name: str, file: IO[bytes]) -> Manifest:
    run = RunDir(folder)
    saved = store.list_checkpoints(run.checkpoints)
    newest, best = store.newest_checkpoint(saved), store.best_checkpoint(saved)
    if newest is None:
        problem = "every checkpoint is damaged" if saved else "it has no checkpoint yet"
        raise UserError(f"{folder} cannot be packed: {problem}; train it first")
    taken = {newest.folder, best.folder if best else newest.folder}
    folders = {f"{CHECKPOINTS}/{path.name}": path for path in sorted(taken)} | {POLICY: run.policy}
    before = [_stamps(path) for path in folders.values()]
    entries: dict[str, Entry] = {}
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        for inside, source in _sources(run, folders, newest.iteration):
            if reason := unsafe(inside):
                raise UserError(f"{inside!r} in {folder} {reason}; rename it, then pack again")
            entries[inside] = _add(archive, inside, source)
        if before != [_stamps(path) for path in folders.values()]:
            raise _ChangedError
        manifest = Manifest(name, newest.iteration, best.iteration if best else None, entries)
        _add(archive, MANIFEST, manifest.encode())
    return manifest


def _sources(
    run: RunDir, folders: dict[str, Path], iteration: int
) -> Iterator[tuple[str, Path | bytes]]:
    """Every file of the zip: its name there, and its content or path."""
    for name in FILES:
        path = run.path / name
        if path == run.config_json:
            yield name, _config(run)
        elif path == run.sessions_jsonl:
            yield name, _sessions(run, iteration)
        elif path == run.metrics_jsonl and path.is_file():
            data = path.read_bytes()
            yield name, data[: data.rfind(b"\n") + 1]  # a training may be writing the last line
        elif path.is_file():
            yield name, path.read_bytes()
    for name, folder in folders.items():
        for inside in _stamps(folder):
            yield f"{name}/{inside}", folder / inside


def _stamps(folder: Path) -> _Stamps:
    """The files below a folder; inode, size and time show where one has been replaced."""
    found = {}
    for path in folder.rglob("*"):
        if path.is_file():
            stat = path.stat()
            stamp = (stat.st_ino, stat.st_size, stat.st_mtime_ns)
            found[path.relative_to(folder).as_posix()] = stamp
    return dict(sorted(found.items()))


def _config(run: RunDir) -> bytes:
    """config.json without paths of this machine, which mean nothing on another."""
    record = json.loads(run.config_json.read_bytes())
    for name in {"run_dir", "mirror"} & record["config"].keys():
        record["config"][name] = ""
    return (json.dumps(record, indent=2, ensure_ascii=False) + "\n").encode()


def _sessions(run: RunDir, iteration: int) -> bytes:
    """sessions.jsonl, with a line for the open session: its lock file is not packed."""
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


def _add(archive: zipfile.ZipFile, name: str, source: Path | bytes) -> Entry:
    """Write one file. Unlike ZipFile.write it computes the SHA-256 of what it writes."""
    stream: IO[bytes]
    if isinstance(source, bytes):
        info, stream = zipfile.ZipInfo(name, time.localtime()[:6]), io.BytesIO(source)
        info.file_size = len(source)
    else:
        info = zipfile.ZipInfo.from_file(source, name, strict_timestamps=False)
        stream = open(source, "rb")  # noqa: SIM115 - closed below
    info.compress_type, info.external_attr = zipfile.ZIP_DEFLATED, 0o100644 << 16
    digest, missing = hashlib.sha256(), info.file_size
    with stream, archive.open(info, "w") as target:
        while chunk := stream.read(min(_CHUNK, missing)):
            digest.update(chunk)
            target.write(chunk)
            missing -= len(chunk)
    if missing:
        raise _ChangedError
    return Entry(info.file_size, digest.hexdigest())
