"""Importing the package loads no heavy library, so memory settings can still be made."""

from __future__ import annotations

import importlib
import subprocess
import sys

import pytest

import jaxrl_hw

CODE = """
import sys
import jaxrl_hw
heavy = {"jax", "jaxlib", "mujoco", "flax", "orbax", "numpy", "rich", "tyro"} & set(sys.modules)
print(sorted(heavy), jaxrl_hw.Config().robot, "jax" in sys.modules)
"""


def test_the_package_is_imported_without_a_heavy_library() -> None:
    done = subprocess.run([sys.executable, "-c", CODE], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["[]", "g1", "False"]


PLANNED = """
import sys
import jaxrl_hw.train
from jaxrl_hw.cli.flags import parse
from jaxrl_hw.planning.planner import make_plan
make_plan(parse(["--robot", "g1_12dof", "--run-dir", "none", "--init-from", "zoo:g1_12dof"]))
print(sorted({"jax", "jaxlib", "mujoco"} & set(sys.modules)))
"""


def test_a_plan_needs_no_jax_so_memory_settings_come_before_it() -> None:
    done = subprocess.run(
        [sys.executable, "-c", PLANNED], capture_output=True, text=True, check=True
    )
    assert done.stdout.split() == ["[]"]


@pytest.mark.parametrize("name", jaxrl_hw.__all__)
def test_a_public_name_is_there(name: str) -> None:
    assert getattr(jaxrl_hw, name) is not None
    assert name in dir(jaxrl_hw)


def test_an_unknown_name_is_an_attribute_error() -> None:
    assert not hasattr(jaxrl_hw, "no_such_name")
    with pytest.raises(ImportError):
        from jaxrl_hw import no_such_name  # noqa: F401


@pytest.mark.parametrize(("name", "successor"), jaxrl_hw._RETIRED.items())
def test_a_retired_name_says_its_successor(name: str, successor: str) -> None:
    assert importlib.import_module(f"jaxrl_hw.{successor}")
    with pytest.raises(jaxrl_hw.UserError, match=successor):
        getattr(jaxrl_hw, name)
