"""Between the parameters of a learner and a portable policy."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from jaxrl_hw.algos.networks import normalize
from jaxrl_hw.algos.networks.heads import apply_head
from jaxrl_hw.algos.networks.normalize import RunningStats
from jaxrl_hw.algos.networks.policy_net import make_policy_net
from jaxrl_hw.algos.networks.settings import NetConfig
from jaxrl_hw.config.factory import load_task, policy_parts, task_stages
from jaxrl_hw.config.schema import Config
from jaxrl_hw.envs.tasks.api import Task
from jaxrl_hw.envs.vector import params_at
from jaxrl_hw.policies.metadata import describe
from jaxrl_hw.policies.portable import PortablePolicy
from jaxrl_hw.types import MILLION, Head, PhaseMask, Policy, TrainState, no_phase_mask


def portable(config: Config, state: TrainState) -> PortablePolicy:
    """The policy of a run's state, in float32 for every training precision.

    Raises:
      UserError: unknown robot, or a model that its task cannot use.
    """
    task, _ = load_task(config)
    weights, stats, log_std, head = policy_parts(config, task, state.learner)
    layers = layers_of(weights)
    millions, rest = (int(x) for x in np.asarray(state.env_steps))
    meta = describe(config, int(state.iteration), millions * MILLION + rest)
    return PortablePolicy(
        phase_mask=PhaseMask(*map(_float32, _phase_mask(config, task, state, len(stats.mean)))),
        mean=_float32(stats.mean),
        scale=_float32(normalize.scale(stats)),
        clip=normalize.CLIP,
        seen=float(stats.seen),
        kernels=tuple(_float32(layer["kernel"]) for layer in layers),
        biases=tuple(_float32(layer["bias"]) for layer in layers),
        log_std=_float32(log_std),
        gru=_gru_of(weights),
        head=() if head.array is None else (_float32(head.array),),
        meta={**meta, "head": head.kind},
    )


def _phase_mask(config: Config, task: Task, state: TrainState, obs_size: int) -> PhaseMask:
    """The mask of the stage that the state is in."""
    mask = None
    if task.phase_mask is not None:
        mask = task.phase_mask(params_at(task_stages(config, task), state.env_steps))
    return mask if mask is not None and np.any(mask.clock) else no_phase_mask(obs_size)


def layers_of(params: Any) -> list[dict[str, Any]]:
    """The dense layers in the parameters of a `PolicyNet`, first to last."""
    named = params.get("mlp", params)["params"]
    return [named[f"Dense_{i}"] for i in range(len(named))]


_GATES = "rzn"
"""flax's names of a GRU's gates: reset, update, new."""


def _gru_of(params: Any) -> tuple[np.ndarray, ...]:
    """The recurrent part of a `PolicyNet`'s parameters as `portable.GRU`; () without one."""
    if "gru" not in params:
        return ()
    cell = params["gru"]["params"]
    return (
        _float32(np.concatenate([cell[f"i{gate}"]["kernel"] for gate in _GATES], axis=1)),
        _float32(np.concatenate([cell[f"h{gate}"]["kernel"] for gate in _GATES], axis=1)),
        _float32(np.concatenate([cell[f"i{gate}"]["bias"] for gate in _GATES])),
        _float32(cell["hn"]["bias"]),
    )


def _gru_params(arrays: tuple[np.ndarray, ...]) -> Any:
    inputs, states, biases, gate = arrays
    split = [np.split(array, len(_GATES), axis=-1) for array in (inputs, states, biases)]
    cell: dict[str, Any] = {}
    for name, kernel_in, kernel_state, bias in zip(_GATES, *split, strict=True):
        cell[f"i{name}"] = {"kernel": _array(kernel_in), "bias": _array(bias)}
        cell[f"h{name}"] = {"kernel": _array(kernel_state)}
    cell["hn"]["bias"] = _array(gate)
    return {"params": cell}


def params_of(policy: PortablePolicy) -> Any:
    """The policy as the parameters of a `PolicyNet`."""
    layers = zip(policy.kernels, policy.biases, strict=True)
    named = {
        f"Dense_{i}": {"kernel": _array(kernel), "bias": _array(bias)}
        for i, (kernel, bias) in enumerate(layers)
    }
    params = {"params": named}
    return {"gru": _gru_params(policy.gru), "mlp": params} if policy.gru else params


def stats_of(policy: PortablePolicy) -> RunningStats:
    """Its observation statistics. The root of a float's square is that float, so the scales are
    exact."""
    return RunningStats(_array(policy.seen), _array(policy.mean), _array(policy.scale) ** 2)


def as_policy(policy: PortablePolicy) -> Policy:
    """The policy through the library's own networks."""
    net = make_policy_net(
        NetConfig(**policy.form), policy.obs_size, policy.output_size, None, "float32"
    )
    params, stats, mask = params_of(policy), stats_of(policy), policy.phase_mask
    head = Head(policy.head_kind, *map(jnp.asarray, policy.head))

    @jax.jit
    def act(obs: Array, memory: Any) -> tuple[Array, Any]:
        out, memory = net.step(params, stats, memory, mask(obs))
        return apply_head(head, out), memory

    return Policy(net.start, lambda obs, memory: act(jnp.asarray(obs, jnp.float32), memory))


def _float32(value: Any) -> np.ndarray:
    return np.asarray(value, np.float32)


def _array(value: Any) -> Array:
    return jnp.array(value, jnp.float32)
