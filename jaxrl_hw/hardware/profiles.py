"""Kinds of hardware that a run can be planned for without having one.

Memory is what the driver reports as the card's total (nvidia-smi), capabilities are from the
vendors' data sheets. `reserved` is what a process takes on top of XLA's pool (driver context,
libraries' workspaces): measured where `source` says so, else an estimate on the safe side.
"""

from __future__ import annotations

import difflib
import re
from typing import NamedTuple

from jaxrl_hw.errors import UserError

GIB, MIB = 1 << 30, 1 << 20


class Profile(NamedTuple):
    """One kind of device."""

    name: str
    """As `plan --gpu` takes it."""
    device: str
    """As the driver calls it, or the part of that name that identifies it."""
    platform: str
    """cpu, gpu or tpu."""
    memory: int
    """Bytes; 0 for a CPU, whose memory is the machine's."""
    bfloat16: bool
    """Whether matrix units take bfloat16 (Ampere and newer, TPUs): only there is it faster."""
    tf32: bool
    """Whether float32 matrix products are rounded to TF32 by default. The networks' are; physics
    asks for the highest precision (TF32 there makes a G1 fall)."""
    preset: str
    """The preset that suits it."""
    reserved: int = 700 * MIB
    """Bytes beside the arrays of a run: context and workspaces, or on a CPU the libraries."""
    source: str = "an estimate: none has been measured"
    """Where `reserved` is from."""


def _gpu(name: str, device: str, mib: int, *, ampere: bool, preset: str) -> Profile:
    return Profile(name, device, "gpu", mib * MIB, ampere, ampere, preset)


_CPU_SOURCE = "resident after imports, trimmed: Linux x86-64, jax 0.10.2, mujoco 4.0.0"
CPU = Profile("cpu", "", "cpu", 0, False, False, "optimized", 425_000_000, _CPU_SOURCE)
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
    Profile("tpu-v2-8", "TPU v2", "tpu", 8 * GIB, True, False, "optimized", 300 * MIB),
    Profile("tpu-v5e", "TPU v5 lite", "tpu", 16 * GIB, True, False, "best", 300 * MIB),
)
"""float16 is no precision here: its largest number is 65504, which squared errors and gradients
pass, and its remedy, loss scaling, is one more thing to tune. bfloat16 has float32's range."""


def named(name: str) -> Profile:
    """The profile that `plan --gpu NAME` asks for.

    Raises UserError where it is not one of `PROFILES`; lists them, the nearest names first.
    """
    word = re.sub(r"[ _-]|nvidia|tesla|geforce", "", name.lower())
    known = {profile.name.replace("-", ""): profile for profile in PROFILES[1:]}
    if word in known:
        return known[word]
    begun = [key for key in known if word and (key.startswith(word) or word.startswith(key))]
    alike = difflib.get_close_matches(word, known, n=3, cutoff=0.4)
    nearest = dict.fromkeys([*begun, *alike, *known])
    names = ", ".join(known[key].name for key in nearest)
    raise UserError(f'--gpu "{name}" is not known; choose one of {names}')


def of(platform: str, device: str, memory: int | None = None) -> Profile:
    """The profile of a device that is here; a cautious one where its kind is not known.

    device: its name, as JAX or the driver gives it.
    memory: its bytes, where known; tells cards of one name apart.
    """
    if platform == "cpu":
        return CPU
    words = _words(device)
    fitting = [p for p in PROFILES[1:] if p.platform == platform and _words(p.device) <= words]
    if fitting:
        return min(fitting, key=lambda profile: abs(profile.memory - (memory or profile.memory)))
    modern = platform == "tpu"
    return Profile("unknown", device, platform, 0, modern, not modern, "optimized")


def _words(device: str) -> set[str]:
    """The words of a device's name but for the memory of cards that come with more than one."""
    return set(device.lower().replace("-", " ").split()) - {"40", "80"}
