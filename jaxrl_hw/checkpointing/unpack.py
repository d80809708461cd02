"""A packed run as a folder again: everything is checked, and it is there whole or not at all."""

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

from jaxrl_hw.checkpointing import listing
from jaxrl_hw.checkpointing.manifest import MANIFEST, Entry, Manifest, decode, unsafe
from jaxrl_hw.checkpointing.run_dir import RunDir
from jaxrl_hw.errors import RunError, UserError
from jaxrl_hw.loggers import formats

MAX_RATIO = 100
"""Unpacked to packed bytes beyond which a zip is taken for a bomb: what a run has in it, text of
numbers at best, shrinks to a tenth."""
FREE_RATIO = 100_000_000
"""Bytes that may be unpacked at any ratio."""
_MANIFEST_LIMIT = 16_000_000
_CHUNK = 1 << 20
_BLOCK = 4096
_UNREADABLE = (
    *(zipfile.BadZipFile, zlib.error, struct.error, EOFError),
    *(ValueError, OverflowError, RuntimeError),
)
"""What zipfile raises on damaged files; NotImplementedError is a RuntimeError."""


class Unpacked(NamedTuple):
    """A run that is there again."""

    folder: Path
    manifest: Manifest


def unpack(path: Path, out: Path | None = None) -> Unpacked:
    """Restore a run that `pack` has written.

    Args:
      path: the zip.
      out: the run's new folder, not there yet or empty; runs/<its name> unless given.

    Raises:
      UserError: no such zip, one that is damaged or holds what it should not, a folder that is in
        use, or too little room on the disk. Nothing is left of the attempt.
      RunError: the disk refuses.
    """
    path = path.expanduser()
    try:
        with _open(path) as archive:
            infos = _members(archive, path)
            manifest = _read_manifest(archive, infos, path)
            _compare(infos, manifest, path)
            target = _target(manifest, out)
            _check_room(target, manifest)
            with _temporary(target) as folder:
                for name, entry in manifest.files.items():
                    _extract(archive, infos[name], entry, folder / name, path)
                _check_whole(folder, path)
                folder.replace(target.resolve())
    except OSError as error:
        raise RunError(f"cannot unpack {path}: {error.strerror or error}") from error
    return Unpacked(target, manifest)


def _open(path: Path) -> zipfile.ZipFile:
    wanted = "give the zip that `python -m jaxrl_hw.runs pack` has written"
    if not path.is_file():
        state = "is a folder" if path.is_dir() else "does not exist"
        raise UserError(f"{path} {state}; {wanted}")
    if not zipfile.is_zipfile(path):
        size = formats.size(path.stat().st_size)
        raise UserError(f"{path} ({size}) is no zip, or only the beginning of one; {wanted}")
    try:
        return zipfile.ZipFile(path)
    except _UNREADABLE as error:
        raise UserError(f"{path} is damaged ({error}); download it or pack it again") from error


def _members(archive: zipfile.ZipFile, path: Path) -> dict[str, zipfile.ZipInfo]:
    """The zip's files by name. Raises UserError for any that may not be written."""
    infos: dict[str, zipfile.ZipInfo] = {}
    for info in archive.infolist():
        # as it stands in the zip: zipfile cuts names at a zero byte
        name = info.orig_filename
        reason = unsafe(name.removesuffix("/")) or _unwanted(info)
        if not reason and name in infos:
            reason = "is there twice"
        if reason:
            raise UserError(
                f"{path} is refused: {name[:200]!r} in it {reason}; take a zip from a source "
                "that you trust"
            )
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
        return "is compressed in another way than stored or deflated"
    return ""


def _read_manifest(
    archive: zipfile.ZipFile, infos: dict[str, zipfile.ZipInfo], path: Path
) -> Manifest:
    info = infos.pop(MANIFEST, None)
    if info is None:
        raise UserError(
            f"{path} has no {MANIFEST}, so it is no packed run; make one with "
            "`python -m jaxrl_hw.runs pack DIR`"
        )
    if info.file_size > _MANIFEST_LIMIT:
        raise UserError(f"{MANIFEST} in {path} has {info.file_size} bytes; pack the run again")
    data = b"".join(_chunks(archive, info, info.file_size, path))
    return decode(data, str(path))


