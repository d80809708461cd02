"""PPO's update: ratios, clips, the learning rate, and what a robot's symmetry adds."""

from __future__ import annotations

import functools
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from jaxrl_hw.algos import ppo
from jaxrl_hw.algos.networks import distributions
from jaxrl_hw.algos.networks.mlp import MLP
from jaxrl_hw.algos.networks.settings import NetConfig
from jaxrl_hw.algos.ppo_settings import PPOConfig
from jaxrl_hw.errors import UserError
from jaxrl_hw.types import (
    Algorithm,
    Batch,
    EnvSpec,
    Learner,
    Observation,
    SignedPermutation,
    Symmetry,
)

T, N, OBS, ACTIONS = 4, 16, 4, 2
NET = NetConfig(policy=(16,), value=(16,), activation="tanh", init_std=0.5)
ONE_PASS = {"unroll": T, "epochs": 1, "minibatch_size": T * N, "lr_schedule": "fixed"}
ONE_PASS = {**ONE_PASS, "symmetry": "none"}

SWAP = SignedPermutation(np.array([1, 0, 2, 3]), np.array([1.0, 1.0, -1.0, 1.0], np.float32))
TURN = SignedPermutation(np.array([1, 0]), np.array([-1.0, -1.0], np.float32))
SAME = SignedPermutation(np.arange(OBS), np.ones(OBS, np.float32))
MIRROR = Symmetry(policy=SWAP, critic=SAME, action=TURN)


def make(
    mirror: Symmetry | None = None, /, precision: str = "float32", **changes: Any
) -> Algorithm:
    """PPO with its update jitted; the same one again for the same settings."""
    return _make(mirror is not None, precision, tuple(sorted(changes.items())))


@functools.cache
def _make(mirrored: bool, precision: str, changes: tuple[tuple[str, Any], ...]) -> Algorithm:
    config = PPOConfig(**{**ONE_PASS, **dict(changes)})
    mirror = MIRROR if mirrored else None
    algorithm = ppo.make(config, NET, EnvSpec(OBS, OBS, ACTIONS, mirror), precision)
    return algorithm._replace(update=jax.jit(algorithm.update))


def experience(algorithm: Algorithm, learner: Learner, seed: int = 0) -> Batch:
    """A batch of the learner's own actions on random observations, with random rewards."""
    rng = np.random.default_rng(seed)

    def some(*shape: int) -> jax.Array:
        return jnp.asarray(rng.standard_normal((T, N, *shape)), jnp.float32)

    obs, after = Observation(some(OBS), some(OBS)), Observation(some(OBS), some(OBS))
    action, extras, _ = algorithm.act(learner, obs, jax.random.key(seed))
    never = jnp.zeros((T, N), bool)
    return Batch(obs, action, some(), after, never.at[1, ::3].set(True), never, extras)


def updated(algorithm: Algorithm, updates: int = 1, seed: int = 0) -> tuple[Any, Learner, Learner]:
    """(metrics of the last update, learner before the first, learner after the last)."""
    before = learner = algorithm.init(jax.random.key(seed))
    for i in range(updates):
        done = jnp.array([0, i * T * N], jnp.uint32)
        batch = experience(algorithm, learner, i)._replace(env_steps=done)
        learner, metrics = algorithm.update(learner, batch, jax.random.key(100 + i))
    return jax.tree.map(np.asarray, metrics), before, learner


def distance(a: Any, b: Any) -> float:
    return float(optax.global_norm(jax.tree.map(jnp.subtract, a, b)))


@pytest.mark.slow
def test_ratios_start_at_exactly_one() -> None:
    # with other statistics in the update than in act() this would not hold
    metrics, before, after = updated(make(), updates=3)
    assert metrics["clip_fraction"] == 0.0
    assert metrics["kl"] == pytest.approx(0.0, abs=1e-9)
    # -mean(1 * normalized advantage)
    assert metrics["loss/policy"] == pytest.approx(0.0, abs=1e-6)
    assert distance(after.params, before.params) > 1e-3


@pytest.mark.slow
def test_ratios_move_in_later_minibatches_and_a_fixed_rate_stays() -> None:
    metrics, _, _ = updated(make(minibatch_size=16, learning_rate=0.03, clip=0.01))
    assert metrics["clip_fraction"] > 0.1
    assert metrics["kl"] > 1e-5
    assert float(metrics["lr"]) == pytest.approx(0.03)  # fixed, whatever the divergence


def test_the_first_action_noise_is_the_configured_one() -> None:
    algorithm = make()
    learner = algorithm.init(jax.random.key(0))
    obs = Observation(jnp.zeros((4000, OBS)), jnp.zeros((4000, OBS)))
    action, extras, _ = algorithm.act(learner, obs, jax.random.key(1))
    # 5 standard errors of a standard deviation of 0.5 from 4,000 draws
    np.testing.assert_allclose(action.std(0), 0.5, atol=5 * 0.5 / np.sqrt(2 * 4000))
    np.testing.assert_allclose(extras["mean"], algorithm.policy(learner, obs.policy)[0])
    assert extras["log_prob"].shape == (4000,)


