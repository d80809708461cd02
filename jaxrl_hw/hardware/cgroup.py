"""What a container grants: memory and processor limits of Linux control groups, v1 and v2."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

ROOT = Path("/")
# cgroup v1 writes "no limit" as a page-rounded 2^63.
_NO_LIMIT = 1 << 60


class MemoryLimit(NamedTuple):
    """A control group's memory, bytes."""

    limit: int
    free: int


def memory_limit(root: Path = ROOT) -> MemoryLimit | None:
    """The tightest memory limit on this process; None without one.

    `free` counts what the group has in use, less file cache that the kernel gives back on demand.
    """
    found: list[MemoryLimit] = []
    for folder in _folders(root, "memory"):
        for limit_file, usage_file, key in (
            ("memory.max", "memory.current", "inactive_file"),
            ("memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file"),
        ):
            limit = _number(folder / limit_file)
            if limit is None or limit >= _NO_LIMIT:
                continue
            usage = _number(folder / usage_file) or 0
            used = max(0, usage - _stat(folder / "memory.stat", key))
            found.append(MemoryLimit(limit, max(0, limit - used)))
    return min(found, key=lambda entry: entry.free, default=None)


def cpu_quota(root: Path = ROOT) -> float | None:
    """Processors' worth of time that this process may use; None without a limit."""
    quotas: list[float] = []
    for folder in _folders(root, "cpu"):
        words = (_text(folder / "cpu.max") or "").split()
        if len(words) == 2 and words[0].isdigit() and words[1].isdigit():
            quota, period = int(words[0]), int(words[1])
        else:
            quota = _number(folder / "cpu.cfs_quota_us") or 0
            period = _number(folder / "cpu.cfs_period_us") or 0
        if quota > 0 and period > 0:
            quotas.append(quota / period)
    return min(quotas, default=None)


def _folders(root: Path, controller: str) -> Iterator[Path]:
    """This process's groups of a controller and all their parents: each level may limit."""
    mount = root / "sys/fs/cgroup"
    for line in (_text(root / "proc/self/cgroup") or "").splitlines():
        _, _, rest = line.partition(":")
        names, _, group = rest.partition(":")
        if not group.startswith("/") or ".." in group:
            continue
        if names == "":
            tops = [mount, mount / "unified"]
        elif controller in names.split(","):
            tops = [mount / controller, mount / names]
        else:
            continue
        for top in dict.fromkeys(tops):
            folder = top / group.lstrip("/")
            while True:
                # Inside a container the group's own path is often not mounted; its top is.
                if folder.is_dir():
                    yield folder
                if folder == top:
                    break
                folder = folder.parent


def _text(path: Path) -> str | None:
    try:
        return path.read_text()
    except (OSError, UnicodeDecodeError):
        return None


def _number(path: Path) -> int | None:
    try:
        return int((_text(path) or "").strip())
    except ValueError:
        return None


def _stat(path: Path, key: str) -> int:
    for line in (_text(path) or "").splitlines():
        words = line.split()
        if len(words) == 2 and words[0] == key and words[1].isdigit():
            return int(words[1])
    return 0
