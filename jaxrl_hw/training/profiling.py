"""`--profile N`: a trace of N iterations, and a table of where an iteration goes."""

from __future__ import annotations

import contextlib
import re
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import jax

from jaxrl_hw.checkpointing.files import write_json
from jaxrl_hw.hardware.trace import COPY, Operation, Trace, operation_names, read_trace
from jaxrl_hw.loggers.console import Console
from jaxrl_hw.loggers.profile_table import profile_table

_RANDOM = re.compile(r"rng_bit_generator|threefry|random_|jit\(_(uniform|normal|shuffle|randint)")
_SCOPE = re.compile(r"[/(](physics|policy)[/)]")
_UPDATE = re.compile(r"update")

PARTS = {
    "physics": "the engine's steps",
    "policy": "actions from observations",
    "task": "rewards, observations, resets",
    "randomness": "random numbers and shuffles",
    "update": "losses, gradients, optimizer",
    "transfer": "copies between host and device",
}


def part_of(operation: Operation, path: str) -> str:
    """The part of an iteration (`PARTS`) that an operation belongs to.

    path: of its JAX names; "" where the compiler kept none.
    """
    if operation.name == COPY:
        return "transfer"
    if _RANDOM.search(path):
        return "randomness"
    if _UPDATE.search(operation.module):
        return "update"
    scope = _SCOPE.search(path)
    return scope[1] if scope else "task"


def by_part(trace: Trace, names: dict[Operation, str]) -> dict[str, float]:
    """Seconds by part, summed over threads or streams. Programs without names are not counted: they
    are no part of an iteration.

    names: path of JAX names by operation.
    """
    modules = {operation.module for operation in names} | {""}
    parts = dict.fromkeys(PARTS, 0.0)
    for operation, seconds in trace.busy.items():
        if operation.module in modules:
            parts[part_of(operation, names.get(operation, ""))] += seconds
    return parts


class Profiler:
    """Traces some iterations of a session, from its second one on: the first warms up.

    Args:
      folder: where traces go, each into a folder of its own.
      count: iterations; 0 traces none.
      programs: the compiled halves of the train step (`jax.stages.Compiled`).
    """

    def __init__(self, folder: Path, count: int, programs: Sequence[Any], console: Console) -> None:
        self._folder, self._left, self._programs = folder, count, programs
        self._console = console
        self._seen = 0
        self._spans: list[tuple[float, float]] = []  # of the traced iterations
        self._is_tracing = False

    @contextlib.contextmanager
    def iteration(self) -> Iterator[bool]:
        """Around an iteration; whether it is traced, and so slower than others."""
        self._seen += 1
        tracing = self._left > 0 and self._seen > 1
        if tracing and not self._is_tracing:
            jax.profiler.start_trace(str(self._folder))
            self._is_tracing = True
        began = time.monotonic()
        yield tracing
        if tracing:
            self._spans.append((began, time.monotonic()))
            self._left -= 1
            if not self._left:
                self._finish()

    def close(self) -> None:
        """End a trace that the session's end cuts short."""
        if self._is_tracing and self._spans:
            self._finish()
        elif self._is_tracing:  # the first traced iteration failed
            jax.profiler.stop_trace()
        elif self._left:
            self._console.warning(
                "--profile traces from a session's second iteration on; this one ended before"
            )

    @property
    def _seconds(self) -> float:
        """From the first traced iteration's start to the last one's end."""
        return self._spans[-1][1] - self._spans[0][0]

    def _held(self, length: float) -> float:
        """How many iterations a trace of that many seconds holds: the profiler keeps a limited
        number of events."""
        number = len(self._spans)
        if length >= self._spans[-1][0] - self._spans[0][1]:  # from the first one to the last
            return number
        held = max(0.1, round(number * length / self._seconds, 1))
        self._console.warning(
            f"the trace holds the first {held:g} of {number} iterations, and the table is of "
            "those: --profile 1 traces less"
        )
        return held

    def _finish(self) -> None:
        self._left, self._is_tracing = 0, False
        jax.profiler.stop_trace()
        names: dict[Operation, str] = {}
        for program in self._programs:
            names |= operation_names(program.as_text())
        trace = read_trace(self._folder)
        held, wall = self._held(trace.length), self._seconds / len(self._spans)
        parts = {name: value / held for name, value in by_part(trace, names).items()}
        covered = trace.covered / held
        figures = {
            "iterations": held,
            "wall_s": wall,
            "idle_s": max(0.0, wall - covered),
            "busy_s": parts,
        }
        write_json(self._folder / "parts.json", figures)
        self._console.show(profile_table(figures, PARTS))
        self._console.message(f"the trace is in {self._folder}: open it in TensorBoard or Perfetto")
