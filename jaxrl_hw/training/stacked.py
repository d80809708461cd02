"""Several learners as one: the halves of a train step vmapped over seeds.

Each seed draws the random numbers that it draws alone.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import jax

from jaxrl_hw.config.schema import Config
from jaxrl_hw.training.layout import Layout, layout_of
from jaxrl_hw.types import Batch, TrainState

_SEEDS = "seeds"
"""The axis of `jax.vmap` over learners."""


class Stacked(NamedTuple):
    """Where the learners of several seeds lie: side by side, leaves [S, ...]. Has the methods of
    `layout.Layout`."""

    seeds: int  # S

    def place(self, form: TrainState) -> TrainState:
        """The form of one state as that of all of them, for the compiler."""
        stacked: TrainState = jax.tree.map(
            lambda x: jax.ShapeDtypeStruct((self.seeds, *x.shape), x.dtype), form
        )
        return stacked

    def place_batch(self, batch: Batch) -> Batch:
        """What goes from one half of the step to the other, as it is."""
        return batch

    def jit(self, collect: Any, update: Any) -> tuple[Any, Any]:
        """The halves of a train step, written for one learner, as jitted functions of all."""
        collect, update = (self.each(half) for half in (collect, update))
        return jax.jit(collect, donate_argnums=1), jax.jit(update, donate_argnums=1)

    def each(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """A function of one learner as one of all."""
        return jax.vmap(function, axis_name=_SEEDS)


def arrangement_of(config: Config) -> Layout | Stacked | None:
    """That of a config whose devices and environments are settled; None for one learner on one
    device."""
    return Stacked(config.seeds) if config.seeds > 1 else layout_of(config)
