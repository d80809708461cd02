"""Which versions this release supports, and with which it was tested.

An installed package has neither pyproject.toml nor constraints.txt: these are their figures, and a
test holds them to both files.
"""

from __future__ import annotations

import re
from typing import NamedTuple

Numbers = tuple[int, ...]


class Package(NamedTuple):
    """A package that jaxrl_hw needs."""

    name: str
    """As pip knows it."""
    pinned: str
    """The version that constraints.txt names."""
    least: str
    """The oldest supported."""
    below: str = ""
    """The first that is not supported any more; "" where none is known."""
    series: tuple[str, ...] = ()
    """Tested releases, major and minor number; () for that of `pinned` only."""

    @property
    def tested(self) -> tuple[str, ...]:
        """Tested releases, major and minor number."""
        return self.series or (".".join(self.pinned.split(".")[:2]),)

    def is_supported(self, version: str) -> bool:
        """Whether a version is one that can be used."""
        got = numbers(version)
        too_new = bool(self.below) and _at_least(got, numbers(self.below))
        return _at_least(got, numbers(self.least)) and not too_new

    def is_tested(self, version: str) -> bool:
        """Whether a version belongs to a tested release."""
        got = numbers(version)
        return any(got[:2] == numbers(series)[:2] for series in self.tested)


PYTHON = Package("python", "3.11", "3.11", series=("3.11", "3.12", "3.13"))

PACKAGES = (
    Package("jax", "0.10.2", "0.10", "0.12", ("0.10", "0.11")),
    Package("jaxlib", "0.10.2", "0.10", "0.12", ("0.10", "0.11")),
    Package("mujoco", "4.0.0", "3.17", "5", ("3.17", "4.0")),
    Package("mujoco-mjx", "3.17.0", "3.17", "5", ("3.17", "4.0")),
    Package("filelock", "4.2.12", "4"),
    Package("flax", "0.12.8", "0.10.6"),
    Package("optax", "0.2.8", "0.2.5"),
    Package("orbax-checkpoint", "0.12.8", "0.12"),
    Package("numpy", "2.4.6", "1.26"),
    Package("tyro", "1.0.17", "0.9.20"),
    Package("rich", "15.0.0", "13.7"),
    Package("chex", "0.1.92", "0.1.90"),
    Package("imageio-ffmpeg", "0.8.1", "0.6"),
    Package("nvidia-ml-py", "13.615.71", "12"),
    Package("onnx", "1.23.2", "1.17"),
    Package("packaging", "26.3", "24"),
    Package("pillow", "13.0.0", "10.1"),
    Package("psutil", "7.2.2", "5.9"),
    Package("pyyaml", "6.0.3", "6"),
    Package("tensorboardX", "2.6.5", "2.6.2"),
)

PLUGINS = (
    "jax-cuda12-plugin",
    "jax-cuda12-pjrt",
    "jax-cuda13-plugin",
    "jax-cuda13-pjrt",
)
"""What brings CUDA to JAX, where it is installed; JAX wants them in jaxlib's own version."""


def numbers(version: str) -> Numbers:
    """The release numbers of a version: (0, 10, 2) of "0.10.2rc1"."""
    match = re.match(r"\d+(\.\d+)*", version)
    return tuple(int(word) for word in match[0].split(".")) if match else ()


def _at_least(got: Numbers, bound: Numbers) -> bool:
    """Whether a version is at or past a bound; missing numbers count as 0."""
    width = max(len(got), len(bound))
    return got + (0,) * (width - len(got)) >= bound + (0,) * (width - len(bound))
