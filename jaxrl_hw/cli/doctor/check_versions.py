"""Versions of Python and of the packages, against those that this release supports.

The metadata of the installed package says them: its requirements are those of pyproject.toml, and
its folder holds constraints.txt, the versions this release was tested with.
"""

from __future__ import annotations

import platform
from collections.abc import Iterator
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import jaxrl_hw
from jaxrl_hw.cli.doctor.results import FAIL, CheckResult, Context
from jaxrl_hw.hardware.cuda_plugin import installed_parts, installed_version, same_release

if TYPE_CHECKING:  # an installation that lacks packaging gets a row, not an ImportError
    from packaging.specifiers import SpecifierSet
    from packaging.version import Version

_ALSO_TESTED = {"jax": "0.11", "jaxlib": "0.11", "mujoco": "3.17", "mujoco-mjx": "4.0"}
"""Releases that were tested besides those of constraints.txt."""


class Package(NamedTuple):
    """Python, or a package that jaxrl_hw requires."""

    name: str
    supported: SpecifierSet
    pinned: str | None
    """The version in constraints.txt; None for Python."""
    tested: tuple[str, ...]
    """Tested releases, major and minor number; () where unknown."""


def check(context: Context) -> Iterator[CheckResult]:
    """A row for each required package, and for each of JAX's CUDA plugins that is installed."""
    here = Path(jaxrl_hw.__file__).parent
    text = f"{jaxrl_hw.__version__}, in {here}"
    if installed_version("jaxrl_hw") is None:
        text = f"{text}, but not installed: which versions it supports is unknown"
        yield CheckResult("jaxrl_hw", text, f"pip install -e {here.parent}")
    else:
        yield CheckResult("jaxrl_hw", text)
        for package in requirements():
            is_python = package.name == "python"
            version = platform.python_version() if is_python else installed_version(package.name)
            yield judge(package, version)
    for plugin, version in installed_parts().items():
        yield judge_plugin(plugin, version, installed_version("jaxlib"))


def requirements() -> list[Package]:
    """Python, and every package that the installed jaxrl_hw requires."""
    from packaging.requirements import Requirement
    from packaging.specifiers import SpecifierSet
    from packaging.utils import canonicalize_name

    package = metadata.distribution("jaxrl_hw")
    lines = (package.read_text("extra_metadata/constraints.txt") or "").splitlines()
    parts = [line.split("==") for line in lines if "==" in line and not line.startswith("#")]
    pins = {canonicalize_name(name): version.strip() for name, version in parts}
    kinds = package.metadata.get_all("Classifier") or []
    pythons = [kind.rpartition(" ")[2] for kind in kinds if "Python :: 3." in kind]
    supported = SpecifierSet(package.metadata["Requires-Python"] or "")
    packages = [Package("python", supported, None, tuple(pythons))]
    for text in package.requires or []:
        wanted = Requirement(text)
        if wanted.marker is not None and not wanted.marker.evaluate({"extra": ""}):
            continue
        pin = pins.get(canonicalize_name(wanted.name))
        series = {".".join((pin or "").split(".")[:2]), _ALSO_TESTED.get(wanted.name, "")} - {""}
        packages.append(Package(wanted.name, wanted.specifier, pin, tuple(sorted(series))))
    return packages


def judge(package: Package, version: str | None) -> CheckResult:
    """The row of a required package; `version` None where it is missing."""
    name, tested = package.name, list(package.tested)
    figures = {"version": version, "tested": tested, "pinned": package.pinned}
    wanted = f"{name}=={package.pinned}" if package.pinned else f"{name}{package.supported}"
    install = f'pip install "{wanted}"'
    advice = "make the virtual environment with a tested Python" if name == "python" else install
    got = _version(version or "")
    if version is None:
        return CheckResult(name, "not installed", advice, figures, FAIL)
    if got is None or not package.supported.contains(got, prereleases=True):
        bounds = ", ".join(sorted(map(str, package.supported), reverse=True))
        return CheckResult(name, f"{version}; needed is {bounds}", advice, figures, FAIL)
    if tested and f"{got.major}.{got.minor}" not in tested:
        text = f"{version}, not tested; tested is {' and '.join(tested)}"
        return CheckResult(name, text, advice, figures)
    return CheckResult(name, version, figures=figures)


def judge_plugin(plugin: str, version: str, jaxlib: str | None) -> CheckResult:
    """The row of a CUDA plugin: JAX ignores one whose version is not jaxlib's."""
    figures = {"version": version, "jaxlib": jaxlib}
    if same_release(version, jaxlib):
        return CheckResult(plugin, version, figures=figures)
    text = f"{version}, and jaxlib is {jaxlib}: JAX will not use it"
    advice = f'pip install "jax[{plugin.split("-")[1]}]=={jaxlib}"'
    return CheckResult(plugin, text, advice, figures)


def _version(text: str) -> Version | None:
    from packaging.version import InvalidVersion, Version

    try:
        return Version(text)
    except InvalidVersion:
        return None
