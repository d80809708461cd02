"""SAC's gradient step: when the policy learns, and what holds it to a motion."""

from __future__ import annotations

from functools import partial
from itertools import pairwise

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from jaxrl_hw import NetConfig
from jaxrl_hw.algos import sac
from jaxrl_hw.algos.actor_critic import ObsStats
from jaxrl_hw.algos.networks import normalize
from jaxrl_hw.algos.networks.critic import Critics
from jaxrl_hw.algos.networks.mlp import MLP
from jaxrl_hw.algos.networks.policy_net import make_policy_net
from jaxrl_hw.algos.replay import Transitions
from jaxrl_hw.algos.sac_nets import Nets, Params
from jaxrl_hw.algos.sac_settings import SACConfig
from jaxrl_hw.algos.sac_update import OptState, gradient_step, prior_weight
from jaxrl_hw.types import EnvSpec, Learner

OBS, ACTIONS, BATCH = 3, 2, 64
NET = NetConfig(policy=(16,), value=(16,), init_std=0.3)
SPEC = EnvSpec(OBS, OBS, ACTIONS, has_motion=True)
NETS = Nets(
    make_policy_net(NET, OBS, 2 * ACTIONS, None, "float32"),
    Critics(MLP(NET.value, 1, NET.activation, layer_norm=True)),
    jnp.ones(ACTIONS),
)
STATS = ObsStats(normalize.init(OBS), normalize.init(OBS))
REPLAY = {"buffer_size": 1000, "batch_size": BATCH, "gradient_steps": 1}


def fetched(key: jax.Array) -> tuple[jax.Array, jax.Array]:
    """A motion: 0.5 whatever is seen."""
    return jax.random.normal(key, (OBS,)), jnp.full(ACTIONS, 0.5)


def begun(config: SACConfig, with_motion: bool = False) -> Learner:
    made, key = sac.make(config, NET, SPEC), jax.random.key(0)
    learner = made.init(key)
    if with_motion:
        assert made.clone is not None
        learner = made.clone(learner, fetched, key)
    return learner


def run(
    config: SACConfig, learner: Learner, steps: int, millions: float = 1.0
) -> tuple[list[Params], list[float]]:
    """The parameters after each step on transitions that pay for actions of -0.5, and the
    entropies."""
    rates = OptState(*(optax.adam(3e-3) for _ in range(3)))
    held = prior_weight(config, jnp.float32(millions))
    step = jax.jit(partial(gradient_step, config, NETS, rates, STATS, held))
    params, opt_state, key = learner.params, learner.opt_state, jax.random.key(1)
    passed, entropies = [], []
    for _ in range(steps):
        key, key_obs, key_action, key_step = jax.random.split(key, 4)
        obs = jax.random.normal(key_obs, (BATCH, OBS))
        action = jax.random.uniform(key_action, (BATCH, ACTIONS), minval=-1.0)
        reward, nothing = -((action + 0.5) ** 2).sum(axis=-1), jnp.zeros(BATCH)
        t = Transitions(obs, obs, action, reward, nothing, obs, obs, jnp.ones(BATCH))
        params, opt_state, metrics = step(params, opt_state, t, key_step)
        passed.append(params)
        entropies.append(float(metrics["entropy"]))
    return passed, entropies


def moved(before: Params, after: Params, name: str) -> bool:
    leaves = (jax.tree.leaves(getattr(p, name)) for p in (before, after))
    return any(bool((a != b).any()) for a, b in zip(*leaves, strict=True))


def test_the_policy_learns_at_every_few_steps_and_the_critics_at_each() -> None:
    config = SACConfig(**REPLAY, policy_delay=3)
    learner = begun(config)
    passed, entropies = run(config, learner, 6)
    states = [learner.params, *passed]
    for name in ("policy", "log_alpha"):
        found = [moved(a, b, name) for a, b in pairwise(states)]
        assert found == [False, False, True] * 2, name
    for name in ("critics", "target"):
        assert all(moved(a, b, name) for a, b in pairwise(states)), name
    assert [entropy != 0.0 for entropy in entropies] == [False, False, True] * 2


class Unstable(Critics):
    """Critics whose loss is finite and whose gradient is not."""

    def loss(self, out: jax.Array, target: jax.Array) -> jax.Array:
        loss = super().loss(out, target)
        return loss + jnp.sqrt(jnp.maximum(0.0 * loss, 0.0))


