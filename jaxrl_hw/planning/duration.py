"""How long the rest of a run takes, and in how many sessions."""

from __future__ import annotations

import math
from pathlib import Path
from typing import NamedTuple

from jaxrl_hw.checkpointing.run_dir import RunDir
from jaxrl_hw.config.goal import goal_iteration
from jaxrl_hw.config.resolve import algorithm_needs
from jaxrl_hw.config.saved import env_steps_at, read_settings
from jaxrl_hw.config.schema import Config
from jaxrl_hw.config.units import parse_duration
from jaxrl_hw.loggers import formats

RESERVE_S = 30.0
"""Of a session's time limit, kept free for the last save; half of a shorter limit."""


class Duration(NamedTuple):
    """What is left of a run, in time."""

    env_steps: int
    """To the goal; early stopping may end the run before."""
    rate: float
    """Env steps per second."""
    compile_s: float | None
    """Seconds that a session takes to compile; None where that is not known."""
    session_s: float | None
    """The time limit of a session; None without one."""

    @property
    def training_s(self) -> float:
        return self.env_steps / self.rate

    @property
    def sessions(self) -> int | None:
        """Sessions of the time limit; None where it leaves no time to train in."""
        if self.session_s is None:
            return 1
        useful = self.session_s - min(RESERVE_S, self.session_s / 2) - (self.compile_s or 0.0)
        return max(1, math.ceil(self.training_s / useful)) if useful > 0 else None

    @property
    def total_s(self) -> float:
        """Training, and compiling in each session."""
        return self.training_s + (self.sessions or 1) * (self.compile_s or 0.0)

    def __str__(self) -> str:
        compiling = "compiling not counted"
        if self.compile_s is not None:
            compiling = f"with {formats.duration(self.compile_s)} of compiling"
        text = (
            f"{formats.duration(self.total_s)} for {self.env_steps:,} env steps at "
            f"{self.rate:,.0f}/s, {compiling}"
        )
        if self.session_s is None:
            return text
        limit = formats.duration(self.session_s)
        if self.sessions is None:
            return f"{text}; a session of {limit} is over before it trains"
        return f"{text}; {self.sessions:,} session{'s' * (self.sessions > 1)} of {limit}"


def duration(
    config: Config, source: Path, done: int, rate: float | None, compile_s: float | None
) -> Duration | None:
    """What is left of a run; None where its speed is not known.

    Args:
      config: settled.
      source, done: the folder of the run that is continued, and its iterations so far; 0: none.
      rate: env steps per second, where known.
      compile_s: seconds that its program takes to compile, where known.
    """
    if not rate:
        return None
    run, steps = RunDir(source), 0
    if done:
        steps = env_steps_at(run, read_settings(run) or {}, done)
    left = max(0, goal_iteration(config, done, steps) - done)
    samples = int(config.num_envs) * algorithm_needs(config).unroll
    limit = parse_duration(config.time_limit) if config.time_limit else None
    return Duration(left * samples, rate, compile_s, limit)
