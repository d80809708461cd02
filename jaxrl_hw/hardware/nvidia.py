"""NVIDIA GPUs by the driver: through NVML, else through nvidia-smi.

Drivers hang, answer rubbish or lack whole functions (WSL, Jetson, containers), so every reading
may be unknown and nothing here raises.
"""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import signal
import subprocess
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

SMI_TIMEOUT_S = 5.0
_MIB = 1 << 20
_QUERY = ("--query-gpu=index,uuid,name,memory.total,memory.free", "--format=csv,noheader,nounits")
_CUDA = re.compile(r"CUDA (?:[A-Z]+ )?Version: *(\d+)\.")  # in the heading of its table
_CAPABILITY_OF_CUDA_13 = (7, 5)
"""Least compute capability, Turing's: P100 and V100 run CUDA 12 at most."""


class Gpu(NamedTuple):
    """One GPU; memory in bytes, None where the driver does not report it."""

    ordinal: int
    uuid: str
    name: str
    memory_total: int | None
    memory_free: int | None


class Reading(NamedTuple):
    """The GPUs a program would see, where the figures come from, and what went wrong."""

    gpus: tuple[Gpu, ...]
    source: str  # nvml, nvidia-smi or unknown
    notes: tuple[str, ...]


def read_gpus(environ: Mapping[str, str], smi_timeout_s: float = SMI_TIMEOUT_S) -> Reading:
    """All GPUs that CUDA_VISIBLE_DEVICES leaves visible, in CUDA's order. Never raises."""
    reading = read_nvml(environ)
    return reading if reading.source == "nvml" else read_smi(environ, smi_timeout_s)


def read_nvml(environ: Mapping[str, str]) -> Reading:
    """The same from NVML; with source "unknown" and the reason where that fails."""
    visible = environ.get("CUDA_VISIBLE_DEVICES")
    try:
        import pynvml as nvml

        nvml.nvmlInit()
        try:
            first = (visible or "").split(",")[0].strip()
            if first.startswith("MIG-"):
                # A slice of a card has its own handle and its own memory.
                gpus: tuple[Gpu, ...] = (_describe(nvml.nvmlDeviceGetHandleByUUID(first), 0),)
            else:
                indices = range(nvml.nvmlDeviceGetCount())
                found = (_describe(nvml.nvmlDeviceGetHandleByIndex(i), i) for i in indices)
                gpus = _select(tuple(found), visible)
            return Reading(gpus, "nvml", ())
        finally:
            nvml.nvmlShutdown()
    except Exception as error:  # any failure of a driver library means the same: ask elsewhere
        return Reading((), "unknown", (str(error) or type(error).__name__,))


def read_smi(environ: Mapping[str, str], timeout_s: float = SMI_TIMEOUT_S) -> Reading:
    """The same from nvidia-smi, with what went wrong; it may take `timeout_s`."""
    program = shutil.which("nvidia-smi", path=environ.get("PATH"))
    if program is None:
        return Reading((), "unknown", ())
    try:
        gpus = _parse(_smi_output([program, *_QUERY], environ, timeout_s))
    except ValueError as error:
        return Reading((), "unknown", (f"nvidia-smi {error}: ignored",))
    return Reading(_select(gpus, environ.get("CUDA_VISIBLE_DEVICES")), "nvidia-smi", ())


def memory_in_use(environ: Mapping[str, str]) -> tuple[int, str] | None:
    """Bytes in use on the first visible GPU, by all programs, and the source; None if unknown."""
    reading = read_gpus(environ)
    for gpu in reading.gpus[:1]:
        if gpu.memory_total is not None and gpu.memory_free is not None:
            return gpu.memory_total - gpu.memory_free, reading.source
    return None


def newest_cuda(
    environ: Mapping[str, str], uuid: str, timeout_s: float = SMI_TIMEOUT_S
) -> int | None:
    """Major version of the newest CUDA that the driver and a card can run; None if unknown.

    uuid: of the card. Never raises.
    """
    with contextlib.suppress(Exception):  # as in `read_nvml`
        import pynvml as nvml

        nvml.nvmlInit()
        try:
            driver, capability = int(nvml.nvmlSystemGetCudaDriverVersion_v2()) // 1000, None
            with contextlib.suppress(nvml.NVMLError):
                handle = nvml.nvmlDeviceGetHandleByUUID(uuid)
                capability = tuple(nvml.nvmlDeviceGetCudaComputeCapability(handle))
            return _bounded(driver, capability)
        finally:
            nvml.nvmlShutdown()
    program = shutil.which("nvidia-smi", path=environ.get("PATH"))
    if program is None:
        return None
    with contextlib.suppress(ValueError):
        found = _CUDA.search(_smi_output([program], environ, timeout_s))
        if found is None:
            return None
        return _bounded(int(found[1]), _smi_capability(program, environ, uuid, timeout_s))
    return None


