"""A measurement belongs to one program: another source, setting or device has its own."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

import jaxrl_hw
from jaxrl_hw import preset_config
from jaxrl_hw.hardware.detect import Hardware
from jaxrl_hw.planning.memory_model import program_key

PACKAGE = Path(jaxrl_hw.__file__).parent
CPU = Hardware("cpu", "EPYC", 1, 2, 16 * 10**9, 10 * 10**9, "psutil available")
CONFIG = replace(preset_config("cartpole"), physics="native")


def copied(folder: Path) -> Path:
    return Path(shutil.copytree(PACKAGE, folder, ignore=shutil.ignore_patterns("__pycache__")))


def changes(key: str, package: Path) -> bool:
    """Whether a source tree has another key than the one given."""
    return program_key(CONFIG, CPU, package)["sources"] != key


def add(module: str) -> Callable[[Path], None]:
    def change(package: Path) -> None:
        (package / module).parent.mkdir(exist_ok=True)
        (package / module).write_text("MORE = 1\n")

    return change


def move(old: str, new: str) -> Callable[[Path], None]:
    def change(package: Path) -> None:
        (package / new).parent.mkdir(exist_ok=True)
        (package / old).rename(package / new)

    return change


@pytest.mark.parametrize(
    ("change", "another"),
    [
        (add("algos/another.py"), True),
        (add("envs/robots/another/model.xml"), True),
        (add("a_new_package/module.py"), True),
        (move("envs/episode.py", "envs/physics/episode.py"), True),
        (move("errors.py", "a_new_package/errors.py"), True),
        (add("cli/another.py"), False),
        (add("evaluation/another.py"), False),
        (add("algos/notes.txt"), False),
    ],
)
def test_a_module_that_is_new_or_moved_changes_the_key(
    change: Callable[[Path], None], another: bool, tmp_path: Path
) -> None:
    key = program_key(CONFIG, CPU)["sources"]
    package = copied(tmp_path / "package")
    assert not changes(key, package)
    changed = copied(tmp_path / "changed")
    change(changed)
    assert changes(key, changed) == another


@pytest.mark.slow
def test_a_train_step_imports_nothing_that_the_key_leaves_out() -> None:
    code = (
        "import sys; import jaxrl_hw.training.trainer, jaxrl_hw.training.session;"
        "import jaxrl_hw.config.factory;"
        "print(*(name for name in sys.modules if name.startswith('jaxrl_hw.')))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    rooms = {name.split(".")[1] for name in done.stdout.split()}
    assert {"algos", "envs", "training", "types"} <= rooms
    assert not rooms & {"cli", "evaluation"}


def test_settings_that_change_the_program_change_the_key_and_numbers_do_not() -> None:
    key = program_key(CONFIG, CPU)
    for other in (
        replace(CONFIG, precision="bfloat16"),
        replace(CONFIG, physics="mjx"),
        replace(CONFIG, net=replace(CONFIG.net, policy=(7,))),
        replace(CONFIG, robot="g1"),
    ):
        assert program_key(other, CPU) != key
    for other in (replace(CONFIG, num_envs=5), replace(CONFIG, seed=9), replace(CONFIG, keep=7)):
        assert program_key(other, CPU) == key
    assert program_key(CONFIG, replace(CPU, name="Xeon")) != key
