"""What XLA's compilers for devices that are not here need: a description, and their wheels."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from pathlib import Path

from jaxrl_hw.errors import UserError

DESCRIPTIONS = Path(__file__).parent / "targets"


def described(name: str, suffix: str) -> Path:
    """The description of a profile's device, a file of that suffix.

    Raises:
      UserError: there is none; names the devices that have one.
    """
    path = DESCRIPTIONS / f"{name}{suffix}"
    if not path.is_file():
        known = ", ".join(sorted(one.stem for one in DESCRIPTIONS.glob(f"*{suffix}")))
        raise UserError(
            f"--compile has no description of a {name} for the compiler, only of {known}; "
            f"without --compile, --gpu {name} is an estimate"
        )
    return path


def check_there(part: Path, kind: str, install: Sequence[str]) -> None:
    """Raise a UserError with the line that installs a compiler, where a part of it is missing.

    kind: "GPU" or "TPU". install: the words of that line.
    """
    if not part.is_dir():
        raise UserError(
            f"--compile needs the {kind} compiler of JAX, which is not installed; install it with: "
            f"{shlex.join(install)}"
        )
