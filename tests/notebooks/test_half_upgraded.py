"""The first two cells of the Colab notebook in a real environment that pip has half upgraded.

pip has replaced jax there and left an old plugin for CUDA behind. Wheels that hold nothing but
their metadata take the plugin's place, so the real pip needs no network and no gigabytes.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
import sysconfig
import zipfile
from importlib import metadata
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow
pytest.importorskip("pip")
ROOT = Path(__file__).parents[2]
NOTEBOOK = json.loads((ROOT / "notebooks" / "train_g1_colab.ipynb").read_text())
INSTALL, CHECK = (
    "".join(cell["source"])
    for cell in [cell for cell in NOTEBOOK["cells"] if cell["cell_type"] == "code"][:2]
)
CELLS = """
import sys
names = {}
for cell in sys.argv[1:]:
    try:
        exec(cell, names)
    except names["Stop"] as stop:  # a notebook takes the next cell all the same
        print("stopped:", stop)
"""
SMI = """#!/bin/sh
case "$1" in
  "") echo "| CUDA Version: 12.4 |" ;;
  *=name,compute_cap) echo "Tesla T4, 7.5" ;;
  *=compute_cap) echo "7.5" ;;
  *) echo "0, GPU-0, Tesla T4, 15360, 15000" ;;
esac
"""
NEW = metadata.version("jaxlib")
OLD = "0.7.2"


def put_plugin(version: str, folder: Path) -> list[Path]:
    """Wheels of the plugin and of what it needs, as JAX names them."""
    wheels = []
    for part in ("plugin", "pjrt"):
        stem = f"jax_cuda12_{part}-{version}"
        about = f"Metadata-Version: 2.1\nName: jax-cuda12-{part}\nVersion: {version}\n"
        if part == "plugin":
            about += f"Provides-Extra: with-cuda\nRequires-Dist: jax-cuda12-pjrt (=={version})\n"
        kind = "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
        wheels.append(folder / f"{stem}-py3-none-any.whl")
        with zipfile.ZipFile(wheels[-1], "w") as wheel:
            for file, text in {"METADATA": about, "WHEEL": kind, "RECORD": ""}.items():
                wheel.writestr(f"{stem}.dist-info/{file}", text)
    return wheels


class Environment:
    """A virtual environment that also sees this one's packages, with a card and an old plugin."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.index, self.bin = folder, folder / "index", folder / "bin"
        for made in (self.index, self.bin):
            made.mkdir()
        smi = self.bin / "nvidia-smi"
        smi.write_text(SMI)
        smi.chmod(0o755)
        subprocess.run([sys.executable, "-m", "venv", "--without-pip", folder / "env"], check=True)
        (site,) = (folder / "env" / "lib").glob("python*/site-packages")
        outer = sysconfig.get_path("purelib")
        (site / "outer.pth").write_text(f"import site; site.addsitedir({outer!r})\n")
        assert self.python("-m", "pip", "install", *put_plugin(OLD, folder)).returncode == 0
        assert self.plugin == [OLD, OLD]

    def python(self, *words: str | Path) -> subprocess.CompletedProcess[str]:
        """Its Python; pip finds what lies in `index`, and nothing else."""
        env = {k: v for k, v in os.environ.items() if not k.startswith(("PIP_", "JAX", "XLA_"))}
        env |= {"PIP_NO_INDEX": "1", "PIP_FIND_LINKS": str(self.index), "PYTHONPATH": str(ROOT)}
        env["PATH"] = f"{self.bin}:/usr/bin:/bin"
        command = [self.folder / "env" / "bin" / "python", *words]
        return subprocess.run(command, cwd=self.folder, env=env, capture_output=True, text=True)

    def cells(self, *cells: str) -> str:
        done = self.python("-c", CELLS, *cells)
        assert done.returncode == 0, done.stderr
        return done.stdout

    @property
    def plugin(self) -> list[str]:
        """The versions of its two packages."""
        code = "from importlib.metadata import version as v; "
        code += "print(*[v(f'jax-cuda12-{x}') for x in ('plugin', 'pjrt')])"
        return self.python("-c", code).stdout.split()


@pytest.fixture
def environment(tmp_path: Path) -> Environment:
    return Environment(tmp_path)


def test_where_pip_cannot_mend_it_the_doctor_fails_and_names_what_does(
    environment: Environment,
) -> None:
    shown = environment.cells(INSTALL, CHECK)
    assert shown.count("stopped:") == 2
    assert environment.plugin == [OLD, OLD]
    (fix,) = set(re.findall(r"^fail .*\n +-> (pip .*)$", shown, re.MULTILINE))
    assert shlex.split(fix) == ["pip", "install", f"jax[cuda12]=={NEW}"]
    put_plugin(NEW, environment.index)
    done = environment.python("-m", *shlex.split(fix))
    assert done.returncode == 0, done.stderr
    assert environment.plugin == [NEW, NEW]


def test_the_first_cell_mends_it(environment: Environment) -> None:
    put_plugin(NEW, environment.index)
    assert "stopped:" not in environment.cells(INSTALL)
    assert environment.plugin == [NEW, NEW]
