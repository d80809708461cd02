"""What this machine has, found without importing jax, and refined once jax is running."""

from __future__ import annotations

import importlib.util
import os
import platform as platform_module
import re
import sys
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from jaxrl_hw.errors import first_line
from jaxrl_hw.hardware import cgroup, cuda_plugin, nvidia
from jaxrl_hw.loggers.formats import size

_GPU_PLATFORMS = ("gpu", "cuda", "rocm")
_CPU_DEVICES = r"--xla_force_host_platform_device_count=(\d+)"
CUDA_PLUGINS = ("jax_cuda13_plugin", "jax_cuda12_plugin")


@dataclass(frozen=True)
class Hardware:
    """The machine as a run would use it. Memory is of device 0, or of the machine on a CPU."""

    platform: str
    """cpu, gpu or tpu: what JAX will compute on."""
    name: str
    """Model of the GPU or TPU, or of the processor."""
    count: int
    """Devices of that kind; 1 for a CPU, unless XLA_FLAGS divides it."""
    cores: int
    """CPU cores this process may use (affinity and container quota)."""
    memory_total: int | None
    """Bytes, None if unknown."""
    memory_free: int | None
    """Bytes that can be allocated now, None if unknown."""
    memory_source: str
    """Where the figures come from: memory_stats, nvml, nvidia-smi, psutil ..., unknown."""
    notes: tuple[str, ...] = ()
    """User messages, a sentence each."""
    processes: int = 1
    """That train one run together, each on such a machine."""


def detect(
    environ: Mapping[str, str] = os.environ,
    *,
    plugins: tuple[str, ...] = CUDA_PLUGINS,
    smi_timeout_s: float = nvidia.SMI_TIMEOUT_S,
    root: Path = cgroup.ROOT,
) -> Hardware:
    """The platform that JAX will choose, and its memory. Takes milliseconds; never raises.

    A GPU counts where a driver reports one and JAX's CUDA plugin is installed and fits; where it
    does not, a note says why, and after ": " the commands that mend it.

    Args:
      environ: JAX_PLATFORMS and CUDA_VISIBLE_DEVICES are honoured.
      plugins: modules, one of which makes JAX use a GPU.
      smi_timeout_s: how long nvidia-smi may take.
      root: of the file system in which control groups are looked up.
    """
    asked = environ.get("JAX_PLATFORMS", "").lower().replace(",", " ").split()
    cores, notes = usable_cores(root), []
    if not asked or asked[0] == "tpu":
        if _has_tpu(environ):
            return Hardware("tpu", "TPU", 1, cores, None, None, "unknown")
        if asked:
            notes.append("JAX_PLATFORMS asks for a TPU, but none was found")
    if not asked or any(word in _GPU_PLATFORMS for word in asked):
        reading = nvidia.read_gpus(environ, smi_timeout_s)
        notes += reading.notes
        fault = _fault(environ, plugins, reading.gpus[0], smi_timeout_s) if reading.gpus else None
        if reading.gpus and fault is None:
            return _gpu(reading, cores, notes)
        notes += _gpu_notes(reading, fault, asked)
    return _cpu(notes, root, environ)


def refine(hardware: Hardware) -> Hardware:
    """The same machine with what only a running JAX can report; else unchanged.

    Imports jax and opens its devices. Free memory becomes what device 0's pool may still hand out,
    but no more than other programs leave free on the card. Never raises.
    """
    try:
        import jax

        devices = jax.local_devices()
        device = devices[0]
        stats = device.memory_stats() or {}
    except Exception as error:  # a broken backend is the trainer's to report
        note = f"JAX opened no device: {first_line(error)}"
        return replace(hardware, notes=(*hardware.notes, note))
    kind = "gpu" if device.platform in _GPU_PLATFORMS else str(device.platform)
    if kind != hardware.platform:
        note = f"JAX runs on {kind}, not on the {hardware.platform} that was expected"
        found = Hardware(kind, device.device_kind, 1, hardware.cores, None, None, "unknown")
        found = replace(_cpu([]) if kind == "cpu" else found, processes=hardware.processes)
        hardware = replace(found, notes=(*hardware.notes, note))
    hardware = replace(hardware, count=len(devices))
    if kind != "cpu":
        hardware = replace(hardware, name=device.device_kind)
    limit, in_use = int(stats.get("bytes_limit") or 0), int(stats.get("bytes_in_use") or 0)
    if limit <= 0 or in_use >= limit:
        return hardware
    free = limit - in_use
    if kind == "gpu" and "pool_bytes" in stats:
        # other programs may have taken what the pool promises and does not hold yet
        for gpu in nvidia.read_gpus(os.environ).gpus[:1]:
            on_card = free if gpu.memory_free is None else gpu.memory_free
            free = min(free, max(0, int(stats["pool_bytes"]) - in_use) + on_card)
    total = hardware.memory_total or limit
    return replace(hardware, memory_total=total, memory_free=free, memory_source="memory_stats")


