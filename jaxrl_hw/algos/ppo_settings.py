"""PPO's settings."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

from jaxrl_hw.algos.networks.settings import NetConfig, count_weights
from jaxrl_hw.algos.registry import AlgorithmEntry
from jaxrl_hw.errors import UserError
from jaxrl_hw.types import Needs, Sizes, setting


@dataclass(frozen=True)
class PPOConfig:
    """Proximal policy optimization (Schulman et al. 2017, arXiv:1707.06347)."""

    unroll: int = setting(24, at_least=1)
    """Control steps collected from every environment per iteration (T)."""
    epochs: int = setting(4, at_least=1)
    """Passes over the batch per iteration."""
    minibatches: int = setting(6, at_least=1)
    """Minibatches per pass; must divide num_envs * unroll."""
    gamma: float = setting(0.97, at_least=0.0, at_most=1.0)
    """Discount per control step."""
    gae_lambda: float = setting(0.95, at_least=0.0, at_most=1.0)
    """Lambda of generalized advantage estimation (Schulman et al. 2016, arXiv:1506.02438)."""
    clip: float = setting(0.2, at_least=1e-6)
    """Clip range of the probability ratio."""
    value_clip: float = setting(0.0, at_least=0.0)
    """Clip range of the value's change per iteration; 0 leaves it unclipped."""
    value_coef: float = setting(1.0, at_least=0.0)
    """Weight of the value loss."""
    entropy_coef: float = setting(0.002, at_least=0.0)
    """Weight of the entropy bonus."""
    learning_rate: float = setting(1e-3, at_least=1e-9)
    """Adam's step size at the start."""
    lr_schedule: Literal["adaptive", "fixed"] = setting("adaptive")
    """adaptive follows the KL divergence."""
    desired_kl: float = setting(0.03, at_least=1e-9)
    """adaptive: the rate falls where the last epoch's KL is above twice this, and rises where it is
    below half."""
    lr_min: float = setting(1e-5, at_least=0.0)
    """adaptive: lower bound of the rate."""
    lr_max: float = setting(1e-3, at_least=1e-9)
    """adaptive: upper bound of the rate."""
    anneal: int = setting(0, at_least=0)
    """Iterations over which the rate's upper bound falls linearly to a tenth, and exploration noise
    to end_std; 0: never. Depends only on the iteration, so extending a run does not alter its
    past."""
    end_std: float = setting(0.15, at_least=1e-3)
    """Upper bound of the policy's standard deviation at the end of the annealing."""
    weight_averaging: float = setting(0.0, at_least=0.0, at_most=1.0)
    """Part of the run so far over which the evaluated and exported policy averages its weights; 0
    takes the last ones."""
    critic_warmup: int = setting(0, at_least=0)
    """Iterations at the start in which only the value network learns, at lr_max; the policy then
    starts at learning_rate. `--init-from` a policy file sets 120: a trained policy would lose its
    skill to an untrained value network."""
    motion_prior: bool = setting(True)
    """Pretrain the policy on the task's open-loop motion (stepping in place), if it has one."""
    max_grad_norm: float = setting(1.0, at_least=1e-9)
    """Gradients are scaled down to this global norm."""
    symmetry: Literal["loss", "augment", "none"] = setting("loss")
    """loss (mirror loss on the policy mean), augment (mirrored copies of the batch) or none."""
    symmetry_coef: float = setting(1.0, at_least=0.0)
    """Weight of the mirror loss."""

    def check(self) -> None:
        """Raises UserError where settings contradict each other."""
        if self.lr_min > self.lr_max:
            raise UserError(f"--ppo.lr-min {self.lr_min} is above --ppo.lr-max {self.lr_max}")


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


ENTRY = AlgorithmEntry(
    "ppo",
    PPOConfig,
    _needs,
    "jaxrl_hw.algos.ppo",
    _warm_started,
    more_minibatches=lambda ppo: replace(ppo, minibatches=2 * ppo.minibatches),
)
