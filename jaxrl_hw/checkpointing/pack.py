"""Packs a run as one zip: newest and best checkpoint, policy, settings and history."""

from __future__ import annotations

import hashlib
import json
import os
import time
import zipfile
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

from jaxrl_hw.checkpointing import store
from jaxrl_hw.checkpointing.files import disk_errors
from jaxrl_hw.checkpointing.manifest import FILES, MANIFEST, Entry, Manifest, unsafe
from jaxrl_hw.checkpointing.run_dir import RunDir, check_run, name_of
from jaxrl_hw.checkpointing.sessions import KILLED, open_session, with_open
from jaxrl_hw.errors import RunError, UserError

_ATTEMPTS = 5


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

    folder: the run's.
    out: the zip; by default the run's name in the current folder.
    force: whether to replace a file of that name.
    Raises UserError where the folder holds no run or no checkpoint, or `out` cannot be used;
    RunError where the disk refuses, or the run keeps changing.
    """
    check_run(folder)
    if RunDir(folder).read_config() is None:
        raise UserError(f"{folder} has no config.json, so nothing could continue it")
    name = name_of(folder)
    out = (out or Path(f"{name}.zip")).expanduser()
    _check_out(out, force)
    temporary = out.with_name(f".{out.name}.{os.getpid()}.part")
    with disk_errors(f"pack {folder} as {out}"):
        try:
            manifest = _write(folder, name, temporary)
            size = temporary.stat().st_size
            _check_out(out, force)
            temporary.replace(out)
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
            manifest = _write_zip(folder, name, path)
            with open(path, "rb") as file:
                os.fsync(file.fileno())
            return manifest
        except (_ChangedError, FileNotFoundError, NotADirectoryError):
            time.sleep(0.2)  # until the training has finished its checkpoint
    raise RunError(f"{folder} changed at each of {_ATTEMPTS} attempts to pack it; try again")


def _write_zip(folder: Path, name: str, path: Path) -> Manifest:
    run = RunDir(folder)
    saved = store.list_checkpoints(run.checkpoints)
    newest, best = store.newest_checkpoint(saved), store.best_checkpoint(saved)
    if newest is None:
        _check_unchanged(run, saved)
        problem = "every checkpoint is damaged" if saved else "it has no checkpoint yet"
        raise UserError(f"{folder} cannot be packed: {problem}; train it first")
    folders = {newest.folder, best.folder if best else newest.folder, run.policy}
    before = _stamps(folders)
    sources: dict[str, Path | bytes] = {
        path.relative_to(folder).as_posix(): path for path in before
    }
    entries: dict[str, Entry] = {}
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED, strict_timestamps=False) as archive:
        for inside, source in {**_small_files(run, newest.iteration), **sources}.items():
            if reason := unsafe(inside):
                raise UserError(f"{inside!r} in {folder} {reason}; rename it, then pack again")
            entries[inside] = _add(archive, inside, source)
        if before != _stamps(folders):
            raise _ChangedError
        manifest = Manifest(name, newest.iteration, best.iteration if best else None, entries)
        _add(archive, MANIFEST, manifest.encode())
    return manifest


def _check_unchanged(run: RunDir, saved: list[store.SavedCheckpoint]) -> None:
    """A checkpoint that a training deletes looks damaged, and is gone a moment later."""
    time.sleep(0.2)
    now = store.list_checkpoints(run.checkpoints)
    if [(one.iteration, one.problem) for one in now] != [
        (one.iteration, one.problem) for one in saved
    ]:
        raise _ChangedError


def _small_files(run: RunDir, iteration: int) -> dict[str, Path | bytes]:
    """The contents of `FILES` as they are packed, by name."""
    found: dict[str, Path | bytes] = {}
    for path in (run.path / name for name in FILES if (run.path / name).is_file()):
        data = path.read_bytes()
        # a training may be writing the last line
        found[path.name] = data[: data.rfind(b"\n") + 1] if path == run.metrics_jsonl else data
    return {**found, "config.json": _config(run), "sessions.jsonl": _sessions(run, iteration)}


def _stamps(folders: Iterable[Path]) -> dict[Path, tuple[int, int, int]]:
    """The files below some folders; inode, size and time show where one has been replaced."""
    files = sorted(path for folder in folders for path in folder.rglob("*") if path.is_file())
    stats = ((path, path.stat()) for path in files)
    return {path: (stat.st_ino, stat.st_size, stat.st_mtime_ns) for path, stat in stats}


def _config(run: RunDir) -> bytes:
    """config.json without paths of this machine, which mean nothing on another."""
    record = json.loads(run.config_json.read_bytes())
    for name in {"run_dir", "mirror"} & record["config"].keys():
        record["config"][name] = ""
    return (json.dumps(record, indent=2, ensure_ascii=False) + "\n").encode()


def _sessions(run: RunDir, iteration: int) -> bytes:
    """sessions.jsonl, with a line for the open session: its lock file is not packed."""
    opened = open_session(run)
    records = run.read_sessions()
    if opened != open_session(run):
        raise _ChangedError
    if opened:
        ended = KILLED if opened.state == KILLED else "packed"
        records = with_open(records, opened, iteration, ended)
    return "".join(json.dumps(line, ensure_ascii=False) + "\n" for line in records).encode()


def _add(archive: zipfile.ZipFile, name: str, source: Path | bytes) -> Entry:
    if isinstance(source, bytes):
        archive.writestr(name, source)
        return Entry(len(source), hashlib.sha256(source).hexdigest())
    archive.write(source, name)
    with open(source, "rb") as file:  # what it is now: `_write_zip` sees whether it has changed
        digest = hashlib.file_digest(file, "sha256")
    return Entry(archive.getinfo(name).file_size, digest.hexdigest())