def usable_cores(root: Path = cgroup.ROOT) -> int:
    """CPU cores this process may use: affinity, bounded by the container's quota; at least 1."""
    affinity = getattr(os, "sched_getaffinity", None)
    cores = len(affinity(0)) if affinity else os.cpu_count() or 1
    quota = cgroup.cpu_quota(root)
    return max(1, cores if quota is None else min(cores, int(quota + 0.5)))


def _gpu(reading: nvidia.Reading, cores: int, notes: list[str]) -> Hardware:
    first, source, count = reading.gpus[0], reading.source, len(reading.gpus)
    if first.memory_free is None:
        notes = [*notes, f"{source} does not report the memory of the {first.name}"]
        source = "unknown"
    memory = first.memory_total, first.memory_free
    return Hardware("gpu", first.name, count, cores, *memory, source, tuple(notes))


def _fault(
    environ: Mapping[str, str], plugins: tuple[str, ...], gpu: nvidia.Gpu, smi_timeout_s: float
) -> cuda_plugin.Fault | None:
    """What keeps JAX from the card; a plugin that pip does not know is taken to fit."""
    parts = cuda_plugin.installed_parts()
    is_there = any(map(_installed, plugins))
    if is_there and not parts:
        return None
    newest = nvidia.newest_cuda(environ, gpu.uuid, smi_timeout_s)
    jaxlib = cuda_plugin.installed_version("jaxlib")
    return cuda_plugin.find_fault(parts if is_there else {}, jaxlib, newest)


def _gpu_notes(
    reading: nvidia.Reading, fault: cuda_plugin.Fault | None, asked: list[str]
) -> list[str]:
    if fault is not None:
        name = reading.gpus[0].name
        name = name if name.upper().startswith("NVIDIA") else f"NVIDIA {name}"
        return [f"an {name} is here but JAX will not use it, as {fault.reason}: {fault.fix}"]
    if asked and asked[0] in _GPU_PLATFORMS:
        return [f"JAX_PLATFORMS asks for {asked[0]}, but no usable GPU was found"]
    return []


def _cpu(
    notes: list[str], root: Path = cgroup.ROOT, environ: Mapping[str, str] = os.environ
) -> Hardware:
    cores, memory = usable_cores(root), _main_memory(root)
    divided = re.findall(_CPU_DEVICES, environ.get("XLA_FLAGS", ""))
    count = max(1, int(divided[-1])) if divided else 1
    return Hardware("cpu", _cpu_name(), count, cores, *memory, tuple(notes))


def _main_memory(root: Path) -> tuple[int | None, int | None, str]:
    try:
        import psutil

        memory = psutil.virtual_memory()
    except Exception:  # psutil reads /proc files that containers may hide
        return None, None, "unknown"
    total, free, source = int(memory.total), int(memory.available), "psutil available"
    group = cgroup.memory_limit(root)
    if group is not None and group.limit < total:
        source += f", cgroup limit {size(group.limit)}"
        total, free = group.limit, min(free, group.free)
    return total, free, source


def _cpu_name() -> str:
    try:
        for line in Path("/proc/cpuinfo").read_text(errors="replace").splitlines():
            key, _, value = line.partition(":")
            if key.strip() in ("model name", "Model") and value.strip():
                return " ".join(value.split())
    except OSError:
        pass
    return platform_module.processor() or platform_module.machine() or "unknown CPU"


def _has_tpu(environ: Mapping[str, str]) -> bool:
    if not _installed("libtpu"):
        return False
    devices = Path("/dev")
    return bool(environ.get("TPU_NAME")) or any(
        next(devices.glob(pattern), None) for pattern in ("accel*", "vfio/[0-9]*")
    )


def _installed(module: str) -> bool:
    if module in sys.modules:
        return True
    try:
        return importlib.util.find_spec(module) is not None
    except (ImportError, ValueError):
        return False
