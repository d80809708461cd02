"""The policy's network, with what it remembers of an episode.

Three kinds (`NetConfig.memory`), each as the same functions:

    none     a multilayer perceptron of one observation
    history  a multilayer perceptron of the last K observations; zeros before an episode's start
    gru      a gated recurrent unit (Cho et al. 2014, arXiv:1406.1078) beside the observation,
             trained by backpropagation through the control steps of one iteration

A fresh network ignores its memory: the weights that read it start at zero.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import flax.linen as nn
import jax
import jax.numpy as jnp
from jax import Array, lax

from jaxrl_hw.algos.networks import normalize
from jaxrl_hw.algos.networks.equivariant import EquivariantMLP, basis_of
from jaxrl_hw.algos.networks.mlp import MLP
from jaxrl_hw.algos.networks.normalize import RunningStats
from jaxrl_hw.algos.networks.settings import NetConfig
from jaxrl_hw.types import SignedPermutation, forget

Perceptron = MLP | EquivariantMLP
Inputs = Any
"""What the policy acted on, as a pytree of samples: its first axis counts samples, or environments
where `PolicyNet.whole`."""


class PolicyNet(NamedTuple):
    """A policy's network as functions of its parameters.

    init(key) -> params
    start(count) -> memory: zeros, leaves [count, ...]; () without one
    step(params, stats, memory, obs [N, O]) -> (mean action [N, A], memory)
    inputs(stats, memory, obs [T, N, O], ended bool [T, N]) -> Inputs of T control steps, which
        began with this memory, normalized; an episode's end clears the memory
    prepared(stats, seen) -> Inputs of what was seen: observations [B, O], windows [B, K, O] with a
        history, Sequences with a gru
    forward(params, inputs) -> mean actions and the outputs of the last hidden layer: [B, A] and
        [B, F], or [N, T, A] and [N, T, F] where `whole`
    reflected(memory) -> what the robot's mirror image would remember
    """

    init: Callable[[Array], Any]
    start: Callable[[int], Any]
    step: Callable[[Any, RunningStats, Any, Array], tuple[Array, Any]]
    inputs: Callable[[RunningStats, Any, Array, Array], Inputs]
    prepared: Callable[[RunningStats, Any], Inputs]
    forward: Callable[[Any, Inputs], tuple[Array, Array]]
    reflected: Callable[[Any], Any]
    whole: bool = False
    """Whether the control steps of an environment stay together in a sample."""


def make_policy_net(
    net: NetConfig,
    obs_size: int,
    action_size: int,
    mirror: SignedPermutation | None,
    dtype: str,
    mirrored_action: SignedPermutation | None = None,
) -> PolicyNet:
    """The network that the settings ask for.

    Args:
      net: settings.
      obs_size, action_size: O and A.
      mirror: of the policy's observation; None where no mirror image is asked for.
      dtype: of the products, float32 or bfloat16.
      mirrored_action: of the action, with `mirror`, for a network that is symmetric by
        construction, with hidden layers of even widths and no `gru`; None for any other.
    """
    mlp: Perceptron = MLP(net.policy, action_size, net.activation, out_scale=0.01, dtype=dtype)
    if mirror is not None and mirrored_action is not None:
        seen = basis_of(mirror, net.history if net.memory == "history" else 1)
        mlp = EquivariantMLP(
            net.policy, seen, basis_of(mirrored_action), net.activation, 0.01, dtype
        )
    if net.memory == "history":
        return _with_history(mlp, net.history, obs_size, mirror)
    if net.memory == "gru":
        return _with_gru(mlp, nn.GRUCell(net.gru), obs_size, mirror)
    return _without_memory(mlp, obs_size)


def _reflect(mirror: SignedPermutation | None) -> Callable[[Array], Array]:
    return (lambda x: x) if mirror is None else mirror.__call__


def flat(x: Array) -> Array:
    """[T, N, ...] -> [T * N, ...]."""
    return x.reshape(x.shape[0] * x.shape[1], *x.shape[2:])


def _apply(mlp: Perceptron, params: Any, x: Any) -> tuple[Array, Array]:
    """Of what `mlp.prepared` gives."""
    out, hidden = mlp.apply(params, x, method="with_hidden")
    return jnp.asarray(out), jnp.asarray(hidden)


def _without_memory(mlp: Perceptron, obs_size: int) -> PolicyNet:
    def seen(stats: RunningStats, obs: Array) -> Any:
        return mlp.prepared(normalize.normalize(stats, obs))

    return PolicyNet(
        lambda key: mlp.init(key, jnp.zeros(obs_size)),
        lambda count: (),
        lambda params, stats, memory, obs: (_apply(mlp, params, seen(stats, obs))[0], ()),
        lambda stats, memory, obs, ended: seen(stats, flat(obs)),
        seen,
        partial(_apply, mlp),
        lambda memory: (),
    )


def _with_history(
    mlp: Perceptron, length: int, obs_size: int, mirror: SignedPermutation | None
) -> PolicyNet:
    """Memory: the length - 1 observations before this one [N, K - 1, O], oldest first."""

    def init(key: Array) -> Any:
        params = mlp.init(key, jnp.zeros(length * obs_size))
        return _ignoring_first(params, (length - 1) * obs_size)

    def looked_at(stats: RunningStats, window: Array) -> Any:
        x = normalize.normalize(stats, window)
        return mlp.prepared(x.reshape(*x.shape[:-2], -1))

    def seen(memory: Array, obs: Array) -> tuple[Array, Array]:
        window = jnp.concatenate([memory, obs[:, None]], axis=1)
        return window[:, 1:], window

    def step(params: Any, stats: RunningStats, memory: Array, obs: Array) -> tuple[Array, Array]:
        memory, window = seen(memory, obs)
        return _apply(mlp, params, looked_at(stats, window))[0], memory

    def inputs(stats: RunningStats, memory: Array, obs: Array, ended: Array) -> Any:
        def look(memory: Array, now: tuple[Array, Array]) -> tuple[Array, Array]:
            memory, window = seen(memory, now[0])
            return forget(memory, now[1]), window

        return looked_at(stats, flat(lax.scan(look, memory, (obs, ended))[1]))

    return PolicyNet(
        init,
        lambda count: jnp.zeros((count, length - 1, obs_size)),
        step,
        inputs,
        looked_at,
        partial(_apply, mlp),
        _reflect(mirror),
    )


class Sequences(NamedTuple):
    """What a recurrent policy acted on, by environment."""

    obs: Array  # [N, T, O]
    ended: Array  # [N, T] bool, whether the episode ended with the step
    start: Array  # [N, H], the state at the beginning


class Recurrent(NamedTuple):
    """A recurrent policy's memory."""

    state: Array  # [N, H]
    mirrored: Array  # [N, H], of the mirror image, for the update; [N, 0] without one


