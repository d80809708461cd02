"""XLA's compilers for devices that are not here, by the device's profile."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Protocol

from jaxrl_hw.hardware import gpu_compiler, profiles, tpu_compiler


class Compiler(Protocol):
    """What `gpu_compiler` and `tpu_compiler` have; they say what each does."""

    def target(self, name: str) -> Path: ...
    def site(self) -> Path: ...
    def check_installed(self) -> None: ...
    def install_command(self) -> list[str]: ...
    def environment(self, base: Mapping[str, str]) -> dict[str, str]: ...
    def sharding(self, path: Path) -> Any: ...


def of(card: str) -> Compiler:
    """The compiler for a profile's device, by its name as `plan --gpu` takes it."""
    return tpu_compiler if profiles.named(card).platform == "tpu" else gpu_compiler
