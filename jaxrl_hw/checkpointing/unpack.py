"""Unpacks a run: checks everything, and makes the whole folder or nothing.

zipfile compares each file with its CRC-32 and reads no more than the size that the zip states. This
module checks what zipfile does not: links and devices, unsafe names (zipfile rewrites them), names
that are there twice, files that are no part of a run, SHA-256 sums, and how far a zip may swell.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import secrets
import shutil
import stat
import struct
import zipfile
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from jaxrl_hw.checkpointing import store
from jaxrl_hw.checkpointing.files import disk_errors, existing, free_bytes
from jaxrl_hw.checkpointing.manifest import MANIFEST, Entry, Manifest, decode, unsafe
from jaxrl_hw.checkpointing.run_dir import RunDir
from jaxrl_hw.errors import UserError
from jaxrl_hw.loggers import formats

MAX_RATIO = 100
"""Unpacked to packed bytes beyond which a zip counts as a bomb; text of numbers shrinks to 1/10."""
UNCHECKED_BYTES = 100_000_000
"""A zip that unpacks to no more than this may shrink by any ratio."""
_MANIFEST_LIMIT = 16_000_000
_CHUNK = 1 << 20
_BLOCK = 4096
_UNREADABLE = (
    *(zipfile.BadZipFile, zlib.error, struct.error, EOFError),
    *(ValueError, OverflowError, RuntimeError),
)
"""What zipfile raises on damaged files; NotImplementedError is a RuntimeError."""


class Unpacked(NamedTuple):
    """A run that has been unpacked."""

    folder: Path
    manifest: Manifest


def unpack(path: Path, out: Path | None = None, unchecked_bytes: int = UNCHECKED_BYTES) -> Unpacked:
    """Restore a run that `pack` has written.

    path: the zip.
    out: the run's new folder, which is empty or does not exist; runs/<its name> by default.
    unchecked_bytes: size up to which the zip may swell by more than `MAX_RATIO`.
    Raises UserError where the zip does not exist, is damaged or holds what no run has, the folder
    is in use, or the disk is too small; RunError where the disk refuses. Nothing is left behind.
    """
    path = path.expanduser()
    with disk_errors(f"unpack {path}"), _open(path) as archive:
        infos = _members(archive, path)
        manifest = _read_manifest(archive, infos.pop(MANIFEST, None), path)
        _compare(infos, manifest, path, unchecked_bytes)
        target = _target(manifest, out)
        with _temporary(target.resolve()) as folder:
            for name, entry in manifest.files.items():
                _extract(archive, infos[name], entry, folder / name, path)
            _check_run(folder, path)
            folder.replace(target.resolve())
    return Unpacked(target, manifest)


def _open(path: Path) -> zipfile.ZipFile:
    advice = "give a zip that `python -m jaxrl_hw.runs pack DIR` has written"
    try:
        return zipfile.ZipFile(path)
    except (FileNotFoundError, IsADirectoryError, NotADirectoryError) as error:
        raise UserError(f"{path}: {error.strerror}; {advice}") from error
    except _UNREADABLE as error:
        size = formats.size(path.stat().st_size)
        raise UserError(f"{path} ({size}) is no whole zip ({error}); {advice}") from error


def _members(archive: zipfile.ZipFile, path: Path) -> dict[str, zipfile.ZipInfo]:
    """The zip's files by name. Raises UserError for any that is not an ordinary file."""
    infos: dict[str, zipfile.ZipInfo] = {}
    for info in archive.infolist():
        name = info.orig_filename  # zipfile cuts `filename` at a zero byte
        reason = "is there twice" if name in infos else _unwanted(info)
        if reason:
            raise UserError(f"{path} is refused: {name[:200]!r} in it {reason}; pack the run again")
        if not info.is_dir():
            infos[name] = info
    return infos


def _unwanted(info: zipfile.ZipInfo) -> str:
    kind = stat.S_IFMT(info.external_attr >> 16)
    if kind not in (0, stat.S_IFREG, stat.S_IFDIR):
        return "is a link or a device, not a file"
    if info.flag_bits & 1:
        return "is encrypted"
    if info.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
        return "is neither stored nor deflated"
    return ""


def _read_manifest(archive: zipfile.ZipFile, info: zipfile.ZipInfo | None, path: Path) -> Manifest:
    if info is None:
        raise UserError(f"{path} has no {MANIFEST}, so it is no packed run")
    if info.file_size > _MANIFEST_LIMIT:
        raise UserError(f"{MANIFEST} in {path} has {info.file_size} bytes; pack the run again")
    return decode(b"".join(_chunks(archive, info, path)), str(path))


