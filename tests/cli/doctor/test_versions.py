"""Versions are held against those that are supported and tested, as the project's files say."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Callable
from pathlib import Path

import pytest

from jaxrl_hw.cli.doctor.check_versions import judge, judge_plugin
from jaxrl_hw.cli.doctor.results import Finding
from jaxrl_hw.cli.doctor.tested_versions import PACKAGES, PYTHON, Package

ROOT = Path(__file__).parents[3]
PYPROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
JAX = next(package for package in PACKAGES if package.name == "jax")
MUJOCO = next(package for package in PACKAGES if package.name == "mujoco")


def test_the_table_says_what_pyproject_and_constraints_say() -> None:
    needed = {}
    for text in PYPROJECT["dependencies"]:
        name, bounds = re.fullmatch(r"([\w-]+)(.*)", text).groups()
        needed[name] = bounds
    told = {p.name: f">={p.least}{f',<{p.below}' if p.below else ''}" for p in PACKAGES}
    assert told == needed
    lines = (ROOT / "constraints.txt").read_text().splitlines()
    pins = dict(line.lower().split("==") for line in lines if "==" in line)
    assert {p.name: p.pinned for p in PACKAGES} == {p.name: pins[p.name.lower()] for p in PACKAGES}
    assert all(p.is_tested(p.pinned) and p.is_supported(p.pinned) for p in PACKAGES)
    assert PYPROJECT["requires-python"] == f">={PYTHON.least}"
    listed = [word.rpartition(" ")[2] for word in PYPROJECT["classifiers"] if "Python ::" in word]
    assert tuple(listed) == PYTHON.tested


@pytest.mark.parametrize(
    ("package", "version", "status", "said"),
    [
        (JAX, "0.10.2", "pass", "0.10.2"),
        (JAX, "0.11.0rc1", "pass", "0.11.0rc1"),
        (JAX, "0.9.2", "fail", "supported are 0.10 and newer and below 0.12"),
        (JAX, "0.12.0", "fail", "supported are 0.10 and newer and below 0.12"),
        (JAX, None, "fail", "not installed"),
        (JAX, "unknown", "fail", "unknown; supported are"),
        (MUJOCO, "3.17.1", "pass", "3.17.1"),
        (MUJOCO, "4.1.0", "warn", "4.1.0, not tested; tested is 3.17 and 4.0"),
        (MUJOCO, "3.9.0", "fail", "supported are 3.17 and newer and below 5"),
        (PYTHON, "3.14.0", "warn", "tested is 3.11 and 3.12 and 3.13"),
        (PYTHON, "3.10.4", "fail", "supported are 3.11 and newer"),
    ],
)
def test_untested_is_a_warning_and_unsupported_a_failure(
    package: Package, version: str | None, status: str, said: str
) -> None:
    found = judge(package, version)
    assert found.status == status
    assert said in found.value
    assert bool(found.advice) == (status != "pass")


def test_a_plugin_of_another_version_is_told_as_jax_leaves_it_aside() -> None:
    assert judge_plugin("jax-cuda12-plugin", "0.10.2", "0.10.2").status == "pass"
    found = judge_plugin("jax-cuda13-pjrt", "0.10.0", "0.10.2")
    assert (found.status, found.advice) == ("warn", 'pip install "jax[cuda13]==0.10.2"')


def test_what_is_installed_is_found(
    made: Callable[..., list[Finding]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = {found.item: found.status for found in made("version")}
    assert list(before) == ["jaxrl_hw", "python", *(package.name for package in PACKAGES)]
    assert "fail" not in before.values()
    for name, version in (("flax", "0.5.0"), ("numpy", "9.1"), ("jax_cuda12_plugin", "0.1")):
        folder = tmp_path / "site" / f"{name}-{version}.dist-info"
        folder.mkdir(parents=True)
        text = f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n"
        (folder / "METADATA").write_text(text)
    monkeypatch.syspath_prepend(str(tmp_path / "site"))
    after = {found.item: found.status for found in made("version")}
    changed = {name: status for name, status in after.items() if before.get(name) != status}
    assert changed == {"flax": "fail", "numpy": "warn", "jax-cuda12-plugin": "warn"}
