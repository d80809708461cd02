"""What a trained policy consists of, whatever algorithm made it."""

from __future__ import annotations

from typing import Any, Literal, NamedTuple


class Head(NamedTuple):
    """How the outputs of a policy's network become an action."""

    kind: Literal["linear", "tanh", "argmax"]
    """linear: they are the action. tanh: `array` [A] times their tanh. argmax: the row of `array`
    [K, A] at the largest of K outputs."""
    array: Any = None


LINEAR = Head("linear")


class PolicyParts(NamedTuple):
    """The policy of a learner, without exploration."""

    weights: Any  # of a `PolicyNet`
    stats: Any  # a `RunningStats` of the policy's observations
    log_std: Any  # [A] of the exploration noise in training
    head: Head = LINEAR
