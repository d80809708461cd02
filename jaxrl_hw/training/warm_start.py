"""A run's first state: everything fresh, or the policy of another run."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import jax
import jax.numpy as jnp

from jaxrl_hw.algos.networks.normalize import RunningStats
from jaxrl_hw.algos.weight_averaging import restarted
from jaxrl_hw.checkpointing.run_dir import is_run_folder
from jaxrl_hw.config.factory import make_algorithm
from jaxrl_hw.config.schema import Config
from jaxrl_hw.envs.vector import Env
from jaxrl_hw.errors import UserError
from jaxrl_hw.loggers.console import Console
from jaxrl_hw.policies.from_state import layers_of, params_of, portable, stats_of
from jaxrl_hw.policies.portable import PortablePolicy
from jaxrl_hw.policies.sources import open_policy
from jaxrl_hw.training.run import load_run
from jaxrl_hw.training.train_step import init_train_state
from jaxrl_hw.types import Algorithm, TrainState

MIN_STD = 0.2
"""Of the exploration that a policy starts with where its value network is new: trained to its end a
policy hardly explores, and a value network learns little from actions that are all alike."""
REMEMBERED_BATCHES = 1000
"""How many of the run's own batches the statistics taken over count for, at most. With all of the
millions of observations they come from they would never follow a robot that moves otherwise; with
50 they follow at once, and a policy loses its tracking to that alone (g1_12dof: 0.052 to 0.071 m/s
in 120 iterations in which none of its weights moved)."""


def first_state(env: Env, algorithm: Algorithm, config: Config, console: Console) -> TrainState:
    """The state of iteration 0, with the policy of `config.init_from` where that is set.

    Raises:
      UserError: the source cannot be used, or its policy is of another form than the run's.
      RunError: every checkpoint of the source is damaged.
    """
    if not config.init_from:
        return init_train_state(env, algorithm, config.seed)
    # the motion_prior would only be overwritten
    plain = replace(config, ppo=replace(config.ppo, motion_prior=False))
    fresh = init_train_state(env, make_algorithm(plain, env), config.seed)
    theirs: TrainState | None = None
    if is_run_folder(config.init_from):
        run = load_run(config.init_from)
        policy, theirs = portable(run.config, run.state), run.state
    else:
        policy = open_policy(config.init_from)
    check_same_form(policy, fresh, config)
    batch = env.num_envs * algorithm.unroll
    state, taken = take_over(fresh, policy, theirs, batch)
    waits = config.ppo.critic_warmup
    alone = f"; only the value network learns for {waits} iterations" if waits else ""
    console.message(
        f"starts from {config.init_from} (iteration {policy.meta['iteration']:,}): {taken}{alone}"
    )
    return state


def check_same_form(policy: PortablePolicy, state: TrainState, config: Config) -> None:
    """Raises UserError where a policy cannot stand in for a run's own; shows both."""
    layers = layers_of(state.params.policy)
    sizes = [layers[0]["kernel"].shape[0], *(layer["bias"].shape[0] for layer in layers)]
    meta = policy.meta
    ours = _form(config.robot, tuple(sizes), config.net.activation)
    size = (policy.obs_size, *policy.widths, policy.action_size)
    theirs = _form(meta["robot"], size, policy.activation)
    if size == tuple(sizes) and policy.activation == config.net.activation:
        return
    if (size[0], size[-1]) != (sizes[0], sizes[-1]):
        hint = f"use --robot {meta['robot']}, or another policy"
    else:
        hint = "leave out --net.policy and --net.activation to take the policy's own"
    raise UserError(f"--init-from {config.init_from} has {theirs}; this run has {ours}; {hint}")


def _form(robot: str, sizes: tuple[int, ...], activation: str) -> str:
    widths = "-".join(map(str, sizes[1:-1]))
    return (
        f"{sizes[0]} observations, {sizes[-1]} actions (robot {robot}) "
        f"and a {widths} {activation} policy network"
    )


def take_over(
    state: TrainState, policy: PortablePolicy, theirs: TrainState | None, batch: int
) -> tuple[TrainState, str]:
    """A fresh state with a policy in place of its own, and in words what was taken.

    Network and observation statistics come from the policy. From the run that trained it come the
    value network with its statistics and the exploration noise too, where its form is the same.

    Args:
      state: fresh; its optimizer's moments, environments, key and counters stay.
      policy: of the same form as the state's.
      theirs: the state of the policy's run, None where there is only the policy.
      batch: samples per iteration of the new run.
    """
    seen = REMEMBERED_BATCHES * batch
    stats = state.obs_stats._replace(policy=_forgetful(stats_of(policy), seen))
    params = state.params._replace(policy=params_of(policy))
    if theirs is not None and _critic_form(theirs) == _critic_form(state):
        taken = "policy, value network, their statistics and the action noise"
        stats = stats._replace(critic=_forgetful(theirs.obs_stats.critic, seen))
        params = params._replace(value=theirs.params.value, log_std=theirs.params.log_std)
    else:
        log_std = jnp.maximum(jnp.array(policy.log_std, jnp.float32), jnp.log(MIN_STD))
        params = params._replace(log_std=log_std)
        std = float(jnp.exp(log_std).mean())
        taken = f"policy, its statistics and action noise ({std:.2f}); the value network is new"
    opt_state = restarted(state.opt_state, params.policy)
    return state._replace(params=params, opt_state=opt_state, obs_stats=stats), taken


def _forgetful(stats: RunningStats, seen: int) -> RunningStats:
    return stats._replace(seen=jnp.minimum(jnp.float32(stats.seen), jnp.float32(seen)))


def _critic_form(state: TrainState) -> list[tuple[str, Any, Any]]:
    critic = (state.params.value, state.obs_stats.critic)
    leaves = jax.tree_util.tree_leaves_with_path(critic)
    return [(jax.tree_util.keystr(path), leaf.shape, leaf.dtype) for path, leaf in leaves]
