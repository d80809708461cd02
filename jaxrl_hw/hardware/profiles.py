"""Kinds of hardware: what is known of them without having one at hand.

Memory is what the driver reports as the card's total (nvidia-smi), capabilities are the vendor's
data sheets. `reserved` is what a process takes on top of XLA's pool (driver context, libraries'
workspaces): measured where `source` says so, else an estimate on the safe side.
"""

from __future__ import annotations

import difflib
from typing import NamedTuple

from jaxrl_hw.errors import UserError

GIB, MIB = 1 << 30, 1 << 20
ESTIMATE = "an estimate: none has been at hand"


class Profile(NamedTuple):
    """One kind of device."""

    name: str
    """As `plan --gpu` takes it."""
    device: str
    """As the driver calls it, or the part of that name that tells it from others."""
    platform: str
    """cpu, gpu or tpu."""
    memory: int
    """Bytes; 0 for a CPU, whose memory is the machine's."""
    bfloat16: bool
    """Whether matrix units take bfloat16 (Ampere and newer, TPUs): only there does it pay."""
    tf32: bool
    """Whether float32 matrix products are rounded to TF32 unless told not to. The networks' are;
    physics asks for the highest precision (TF32 there makes a G1 fall)."""
    preset: str
    """The preset that suits it."""
    reserved: int
    """Bytes beside the arrays of a run: context and workspaces, or on a CPU the libraries."""
    source: str
    """Where `reserved` is from."""


def _gpu(name: str, device: str, mib: int, *, ampere: bool, preset: str) -> Profile:
    return Profile(name, device, "gpu", mib * MIB, ampere, ampere, preset, 700 * MIB, ESTIMATE)


CPU = Profile(
    "cpu",
    "",
    "cpu",
    0,
    False,
    False,
    "optimized",
    425_000_000,
    "resident after imports, compiler's memory given back: Linux x86-64, jax 0.10.2, mujoco 4.0.0",
)
PROFILES = (
    CPU,
    _gpu("t4", "T4", 15_360, ampere=False, preset="optimized"),
    _gpu("v100", "V100", 16_384, ampere=False, preset="optimized"),
    _gpu("l4", "L4", 23_034, ampere=True, preset="optimized"),
    _gpu("rtx3060", "RTX 3060", 12_288, ampere=True, preset="optimized"),
    _gpu("rtx3090", "RTX 3090", 24_576, ampere=True, preset="optimized"),
    _gpu("rtx4060-laptop", "RTX 4060 Laptop", 8_188, ampere=True, preset="optimized"),
    _gpu("rtx4090", "RTX 4090", 24_564, ampere=True, preset="best"),
    _gpu("rtx5090", "RTX 5090", 32_607, ampere=True, preset="best"),
    _gpu("a100-40", "A100-40", 40_960, ampere=True, preset="best"),
    _gpu("a100-80", "A100-80", 81_920, ampere=True, preset="best"),
    _gpu("h100", "H100", 81_559, ampere=True, preset="best"),
    _gpu("h200", "H200", 143_771, ampere=True, preset="best"),
    Profile("tpu-v2-8", "TPU v2", "tpu", 8 * GIB, True, False, "optimized", 300 * MIB, ESTIMATE),
    Profile("tpu-v5e", "TPU v5 lite", "tpu", 16 * GIB, True, False, "best", 300 * MIB, ESTIMATE),
)
"""float16 is not among the precisions: its largest number is 65504, which squared errors and
gradients pass, and its remedy, loss scaling, is one more thing to tune; bfloat16 has float32's
range."""


def named(name: str) -> Profile:
    """The profile that `plan --gpu NAME` asks for.

    Raises:
      UserError: not one of `PROFILES`; the nearest names come first.
    """
    word = name.strip().lower().replace(" ", "").replace("_", "-")
    for prefix in ("nvidia-", "nvidia", "tesla-", "tesla", "geforce-", "geforce"):
        word = word.removeprefix(prefix)
    known = {profile.name: profile for profile in PROFILES if profile.platform != "cpu"}
    same = {key.replace("-", ""): profile for key, profile in known.items()}
    if word in known or word.replace("-", "") in same:
        return known.get(word) or same[word.replace("-", "")]
    begun = [key for key in known if key.startswith(word) or word.startswith(key)]
    alike = difflib.get_close_matches(word, known, n=3, cutoff=0.4)
    near = [*begun, *(key for key in alike if key not in begun)]
    rest = [key for key in known if key not in near]
    raise UserError(
        f'--gpu "{name}" is not known: the nearest first, there are {", ".join([*near, *rest])}'
    )


def of(platform: str, device: str, memory: int | None = None) -> Profile:
    """The profile of a device that is there; a careful one where its kind is not known.

    Args:
      platform: cpu, gpu or tpu.
      device: its name, as JAX or the driver gives it.
      memory: its bytes, where known; tells cards of one name apart.
    """
    if platform == "cpu":
        return CPU
    parts = device.lower().replace("-", " ").split()
    fitting = [
        profile
        for profile in PROFILES
        if profile.platform == platform and _is_part(profile.device, parts)
    ]
    if fitting:
        return min(fitting, key=lambda profile: abs(profile.memory - (memory or profile.memory)))
    modern = platform == "tpu"
    return Profile(
        "unknown", device, platform, 0, modern, not modern, "optimized", 700 * MIB, ESTIMATE
    )


def _is_part(device: str, parts: list[str]) -> bool:
    """Whether the words of a profile's device are among a device's, the memory's size aside."""
    wanted = [word for word in device.lower().replace("-", " ").split() if word not in _SIZES]
    return bool(wanted) and all(word in parts for word in wanted)


_SIZES = ("40", "80")
