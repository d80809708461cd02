"""The states of several seeds, kept side by side from step to step.

Between steps a seed has no arrays of its own: its session holds a ticket, a `TrainState` with the
counters alone. Its part is copied out where somebody asks for it.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp

from jaxrl_hw.training.train_step import TrainStep
from jaxrl_hw.types import Metrics, TrainState


class SideBySide:
    """Room for the states of so many seeds. It is taken when the first one is put in."""

    def __init__(self, number: int) -> None:
        self._number = number
        self._all: TrainState | None = None  # leaves [S, ...]

    def put(self, index: int, state: TrainState) -> TrainState:
        """Take a seed's state in; its ticket. Its environments and replay must not be used again.

        A seed that never comes has a copy of the first state: the step computes with it.
        """
        if self._all is None:
            self._all = _repeated(state, self._number)
        else:
            self._all = _written(self._all, state, index)
        for leaf in jax.tree.leaves((state.env_state, state.replay)):
            leaf.delete()  # whoever still names the state does not keep this much memory
        return _ticket(state.iteration, state.env_steps)

    def copy(self, index: int, *, with_replay: bool) -> TrainState:
        """A seed's state, as arrays of its own."""
        assert self._all is not None
        source = self._all if with_replay else self._all._replace(replay=())
        state: TrainState = _read(source, index)
        return state

    def step(self, step: TrainStep) -> list[tuple[TrainState, Metrics]]:
        """Take the step of all, which donates what it donates of one; tickets and metrics of each.

        Waits for the device. After an error there are no states any more.
        """
        assert self._all is not None
        before, self._all = self._all, None
        after, metrics = jax.block_until_ready(step(before))
        del before
        self._all = after
        seen = jax.device_get((after.iteration, after.env_steps, metrics))
        return [self._row(seen, index) for index in range(self._number)]

    @staticmethod
    def _row(seen: Any, index: int) -> tuple[TrainState, Metrics]:
        iteration, env_steps, metrics = seen
        own = {name: values[index] for name, values in metrics.items()}
        return _ticket(iteration[index], env_steps[index]), own


def _ticket(iteration: Any, env_steps: Any) -> TrainState:
    return TrainState((), (), (), (), (), iteration, env_steps)  # type: ignore[arg-type]


@partial(jax.jit, static_argnums=1)
def _repeated(state: TrainState, number: int) -> Any:
    return jax.tree.map(lambda x: jnp.broadcast_to(x, (number, *x.shape)), state)


@partial(jax.jit, donate_argnums=0)
def _written(stacked: TrainState, state: TrainState, index: int) -> Any:
    return jax.tree.map(lambda whole, x: whole.at[index].set(x), stacked, state)


@jax.jit
def _read(stacked: TrainState, index: int) -> Any:
    return jax.tree.map(lambda x: x[index], stacked)
