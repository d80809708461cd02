"""Memory by every route that the library may take to it, each on its own."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from typing import Any

from jaxrl_hw.cli.doctor.results import PASS, WARN, Finding
from jaxrl_hw.cli.doctor.run_in_subprocess import NoResult, call
from jaxrl_hw.cli.doctor.runner import Visit
from jaxrl_hw.hardware import cgroup, nvidia
from jaxrl_hw.loggers import formats

LIMIT_S = 15.0
LITTLE = 1_500_000_000
"""Bytes of main memory under which little can be trained: a G1 on two cores takes 1 GB."""
_CHECK = "memory"
_NVML_ADVICE = "the driver's libnvidia-ml.so.1 must be where libraries are looked for"
_SMI_ADVICE = "restart the machine, or install the NVIDIA driver anew"


def check(visit: Visit) -> Iterator[Finding]:
    """A row for each route: what it says, or why it says nothing."""
    yield device_row(visit.opened)
    on_gpu = visit.platform == "gpu"
    nvml = _asked(ask_nvml)
    smi = _asked(ask_smi)
    card = on_gpu or bool(nvml["gpus"]) or bool(smi["gpus"])
    yield driver_row("NVML", nvml, _NVML_ADVICE if card else "")
    yield driver_row("nvidia-smi", smi, _SMI_ADVICE if smi["notes"] else "")
    main = _asked(ask_system)
    yield main_row(main)
    yield limit_row(main)
    yield resident_row(visit.opened)


def ask_nvml() -> dict[str, Any]:
    """The GPUs of `nvidia.read_nvml`, as data."""
    return _plain(nvidia.read_nvml(os.environ), there=True)


def ask_smi() -> dict[str, Any]:
    """The GPUs of `nvidia.read_smi`, as data, and whether the program is there."""
    there = shutil.which("nvidia-smi") is not None
    return _plain(nvidia.read_smi(os.environ), there)


def ask_system() -> dict[str, Any]:
    """Main memory by psutil and the limit of the control group, bytes."""
    group = cgroup.memory_limit()
    seen: dict[str, Any] = {"limit": None if group is None else group.limit}
    seen["limit_free"] = None if group is None else group.free
    try:
        import psutil

        memory = psutil.virtual_memory()
    except Exception as error:  # it reads files of /proc that containers may hide
        return {**seen, "problem": str(error) or type(error).__name__}
    return {**seen, "total": int(memory.total), "available": int(memory.available)}


def device_row(opened: dict[str, Any] | None) -> Finding:
    """What JAX's own pool on device 0 says; None where no device is open."""
    item = "memory_stats"
    if opened is None:
        return Finding(_CHECK, item, WARN, "not available: JAX opens no device", 'see "devices"')
    stats = opened["memory_stats"]
    if stats and stats.get("bytes_limit"):
        in_use, limit = stats.get("bytes_in_use", 0), stats["bytes_limit"]
        text = f"{formats.size(limit)} may be used, {formats.size(in_use)} is"
        return Finding(_CHECK, item, PASS, text, figures=stats)
    if opened["platform"] == "cpu":
        return Finding(_CHECK, item, PASS, "not available: a cpu keeps none; main memory counts")
    text = "not available: the device keeps none, so the driver is asked"
    return Finding(_CHECK, item, WARN, text, "give --num-envs a number where auto is far off")


def driver_row(item: str, seen: dict[str, Any], advice: str) -> Finding:
    """What a route to NVIDIA's driver says.

    advice: what to do where it says nothing; "" where that is no fault.
    """
    if seen["gpus"]:
        text = "; ".join(map(_gpu_text, seen["gpus"]))
        unknown = any(gpu["memory_free"] is None for gpu in seen["gpus"])
        return Finding(_CHECK, item, WARN if unknown else PASS, text, figures=seen)
    why = "; ".join(seen["notes"])
    if not why:
        why = "it lists no GPU" if seen["there"] else "there is no such program"
    text = f"not available: {why.removesuffix(': ignored')}"
    if advice:
        return Finding(_CHECK, item, WARN, text, advice, seen)
    return Finding(_CHECK, item, PASS, text, figures=seen)


def main_row(seen: dict[str, Any]) -> Finding:
    """Main memory as psutil sees it."""
    if "total" not in seen:
        why = seen.get("problem") or "; ".join(seen.get("notes", ()))
        return Finding(_CHECK, "psutil", WARN, f"not available: {why}", "pip install psutil")
    text = f"{formats.size(seen['available'])} available of {formats.size(seen['total'])}"
    figures = {"total": seen["total"], "available": seen["available"]}
    if seen["available"] < LITTLE:
        return Finding(_CHECK, "psutil", WARN, text, "close other programs", figures)
    return Finding(_CHECK, "psutil", PASS, text, figures=figures)


def limit_row(seen: dict[str, Any]) -> Finding:
    """What a container grants."""
    limit, free = seen.get("limit"), seen.get("limit_free")
    if limit is None or free is None:
        return Finding(_CHECK, "cgroup", PASS, "no limit on this process")
    text = f"{formats.size(free)} free of a limit of {formats.size(limit)}"
    figures = {"limit": limit, "free": free}
    if free < LITTLE:
        return Finding(_CHECK, "cgroup", WARN, text, "give the container more memory", figures)
    return Finding(_CHECK, "cgroup", PASS, text, figures=figures)


def resident_row(opened: dict[str, Any] | None) -> Finding:
    """What a process takes that has only opened JAX's devices."""
    item = "process"
    in_use = None if opened is None else opened["resident_bytes"]
    if opened is None or in_use is None:
        return Finding(_CHECK, item, WARN, "not available: no process with JAX in it could be read")
    peak = opened["resident_peak_bytes"]
    text = f"{formats.size(in_use)} resident with JAX loaded"
    return Finding(_CHECK, item, PASS, text, figures={"resident": in_use, "peak": peak})


def _asked(question: Any) -> dict[str, Any]:
    """The answer of a process of its own; where there is none, the reason among its notes."""
    try:
        answer: dict[str, Any] = call(question, limit_s=LIMIT_S)
    except NoResult as error:
        return {"gpus": [], "notes": [str(error)], "there": True}
    return answer


def _plain(reading: nvidia.Reading, there: bool) -> dict[str, Any]:
    return {
        "gpus": [gpu._asdict() for gpu in reading.gpus],
        "notes": list(reading.notes),
        "there": there,
    }


def _gpu_text(gpu: dict[str, Any]) -> str:
    if gpu["memory_free"] is None:
        return f"{gpu['name']}: its memory is not told"
    free, total = formats.size(gpu["memory_free"]), formats.size(gpu["memory_total"])
    return f"{gpu['name']}: {free} free of {total}"
