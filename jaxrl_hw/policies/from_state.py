"""Between what an algorithm has learned and the portable form of it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from jaxrl_hw.algos.networks import normalize
from jaxrl_hw.algos.networks.mlp import MLP
from jaxrl_hw.algos.networks.normalize import RunningStats
from jaxrl_hw.algos.weight_averaging import averaged
from jaxrl_hw.config.factory import make_env
from jaxrl_hw.config.schema import Config
from jaxrl_hw.policies.metadata import describe
from jaxrl_hw.policies.portable import PortablePolicy
from jaxrl_hw.types import PhaseMask, TrainState, no_phase_mask


def portable(config: Config, state: TrainState) -> PortablePolicy:
    """The policy of a run's state, float32 whatever precision it was trained in.

    Raises:
      UserError: unknown robot, or a model that its task cannot use.
    """
    stats: RunningStats = state.obs_stats.policy
    layers = layers_of(averaged(state.params.policy, state.opt_state))
    millions, rest = (int(x) for x in np.asarray(state.env_steps))
    env = make_env(replace(config, physics="native", num_envs=1))
    mask = env.phase_mask(env.params_at(state.env_steps)) or no_phase_mask(len(stats.mean))
    return PortablePolicy(
        motion=_numbers(mask.motion),
        clock=_numbers(mask.clock),
        mean=_numbers(stats.mean),
        scale=_numbers(normalize.scale(stats)),
        clip=normalize.CLIP,
        seen=float(stats.seen),
        kernels=tuple(_numbers(layer["kernel"]) for layer in layers),
        biases=tuple(_numbers(layer["bias"]) for layer in layers),
        log_std=_numbers(state.params.log_std),
        meta=describe(config, int(state.iteration), millions * 1_000_000 + rest),
    )


def layers_of(params: Any) -> list[dict[str, Any]]:
    """The dense layers of an `nets.mlp.MLP`'s parameters, first to last."""
    named = params["params"]
    return [named[f"Dense_{i}"] for i in range(len(named))]


def params_of(policy: PortablePolicy) -> Any:
    """The policy as the parameters of an `nets.mlp.MLP`."""
    layers = zip(policy.kernels, policy.biases, strict=True)
    named = {
        f"Dense_{i}": {"kernel": _array(kernel), "bias": _array(bias)}
        for i, (kernel, bias) in enumerate(layers)
    }
    return {"params": named}


def stats_of(policy: PortablePolicy) -> RunningStats:
    """Its observation statistics; the root of a float's square is that float, so scales are kept
    to the last bit."""
    return RunningStats(_array(policy.seen), _array(policy.mean), _array(policy.scale) ** 2)


def as_function(policy: PortablePolicy) -> Callable[[Any], Array]:
    """The policy through the library's own networks: observations [..., O] -> actions [..., A]."""
    net = MLP(policy.widths, policy.action_size, policy.activation)
    params, stats = params_of(policy), stats_of(policy)
    pause = PhaseMask(policy.motion, policy.clock)
    act = jax.jit(lambda obs: net.apply(params, normalize.normalize(stats, pause(obs))))
    return lambda obs: jnp.asarray(act(jnp.asarray(obs, jnp.float32)))


def _numbers(value: Any) -> np.ndarray:
    return np.asarray(value, np.float32)


def _array(value: Any) -> Array:
    return jnp.array(value, jnp.float32)
