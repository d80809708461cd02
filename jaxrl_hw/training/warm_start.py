"""Warm starts: a run's first state, with what another training has learned in place of its own."""

from __future__ import annotations

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
"""Least action noise that a policy starts with where its value network is new. A policy that was
trained to its end hardly explores, and a value network learns little from actions all alike."""
REMEMBERED_BATCHES = 1000
"""Observation statistics that are taken over count for at most this many of the run's own batches.
With the weight of millions of observations they would never follow a robot that moves otherwise.
With 50 batches they follow at once, and the policy loses its tracking to that alone (g1_12dof:
0.052 to 0.071 m/s in 120 iterations in which none of its weights moved)."""


def first_state(env: Env, algorithm: Algorithm, config: Config, console: Console) -> TrainState:
    """The state of iteration 0, with the policy of `config.init_from` where that is set.

    Raises:
      UserError: the source cannot be used, or its policy is of another form than the run's.
      RunError: every checkpoint of the source is damaged.
    """
    if not config.init_from:
        return init_train_state(env, algorithm, config.seed)
    no_prior = make_algorithm(config, env._replace(motion_prior=None))  # it would be overwritten
    fresh = init_train_state(env, no_prior, config.seed)
    origin: TrainState | None = None
    if is_run_folder(config.init_from):
        run = load_run(config.init_from)
        policy, origin = portable(run.config, run.state), run.state
    else:
        policy = open_policy(config.init_from)
    check_same_form(policy, fresh, config)
    state, taken = warm_start(fresh, policy, origin, env.num_envs * algorithm.unroll)
    warmup = algorithm.critic_warmup
    alone = f"; only the value network learns for {warmup} iterations" if warmup else ""
    at = policy.meta["iteration"]
    console.message(f"warm start from {config.init_from} (iteration {at:,}): {taken}{alone}")
    return state


def check_same_form(policy: PortablePolicy, state: TrainState, config: Config) -> None:
    """Raises UserError where a policy cannot replace a run's own; shows both."""
    layers = layers_of(state.params.policy)
    sizes = (layers[0]["kernel"].shape[0], *(layer["bias"].shape[0] for layer in layers))
    size = (policy.obs_size, *policy.widths, policy.action_size)
    if size == sizes and policy.activation == config.net.activation:
        return
    robot = policy.meta["robot"]
    hint = "leave out --net.policy and --net.activation to take the policy's own"
    if (size[0], size[-1]) != (sizes[0], sizes[-1]):
        hint = f"use --robot {robot}, or another policy"
    raise UserError(
        f"--init-from {config.init_from} has {_form(robot, size, policy.activation)}; "
        f"this run has {_form(config.robot, sizes, config.net.activation)}; {hint}"
    )


def _form(robot: str, sizes: tuple[int, ...], activation: str) -> str:
    widths = "-".join(map(str, sizes[1:-1]))
    return (
        f"{sizes[0]} observations, {sizes[-1]} actions (robot {robot}) "
        f"and a {widths} {activation} policy network"
    )


def warm_start(
    state: TrainState, policy: PortablePolicy, origin: TrainState | None, batch: int
) -> tuple[TrainState, str]:
    """A fresh state with another policy in place of its own, and in words what was taken.

    The network and its observation statistics come from the policy. The value network, its
    statistics and the action noise come from the state that trained it, where its form is the same.

    Args:
      state: fresh; its optimizer's moments, environments, key and counters stay.
      policy: of the same form as the state's.
      origin: the state that the policy is from; None where only the policy is there.
      batch: samples per iteration of the new run.
    """
    most = REMEMBERED_BATCHES * batch
    stats = state.obs_stats._replace(policy=_limited(stats_of(policy), most))
    params = state.params._replace(policy=params_of(policy))
    if origin is not None and _critic_form(origin) == _critic_form(state):
        taken = "policy, value network, their statistics and the action noise"
        stats = stats._replace(critic=_limited(origin.obs_stats.critic, most))
        params = params._replace(value=origin.params.value, log_std=origin.params.log_std)
    else:
        log_std = jnp.maximum(jnp.array(policy.log_std, jnp.float32), jnp.log(MIN_STD))
        params = params._replace(log_std=log_std)
        std = float(jnp.exp(log_std).mean())
        taken = f"policy, its statistics and action noise ({std:.2f}); the value network is new"
    opt_state = restarted(state.opt_state, params.policy)
    return state._replace(params=params, opt_state=opt_state, obs_stats=stats), taken


def _limited(stats: RunningStats, most: int) -> RunningStats:
    return stats._replace(seen=jnp.minimum(jnp.float32(stats.seen), jnp.float32(most)))


def _critic_form(state: TrainState) -> list[tuple[str, Any, Any]]:
    critic = (state.params.value, state.obs_stats.critic)
    leaves = jax.tree_util.tree_leaves_with_path(critic)
    return [(jax.tree_util.keystr(path), leaf.shape, leaf.dtype) for path, leaf in leaves]
