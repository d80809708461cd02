"""The rows of metrics.jsonl, and what the rows of earlier sessions decide."""

from __future__ import annotations

import time
from typing import Any

import jax

from jaxrl_hw.checkpointing.run_dir import RunDir
from jaxrl_hw.config.curriculum import stage_index
from jaxrl_hw.config.schema import Config
from jaxrl_hw.config.units import parse_early_stop
from jaxrl_hw.errors import UserError
from jaxrl_hw.hardware.memory import MemoryWatch
from jaxrl_hw.loggers.jsonl import read_rows
from jaxrl_hw.training.stopping import EarlyStop
from jaxrl_hw.training.train_step import total_steps
from jaxrl_hw.types import Metrics, TrainState

Row = dict[str, Any]


class Meter:
    """Makes the rows of one session.

    samples: control steps per iteration, over all environments.
    """

    def __init__(self, memory: MemoryWatch, samples: int) -> None:
        self._memory, self._samples = memory, samples
        self._earlier_s = 0.0
        self._session_began = self._iteration_began = time.monotonic()

    @property
    def seconds(self) -> float:
        """Since the session's training began."""
        return time.monotonic() - self._session_began

    @property
    def iteration_seconds(self) -> float:
        """Since this iteration began."""
        return time.monotonic() - self._iteration_began

    def begin_session(self, folder: RunDir) -> None:
        """Start the session's clock; `wall_s` continues from the last row in the run folder.

        Raises:
          UserError: that row has no usable `wall_s`.
        """
        rows = read_rows(folder.metrics_jsonl) if folder.metrics_jsonl.exists() else []
        earlier = (rows[-1].get("wall_s") or 0.0) if rows else 0.0
        if not isinstance(earlier, (int, float)):
            raise UserError(
                f"{folder.metrics_jsonl}, last line: wall_s must be a number, got {earlier!r}"
            )
        self._earlier_s = float(earlier)
        self._session_began = time.monotonic()

    def begin_iteration(self) -> None:
        self._iteration_began = time.monotonic()

    def row(self, state: TrainState, metrics: Metrics) -> Row:
        """The iteration's row; waits for the device."""
        jax.block_until_ready(state)
        seconds = self.iteration_seconds
        values = {name: value.item() for name, value in jax.device_get(metrics).items()}
        return {
            "iteration": int(state.iteration),
            "env_steps": total_steps(state.env_steps),
            "wall_s": self._earlier_s + self.seconds,
            "iterations_per_min": 60.0 / seconds,
            "env_steps_per_s": self._samples / seconds,
            **values,
            "memory_bytes": self._memory.read().peak,
        }


def past_early_stop(config: Config, folder: RunDir, done: int) -> EarlyStop | None:
    """The run's early stopping after its first `done` iterations; None where it has none."""
    rule, curriculum = parse_early_stop(config.early_stop), config.curriculum
    if rule is None:
        return None
    early_stop = EarlyStop(rule.patience, rule.min_delta, last_stage=len(curriculum))
    env_steps = 0
    for row in read_rows(folder.metrics_jsonl) if folder.metrics_jsonl.exists() else ():
        if row.get("iteration", 0) <= done:
            stage, env_steps = stage_index(curriculum, env_steps), row.get("env_steps", 0)
            early_stop.feed(row.get("episode_return"), env_steps, stage)
    return early_stop
