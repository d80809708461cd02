"""Versions of Python and of the packages, against those that are supported and tested."""

from __future__ import annotations

import platform
from collections.abc import Iterator
from importlib import metadata
from pathlib import Path

import jaxrl_hw
from jaxrl_hw.cli.doctor.results import FAIL, PASS, WARN, Finding
from jaxrl_hw.cli.doctor.runner import Visit
from jaxrl_hw.cli.doctor.tested_versions import PACKAGES, PLUGINS, PYTHON, Package, numbers

_CHECK = "version"


def check(visit: Visit) -> Iterator[Finding]:
    """A row for each package that is needed, and for each of JAX's CUDA plugins that is there."""
    here = Path(jaxrl_hw.__file__).parent
    yield Finding(_CHECK, "jaxrl_hw", PASS, f"{jaxrl_hw.__version__}, in {here}")
    yield judge(PYTHON, platform.python_version())
    for package in PACKAGES:
        yield judge(package, installed(package.name))
    for plugin in PLUGINS:
        version = installed(plugin)
        if version is not None:
            yield judge_plugin(plugin, version, installed("jaxlib"))


def installed(package: str) -> str | None:
    """The installed version of a package, None where it is not installed."""
    try:
        version: str | None = metadata.version(package)
    except metadata.PackageNotFoundError:
        return None
    return version or "unknown"  # what is left of a broken installation may have no version


def judge(package: Package, version: str | None) -> Finding:
    """The row of a needed package; `version` None where it is missing."""
    tested = " and ".join(package.tested)
    figures = {"version": version, "tested": list(package.tested), "pinned": package.pinned}
    bound = f" and below {package.below}" if package.below else ""
    supported = f"supported are {package.least} and newer{bound}"
    if package is PYTHON:
        advice = "make the virtual environment with a tested Python"
    else:
        advice = f'pip install "{package.name}=={package.pinned}"'
    if version is None:
        return Finding(_CHECK, package.name, FAIL, "not installed", advice, figures)
    if not package.is_supported(version):
        return Finding(_CHECK, package.name, FAIL, f"{version}; {supported}", advice, figures)
    if not package.is_tested(version):
        text = f"{version}, not tested; tested is {tested}"
        return Finding(_CHECK, package.name, WARN, text, advice, figures)
    return Finding(_CHECK, package.name, PASS, version, figures=figures)


def judge_plugin(plugin: str, version: str, jaxlib: str | None) -> Finding:
    """The row of a CUDA plugin: JAX leaves one aside that has another version than jaxlib."""
    figures = {"version": version, "jaxlib": jaxlib}
    if jaxlib is None or numbers(version) == numbers(jaxlib):
        return Finding(_CHECK, plugin, PASS, version, figures=figures)
    extra = plugin.split("-")[1]
    text = f"{version}, and jaxlib is {jaxlib}: JAX will not use it"
    advice = f'pip install "jax[{extra}]=={jaxlib}"'
    return Finding(_CHECK, plugin, WARN, text, advice, figures)