ADAPTIVE = {"lr_schedule": "adaptive", "learning_rate": 1e-2, "lr_max": 1.0, "lr_min": 8e-3}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("lr_max", "updates", "wanted"),
    [(1.0, 1, 1.2e-2), (1.0, 3, 1.2**3 * 1e-2), (1.3e-2, 3, 1.3e-2)],
)
def test_the_rate_rises_once_an_update_where_the_policy_hardly_moves(
    lr_max: float, updates: int, wanted: float
) -> None:
    # one minibatch an update: its KL is 0, under half of what is desired
    metrics, _, _ = updated(make(**{**ADAPTIVE, "lr_max": lr_max}), updates)
    assert float(metrics["lr"]) == pytest.approx(wanted, rel=1e-5)


@pytest.mark.slow
@pytest.mark.parametrize(("updates", "wanted"), [(1, 1e-2 / 1.2), (3, 8e-3)])
def test_the_rate_falls_once_an_update_where_the_policy_moves_far(
    updates: int, wanted: float
) -> None:
    metrics, _, _ = updated(make(**ADAPTIVE, desired_kl=1e-7, minibatch_size=8), updates)
    assert float(metrics["lr"]) == pytest.approx(wanted, rel=1e-5)


@pytest.mark.slow
def test_between_half_and_twice_the_desired_divergence_the_rate_stays() -> None:
    metrics, _, _ = updated(make(learning_rate=1e-2, minibatch_size=32))
    kl = float(metrics["kl"])  # of the only, and so the last, epoch
    metrics, _, _ = updated(make(**ADAPTIVE, minibatch_size=32, desired_kl=kl))
    assert float(metrics["lr"]) == pytest.approx(1e-2, rel=1e-5)


@pytest.mark.slow
def test_annealing_lowers_the_bounds_of_noise_and_rate_and_then_holds_them() -> None:
    settings = {"anneal_steps": 4 * T * N, "end_std": 0.05, "learning_rate": 1e-3, "epochs": 2}
    settings = {**settings, "minibatch_size": 32}
    stds, rates = [], []
    for updates in (1, 2, 4, 6):
        metrics, _, after = updated(make(**settings), updates)
        stds.append(float(jnp.exp(after.params.log_std).max()))
        rates.append(float(metrics["lr"]))
    # from 0.5 to 0.05 in four equal factors; the rate to a tenth along a line
    bounds = np.array([0.5 * 0.1**0.25, 0.5 * 0.1**0.5, 0.05, 0.05])
    assert (np.array(stds) <= bounds * 1.0001).all()
    np.testing.assert_allclose(stds[2:], 0.05, rtol=0.05)
    np.testing.assert_allclose(rates, [7.75e-4, 5.5e-4, 1e-4, 1e-4], rtol=1e-4)
    free, _, after = updated(make(**{**settings, "anneal_steps": 0}), 6)
    assert float(jnp.exp(after.params.log_std).max()) > 0.4
    assert float(free["lr"]) == pytest.approx(1e-3)


@pytest.mark.slow
def test_gradients_are_scaled_down_to_the_largest_norm_allowed() -> None:
    for limit in (1e-3, 1.0):
        metrics, _, after = updated(make(max_grad_norm=limit) if limit < 1 else make())
        first_moment = optax.tree_utils.tree_get(after.opt_state, "mu")
        # after one step Adam's first moment is a tenth of the gradient it was given
        used = 10.0 * float(optax.global_norm(first_moment))
        assert metrics["grad_norm"] > 0.01
        assert used == pytest.approx(min(limit, float(metrics["grad_norm"])), rel=1e-4)


@pytest.mark.slow
def test_a_clipped_value_moves_little_in_one_update() -> None:
    moved = {}
    for clip in (0.0, 0.05):
        settings = {"epochs": 100, "learning_rate": 5e-3, "gae_lambda": 1.0, "gamma": 0.99}
        algorithm = make(value_clip=clip, **settings)
        before = algorithm.init(jax.random.key(0))
        batch = experience(algorithm, before)
        batch = batch._replace(reward=batch.reward + 5.0)  # a value of many clip widths
        after, _ = algorithm.update(before, batch, jax.random.key(1))
        net = MLP(NET.value, 1, NET.activation)
        old, new = (net.apply(x.params.value, batch.obs.critic) for x in (before, after))
        moved[clip] = float(jnp.abs(new - old).mean())

    assert moved[0.0] > 2.0
    # past the clip range its gradient is 0; momentum carries it on for some steps
    assert moved[0.05] < 0.5


def test_observations_are_counted_once_per_update_and_after_it() -> None:
    algorithm = make()
    learner = algorithm.init(jax.random.key(0))
    batch = experience(algorithm, learner)
    after, _ = algorithm.update(learner, batch, jax.random.key(1))
    assert float(after.obs_stats.policy.seen) == T * N
    came = batch.next_obs
    assert not np.allclose(came.policy, batch.obs.policy)
    mean = np.asarray(came.policy).reshape(-1, OBS).mean(0)
    np.testing.assert_allclose(after.obs_stats.policy.mean, mean, atol=1e-6)
    np.testing.assert_allclose(after.obs_stats.critic.var, came.critic.var((0, 1)), rtol=1e-5)


