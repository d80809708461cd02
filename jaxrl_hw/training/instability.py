"""Updates that are not finite: when a run goes back, and the plan that it goes on with."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from jaxrl_hw.checkpointing.run_dir import RunDir
from jaxrl_hw.config.schema import Config
from jaxrl_hw.errors import RunError
from jaxrl_hw.loggers import formats
from jaxrl_hw.loggers.jsonl import Warn, last_rows
from jaxrl_hw.planning.halving import MOST_HALVINGS, halve
from jaxrl_hw.planning.plan import Plan
from jaxrl_hw.training.finite_updates import SKIPPED, nonfinite


class UnstableError(Exception):
    """Too many updates in a row were skipped."""


class Skips:
    """Counts a run's skipped updates in a row, over its sessions.

    Args:
      in_a_row: the last ones of the sessions before (`skipped_in_a_row`).
      warn: called at the first skipped update of a row of them: the 1st, 2nd, 4th, 8th such row.
    """

    def __init__(self, config: Config, in_a_row: int, warn: Warn) -> None:
        self._config, self._warn = config, warn
        self._in_a_row = in_a_row
        self._rows = 0

    def feed(self, row: Mapping[str, Any]) -> bool:
        """Take an iteration's row; whether its update was skipped.

        Raises:
          RunError: it was, and the user chose `--on-nan fail`.
          UnstableError: it was, and so were `nan_patience` in a row.
        """
        if not row.get(SKIPPED):
            self._in_a_row = 0
            return False
        self._in_a_row += 1
        what = f"{nonfinite(row)} not finite at iteration {row['iteration']:,}"
        if self._config.on_nan == "fail":
            raise RunError(
                f"{what}; the last checkpoint is from before: use a lower "
                f"--{self._config.algo}.learning-rate, or --on-nan halve to go on"
            )
        if self._in_a_row >= self._config.nan_patience:
            raise UnstableError(f"{what}, and {self._in_a_row} updates in a row are skipped")
        if self._in_a_row == 1:
            self._rows += 1
            if self._rows & (self._rows - 1) == 0:
                self._warn(f"{what}: this update is skipped ({self._rows} times so far)")
        return True


def calmer_plan(plan: Plan, error: UnstableError) -> tuple[Plan, str]:
    """The plan to go back with, and a sentence for the user.

    Raises:
      RunError: the run has gone back often enough.
    """
    count = len(plan.halvings)
    if count >= MOST_HALVINGS:
        raise RunError(
            f"{error}, after the learning rate was halved {count} times; the last checkpoint is "
            "from before: look for a reward or an observation that is not finite"
        )
    config, halving = halve(plan.config)
    values = ", ".join(f"{key} {formats.figure(after)}" for key, (_, after) in halving.items())
    message = f"{error}: back to the last checkpoint with {values} ({count + 1} of {MOST_HALVINGS})"
    return replace(plan, config=config, halvings=(*plan.halvings, halving)), message


def skipped_in_a_row(folder: RunDir, done: int) -> int:
    """How many of a run's last updates were skipped, after its first `done` iterations."""
    count = 0
    for row in last_rows(folder.metrics_jsonl):
        if row.get("iteration", 0) <= done:
            count = count + 1 if row.get(SKIPPED) else 0
    return count
