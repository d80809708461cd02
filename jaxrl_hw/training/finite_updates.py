"""Updates that are not finite leave the learner as it was, and are counted."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

import jax
import jax.numpy as jnp
from jax import Array

from jaxrl_hw.types import WHOLE, Batch, Learner, Metrics, Shards

SKIPPED = "skipped_updates"
"""In a row of metrics.jsonl: 1 where the iteration's update was not finite, else 0."""

Update = Callable[..., tuple[Learner, Metrics]]


def guarded(update: Update) -> Update:
    """An algorithm's update that returns the learner it was given where the new one is ruined.

    One NaN in a minibatch spreads to every later loss and gradient of the iteration, so the means
    that the update reports anyway tell. The statistics are looked at too: an infinite observation
    is clipped before it reaches a loss. All shards have the same means, so all decide alike.
    """

    def finite_update(
        learner: Learner, batch: Batch, key: Array, shards: Shards = WHOLE
    ) -> tuple[Learner, Metrics]:
        after, metrics = update(learner, batch, key, shards)
        is_whole = jnp.array([jnp.isfinite(x).all() for x in _telling(after, metrics)]).all()
        # a replay is written where it lies, so there is no older one to keep
        kept = jax.tree.map(
            lambda new, old: jnp.where(is_whole, new, old),
            after._replace(replay=()),
            learner._replace(replay=()),
        )
        return kept._replace(replay=after.replay), {
            **metrics,
            SKIPPED: 1 - is_whole.astype(jnp.int32),
        }

    return finite_update


def nonfinite(row: Mapping[str, Any]) -> str:
    """The figures of an update that are not finite, for a message."""
    ruined = [name for name in row if _is_telling(name) and not math.isfinite(row[name])]
    return " and ".join(ruined) or "the observation statistics"


def _telling(learner: Learner, metrics: Metrics) -> list[Array]:
    figures = [value for name, value in metrics.items() if _is_telling(name)]
    return [*figures, *jax.tree.leaves(learner.obs_stats)]


def _is_telling(name: str) -> bool:
    return name.startswith("loss/") or name == "grad_norm"