def _compare(
    infos: dict[str, zipfile.ZipInfo], manifest: Manifest, path: Path, unchecked_bytes: int
) -> None:
    """Refuse a zip that differs from its manifest, or that swells too much."""
    if differing := sorted(manifest.files.keys() ^ infos.keys()):
        name, more = differing[0], f" and {len(differing) - 1} more" if len(differing) > 1 else ""
        holder = f"its {MANIFEST}" if name in manifest.files else "the zip"
        raise UserError(f"{path} is refused: only {holder} has {name[:200]!r}{more}; pack it again")
    for name, entry in manifest.files.items():
        if infos[name].file_size != entry.size:
            raise _differs(path, name, f"{infos[name].file_size} bytes instead of {entry.size}")
    # The size of the whole zip counts: members may overlap and share their compressed bytes.
    packed = path.stat().st_size
    if manifest.size > max(unchecked_bytes, MAX_RATIO * packed):
        raise UserError(
            f"{path} is refused: {formats.size(packed)} that unpack to "
            f"{formats.size(manifest.size)}; no run shrinks more than {MAX_RATIO} times"
        )


def _target(manifest: Manifest, out: Path | None) -> Path:
    if out is None:
        name = manifest.name
        if unsafe(name) or "/" in name or name.startswith("."):
            raise UserError(f"the run is called {name[:200]!r}, which is no folder; give --out DIR")
        out = Path("runs") / name
    target = out.expanduser()
    place = existing(target.resolve())
    if not place.is_dir():
        raise UserError(f"{place} is a file; choose another folder with --out DIR")
    if target.is_dir() and any(target.iterdir()):
        raise UserError(f"{target} exists and is not empty; choose another folder with --out DIR")
    if target.resolve() == Path.cwd():
        raise UserError(f"--out {out} is the current folder; name a new one")
    free, needed = free_bytes(place), manifest.size + _BLOCK * len(manifest.files)
    if free is not None and needed > free:
        raise UserError(
            f"{target} needs {formats.size(needed)}, {formats.size(free)} are free; make room, or "
            "choose another disk with --out DIR"
        )
    return target


@contextlib.contextmanager
def _temporary(target: Path) -> Iterator[Path]:
    """A folder beside the target. On an error it is deleted, with the parents made for it."""
    made = [path for path in target.parents if not path.exists()]
    folder = target.with_name(f".{target.name}.{secrets.token_hex(4)}.unpacking")
    try:
        folder.mkdir(parents=True)
        yield folder
    except BaseException:
        shutil.rmtree(folder, ignore_errors=True)
        for path in made:
            with contextlib.suppress(OSError):
                path.rmdir()
        raise


def _extract(
    archive: zipfile.ZipFile, info: zipfile.ZipInfo, entry: Entry, out: Path, path: Path
) -> None:
    """Write one file. Raises UserError where it differs from its entry."""
    out.parent.mkdir(parents=True, exist_ok=True)
    digest = hashlib.sha256()
    with open(out, "xb") as file:
        for chunk in _chunks(archive, info, path):
            digest.update(chunk)
            file.write(chunk)
        file.flush()
        os.fsync(file.fileno())
    if digest.hexdigest() != entry.sha256:
        raise _differs(path, info.filename, "another SHA-256")


def _chunks(archive: zipfile.ZipFile, info: zipfile.ZipInfo, path: Path) -> Iterator[bytes]:
    """A file's bytes. Raises UserError where they cannot be read.

    An OSError here means a damaged zip that sends zipfile to an impossible position. One of the
    disk that is written to rises in the caller.
    """
    try:
        with archive.open(info) as source:
            while chunk := source.read(_CHUNK):
                yield chunk
    except (*_UNREADABLE, OSError) as error:
        raise _differs(path, info.filename, str(error)) from error


def _check_run(folder: Path, path: Path) -> None:
    """Raises UserError where nothing could continue the unpacked run."""
    if not store.newest_checkpoint(store.list_checkpoints(folder / "checkpoints")):
        raise UserError(f"{path} holds no whole checkpoint; pack the run again")
    try:
        RunDir(folder).read_config()
    except UserError as error:
        raise UserError(f"{path}: {str(error).replace(str(folder) + os.sep, '')}") from error


def _differs(path: Path, name: str, how: str) -> UserError:
    return UserError(f"{path} is damaged: {name} differs ({how}); download it or pack it again")
