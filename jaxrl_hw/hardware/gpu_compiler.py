"""XLA's GPU compiler for cards that are not here.

XLA compiles for a GPU from a description of the card: no driver and no card take part. The compiler
lives in JAX's CUDA wheels. Beside a JAX for CPUs they would look for a driver at every start, so
they go into a folder of their own (`site`), and only a process that compiles sees them
(`environment`). The descriptions, `targets/*.txtpb`, are GpuTargetConfigProtos with figures from
the cards' data sheets.
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

_SITE = "JAXRL_HW_GPU_COMPILER"
_PACKAGES = (
    *("jax-cuda12-pjrt=={0}", "jax-cuda12-plugin=={0}"),
    *("nvidia-cuda-nvcc-cu12", "nvidia-cuda-runtime-cu12", "nvidia-nvjitlink-cu12"),
)

_FLAGS = (
    "--xla_gpu_autotune_level=0 --xla_backend_optimization_level=0 "
    "--xla_llvm_disable_expensive_passes=true --xla_gpu_disable_gpuasm_optimizations=true"
)
"""No card is there to try kernels on, and no kernel will run: machine code is made in a hurry. The
kernels and their buffers are settled before; they stay the same to the byte."""


def target(name: str) -> Path:
    """The description of a profile's card. Raises UserError where there is none."""
    return compiler_files.described(name, ".txtpb")


def alike(name: str) -> tuple[str, ...]:
    """The other cards with a description whose compute capability is a card's: for them the
    compiler makes machine code of one kind."""
    capability = re.compile(r"cuda_compute_capability \{[^}]*\}")
    texts = {
        path.stem: path.read_text() for path in sorted(compiler_files.DESCRIPTIONS.glob("*.txtpb"))
    }
    mine = capability.findall(target(name).read_text())
    return tuple(n for n, text in texts.items() if n != name and capability.findall(text) == mine)


def site() -> Path:
    """The folder of the compiler's wheels: $JAXRL_HW_GPU_COMPILER, or one under the cache."""
    own = os.environ.get(_SITE)
    return Path(own).expanduser() if own else cache_folder() / f"cuda-{_version()}"


def check_installed() -> None:
    """Raise a UserError with the line that installs the compiler, where it is missing."""
    compiler_files.check_there(site() / "jax_plugins", "GPU", install_command())


def install_command() -> list[str]:
    """The words of the command that installs the compiler's wheels into `site`."""
    wheels = [package.format(_version()) for package in _PACKAGES]
    return [sys.executable, "-m", "pip", "install", "--no-deps", "--target", str(site()), *wheels]


def environment(base: Mapping[str, str]) -> dict[str, str]:
    """The variables of a process that compiles for a GPU, from those of this one."""
    folder = site()
    path = os.pathsep.join([str(folder), *filter(None, [base.get("PYTHONPATH")])])
    flags = f"{_FLAGS} --xla_gpu_cuda_data_dir={folder / 'nvidia' / 'cuda_nvcc'}"
    return {
        **base,
        "PYTHONPATH": path,
        "JAX_SKIP_CUDA_CONSTRAINTS_CHECK": "1",  # no driver to ask
        "JAX_PLATFORMS": "",
        "TF_CPP_MIN_LOG_LEVEL": "3",
        "XLA_FLAGS": f"{base.get('XLA_FLAGS', '')} {flags}".strip(),
    }


def sharding(path: Path) -> Any:
    """The described card as a jax.sharding.Sharding, for a process with `environment`'s variables.

    A function compiles for the card where its arguments are jax.ShapeDtypeStructs of this sharding.

    path: the description.
    """
    import jax
    from jax._src import xla_bridge
    from jax.experimental import topologies

    canonical = xla_bridge.canonicalize_platform

    def canonicalize(platform: str) -> str:
        """JAX looks "cuda" up among the devices that it has opened, and here it can open none."""
        try:
            return canonical(platform)
        except RuntimeError:
            return "cuda"

    xla_bridge.canonicalize_platform = canonicalize
    xla_bridge.discover_pjrt_plugins()
    topology = topologies.get_topology_desc(
        platform="cuda", target_config=path.read_text(), topology="1x1x1"
    )
    return jax.sharding.SingleDeviceSharding(topology.devices[0])


def _version() -> str:
    return metadata.version("jax")
