"""PPO's settings."""

from __future__ import annotations

from dataclasses import dataclass, replace

from jaxrl_hw.algos.networks.settings import NetConfig, count_weights
from jaxrl_hw.algos.registry import AlgorithmEntry
from jaxrl_hw.types import Needs, Sizes


@dataclass(frozen=True)
class PPOConfig:
    """Proximal policy optimization (Schulman et al. 2017, arXiv:1707.06347)."""

    unroll: int = 24
    """Control steps collected from every environment per iteration (T)."""
    epochs: int = 4
    """Passes over the batch per iteration."""
    minibatches: int = 6
    """Minibatches per pass; must divide num_envs * unroll."""
    gamma: float = 0.97
    """Discount per control step."""
    gae_lambda: float = 0.95
    """Lambda of generalized advantage estimation (Schulman et al. 2016, arXiv:1506.02438)."""
    clip: float = 0.2
    """Probability-ratio clip range."""
    value_clip: float = 0.0
    """Clip range of the value's change per iteration; 0 leaves it unclipped."""
    value_coef: float = 1.0
    """Weight of the value loss."""
    entropy_coef: float = 0.002
    """Weight of the entropy bonus."""
    learning_rate: float = 1e-3
    """Adam's step size at the start."""
    lr_schedule: str = "adaptive"
    """adaptive (follows the KL divergence) or fixed."""
    desired_kl: float = 0.03
    """adaptive: the rate falls where the last epoch's KL passes twice this, rises under half."""
    lr_min: float = 1e-5
    """adaptive: lower bound of the rate."""
    lr_max: float = 1e-3
    """adaptive: upper bound of the rate."""
    anneal: int = 0
    """Iterations over which the rate's upper bound falls along a line to a tenth and exploration
    noise to end_std; 0: never. Counted from the run's start, not from its goal, so that a longer
    goal does not change what was."""
    end_std: float = 0.15
    """Upper bound of the policy's standard deviation at the end of the annealing."""
    weight_averaging: float = 0.0
    """Part of the run so far over which the weights of the policy that is evaluated and exported
    are averaged; 0: they are the last ones."""
    critic_warmup: int = 0
    """Iterations at the start in which only the value network learns, at lr_max; the policy then
    starts at learning_rate. `--init-from` a policy alone sets 120: with a value network that is new
    a trained policy would first lose what it can."""
    motion_prior: bool = True
    """Start the policy from the task's open-loop motion (stepping in place), if it has one."""
    max_grad_norm: float = 1.0
    """Gradients are scaled down to this global norm."""
    symmetry: str = "loss"
    """loss (mirror loss on the policy mean), augment (mirrored copies of the batch) or none."""
    symmetry_coef: float = 1.0
    """Weight of the mirror loss."""


def _needs(ppo: PPOConfig, net: NetConfig, sizes: Sizes) -> Needs:
    policy = count_weights(sizes.obs, net.policy, sizes.action)
    weights = policy + count_weights(sizes.critic, net.value, 1)
    averaged = policy if ppo.weight_averaging else 0
    # the mirror image goes through the policy network too
    passes = 1 if ppo.symmetry == "none" else 2
    widths = passes * sum(net.policy) + sum(net.value)
    # activations and their gradients, 4 bytes each, twice
    update = 16 * ppo.unroll * widths // max(ppo.minibatches, 1)
    return Needs(
        unroll=ppo.unroll,
        epochs=ppo.epochs,
        minibatches=ppo.minibatches,
        network_bytes=4 * weights,
        optimizer_bytes=4 * (2 * weights + averaged),  # Adam's two moments
        normalizer_bytes=8 * (sizes.obs + sizes.critic),  # mean and variance
        sample_bytes=4 * (2 * (sizes.obs + sizes.critic) + 3 * sizes.action + 8),
        update_bytes_per_env=update,
    )


_CRITIC_WARMUP = 120
"""Iterations in which a new value network learns what a trained policy is worth. Of g1_12dof:
after 40 the policy still loses its tracking (0.21 m/s 160 iterations on), after 80 it is at 0.08,
after 120 at 0.07."""


def _warm_started(ppo: PPOConfig, iterations: int, has_critic: bool) -> PPOConfig:
    """At the rate of a fresh network a trained policy's first iteration has a KL divergence of 3 to
    13; at a tenth it is 0.02. What the policy's training has annealed stays annealed."""
    return replace(
        ppo,
        learning_rate=ppo.learning_rate / 10.0,
        anneal=ppo.anneal and max(1, ppo.anneal - iterations),
        critic_warmup=0 if has_critic else _CRITIC_WARMUP,
    )


def _more_minibatches(ppo: PPOConfig) -> PPOConfig:
    return replace(ppo, minibatches=2 * ppo.minibatches)


ENTRY = AlgorithmEntry(
    "ppo", PPOConfig, _needs, "jaxrl_hw.algos.ppo", _warm_started, _more_minibatches
)
