"""How good a checkpoint is: its return, and what was rewarded when it was earned."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, NamedTuple

from jaxrl_hw.config import STRETCHES


class Score(NamedTuple):
    """Scores compare as tuples do: a run's later stretch asks for more, whatever that pays."""

    stretch: int
    """How many stretches of the run had begun."""
    episode_return: float


def score(meta: Mapping[str, Any]) -> Score | None:
    """The score that a checkpoint's description tells; None where no episode had ended."""
    value = meta.get("episode_return")
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not math.isfinite(value):
        return None
    return Score(_begun(meta.get("config"), meta.get("iteration")), float(value))


def _begun(config: Any, done: Any) -> int:
    """The stretches with which one of so many iterations was trained."""
    joystick = config.get("joystick") if isinstance(config, Mapping) else None
    if not isinstance(joystick, Mapping) or not isinstance(done, int):
        return 0
    settings = [joystick.get(name) for name in STRETCHES]
    begins = [x.get("iteration") for x in settings if isinstance(x, Mapping)]
    return sum(isinstance(begin, int) and 0 < begin < done for begin in begins)