@pytest.mark.parametrize("critics", [Critics, Unstable])
def test_a_gradient_that_is_not_finite_is_told_whatever_the_loss_is(critics: type) -> None:
    config, nets = (
        SACConfig(**REPLAY, policy_delay=4),
        NETS._replace(critics=critics(*NETS.critics)),
    )
    learner, rates = begun(config), OptState(*(optax.adam(3e-3) for _ in range(3)))
    obs, nothing = jnp.ones((BATCH, OBS)), jnp.zeros(BATCH)
    action = jnp.zeros((BATCH, ACTIONS))
    t = Transitions(obs, obs, action, nothing + 1.0, nothing, obs, obs, jnp.ones(BATCH))
    step = partial(gradient_step, config, nets, rates, STATS, jnp.zeros(()))
    _, _, metrics = step(learner.params, learner.opt_state, t, jax.random.key(1))
    assert np.isfinite(metrics["loss/value"])
    assert np.isfinite(metrics["grad_norm"]) == (critics is Critics)


def _longest(params: Params, name: str) -> float:
    """Of the weights into one unit."""
    leaves = jax.tree_util.tree_leaves_with_path(getattr(params, name))
    kernels = [x for path, x in leaves if path[-1].key == "kernel"]
    return max(float(jnp.linalg.norm(x, axis=-2).max()) for x in kernels)


def test_weights_into_a_unit_keep_to_their_bound() -> None:
    free, bounded = (SACConfig(**REPLAY, policy_delay=1, max_weight_norm=w) for w in (0.0, 0.5))
    for name in ("policy", "critics"):
        assert _longest(run(free, begun(free), 5)[0][-1], name) > 0.6
        assert _longest(run(bounded, begun(bounded), 5)[0][-1], name) < 0.5001
    end = run(bounded, begun(bounded), 400)[0][-1]
    mean = NETS.mean(NETS.policy.forward(end.policy, jnp.zeros((1, OBS)))[0]).mean()
    assert float(mean) < -0.2, "it still goes where the reward is"


def test_critics_of_bounded_gradients_go_on_learning_after_a_reward_beyond_all() -> None:
    """Adam divides by how long gradients were: one that is too long keeps the next ones short."""
    obs, nothing = jax.random.normal(jax.random.key(2), (BATCH, OBS)), jnp.zeros(BATCH)
    action = jnp.zeros((BATCH, ACTIONS))
    moves = []
    for most in (0.0, 0.5):
        config = SACConfig(**REPLAY, policy_delay=100, max_grad_norm=most)
        rates = OptState(*(optax.adam(1e-3) for _ in range(3)))
        learner = begun(config)
        params, opt_state = learner.params, learner.opt_state
        step = jax.jit(partial(gradient_step, config, NETS, rates, STATS, jnp.zeros(())))
        for i in range(20):
            if i == 10:
                before = params.critics
            reward = nothing + obs[:, 0] * (1e6 if i == 10 else 1.0)
            t = Transitions(obs, obs, action, reward, nothing, obs, obs, jnp.ones(BATCH))
            params, opt_state, _ = step(params, opt_state, t, jax.random.key(i))
        far = optax.global_norm(jax.tree.map(jnp.subtract, params.critics, before))
        moves.append(float(far))
    free, bounded = moves
    assert bounded > 2 * free > 0


def test_a_motion_holds_the_policy_while_it_counts() -> None:
    seen, mean = jnp.zeros((1, OBS)), {}
    for coef, millions in ((0.0, 0.0), (1.0, 0.0), (1.0, 2.0)):
        config = SACConfig(**REPLAY, policy_delay=1, prior_coef=coef, prior_steps=1_000_000)
        learner = begun(config, with_motion=True)
        start = NETS.mean(NETS.policy.forward(learner.params.policy, seen)[0])
        np.testing.assert_allclose(start, 0.5, atol=0.1)
        params = run(config, learner, 400, millions)[0][-1]
        mean[coef, millions] = float(NETS.mean(NETS.policy.forward(params.policy, seen)[0]).mean())
    assert mean[0.0, 0.0] < -0.2, "it goes where the reward is"
    assert mean[1.0, 0.0] > mean[0.0, 0.0] + 0.3
    assert mean[1.0, 2.0] < -0.2, "the motion no longer counts"


def test_a_task_without_a_motion_keeps_no_prior() -> None:
    config, key = SACConfig(**REPLAY, prior_coef=1.0), jax.random.key(0)
    assert sac.make(config, NET, SPEC).init(key).params.prior
    assert not sac.make(config, NET, SPEC._replace(has_motion=False)).init(key).params.prior


def test_without_a_motion_prior_there_is_nothing_to_fit() -> None:
    assert sac.make(SACConfig(**REPLAY, motion_prior=False), NET, SPEC).clone is None
