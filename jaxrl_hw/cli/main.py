"""`jaxrl-hw NAME`: one script for every command."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Sequence

import jaxrl_hw
from jaxrl_hw.cli.command import DONE, run_command
from jaxrl_hw.errors import unknown

COMMANDS = {
    "train": "train a robot, or continue its run",
    "plan": "print what a training would do and use",
    "play": "film or watch a trained policy",
    "evaluate": "score how well a policy follows commands",
    "export": "write a policy as ONNX and NumPy files",
    "report": "write a page of a run: curves, time, memory, film; compare runs",
    "experiment": "train the runs of a manifest, and report on all of them",
    "runs": "list, show, pack and unpack runs",
    "doctor": "check this installation",
}
"""Each command and what it does. The module `jaxrl_hw.NAME` holds it."""


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command that the first word names; returns its exit code, 2 for an unknown name."""
    return run_command(lambda: _run(list(sys.argv[1:] if argv is None else argv)))


def _run(argv: list[str]) -> int:
    name, *rest = argv or ["--help"]
    if name in ("-h", "--help", "--version"):
        print(jaxrl_hw.__version__ if name == "--version" else _help())
        return DONE
    if name not in COMMANDS:
        raise unknown("command", name, COMMANDS)
    code: int = importlib.import_module(f"jaxrl_hw.{name}").main(rest)
    return code


def _help() -> str:
    width = max(map(len, COMMANDS))
    return "\n".join(
        [
            "usage: jaxrl-hw NAME [flags]        (or: python -m jaxrl_hw.NAME [flags])",
            "",
            *(f"  {name:{width}}  {text}" for name, text in COMMANDS.items()),
            "",
            "jaxrl-hw NAME --help lists the flags of a command.",
        ]
    )
