"""XLA's TPU compiler for TPUs that are not here: as `gpu_compiler`, by the name of a topology.

It is in libtpu, which needs no TPU to compile. Beside a JAX for CPUs it would look for one at every
start, so it goes into a folder of its own. The descriptions, `targets/*.topology`, name one chip.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Mapping
from importlib import metadata
from pathlib import Path
from typing import Any

from jaxrl_hw.hardware import compiler_files
from jaxrl_hw.types.process import cache_folder

_SITE = "JAXRL_HW_TPU_COMPILER"


def target(name: str) -> Path:
    """The description of a profile's TPU. Raises UserError where there is none."""
    return compiler_files.described(name, ".topology")


def site() -> Path:
    """The folder of the compiler's wheel: $JAXRL_HW_TPU_COMPILER, or one under the cache."""
    own = os.environ.get(_SITE)
    return Path(own).expanduser() if own else cache_folder() / f"tpu-{metadata.version('jax')}"


def check_installed() -> None:
    """Raise a UserError with the line that installs the compiler, where it is missing."""
    compiler_files.check_there(site() / "libtpu", "TPU", install_command())


def install_command() -> list[str]:
    """The words of the command that installs the compiler's wheel into `site`: the version that
    JAX asks for."""
    asked = (re.match(r"libtpu[^;\s]*", one) for one in metadata.requires("jax") or ())
    wheels = next((match[0] for match in asked if match), "libtpu")
    return [sys.executable, "-m", "pip", "install", "--no-deps", "--target", str(site()), wheels]


def environment(base: Mapping[str, str]) -> dict[str, str]:
    """The variables of a process that compiles for a TPU, from those of this one."""
    path = os.pathsep.join([str(site()), *filter(None, [base.get("PYTHONPATH")])])
    return {
        **base,
        "PYTHONPATH": path,
        "JAX_PLATFORMS": "cpu",  # no TPU is looked for
        "TPU_SKIP_MDS_QUERY": "1",  # nor a machine that has one
        "TF_CPP_MIN_LOG_LEVEL": "3",
    }


def sharding(path: Path) -> Any:
    """The described TPU as a jax.sharding.Sharding, for a process with `environment`'s variables.

    path: the description.
    """
    import jax
    from jax.experimental import topologies

    topology = topologies.get_topology_desc(
        platform="tpu", topology_name=path.read_text().strip(), chips_per_host_bounds=[1, 1, 1]
    )
    return jax.sharding.SingleDeviceSharding(topology.devices[0])