def _bounded(driver: int, capability: tuple[int, ...] | None) -> int:
    """The driver's CUDA, or an older one where the card is too old for it."""
    return min(driver, 12) if capability and capability < _CAPABILITY_OF_CUDA_13 else driver


def _smi_capability(
    program: str, environ: Mapping[str, str], uuid: str, timeout_s: float
) -> tuple[int, ...] | None:
    """Of the card; None where nvidia-smi does not know, as before driver 510."""
    query = [program, "--query-gpu=compute_cap", "--format=csv,noheader", f"--id={uuid}"]
    with contextlib.suppress(ValueError):
        row = re.match(r"(\d+)\.(\d+)\s*$", _smi_output(query, environ, timeout_s), re.MULTILINE)
        return (int(row[1]), int(row[2])) if row else None
    return None


def _describe(handle: Any, index: int) -> Gpu:
    import pynvml as nvml

    total = free = 0
    with contextlib.suppress(nvml.NVMLError):  # unified memory and MIG parents have no figures
        memory = nvml.nvmlDeviceGetMemoryInfo(handle)
        total, free = int(memory.total), int(memory.free)
    name, uuid = nvml.nvmlDeviceGetName(handle), nvml.nvmlDeviceGetUUID(handle)
    return _gpu(index, uuid, name, total, free)


def _gpu(ordinal: int, uuid: str, name: str, total: int, free: int) -> Gpu:
    """A GPU; its memory is unknown where the figures cannot be."""
    return Gpu(ordinal, uuid, name, *((total, free) if 0 < free <= total else (None, None)))


def _select(gpus: tuple[Gpu, ...], visible: str | None) -> tuple[Gpu, ...]:
    """CUDA's rule: numbers or UUID prefixes; the first unknown entry hides itself and the rest."""
    if visible is None:
        return gpus
    chosen: list[Gpu] = []
    for token in map(str.strip, visible.split(",")):
        prefix = token if token.startswith("GPU-") else "none"
        match = [g for g in gpus if token == str(g.ordinal) or g.uuid.startswith(prefix)]
        if len(match) != 1:
            break
        chosen += match
    return tuple(chosen)


def _smi_output(command: Sequence[str], environ: Mapping[str, str], timeout_s: float) -> str:
    """What nvidia-smi prints. Raises ValueError, saying what it did instead."""
    try:
        # Its own process group: a hung nvidia-smi may have children that hold the pipe open.
        process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env=dict(environ),
            start_new_session=True,
        )
    except OSError as error:
        raise ValueError(f"could not be started ({error.strerror})") from error
    try:
        output, _ = process.communicate(timeout=timeout_s)
    except subprocess.TimeoutExpired:
        _kill_group(process)
        raise ValueError(f"gave no answer within {timeout_s:g} s") from None
    if process.returncode != 0:
        raise ValueError(f"failed with exit code {process.returncode}")
    return output.decode(errors="replace")


def _kill_group(process: subprocess.Popen[bytes]) -> None:
    with contextlib.suppress(OSError):
        os.killpg(process.pid, signal.SIGKILL)
    if process.stdout is not None:
        process.stdout.close()
    # In uninterruptible sleep inside a broken driver it cannot be reaped: do not wait for it.
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(timeout=0.5)


_ROW = re.compile(r"(\d+), *(GPU-[^,]+), *([^,]+), *([^,]+), *([^,]+)")


def _parse(text: str) -> tuple[Gpu, ...]:
    """The rows. Raises ValueError where there is none, or one is not as asked for."""
    gpus: list[Gpu] = []
    for line in text.strip().splitlines() or [""]:
        row = _ROW.fullmatch(line.strip())
        if row is None:
            raise ValueError("gave an answer that could not be read")
        total, free = (int(cell) * _MIB if cell.isdigit() else 0 for cell in row.groups()[3:])
        gpus.append(_gpu(int(row[1]), row[2], row[3], total, free))
    return tuple(gpus)
