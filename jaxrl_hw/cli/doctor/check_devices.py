"""The devices that JAX opens, and whether they are those that are there."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator
from typing import Any

from jaxrl_hw.cli.doctor.open_jax import open_jax
from jaxrl_hw.cli.doctor.results import FAIL, PASS, WARN, Finding
from jaxrl_hw.cli.doctor.run_in_subprocess import NoResult, call, reason
from jaxrl_hw.cli.doctor.runner import Visit
from jaxrl_hw.hardware import nvidia
from jaxrl_hw.hardware.detect import Hardware, detect, refine
from jaxrl_hw.hardware.memory import MemoryWatch

LIMIT_S = 60.0
_CHECK = "devices"
_INSTALL = ": pip install "


def check(visit: Visit) -> Iterator[Finding]:
    """A row for the devices, and one for each thing that is odd about them."""
    try:
        seen = call(look, limit_s=LIMIT_S, environ=visit.environ)
    except NoResult as error:
        seen = {"error": str(error), "notes": []}
    # what is wrong with nvidia-smi is told under "memory"
    notes = [_note(text) for text in seen["notes"] if not text.endswith(": ignored")]
    if "error" in seen:
        visit.trouble = " ".join([seen["error"], *seen["notes"]])
        blamed = [name for name in sorted(os.environ) if visit.blames(name)]
        advice = f"unset {' '.join(blamed)}" if blamed else 'see "version" and "environment"'
        yield Finding(_CHECK, "", FAIL, f"JAX opens none: {seen['error']}", advice)
        yield from notes
        return
    visit.opened = seen
    kinds = Counter(device["kind"] for device in seen["devices"])
    counted = ", ".join(f"{count} x {kind}" for kind, count in kinds.items())
    text = f"{seen['platform']}: {counted}"
    if seen["platform"] == "cpu":
        cores = seen["cores"]
        text = f"cpu: {seen['name']}, {cores} core{'' if cores == 1 else 's'}"
    yield Finding(_CHECK, "", PASS, text, figures=seen)
    yield from notes
    if seen["hidden"] and not notes:
        text = f"an {_nvidia(seen['hidden'][0])} is there but {_hider()} hides it"
        yield Finding(_CHECK, "", WARN, text, f"unset {_hider().partition('=')[0]} to train on it")


def look() -> dict[str, Any]:
    """What this machine has and what JAX opens of it; its kinds of memory too, bytes."""
    hardware = detect()
    try:
        jax = open_jax(hardware.platform)
        devices = jax.local_devices()
        stats = devices[0].memory_stats()
        jax.block_until_ready(jax.numpy.ones(8) + 1)  # some drivers open, and fail here
    except Exception as error:  # the notes may say why
        return {"error": reason(error), "notes": list(hardware.notes)}
    hardware = refine(hardware)
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
        "memory_stats": {k: int(v) for k, v in stats.items()} if stats else None,
        "resident_bytes": resident.in_use,
        "resident_peak_bytes": resident.peak,
    }


def _hidden(hardware: Hardware) -> list[str]:
    """Names of NVIDIA GPUs that a variable keeps from JAX."""
    if hardware.platform != "cpu" or not _hider():
        return []
    rest = {k: v for k, v in os.environ.items() if k != "CUDA_VISIBLE_DEVICES"}
    return [gpu.name for gpu in nvidia.read_gpus(rest).gpus]


def _hider() -> str:
    """The variable that may keep GPUs from JAX, as NAME=VALUE; "" where none is set."""
    for name in ("JAX_PLATFORMS", "CUDA_VISIBLE_DEVICES"):
        value = os.environ.get(name)
        # empty, the first leaves the choice to JAX, while the second hides every card
        if value or (value is not None and name == "CUDA_VISIBLE_DEVICES"):
            return f"{name}={value}"
    return ""


def _note(text: str) -> Finding:
    said, install, what = text.partition(_INSTALL)
    return Finding(_CHECK, "", WARN, said, f"{install}{what}".removeprefix(": "))


def _nvidia(name: str) -> str:
    return name if name.upper().startswith("NVIDIA") else f"NVIDIA {name}"
