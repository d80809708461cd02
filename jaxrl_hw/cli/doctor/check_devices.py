"""The devices that JAX opens, against those that the machine has."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator
from typing import Any

from jaxrl_hw.cli.doctor.results import FAIL, WARN, CheckResult, Context
from jaxrl_hw.cli.doctor.run_in_subprocess import CallError, one_line, run_in_subprocess
from jaxrl_hw.errors import RunError
from jaxrl_hw.hardware import cuda_plugin, nvidia, xla
from jaxrl_hw.hardware.detect import Hardware, detect, refine
from jaxrl_hw.hardware.memory import MemoryWatch


def check(context: Context) -> Iterator[CheckResult]:
    """A row for the devices, and one for each thing that is odd about them."""
    try:
        seen = run_in_subprocess(open_devices, timeout_s=60, environ=context.environ)
    except CallError as error:
        seen = {"error": str(error), "notes": []}
    # the memory check says what is wrong with nvidia-smi
    notes = [_note(text) for text in seen["notes"] if not text.endswith(": ignored")]
    if "error" in seen:
        context.error = " ".join([seen["error"], *seen["notes"]])
        blamed = [name for name in sorted(os.environ) if context.blames(name)]
        advice = f"unset {' '.join(blamed)}" if blamed else 'see "version" and "environment"'
        yield CheckResult("", f"JAX opens none: {seen['error']}", advice, status=FAIL)
        yield from notes
        return
    context.opened = seen
    kinds = Counter(device["kind"] for device in seen["devices"])
    counted = ", ".join(f"{count} x {kind}" for kind, count in kinds.items())
    if seen["platform"] == "cpu":
        cores = seen["cores"]
        counted = f"{seen['name']}, {cores} core{'' if cores == 1 else 's'}"
    yield CheckResult("", f"{seen['platform']}: {counted}", figures=seen)
    yield from notes
    if seen["missed"]:
        yield _missed(context)
    if seen["hidden"] and not notes:
        card, variable = seen["hidden"][0], _hiding_variable()
        card = card if card.upper().startswith("NVIDIA") else f"NVIDIA {card}"
        advice = f"unset {variable.partition('=')[0]} to train on it"
        yield CheckResult("", f"{variable} hides an {card}", advice)


def configure(platform: str) -> list[xla.Setting]:
    """Set the variables that a run sets before it imports jax; returns them with their origin."""
    on_cpu = platform == "cpu"
    return xla.configure(fraction=None, cache_dir=None, platform=platform, host_callback=on_cpu)


def open_jax(platform: str) -> Any:
    """The jax module, set up as a run on this platform (cpu, gpu or tpu) sets it up.

    For use in subprocesses only.
    """
    configure(platform)
    import jax

    xla.apply_pending()
    return jax


def open_devices() -> dict[str, Any]:
    """What this machine has and what JAX opens of it, with the memory of each kind in bytes."""
    hardware = detect()
    try:
        jax = open_jax(hardware.platform)
        devices = jax.local_devices()
        stats = devices[0].memory_stats()
        jax.block_until_ready(jax.numpy.ones(8) + 1)  # some drivers open, and fail here
    except Exception as error:  # the notes may say why
        return {"error": one_line(error), "notes": list(hardware.notes)}
    expected, hardware = hardware.platform, refine(hardware)
    resident = MemoryWatch("cpu").read()
    return {
        "platform": hardware.platform,
        "name": hardware.name,
        "cores": hardware.cores,
        "devices": [
            {"platform": str(d.platform), "kind": str(d.device_kind), "id": int(d.id)}
            for d in devices
        ],
        "runtime": " ".join(str(devices[0].client.platform_version).split()),
        "notes": list(hardware.notes),
        "hidden": _hidden(hardware),
        "missed": expected == "gpu" and hardware.platform == "cpu",
        "memory_stats": {k: int(v) for k, v in stats.items()} if stats else None,
        "resident_bytes": resident.in_use,
        "resident_peak_bytes": resident.peak,
    }


def open_cuda() -> None:
    """Open the GPU, and nothing in its place; JAX's error says why it cannot."""
    os.environ["JAX_PLATFORMS"] = "cuda"
    try:
        open_jax("gpu").devices()
    except AssertionError:  # all that JAX 0.10 says here
        raise RunError("no plugin offers JAX the platform cuda") from None


def _missed(context: Context) -> CheckResult:
    """A card and a plugin that fits, and JAX is on the CPU all the same."""
    why = "no error when asked for the GPU alone: look at the environment's variables"
    try:
        run_in_subprocess(open_cuda, timeout_s=60, environ=context.environ)
    except CallError as error:
        why = str(error)
    parts = cuda_plugin.installed_parts()
    kinds = sorted({name.split("-")[1] for name in parts}) or ["cuda12"]
    pinned = f'"jax[{kinds[-1]}]=={cuda_plugin.installed_version("jaxlib")}"'
    advice = f"nvidia-smi must list the card; then pip install --force-reinstall {pinned}"
    return CheckResult("", f"JAX does not open the GPU: {why}", advice, status=FAIL)


def _hidden(hardware: Hardware) -> list[str]:
    """Names of the NVIDIA GPUs that a variable hides from JAX."""
    if hardware.platform != "cpu" or not _hiding_variable():
        return []
    rest = {k: v for k, v in os.environ.items() if k != "CUDA_VISIBLE_DEVICES"}
    return [gpu.name for gpu in nvidia.read_gpus(rest).gpus]


def _hiding_variable() -> str:
    """The variable that may hide GPUs from JAX, as NAME=VALUE; "" where none is set."""
    for name in ("JAX_PLATFORMS", "CUDA_VISIBLE_DEVICES"):
        value = os.environ.get(name)
        # JAX reads an empty JAX_PLATFORMS as unset; an empty CUDA_VISIBLE_DEVICES hides every card
        if value or (value is not None and name == "CUDA_VISIBLE_DEVICES"):
            return f"{name}={value}"
    return ""


def _note(text: str) -> CheckResult:
    """A note of `detect`; one that ends in a command of pip is of a card that JAX will not use."""
    what, pip, command = text.partition(": pip ")
    if pip:
        return CheckResult("", what, f"pip {command}", status=FAIL)
    return CheckResult("", what, status=WARN)