def _with_gru(
    mlp: Perceptron, cell: nn.GRUCell, obs_size: int, mirror: SignedPermutation | None
) -> PolicyNet:
    width = cell.features

    def init(key: Array) -> Any:
        key_cell, key_mlp = jax.random.split(key)
        head = mlp.init(key_mlp, jnp.zeros(width + obs_size))
        gru = cell.init(key_cell, jnp.zeros(width), jnp.zeros(obs_size))
        return {"gru": gru, "mlp": _ignoring_first(head, width)}

    def one(params: Any, state: Array, x: Array) -> tuple[tuple[Array, Array], Array]:
        state, _ = cell.apply(params["gru"], state, x)
        return _apply(mlp, params["mlp"], jnp.concatenate([state, x], axis=-1)), state

    def step(
        params: Any, stats: RunningStats, memory: Recurrent, obs: Array
    ) -> tuple[Array, Recurrent]:
        (mean, _), state = one(params, memory.state, normalize.normalize(stats, obs))
        if mirror is None:
            return mean, Recurrent(state, memory.mirrored)
        seen = normalize.normalize(stats, mirror(obs))
        mirrored, _ = cell.apply(params["gru"], memory.mirrored, seen)
        return mean, Recurrent(state, mirrored)

    def inputs(stats: RunningStats, memory: Recurrent, obs: Array, ended: Array) -> Sequences:
        seen = Sequences(jnp.swapaxes(obs, 0, 1), jnp.swapaxes(ended, 0, 1), memory.state)
        return prepared(stats, seen)

    def prepared(stats: RunningStats, seen: Sequences) -> Sequences:
        return seen._replace(obs=normalize.normalize(stats, seen.obs))

    def forward(params: Any, seen: Sequences) -> tuple[Array, Array]:
        def go_on(state: Array, now: tuple[Array, Array]) -> tuple[Array, tuple[Array, Array]]:
            x, over = now
            out, state = one(params, state, x)
            return forget(state, over), out

        steps = jnp.swapaxes(seen.obs, 0, 1), jnp.swapaxes(seen.ended, 0, 1)
        _, (mean, hidden) = lax.scan(go_on, seen.start, steps)
        return jnp.swapaxes(mean, 0, 1), jnp.swapaxes(hidden, 0, 1)

    def start(count: int) -> Recurrent:
        other = 0 if mirror is None else width
        return Recurrent(jnp.zeros((count, width)), jnp.zeros((count, other)))

    return PolicyNet(
        init,
        start,
        step,
        inputs,
        prepared,
        forward,
        lambda memory: Recurrent(memory.mirrored, memory.state),
        whole=True,
    )


def _ignoring_first(params: Any, count: int) -> Any:
    """A perceptron's parameters with zero weights for its first `count` inputs."""
    first = params["params"]["Dense_0"]
    kernel = first["kernel"].at[:count].set(0.0)
    return {"params": {**params["params"], "Dense_0": {**first, "kernel": kernel}}}


def first_outputs(params: Any, count: int) -> Any:
    """A perceptron's parameters with its first `count` outputs alone."""
    return _with_last(params, lambda last: jax.tree.map(lambda x: x[..., :count], last))


def with_last_bias(params: Any, bias: Array) -> Any:
    """A perceptron's parameters with another bias of the outputs."""
    return _with_last(params, lambda last: {**last, "bias": bias})


def _with_last(params: Any, change: Callable[[Any], Any]) -> Any:
    layers = params["params"]
    name = f"Dense_{len(layers) - 1}"
    return {"params": {**layers, name: change(layers[name])}}
