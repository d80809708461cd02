"""`--init-from`: the trained policy that it names, opened and compared with the run's networks."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jaxrl_hw.algos.optimizer import restarted
from jaxrl_hw.checkpointing.run_dir import is_run_folder
from jaxrl_hw.config.schema import Config
from jaxrl_hw.config.units import format_count
from jaxrl_hw.envs.vector import Env
from jaxrl_hw.errors import UserError
from jaxrl_hw.loggers.console import Console
from jaxrl_hw.policies.from_state import layers_of, params_of, portable, stats_of
from jaxrl_hw.policies.portable import PortablePolicy
from jaxrl_hw.policies.sources import open_policy
from jaxrl_hw.policies.verification import sample_observations
from jaxrl_hw.training.run import load_run
from jaxrl_hw.training.train_step import state_form
from jaxrl_hw.training.warm_start import Source
from jaxrl_hw.types import Algorithm, TrainState, no_phase_mask


def open_source(config: Config, env: Env, algorithm: Algorithm, console: Console) -> Source | None:
    """What `config.init_from` names; None where it names nothing. Prints what is taken over.

    Raises:
      UserError: the source cannot be used, or its policy is of another form than the run's.
      RunError: every checkpoint of the source is damaged.
    """
    if not config.init_from:
        return None
    form = state_form(env, algorithm)
    source = _opened(config.init_from)
    check_same_form(source.policy, form, config)
    _check_same_actions(source.policy, algorithm, form, config)
    if source.state is not None and _critic_form(source.state) != _critic_form(form):
        source = source._replace(state=None)
    taken = "policy, value network, their statistics and the action noise"
    if source.state is None:
        std = float(jnp.exp(source.log_std).mean())
        taken = f"policy, its statistics and action noise ({std:.2f}); the value network is new"
    warmup = algorithm.critic_warmup
    alone = (
        f"; only the value network learns for {format_count(warmup)} env steps" if warmup else ""
    )
    at = source.policy.meta["iteration"]
    console.message(f"warm start from {config.init_from} (iteration {at:,}): {taken}{alone}")
    return source


def _opened(name: str) -> Source:
    if not is_run_folder(name):
        return Source(open_policy(name), None)
    run = load_run(name)
    return Source(portable(run.config, run.state), run.state._replace(env_state=None))


def check_same_form(policy: PortablePolicy, state: TrainState, config: Config) -> None:
    """Raises UserError where a policy cannot replace a run's own; shows both."""
    if policy.head_kind != "linear":
        raise UserError(
            f"--init-from {config.init_from} is a policy of --algo {policy.meta['algo']}, whose "
            f"network does not fit --algo {config.algo}"
        )
    net, layers = config.net, layers_of(state.params.policy)
    sizes = (len(state.obs_stats.policy.mean), *(layer["bias"].shape[0] for layer in layers))
    size = (policy.obs_size, *policy.widths, policy.action_size)
    memory = (net.memory, net.memory_size)
    if (size, policy.activation, policy.memory) == (sizes, net.activation, memory):
        return
    robot = policy.meta["robot"]
    hint = "leave out --net.policy, --net.activation and --net.memory to take the policy's own"
    if (size[0], size[-1]) != (sizes[0], sizes[-1]):
        hint = f"use --robot {robot}, or another policy"
    raise UserError(
        f"--init-from {config.init_from} has "
        f"{_form(robot, size, policy.activation, policy.memory)}; "
        f"this run has {_form(config.robot, sizes, net.activation, memory)}; {hint}"
    )


def _check_same_actions(
    policy: PortablePolicy, algorithm: Algorithm, form: TrainState, config: Config
) -> None:
    """Raises UserError where the run's network does not give the policy's actions: one that is
    symmetric by construction takes weights of the same shapes, and drops what is not symmetric."""
    zeros = jax.tree.map(lambda leaf: jnp.zeros(leaf.shape, leaf.dtype), form.learner)
    params, stats = zeros.params, zeros.obs_stats
    learner = zeros._replace(
        params=params._replace(policy=params_of(policy)),
        opt_state=restarted(zeros.opt_state, params_of(policy)),
        obs_stats=stats._replace(policy=stats_of(policy)),
    )
    bare = replace(policy, phase_mask=no_phase_mask(policy.obs_size))
    seen = sample_observations(bare, _SAMPLES)
    got, _ = jax.jit(algorithm.policy)(learner, seen)
    off = float(abs(np.asarray(got) - bare(seen)).mean())
    if off > _ROUNDING:
        raise UserError(
            f"--init-from {config.init_from} treats left and right differently: a network that is "
            f"symmetric by construction would act otherwise (by {off:.2g} on average); use "
            "--ppo.symmetry loss"
        )


_SAMPLES = 64
_ROUNDING = 0.02
"""Mean difference of actions, whose magnitude is about 1. Measured: bfloat16 with `zoo:h1` 0.0017;
a network that is symmetric with a policy of h1 trained by the mirror loss 0.39, with
`zoo:g1_12dof` 3e-7."""


def _form(robot: str, sizes: tuple[int, ...], activation: str, memory: tuple[str, int]) -> str:
    kind, size = memory
    remembered = {"history": f" of the last {size} observations", "gru": f" with a GRU of {size}"}
    widths = "-".join(map(str, sizes[1:-1]))
    return (
        f"{sizes[0]} observations, {sizes[-1]} actions (robot {robot}) "
        f"and a {widths} {activation} policy network{remembered.get(kind, ' without a memory')}"
    )


def _critic_form(state: TrainState) -> Any:
    critic = (state.params.value, state.obs_stats.critic)
    return jax.tree.map(lambda leaf: (leaf.shape, leaf.dtype), critic)