def unevenness(algorithm: Algorithm, learner: Learner) -> float:
    """How far the policy of a mirrored observation is from the mirrored policy."""
    obs = jax.random.normal(jax.random.key(9), (200, OBS))
    there = algorithm.policy(learner, SWAP(obs))[0]
    return float(jnp.sqrt(((there - TURN(algorithm.policy(learner, obs)[0])) ** 2).mean()))


@pytest.mark.slow
def test_the_mirror_loss_makes_the_policy_even() -> None:
    left = {}
    for mode in ("loss", "none"):
        changes = {
            "epochs": 20,
            "minibatch_size": 32,
            "learning_rate": 3e-3,
            "symmetry_coef": 100.0,
        }
        algorithm = make(MIRROR, **{**changes, "symmetry": mode})
        metrics, _, after = updated(algorithm, updates=3)
        left[mode] = unevenness(algorithm, after)
        assert ("loss/symmetry" in metrics) == (mode == "loss")

    assert left["none"] > 0.05  # random rewards teach the two sides different things
    assert left["loss"] < 0.25 * left["none"]


def test_without_a_symmetry_the_robot_has_no_mirror_loss() -> None:
    names = {}
    for mirror in (None, MIRROR):
        algorithm = make(mirror, symmetry="loss")
        learner = algorithm.init(jax.random.key(0))
        args = learner, experience(algorithm, learner), jax.random.key(1)
        names[mirror is None] = set(jax.eval_shape(algorithm.update, *args)[1])
    assert names[False] - names[True] == {"loss/symmetry"}


@pytest.mark.slow
@pytest.mark.parametrize("mode", ["augment", "none"])
def test_with_augmentation_a_batch_teaches_what_its_mirror_image_teaches(mode: str) -> None:
    algorithm = make(MIRROR, symmetry=mode, learning_rate=1e-2)
    learner = algorithm.init(jax.random.key(0))
    batch = experience(algorithm, learner)
    obs, action = MIRROR.observation(batch.obs), TURN(batch.action)
    mean = algorithm.policy(learner, obs.policy)[0]
    log_prob = distributions.log_prob(action, mean, learner.params.log_std)
    mirrored = batch._replace(
        obs=obs,
        next_obs=MIRROR.observation(batch.next_obs),
        action=action,
        extras={"mean": mean, "log_prob": log_prob},
    )
    after = [algorithm.update(learner, b, jax.random.key(1))[0] for b in (batch, mirrored)]
    taught = [learner.params for learner in after]
    moved = distance(taught[0].policy, learner.params.policy)
    apart = distance(taught[0].policy, taught[1].policy)
    if mode == "augment":  # the same samples in another order: float32 sums, through Adam
        assert apart < 1e-2 * moved
    else:
        assert apart > 0.3 * moved


@pytest.mark.slow
def test_ratios_of_mirrored_samples_start_at_one_also_for_an_uneven_policy() -> None:
    algorithm = make(MIRROR, symmetry="augment")
    learner = algorithm.init(jax.random.key(0))
    kernel = learner.params.policy["params"]["Dense_1"]["kernel"]
    learner.params.policy["params"]["Dense_1"]["kernel"] = 50.0 * kernel
    assert unevenness(algorithm, learner) > 0.3
    metrics = algorithm.update(learner, experience(algorithm, learner), jax.random.key(1))[1]
    assert metrics["kl"] == pytest.approx(0.0, abs=1e-9)
    assert metrics["clip_fraction"] == 0.0


def test_a_mirror_map_applied_twice_changes_nothing() -> None:
    x = jnp.arange(8.0).reshape(2, OBS)
    np.testing.assert_array_equal(SWAP(x), [[1, 0, -2, 3], [5, 4, -6, 7]])
    np.testing.assert_array_equal(SWAP(SWAP(x)), x)


@pytest.mark.slow
def test_bfloat16_networks_learn_in_float32_parameters() -> None:
    metrics, before, after = updated(make(precision="bfloat16"))
    assert {leaf.dtype.name for leaf in jax.tree.leaves(after.params)} == {"float32"}
    assert all(np.isfinite(value).all() for value in metrics.values())
    assert distance(after.params, before.params) > 1e-3
    # the same product twice, so the ratio is 1 in bfloat16 as well
    assert metrics["clip_fraction"] == 0.0


@pytest.mark.parametrize(
    ("change", "known"),
    [
        ({"lr_schedule": "linear"}, ("adaptive", "fixed")),
        ({"symmetry": "mirror"}, ("augment", "loss", "none")),
    ],
)
def test_unknown_modes_name_those_there_are(change: dict[str, str], known: tuple[str, ...]) -> None:
    with pytest.raises(UserError) as refused:
        make(**change)
    assert all(f'"{value}"' in str(refused.value) for value in change.values())
    assert all(mode in str(refused.value) for mode in known)
