"""Importing the package is quick, and leaves jax unimported so that memory can still be set."""

from __future__ import annotations

import subprocess
import sys

CODE = """
import sys, time
began = time.perf_counter()
import jaxrl_hw
seconds = time.perf_counter() - began
heavy = {"jax", "jaxlib", "mujoco", "flax", "orbax"} & set(sys.modules)
print(seconds, sorted(heavy), jaxrl_hw.Config().robot, "jax" in sys.modules)
"""


def test_the_package_is_imported_in_a_moment_and_without_jax():
    said = subprocess.run([sys.executable, "-c", CODE], capture_output=True, text=True, check=True)
    seconds, heavy, robot, jax_too = said.stdout.split()
    assert float(seconds) < 0.3
    assert (heavy, robot, jax_too) == ("[]", "g1", "False")


PLANNED = """
import sys
import jaxrl_hw.train
from jaxrl_hw.cli.flags import parse
from jaxrl_hw.planning.planner import make_plan
make_plan(parse(["--robot", "g1_12dof", "--run-dir", "none", "--init-from", "zoo:g1_12dof"]))
print(sorted({"jax", "jaxlib", "mujoco"} & set(sys.modules)))
"""


def test_a_run_is_planned_without_jax_whose_memory_settings_would_come_too_late():
    said = subprocess.run(
        [sys.executable, "-c", PLANNED], capture_output=True, text=True, check=True
    )
    assert said.stdout.split() == ["[]"]


def test_every_public_name_is_there():
    import jaxrl_hw

    for name in jaxrl_hw.__all__:
        assert getattr(jaxrl_hw, name) is not None
