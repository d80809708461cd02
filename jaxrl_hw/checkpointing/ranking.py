"""How good a checkpoint is: its return, and the curriculum stage in which it was earned."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, NamedTuple


class Score(NamedTuple):
    """Scores compare as tuples do: a later stage asks for more, whatever it pays."""

    stage: int
    """How many stages of the curriculum had begun."""
    episode_return: float


def score(meta: Mapping[str, Any]) -> Score | None:
    """The score that a checkpoint's description gives; None where no episode had ended."""
    value = meta.get("episode_return")
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not math.isfinite(value):
        return None
    stage = meta.get("stage")
    if not isinstance(stage, int):
        stage = _legacy_stage(meta.get("config"), meta.get("iteration"))
    return Score(stage, float(value))


def _legacy_stage(config: Any, done: Any) -> int:
    """The stage of a checkpoint from before descriptions had one: its settings tell."""
    joystick = config.get("joystick") if isinstance(config, Mapping) else None
    if not isinstance(joystick, Mapping) or not isinstance(done, int):
        return 0
    stages = [joystick.get(name) for name in ("later", "last", "finish")]
    begins = [stage.get("iteration") for stage in stages if isinstance(stage, Mapping)]
    return sum(isinstance(begin, int) and 0 < begin < done for begin in begins)
