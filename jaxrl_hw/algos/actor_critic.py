"""Policy and value network: what PPO and A2C have in common but for their update."""

from __future__ import annotations

from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import Array

from jaxrl_hw.algos.motion_prior import clone_motion
from jaxrl_hw.algos.networks import distributions, normalize
from jaxrl_hw.algos.networks.equivariant import INVARIANT, EquivariantMLP, basis_of
from jaxrl_hw.algos.networks.mlp import MLP
from jaxrl_hw.algos.networks.policy_net import Inputs, Perceptron, PolicyNet, make_policy_net
from jaxrl_hw.algos.networks.settings import NetConfig
from jaxrl_hw.algos.optimizer import averaged, restarted, slowed
from jaxrl_hw.types import (
    Algorithm,
    EnvSpec,
    Learner,
    Motion,
    Needs,
    Observation,
    PhaseMask,
    PolicyParts,
    Shards,
    Symmetry,
)


class Params(NamedTuple):
    """What the gradient moves."""

    policy: Any
    value: Any
    log_std: Array  # [A]
    estimator: Any = ()  # an `estimation.Head`; () without one


class ObsStats(NamedTuple):
    """Of both networks' observations."""

    policy: normalize.RunningStats
    critic: normalize.RunningStats


class Nets(NamedTuple):
    """The networks."""

    policy: PolicyNet
    value: Perceptron


def masked(phase_mask: PhaseMask | None, policy_obs: Array) -> Array:
    """Observations [..., O] as the policy sees them."""
    return policy_obs if phase_mask is None else phase_mask(policy_obs)


def value_of(nets: Nets, params: Params, stats: ObsStats, critic_obs: Array) -> Array:
    """[..., C] -> [...]."""
    return value_at(nets, params, critic_inputs(nets, stats, critic_obs))


def critic_inputs(nets: Nets, stats: ObsStats, critic_obs: Array) -> Inputs:
    """Observations [..., C] as the value network takes them."""
    return nets.value.prepared(normalize.normalize(stats.critic, critic_obs))


def value_at(nets: Nets, params: Params, inputs: Inputs) -> Array:
    """`critic_inputs` -> [...]."""
    value, _ = nets.value.apply(params.value, inputs, method="with_hidden")
    return jnp.asarray(value)[..., 0]


def nets_of(
    net: NetConfig, spec: EnvSpec, symmetry: Symmetry | None, precision: str, built_in: bool = False
) -> Nets:
    """The networks for an environment's sizes.

    symmetry: that the update mirrors by, if any.
    built_in: whether the networks have it by construction.
    """
    mirror = None if symmetry is None else symmetry.policy
    action = symmetry.action if symmetry is not None and built_in else None
    policy = make_policy_net(net, spec.obs_size, spec.action_size, mirror, precision, action)
    if symmetry is None or not built_in:
        return Nets(policy, MLP(net.value, 1, net.activation, dtype=precision))
    critic = basis_of(symmetry.critic)
    return Nets(
        policy, EquivariantMLP(net.value, critic, INVARIANT, net.activation, dtype=precision)
    )


def act(
    net: PolicyNet,
    learner: Learner,
    obs: Observation,
    key: Array,
    phase_mask: PhaseMask | None = None,
    memory: Any = (),
) -> tuple[Array, dict[str, Array], Any]:
    """Exploring actions [N, A], what the update needs of them, and the memory. Consumes key."""
    params, stats = learner.params, learner.obs_stats.policy
    memory = begun(net, memory, obs.policy)
    mean, memory = net.step(params.policy, stats, memory, masked(phase_mask, obs.policy))
    action = distributions.sample(key, mean, params.log_std)
    log_prob = distributions.log_prob(action, mean, params.log_std)
    return action, {"log_prob": log_prob, "mean": mean}, memory


def policy(
    net: PolicyNet,
    learner: Learner,
    policy_obs: Array,
    phase_mask: PhaseMask | None = None,
    memory: Any = (),
) -> tuple[Array, Any]:
    """Actions [..., A] without exploration, and the memory."""
    weights = averaged(learner.params.policy, learner.opt_state)
    memory = begun(net, memory, policy_obs)
    return net.step(weights, learner.obs_stats.policy, memory, masked(phase_mask, policy_obs))


def begun(net: PolicyNet, memory: Any, policy_obs: Array) -> Any:
    """The memory, or that of an episode's start where () is given."""
    return memory if jax.tree.leaves(memory) else net.start(len(policy_obs))


def fresh(nets: Nets, init_std: float, spec: EnvSpec, key: Array) -> Params:
    """Networks that know nothing yet. Consumes key but for its third part, which is clone's."""
    key_policy, key_value, _ = jax.random.split(key, 3)
    policy = nets.policy.init(key_policy)
    value = nets.value.init(key_value, jnp.zeros(spec.critic_size))
    return Params(policy, value, jnp.full(spec.action_size, jnp.log(init_std), jnp.float32))


def cloned(nets: Nets, learner: Learner, motion: Motion, key: Array) -> Learner:
    """The learner with its policy fitted to a motion. Consumes what `fresh` leaves of key."""
    _, _, key_motion = jax.random.split(key, 3)
    weights = clone_motion(nets.policy, learner.params.policy, motion, key_motion)
    params = learner.params._replace(policy=weights)
    return learner._replace(params=params, opt_state=restarted(learner.opt_state, weights))


def take_in(
    stats: ObsStats, obs: Observation, shards: Shards, symmetry: Symmetry | None = None
) -> ObsStats:
    """The statistics with new observations, and their mirror images where a symmetry is given."""
    policy, critic = (symmetry.policy, symmetry.critic) if symmetry else (None, None)
    return ObsStats(
        normalize.update(stats.policy, obs.policy, shards, policy),
        normalize.update(stats.critic, obs.critic, shards, critic),
    )


def parts(learner: Learner) -> PolicyParts:
    """The policy that is evaluated and exported."""
    params = learner.params
    weights = averaged(params.policy, learner.opt_state)
    return PolicyParts(weights, learner.obs_stats.policy, params.log_std)


def made(name: str, needs: Needs, nets: Nets, init: Any, update: Any) -> Algorithm:
    """The algorithm of an `init` and an `update`, which acts by the policy network."""
    return Algorithm(
        name=name,
        needs=needs,
        init=init,
        act=partial(act, nets.policy),
        update=update,
        policy=partial(policy, nets.policy),
        start=nets.policy.start,
        parts=parts,
        slowed=lambda learner: learner._replace(opt_state=slowed(learner.opt_state)),
    )
