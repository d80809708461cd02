"""Versions are compared with those that the installed package's metadata supports."""

from __future__ import annotations

import tomllib
from collections.abc import Callable
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet

from jaxrl_hw.cli.doctor.check_versions import Package, judge, judge_plugin, requirements
from jaxrl_hw.cli.doctor.results import CheckResult

ROOT = Path(__file__).parents[3]
JAX = Package("jax", SpecifierSet(">=0.10,<0.12"), "0.10.2", ("0.10", "0.11"))
MUJOCO = Package("mujoco", SpecifierSet(">=3.17,<5"), "4.0.0", ("3.17", "4.0"))
PYTHON = Package("python", SpecifierSet(">=3.11"), None, ("3.11", "3.12", "3.13"))
UNPINNED = Package("rich", SpecifierSet(">=13.7"), None, ())


def test_every_pin_satisfies_its_requirement() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    lines = (ROOT / "constraints.txt").read_text().splitlines()
    pins = dict(line.lower().split("==") for line in lines if "==" in line)
    for text in project["dependencies"]:
        wanted = Requirement(text)
        assert wanted.specifier.contains(pins[wanted.name.lower()]), text


def test_requirements_are_those_of_the_installed_package() -> None:
    found = {package.name: package for package in requirements()}
    assert {"python", "jax", "mujoco", "packaging"} <= set(found)
    assert "pytest" not in found  # an extra
    assert found["python"].supported.contains("3.11")
    for package in found.values():
        if package.pinned is not None:
            assert judge(package, package.pinned).status == "pass"


@pytest.mark.parametrize(
    ("package", "version", "status"),
    [
        (JAX, "0.10.2", "pass"),
        (JAX, "0.11.0rc1", "pass"),
        (JAX, "0.9.2", "fail"),
        (JAX, "0.12.0", "fail"),
        (JAX, None, "fail"),
        (JAX, "unknown", "fail"),
        (MUJOCO, "3.17.1", "pass"),
        (MUJOCO, "4.1.0", "warn"),
        (MUJOCO, "3.9.0", "fail"),
        (PYTHON, "3.14.0", "warn"),
        (PYTHON, "3.10.4", "fail"),
        (UNPINNED, "99.0", "pass"),
    ],
)
def test_untested_is_a_warning_and_unsupported_a_failure(
    package: Package, version: str | None, status: str
) -> None:
    found = judge(package, version)
    assert found.status == status
    assert version is None or version in found.value
    assert bool(found.advice) == (status != "pass")
    assert found.figures["version"] == version


def test_a_plugin_of_another_version_is_a_warning_as_jax_ignores_it() -> None:
    assert judge_plugin("jax-cuda12-plugin", "0.10.2", "0.10.2").status == "pass"
    found = judge_plugin("jax-cuda13-pjrt", "0.10.0", "0.10.2")
    assert (found.status, found.advice) == ("warn", 'pip install "jax[cuda13]==0.10.2"')


def test_installed_packages_are_found(
    rows: Callable[..., list[CheckResult]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = {found.item: found.status for found in rows("version")}
    assert list(before)[:2] == ["jaxrl_hw", "python"]
    assert {package.name for package in requirements()} <= set(before)
    assert "fail" not in before.values()
    for name, version in (("flax", "0.5.0"), ("numpy", "9.1"), ("jax_cuda12_plugin", "0.1")):
        folder = tmp_path / "site" / f"{name}-{version}.dist-info"
        folder.mkdir(parents=True)
        text = f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n"
        (folder / "METADATA").write_text(text)
    monkeypatch.syspath_prepend(str(tmp_path / "site"))
    after = {found.item: found.status for found in rows("version")}
    changed = {name: status for name, status in after.items() if before.get(name) != status}
    assert changed == {"flax": "fail", "numpy": "warn", "jax-cuda12-plugin": "warn"}
