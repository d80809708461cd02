"""JAX's CUDA plugin beside jaxlib and the driver: why JAX leaves an NVIDIA card unused, and the
line that mends it. Never imports jax."""

from __future__ import annotations

import re
from collections.abc import Mapping
from importlib import metadata
from typing import NamedTuple

PARTS = ("jax-cuda12-plugin", "jax-cuda12-pjrt", "jax-cuda13-plugin", "jax-cuda13-pjrt")
"""The packages that bring CUDA to JAX: two for each major version of CUDA."""


class Fault(NamedTuple):
    """Why JAX will not use a card, and the commands that mend it."""

    reason: str
    fix: str


def installed_version(package: str) -> str | None:
    """The installed version of a package, None where it is not installed."""
    try:
        version: str | None = metadata.version(package)
    except metadata.PackageNotFoundError:
        return None
    return version or "unknown"  # a broken installation may have no version


def installed_parts() -> dict[str, str]:
    """The versions of those of `PARTS` that are installed."""
    found = {name: installed_version(name) for name in PARTS}
    return {name: version for name, version in found.items() if version is not None}


def find_fault(parts: Mapping[str, str], jaxlib: str | None, newest: int | None) -> Fault | None:
    """What keeps JAX from a card that the driver lists; None where nothing does.

    JAX loads only a plugin of jaxlib's own version, and falls back to the CPU without an error
    (jaxlib/plugin_support.py, check_plugin_version).

    Args:
      parts: as of `installed_parts`.
      jaxlib: its version.
      newest: major version of the newest CUDA that driver and card can run; None where it is
        unknown.
    """
    kinds = sorted({name.split("-")[1] for name in parts})
    usable = [kind for kind in kinds if newest is None or _major(kind) <= newest]
    for kind in usable:
        if all(same_release(parts.get(f"jax-{kind}-{x}"), jaxlib) for x in ("plugin", "pjrt")):
            return None
    chosen = usable[0] if usable else f"cuda{13 if (newest or 12) >= 13 else 12}"
    install = f'pip install "jax[{chosen}]{f"=={jaxlib}" if jaxlib else ""}"'
    if not kinds:
        return Fault("jax was installed without CUDA", install)
    if not usable:
        needs = f"jax-{kinds[0]}-plugin needs CUDA {_major(kinds[0])}"
        foreign = " ".join(name for name in parts if name.split("-")[1] not in usable)
        fix = f"pip uninstall -y {foreign} && {install}"
        return Fault(f"{needs}, and driver and card run CUDA {newest} at most", fix)
    names = [f"jax-{chosen}-{x}" for x in ("plugin", "pjrt")]
    wrong = next(name for name in names if not same_release(parts.get(name), jaxlib))
    if wrong not in parts:
        return Fault(f"{wrong} is missing", install)
    return Fault(f"{wrong} {parts[wrong]} does not match jaxlib {jaxlib}", install)


def same_release(plugin: str | None, jaxlib: str | None) -> bool:
    """Whether JAX takes a plugin to be jaxlib's own: it compares the numbers alone."""
    return plugin is not None and (jaxlib is None or _numbers(plugin) == _numbers(jaxlib))


def _numbers(version: str) -> list[int] | str:
    match = re.match(r"\d+(?:\.\d+)*", version)
    return [int(x) for x in match[0].split(".")] if match else version


def _major(kind: str) -> int:
    return int(kind.removeprefix("cuda"))
