"""What a container grants: memory and processor limits of Linux control groups, v1 and v2."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

ROOT = Path("/")
_NO_LIMIT = 1 << 60
"""cgroup v1 writes "no limit" as 2^63, rounded to a page."""
_MEMORY_FILES = (
    ("memory.max", "memory.current", "inactive_file"),
    ("memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file"),
)


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
        for limit_file, usage_file, cache_key in _MEMORY_FILES:
            limit = _number(_text(folder / limit_file))
            if limit is None or limit >= _NO_LIMIT:
                continue
            usage = _number(_text(folder / usage_file)) or 0
            lines = (line.split() for line in _text(folder / "memory.stat").splitlines())
            cached = next((words[1] for words in lines if words[:1] == [cache_key]), "")
            used = max(0, usage - (_number(cached) or 0))
            found.append(MemoryLimit(limit, max(0, limit - used)))
    return min(found, key=lambda entry: entry.free, default=None)


def cpu_quota(root: Path = ROOT) -> float | None:
    """Processors' worth of time that this process may use; None without a limit."""
    quotas: list[float] = []
    for folder in _folders(root, "cpu"):
        words = _text(folder / "cpu.max").split() or [
            _text(folder / f"cpu.cfs_{name}_us") for name in ("quota", "period")
        ]
        quota, period = (_number(word) or 0 for word in [*words, "", ""][:2])
        if quota > 0 and period > 0:
            quotas.append(quota / period)
    return min(quotas, default=None)


def _folders(root: Path, controller: str) -> Iterator[Path]:
    """This process's groups of a controller and all their parents: each level may limit."""
    mount = root / "sys/fs/cgroup"
    for line in _text(root / "proc/self/cgroup").splitlines():
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
            levels = [folder, *folder.parents]
            # inside a container the group's own path is often not mounted, but its top is
            yield from (level for level in levels[: levels.index(top) + 1] if level.is_dir())


def _text(path: Path) -> str:
    try:
        return path.read_text()
    except (OSError, UnicodeDecodeError):
        return ""


def _number(text: str) -> int | None:
    try:
        return int(text)
    except ValueError:
        return None
