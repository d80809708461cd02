"""Physics steps that needed more room than an engine has: said once, counted in every row."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from jaxrl_hw.envs.physics.api import NACONMAX, NJMAX
from jaxrl_hw.loggers.jsonl import Warn

_WHAT = {
    NJMAX: "an environment had more constraints than MuJoCo Warp keeps for each (njmax)",
    NACONMAX: "the environments had more contacts than MuJoCo Warp keeps for all of them "
    "together (naconmax)",
}


class Overflows:
    """Watches a session's rows for overflows. warn: called at the first of each kind."""

    def __init__(self, warn: Warn) -> None:
        self._warn = warn
        self._told: set[str] = set()

    def feed(self, row: Mapping[str, Any]) -> None:
        """Take an iteration's row."""
        for name, what in _WHAT.items():
            count = row.get(name)
            if count and name not in self._told:
                self._told.add(name)
                self._warn(
                    f"at iteration {row['iteration']:,} {what}, so {count:,} were reset as "
                    f"diverged; {name} in metrics.jsonl counts on; if it does not stay at a few, "
                    "continue the run with --physics mjx, which has no such limit"
                )
