"""XLA's TPU compiler for TPUs that are not here: as `gpu_compiler`, by the name of a topology.

It is in libtpu, which needs no TPU to compile. Beside a JAX for CPUs it would look for one at every
start, so it goes into a folder of its own. The descriptions, `targets/*.topology`, name one chip.
"""

from __future__ import annotations

import os
import re
import shlex
import sys
from collections.abc import Mapping
from importlib import metadata
from pathlib import Path
from typing import Any

from jaxrl_hw.errors import UserError
from jaxrl_hw.types.process import cache_folder

_TARGETS = Path(__file__).parent / "targets"
_SITE = "JAXRL_HW_TPU_COMPILER"


def target(name: str) -> Path:
    """The description of a profile's TPU.

    Raises:
      UserError: there is none; names the TPUs that have one.
    """
    path = _TARGETS / f"{name}.topology"
    if not path.is_file():
        known = ", ".join(sorted(one.stem for one in _TARGETS.glob("*.topology")))
        raise UserError(
            f"--compile has no description of a {name} for the compiler, only of {known}; "
            f"without --compile, --gpu {name} is an estimate"
        )
    return path


def site() -> Path:
    """The folder of the compiler's wheel: $JAXRL_HW_TPU_COMPILER, or one under the cache."""
    own = os.environ.get(_SITE)
    return Path(own).expanduser() if own else cache_folder() / f"tpu-{metadata.version('jax')}"


def check_installed() -> None:
    """Raise a UserError with the line that installs the compiler, where it is missing."""
    if not (site() / "libtpu").is_dir():
        raise UserError(
            "--compile needs the TPU compiler of JAX, which is not installed; install it with: "
            f"{shlex.join(install_command())}"
        )


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
