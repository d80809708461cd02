"""One iteration's row of metrics.jsonl: what the step measured, and what the clock did."""

from __future__ import annotations

import math
import time
from typing import Any

import jax

from jaxrl_hw.checkpointing.run_dir import RunDir
from jaxrl_hw.config.curriculum import stage_index
from jaxrl_hw.config.factory import algorithm_needs
from jaxrl_hw.config.schema import Config
from jaxrl_hw.config.units import parse_early_stop
from jaxrl_hw.errors import RunError
from jaxrl_hw.hardware.memory import MemoryWatch
from jaxrl_hw.loggers.jsonl import read_columns
from jaxrl_hw.training.early_stop import EarlyStop
from jaxrl_hw.training.train_step import total_steps

Row = dict[str, Any]


class Meter:
    """Makes the rows of one session.

    folder: of the run; its metrics.jsonl tells the training seconds of earlier sessions.
    memory: watched since the session began.
    samples: control steps per iteration, over all environments.
    """

    def __init__(self, folder: RunDir, memory: MemoryWatch, samples: int) -> None:
        self._memory, self._samples = memory, samples
        self._before = _wall_before(folder)
        self._session_began = self._began = time.monotonic()

    @property
    def seconds(self) -> float:
        """Since the session's training began."""
        return time.monotonic() - self._session_began

    @property
    def iteration_seconds(self) -> float:
        """Since this iteration began."""
        return time.monotonic() - self._began

    def begin(self) -> None:
        """An iteration begins."""
        self._began = time.monotonic()

    def row(self, state: Any, metrics: Any) -> Row:
        """The iteration's row; waits for the device."""
        jax.block_until_ready(state)
        seconds = self.iteration_seconds
        values = {name: value.item() for name, value in jax.device_get(metrics).items()}
        return {
            "iteration": int(state.iteration),
            "env_steps": total_steps(state.env_steps),
            "wall_s": self._before + self.seconds,
            "iterations_per_min": 60.0 / seconds,
            "env_steps_per_s": self._samples / seconds,
            **values,
            "memory_bytes": self._memory.read().peak,
        }


def stage_of(config: Config, done: int) -> int:
    """How many stages of the curriculum had begun in the last of so many iterations."""
    return stage_index(config.curriculum, (done - 1) * _samples(config)) if done else 0


def _samples(config: Config) -> int:
    """Env steps per iteration."""
    return int(config.num_envs) * algorithm_needs(config).unroll


def plateau(config: Config, folder: RunDir, done: int) -> EarlyStop | None:
    """The run's early stopping, told of the first `done` iterations; None where it has none."""
    # the iteration that begins at a stage's env steps, or past them, is the first of the stage
    turns = [-(-stage.env_steps // _samples(config)) + 1 for stage in config.curriculum]
    rule = parse_early_stop(config.early_stop)
    if rule is None:
        return None
    stop = EarlyStop(rule.patience, rule.min_delta, turns)
    if done and folder.metrics_jsonl.exists():
        for value in read_columns(folder.metrics_jsonl).get("episode_return", [])[:done]:
            stop.feed(value)
    return stop


def refuse_nonfinite(row: Row) -> None:
    """Stop before a ruined learner is saved over a good one. Raises RunError."""
    ruined = [k for k in ("loss/policy", "loss/value") if not math.isfinite(row.get(k, 0.0))]
    if ruined:
        raise RunError(
            f"{' and '.join(ruined)} not finite at iteration {row['iteration']}; the last "
            "checkpoint is from before: try a lower --ppo.learning-rate"
        )


def _wall_before(folder: RunDir) -> float:
    """Training seconds of earlier sessions, so that wall_s goes on."""
    if not folder.metrics_jsonl.exists():
        return 0.0
    walls = read_columns(folder.metrics_jsonl).get("wall_s", [])
    return float(walls[-1] or 0.0) if walls else 0.0
