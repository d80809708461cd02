"""Memory, by each route that the library may take to its figure."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from typing import Any

from jaxrl_hw.cli.doctor.results import PASS, WARN, CheckResult, Context
from jaxrl_hw.cli.doctor.run_in_subprocess import CallError, one_line, run_in_subprocess
from jaxrl_hw.hardware import cgroup, nvidia
from jaxrl_hw.loggers import formats

LITTLE = 1_500_000_000
"""Bytes of main memory. Training a G1 on two cores takes 1 GB."""
_NVML_ADVICE = "put the driver's libnvidia-ml.so.1 where the system looks for libraries"
_SMI_ADVICE = "restart the machine, or reinstall the NVIDIA driver"


def check(context: Context) -> Iterator[CheckResult]:
    """A row for each route: its figures, or why it has none."""
    yield device_row(context.opened)
    nvml, smi = _ask(ask_nvml), _ask(ask_smi)
    has_gpu = context.platform == "gpu" or bool(nvml["gpus"]) or bool(smi["gpus"])
    yield driver_row("NVML", nvml, _NVML_ADVICE if has_gpu else "")
    yield driver_row("nvidia-smi", smi, _SMI_ADVICE if smi["notes"] else "")
    yield from main_rows(_ask(ask_system))
    yield resident_row(context.opened)


def ask_nvml() -> dict[str, Any]:
    """The GPUs of `nvidia.read_nvml`, as data."""
    return _as_data(nvidia.read_nvml(os.environ), there=True)


def ask_smi() -> dict[str, Any]:
    """The GPUs of `nvidia.read_smi`, as data, and whether the program is installed."""
    return _as_data(nvidia.read_smi(os.environ), shutil.which("nvidia-smi") is not None)


def ask_system() -> dict[str, Any]:
    """Main memory by psutil, and the limit of the control group, bytes."""
    limit = cgroup.memory_limit()
    seen: dict[str, Any] = {"cgroup": None if limit is None else limit._asdict()}
    try:
        import psutil

        memory = psutil.virtual_memory()
    except Exception as error:  # it reads files of /proc that containers may hide
        return {**seen, "notes": [one_line(error)]}
    return {**seen, "psutil": {"total": int(memory.total), "available": int(memory.available)}}


def device_row(opened: dict[str, Any] | None) -> CheckResult:
    """What JAX's own pool on device 0 says; None where no device is open."""
    item = "memory_stats"
    if opened is None:
        return CheckResult(item, "not available: JAX opens no device", 'see "devices"')
    stats = opened["memory_stats"]
    if stats and stats.get("bytes_limit"):
        return _amount(item, stats, stats.get("bytes_in_use", 0), "in use", stats["bytes_limit"])
    if opened["platform"] == "cpu":
        return CheckResult(item, "not available: a cpu has none; main memory counts")
    text = "not available: the device has none; the driver's figure counts"
    return CheckResult(item, text, "set --num-envs to a number if auto is far off")


def driver_row(item: str, seen: dict[str, Any], advice: str) -> CheckResult:
    """The GPUs that a route to NVIDIA's driver lists.

    advice: what to do where it lists none; "" where that is no fault.
    """
    if seen["gpus"]:
        unknown = any(gpu["memory_free"] is None for gpu in seen["gpus"])
        text = "; ".join(map(_gpu_text, seen["gpus"]))
        return CheckResult(item, text, figures=seen, status=WARN if unknown else PASS)
    why = "it lists no GPU" if seen["there"] else "the program is not installed"
    why = "; ".join(seen["notes"]) or why
    return CheckResult(item, f"not available: {why.removesuffix(': ignored')}", advice, seen)


def main_rows(seen: dict[str, Any]) -> Iterator[CheckResult]:
    """Main memory as psutil reads it, and the container's limit."""
    main, limit = seen.get("psutil"), seen.get("cgroup")
    if main is None:
        text = f"not available: {'; '.join(seen['notes'])}"
        yield CheckResult("psutil", text, "pip install psutil")
    else:
        free, advice = main["available"], "close other programs"
        yield _amount("psutil", main, free, "available", main["total"], advice)
    if limit is None:
        yield CheckResult("cgroup", "no limit on this process")
    else:
        free, advice = limit["free"], "give the container more memory"
        yield _amount("cgroup", limit, free, "free of a limit", limit["limit"], advice)


def resident_row(opened: dict[str, Any] | None) -> CheckResult:
    """The memory of a process that has opened JAX's devices and nothing else."""
    in_use = None if opened is None else opened["resident_bytes"]
    if opened is None or in_use is None:
        text = "not available: no process with JAX in it could be read"
        return CheckResult("process", text, status=WARN)
    figures = {"resident": in_use, "peak": opened["resident_peak_bytes"]}
    return CheckResult("process", f"{formats.size(in_use)} resident with JAX loaded", "", figures)


def _amount(
    item: str, figures: dict[str, Any], part: int, name: str, whole: int, advice: str = ""
) -> CheckResult:
    """`part` of `whole` bytes; the advice counts where the part is little."""
    text = f"{formats.size(part)} {name} of {formats.size(whole)}"
    return CheckResult(item, text, advice if part < LITTLE else "", figures)


def _ask(question: Callable[[], dict[str, Any]]) -> dict[str, Any]:
    """The answer of a subprocess; where there is none, the reason is among its notes."""
    try:
        answer: dict[str, Any] = run_in_subprocess(question, timeout_s=15)
    except CallError as error:
        return {"gpus": [], "notes": [str(error)], "there": True}
    return answer


def _as_data(reading: nvidia.Reading, there: bool) -> dict[str, Any]:
    gpus = [gpu._asdict() for gpu in reading.gpus]
    return {"gpus": gpus, "notes": list(reading.notes), "there": there}


def _gpu_text(gpu: dict[str, Any]) -> str:
    if gpu["memory_free"] is None:
        return f"{gpu['name']}: memory unknown"
    free, total = formats.size(gpu["memory_free"]), formats.size(gpu["memory_total"])
    return f"{gpu['name']}: {free} free of {total}"
