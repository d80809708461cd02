"""Between the parameters of a learner and a portable policy."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from jaxrl_hw.algos.networks import normalize
from jaxrl_hw.algos.networks.mlp import MLP
from jaxrl_hw.algos.networks.normalize import RunningStats
from jaxrl_hw.algos.optimizer import averaged
from jaxrl_hw.config.factory import load_task, task_stages
from jaxrl_hw.config.schema import Config
from jaxrl_hw.envs.vector import params_at
from jaxrl_hw.policies.metadata import describe
from jaxrl_hw.policies.portable import PortablePolicy
from jaxrl_hw.types import MILLION, PhaseMask, TrainState, no_phase_mask


def portable(config: Config, state: TrainState) -> PortablePolicy:
    """The policy of a run's state, in float32 for every training precision.

    Raises:
      UserError: unknown robot, or a model that its task cannot use.
    """
    stats: RunningStats = state.obs_stats.policy
    layers = layers_of(averaged(state.params.policy, state.opt_state))
    millions, rest = (int(x) for x in np.asarray(state.env_steps))
    return PortablePolicy(
        phase_mask=PhaseMask(*map(_float32, _phase_mask(config, state, len(stats.mean)))),
        mean=_float32(stats.mean),
        scale=_float32(normalize.scale(stats)),
        clip=normalize.CLIP,
        seen=float(stats.seen),
        kernels=tuple(_float32(layer["kernel"]) for layer in layers),
        biases=tuple(_float32(layer["bias"]) for layer in layers),
        log_std=_float32(state.params.log_std),
        meta=describe(config, int(state.iteration), millions * MILLION + rest),
    )


def _phase_mask(config: Config, state: TrainState, obs_size: int) -> PhaseMask:
    """The mask of the stage that the state is in."""
    task, _ = load_task(config)
    mask = None
    if task.phase_mask is not None:
        mask = task.phase_mask(params_at(task_stages(config, task), state.env_steps))
    return mask if mask is not None and np.any(mask.clock) else no_phase_mask(obs_size)


def layers_of(params: Any) -> list[dict[str, Any]]:
    """The dense layers in the parameters of an `MLP`, first to last."""
    named = params["params"]
    return [named[f"Dense_{i}"] for i in range(len(named))]


def params_of(policy: PortablePolicy) -> Any:
    """The policy as the parameters of an `MLP`."""
    layers = zip(policy.kernels, policy.biases, strict=True)
    named = {
        f"Dense_{i}": {"kernel": _array(kernel), "bias": _array(bias)}
        for i, (kernel, bias) in enumerate(layers)
    }
    return {"params": named}


def stats_of(policy: PortablePolicy) -> RunningStats:
    """Its observation statistics. The root of a float's square is that float, so the scales are
    exact."""
    return RunningStats(_array(policy.seen), _array(policy.mean), _array(policy.scale) ** 2)


def as_function(policy: PortablePolicy) -> Callable[[Any], Array]:
    """The policy through the library's own networks: observations [..., O] -> actions [..., A]."""
    net = MLP(policy.widths, policy.action_size, policy.activation)
    params, stats, mask = params_of(policy), stats_of(policy), policy.phase_mask
    act = jax.jit(lambda obs: net.apply(params, normalize.normalize(stats, mask(obs))))
    return lambda obs: jnp.asarray(act(jnp.asarray(obs, jnp.float32)))


def _float32(value: Any) -> np.ndarray:
    return np.asarray(value, np.float32)


def _array(value: Any) -> Array:
    return jnp.array(value, jnp.float32)
