"""The program that made a run: package versions and the git commit."""

from __future__ import annotations

import functools
import subprocess
from importlib import metadata
from pathlib import Path

_PACKAGES = (
    *("jaxrl_hw", "jax", "jaxlib", "mujoco", "mujoco-mjx", "warp-lang"),
    *("optax", "orbax-checkpoint", "numpy", "brax", "playground"),
)


def package_versions() -> dict[str, str]:
    """Versions of the installed packages that determine a run's numbers."""
    import platform

    versions = {"python": platform.python_version()}
    found = ((name, _version(name)) for name in _PACKAGES)
    return versions | {name: version for name, version in found if version is not None}


@functools.cache
def _version(name: str) -> str | None:
    """Of an installed package; None where it is missing. Its metadata are parsed every time."""
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return None


def git_commit() -> str | None:
    """Commit of the checkout that holds this package, with "-dirty" where files have changed.

    None where the package does not run from a git checkout of its own, or git is missing.
    """
    root = Path(__file__).resolve().parents[2]
    if not (root / ".git").exists():  # installed inside somebody else's checkout
        return None
    commit = _git(root, "rev-parse", "HEAD")
    if not commit:
        return None
    return f"{commit}-dirty" if _git(root, "status", "--porcelain", "-uno") else commit


def _git(root: Path, *arguments: str) -> str | None:
    command = ["git", "-C", str(root), *arguments]
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=5, stdin=subprocess.DEVNULL
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout.strip() if done.returncode == 0 else None
