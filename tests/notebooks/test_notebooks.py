"""What all notebooks share, and their first cell on machines of many kinds.

The cell runs in a Python of its own without site-packages: it may use the standard library alone.
A folder takes the place of what is installed, and a fake pip changes it as pip would.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tomllib
from collections.abc import Callable
from pathlib import Path

import pytest
from packaging.requirements import Requirement

ROOT = Path(__file__).parents[2]
NOTEBOOKS = sorted((ROOT / "notebooks").glob("*.ipynb"))
T4 = ("Tesla T4, 7.5", "12.4")
OLD = {"jax": "0.7.2", "jaxlib": "0.7.2"}
NEW = {"jax": "0.10.2", "jaxlib": "0.10.2"}
PIP = '''
import json, os, sys
from pathlib import Path
site, words = Path(__file__).parents[1], sys.argv[1:]
with open(site / "pip.log", "a") as log:
    log.write(json.dumps(words) + "\\n")
if os.environ.get("PIP_FAILS"):
    sys.exit("ERROR: No matching distribution found")
def put(name, version):
    for old in site.glob(name.replace("-", "_") + "-*.dist-info"):
        (old / "METADATA").unlink()
        old.rmdir()
    if version:
        folder = site / f"{name.replace('-', '_')}-{version}.dist-info"
        folder.mkdir()
        (folder / "METADATA").write_text(f"Metadata-Version: 2.1\\nName: {name}\\nVersion: {version}\\n")
names = [word for word in words[1:] if not word.startswith("-")]
if words[0] == "uninstall":
    for name in names:
        put(name, None)
else:
    for name in ("jax", "jaxlib"):
        put(name, "0.10.2")
    for kind in ("cuda12", "cuda13"):
        if f"[{kind}]" in names[0]:
            put(f"jax-{kind}-plugin", "0.10.2")
            put(f"jax-{kind}-pjrt", "0.10.2")
'''


def cells(notebook: Path) -> list[str]:
    data = json.loads(notebook.read_text())
    return ["".join(cell["source"]) for cell in data["cells"] if cell["cell_type"] == "code"]


def cuda(kind: str, version: str) -> dict[str, str]:
    return {f"jax-{kind}-plugin": version, f"jax-{kind}-pjrt": version}


class Machine:
    """One to open a notebook on, with nothing beside it."""

    def __init__(self, folder: Path) -> None:
        self.site, self.bin, self.here = (folder / name for name in ("site", "bin", "here"))
        for made in (self.site / "pip", self.bin, self.here):
            made.mkdir(parents=True)
        (self.site / "pip" / "__init__.py").write_text("")
        (self.site / "pip" / "__main__.py").write_text(PIP)

    def has(self, packages: dict[str, str], card: tuple[str, str] | None = None) -> Machine:
        for name, version in packages.items():
            info = self.site / f"{name.replace('-', '_')}-{version}.dist-info"
            info.mkdir()
            (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n")
        smi = self.bin / "nvidia-smi"
        says = f'[ -n "$1" ] && echo "{card[0]}" || echo "CUDA Version: {card[1]} |"' if card else "exit 9"
        smi.write_text(f"#!/bin/sh\n{says}\n")
        smi.chmod(0o755)
        return self

    def install(self, source: str = "", **environ: str) -> subprocess.CompletedProcess[str]:
        cell = cells(NOTEBOOKS[0])[0].replace('SOURCE = ""', f"SOURCE = {source!r}", 1)
        env = {"PATH": f"{self.bin}:/usr/bin:/bin", "PYTHONPATH": str(self.site), **environ}
        env["PIP_DRY_RUN"] = "1"  # the real pip, if it ever came first, would change nothing
        command = [sys.executable, "-S", "-c", cell]
        return subprocess.run(command, cwd=self.here, env=env, capture_output=True, text=True)

    @property
    def pip(self) -> list[list[str]]:
        log = self.site / "pip.log"
        lines = log.read_text().splitlines() if log.exists() else []
        return [[word for word in json.loads(line) if word[0] != "-"] for line in lines]


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path)


@pytest.mark.parametrize(
    ("packages", "card", "extra", "removed"),
    [
        (OLD | cuda("cuda12", "0.7.2"), T4, "cuda12", []),  # Colab's jax is too old
        (NEW | cuda("cuda12", "0.7.2"), T4, "cuda12", []),  # pip left the plugin behind
        (NEW | cuda("cuda12", "0.10.2"), T4, "", []),
        (NEW, T4, "cuda12", []),
        ({}, T4, "cuda12", []),
        ({}, None, "", []),
        (OLD | cuda("cuda12", "0.7.2"), None, "", []),
        ({"jax": "0.12.0", "jaxlib": "0.12.0"} | cuda("cuda12", "0.12.0"), T4, "cuda12", []),
        ({}, ("NVIDIA L4, 8.9", "13.0"), "cuda13", []),
        ({}, ("Tesla V100-SXM2-16GB, 7.0", "13.0"), "cuda12", []),  # CUDA 13 left it behind
        (OLD | cuda("cuda12", "0.7.2"), ("NVIDIA L4, 8.9", "13.0"), "cuda12", []),
        (NEW | cuda("cuda13", "0.10.2"), T4, "cuda12", sorted(cuda("cuda13", ""))),
        (
            NEW | cuda("cuda12", "0.7.2") | cuda("cuda13", "0.10.2"),
            ("NVIDIA L4, 8.9", "13.0"),
            "",
            sorted(cuda("cuda12", "")),
        ),
    ],
)
def test_the_first_cell_installs_what_fits_the_card_and_its_driver(
    machine: Machine, packages, card, extra, removed
) -> None:
    done = machine.has(packages, card).install("https://example.org/jaxrl_hw")
    assert done.returncode == 0, done.stderr
    brackets = f"[{extra}]" if extra else ""
    *before, last = machine.pip
    assert last == ["install", f"jaxrl_hw{brackets} @ git+https://example.org/jaxrl_hw"]
    assert [sorted(words[1:]) for words in before] == ([removed] if removed else [])
    assert (card[0].split(",")[0] if card else "none") in done.stdout


def test_the_first_cell_asks_for_a_source_in_plain_words_before_it_changes_anything(
    machine: Machine,
) -> None:
    (machine.here / "jaxrl_hw").mkdir()  # a mere folder of that name is no installation
    done = machine.has(OLD | cuda("cuda12", "0.7.2"), T4).install()
    assert done.returncode != 0
    assert "SOURCE" in done.stderr
    assert machine.pip == []
    missing = machine.install("nowhere.zip")
    assert missing.returncode != 0
    assert "nowhere.zip" in missing.stderr
    assert machine.pip == []


@pytest.mark.parametrize(
    ("source", "there", "address"),
    [
        ("https://example.org/x/jaxrl_hw-0.1-py3-none-any.whl", "", ""),
        ("git+https://example.org/jaxrl_hw@main", "", ""),
        ("jaxrl hw-main.zip", "jaxrl hw-main.zip", "file://{here}/jaxrl%20hw-main.zip"),
        ("", "jaxrl_hw-main.zip", "file://{here}/jaxrl_hw-main.zip"),
        ("", "jaxrl_hw-0.1.0-py3-none-any.whl", "file://{here}/jaxrl_hw-0.1.0-py3-none-any.whl"),
        ("", "jaxrl_hw/jaxrl_hw/__init__.py", "file://{here}/jaxrl_hw"),
        ("", "../jaxrl_hw/__init__.py", "file://{above}"),
    ],
)
def test_a_source_is_an_address_a_file_or_a_folder(
    machine: Machine, source, there, address
) -> None:
    if there:
        (machine.here / there).parent.mkdir(parents=True, exist_ok=True)
        (machine.here / there).write_text("")
    done = machine.has({}, T4).install(source)
    assert done.returncode == 0, done.stderr
    wanted = machine.pip[-1][-1].partition(" @ ")[2]
    places = {"here": machine.here, "above": machine.here.parent}
    assert wanted == source if "://" in source else wanted == address.format(**places)


def test_an_installed_library_gets_the_plugin_that_it_lacks_and_else_stays(
    machine: Machine,
) -> None:
    (machine.site / "jaxrl_hw").mkdir()
    (machine.site / "jaxrl_hw" / "__init__.py").write_text("")
    done = machine.has(NEW | cuda("cuda12", "0.7.2"), T4).install()
    assert done.returncode == 0, done.stderr
    assert machine.pip == [["install", "jax[cuda12]>=0.10,<0.12"]]
    assert machine.install().returncode == 0
    assert len(machine.pip) == 1


def test_what_pip_says_is_shown_where_it_fails(machine: Machine) -> None:
    done = machine.has({}, T4).install("https://example.org/jaxrl_hw", PIP_FAILS="1")
    assert done.returncode != 0
    assert "No matching distribution found" in done.stderr


def test_the_cell_and_the_package_demand_the_same_jax() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    (jax,) = [x for x in map(Requirement, project["dependencies"]) if x.name == "jax"]
    cell = cells(NOTEBOOKS[0])[0]
    (bounds,) = [line for line in cell.splitlines() if line.startswith("OLDEST, TOO_NEW")]
    oldest, too_new = eval(bounds.partition("=")[2].partition("#")[0])
    wanted = ",".join(sorted([f">={oldest[0]}.{oldest[1]}", f"<{too_new[0]}.{too_new[1]}"]))
    assert wanted == ",".join(sorted(map(str, jax.specifier)))


@pytest.mark.parametrize("notebook", NOTEBOOKS, ids=lambda path: path.stem)
def test_notebooks_are_short_begin_alike_and_hold_no_output(notebook: Path) -> None:
    data = json.loads(notebook.read_text())
    assert len(data["cells"]) < 15
    assert cells(notebook)[:2] == cells(NOTEBOOKS[0])[:2]
    assert all(not cell.get("outputs") for cell in data["cells"])
    ids = [cell["id"] for cell in data["cells"]]
    assert len(set(ids)) == len(ids)


def test_a_newcomer_needs_three_cells() -> None:
    install, check, train, *_ = cells(ROOT / "notebooks" / "train_g1_colab.ipynb")
    assert "pip(" in install
    assert "jaxrl_hw.doctor" in check
    assert "train(" in train
    choices = [line for line in train.splitlines() if "#@param" in line]
    named = [line.split(" = ")[0] for line in choices]
    assert named[:5] == ["MODE", "PRESET", "ROBOT", "ALGO", "TIME_LIMIT"]