def _compare(infos: dict[str, zipfile.ZipInfo], manifest: Manifest, path: Path) -> None:
    """Refuse a zip that differs from its manifest, or that would swell beyond reason."""
    missing, more = manifest.files.keys() - infos.keys(), infos.keys() - manifest.files.keys()
    if missing or more:
        what = f"lacks {_some(missing)}" if missing else f"holds {_some(more)}"
        told = "lists" if missing else "does not list"
        raise UserError(f"{path} {what}, which its {MANIFEST} {told}; pack the run again")
    for name, entry in manifest.files.items():
        if infos[name].file_size != entry.size:
            raise _differs(path, name, f"{infos[name].file_size} bytes for {entry.size}")
    # by the size of the whole file: members may overlap, and share their compressed bytes
    packed = path.stat().st_size
    if manifest.size > max(FREE_RATIO, MAX_RATIO * packed):
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
    blocking = next((p for p in (target, *target.parents) if p.exists()), None)
    if blocking is not None and not blocking.is_dir():
        raise UserError(f"{blocking} is a file; choose another folder with --out DIR")
    if target.is_dir() and any(target.iterdir()):
        raise UserError(f"{target} exists and is not empty; choose another folder with --out DIR")
    if target.resolve() == Path.cwd():
        raise UserError("--out is the folder you stand in; name a new one, it is made")
    return target


def _check_room(target: Path, manifest: Manifest) -> None:
    parent = next(path for path in target.resolve().parents if path.is_dir())
    free, needed = shutil.disk_usage(parent).free, manifest.size + _BLOCK * len(manifest.files)
    if needed > free:
        raise UserError(
            f"too little room for {target}: {formats.size(needed)} needed, {formats.size(free)} "
            "free; make room, or choose another disk with --out DIR"
        )


@contextlib.contextmanager
def _temporary(target: Path) -> Iterator[Path]:
    """A folder beside the target; it goes, with the parents made for it, unless it was renamed."""
    target = target.resolve()
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
    """One file, and never a byte more than its entry says. Raises UserError where it differs."""
    out.parent.mkdir(parents=True, exist_ok=True)
    digest, left = hashlib.sha256(), entry.size
    with open(out, "xb") as file:
        for chunk in _chunks(archive, info, entry.size, path):
            digest.update(chunk)
            file.write(chunk)
            left -= len(chunk)
        file.flush()
        os.fsync(file.fileno())
    if left or digest.hexdigest() != entry.sha256:
        raise _differs(path, info.filename, "its SHA-256 is another")


def _chunks(
    archive: zipfile.ZipFile, info: zipfile.ZipInfo, size: int, path: Path
) -> Iterator[bytes]:
    """A member's bytes, `size` at most. Raises UserError where they cannot be read.

    An OSError here is nearly always a damaged zip that sends the reader to an impossible place; one
    of the disk being written to is raised in the caller.
    """
    try:
        with archive.open(info) as source:
            while size and (chunk := source.read(min(_CHUNK, size))):
                size -= len(chunk)
                yield chunk
    except (*_UNREADABLE, OSError) as error:
        raise _differs(path, info.filename, str(error)) from error


def _check_whole(folder: Path, path: Path) -> None:
    """Refuse what nothing could continue. Raises UserError."""
    if not listing.newest(listing.saved_checkpoints(folder / "checkpoints")):
        raise UserError(f"{path} holds no whole checkpoint; pack the run again")
    try:
        RunDir(folder).read_config()
    except UserError as error:
        what = str(error).replace(f"{folder}{os.sep}", "")
        raise UserError(f"{path} holds a damaged run: {what}") from error


def _differs(path: Path, name: str, how: str) -> UserError:
    return UserError(
        f"checksum mismatch in {path}: {name} is not what was packed ({how}); "
        "download it or pack it again"
    )


def _some(names: set[str]) -> str:
    first = sorted(names)[0][:200]
    return f"{first!r}" + (f" and {len(names) - 1} more" if len(names) > 1 else "")
