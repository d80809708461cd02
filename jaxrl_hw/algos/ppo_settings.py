"""PPO's settings."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal, get_args

from jaxrl_hw.algos.networks.settings import MemoryKind, NetConfig
from jaxrl_hw.algos.on_policy import on_policy_needs, square_root_rule
from jaxrl_hw.algos.registry import (
    AlgorithmEntry,
    Circumstances,
    idle_motion,
    needs_continuous_actions,
)
from jaxrl_hw.errors import UserError
from jaxrl_hw.types import Needs, Sizes, setting

SymmetryMode = Literal["network", "loss", "augment", "none"]
SYMMETRIES = get_args(SymmetryMode)


@dataclass(frozen=True)
class PPOConfig:
    """Proximal policy optimization (Schulman et al. 2017, arXiv:1707.06347)."""

    unroll: int = setting(0, at_least=0)
    """Control steps collected from every environment per iteration (T); 0 takes as many as suit the
    number of environments (`unroll_for`)."""
    epochs: int = setting(4, at_least=1)
    """Passes over the batch per iteration."""
    minibatch_size: int = setting(1024, unit="samples", at_least=1)
    """Size of a minibatch, about: a pass takes as many of equal size as come nearest to it."""
    gamma: float = setting(0.97, at_least=0.0, at_most=1.0)
    """Discount per control step."""
    gae_lambda: float = setting(0.95, at_least=0.0, at_most=1.0)
    """Lambda of generalized advantage estimation (Schulman et al. 2016, arXiv:1506.02438)."""
    clip: float = setting(0.0, at_least=0.0)
    """Clip range of the probability ratio; 0 takes the one that suits the batch
    (`with_trust_region`)."""
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
    desired_kl: float = setting(0.0, at_least=0.0)
    """adaptive: the rate falls where the last epoch's KL is above twice this, and rises where it is
    below half; 0 takes the one that suits the batch (`with_trust_region`)."""
    lr_min: float = setting(1e-5, at_least=0.0)
    """adaptive: lower bound of the rate."""
    lr_max: float = setting(1e-3, at_least=1e-9)
    """adaptive: upper bound of the rate."""
    anneal_steps: int = setting(0, unit="env steps", at_least=0)
    """Env steps over which the rate's upper bound falls linearly to a tenth, and exploration noise
    to end_std; 0: never. Depends only on the steps done, so extending a run does not alter its
    past."""
    end_std: float = setting(0.15, at_least=1e-3)
    """Upper bound of the policy's standard deviation at the end of the annealing."""
    weight_averaging: float = setting(0.0, at_least=0.0, at_most=1.0)
    """Part of the run so far over which the evaluated and exported policy averages its weights; 0
    takes the last ones."""
    critic_warmup_steps: int = setting(0, unit="env steps", at_least=0)
    """Env steps at the start in which only the value network learns, at lr_max; the policy then
    starts at learning_rate. `--init-from` a policy file sets 740k: a trained policy would lose its
    skill to an untrained value network."""
    motion_prior: bool = setting(True)
    """Pretrain the policy on the task's open-loop motion (stepping in place), if it has one."""
    max_grad_norm: float = setting(1.0, at_least=1e-9)
    """Gradients are scaled down to this global norm."""
    symmetry: SymmetryMode = setting("loss")
    """How a robot whose left and right are alike learns from both: network (networks that treat a
    mirror image alike by construction, with hidden layers of even widths; a gru has the mirror
    loss), loss (mirror loss on the policy mean), augment (mirrored copies of the batch) or none."""
    symmetry_coef: float = setting(1.0, at_least=0.0)
    """Weight of the mirror loss."""
    estimation_coef: float = setting(0.0, at_least=0.0)
    """Weight of the estimation loss: the policy network also learns to estimate what only the
    critic sees, such as the base's velocity. 0 turns it off; it has no effect where the critic sees
    no more than the policy."""

    def check(self) -> None:
        """Raises UserError where settings contradict each other."""
        if self.lr_min > self.lr_max:
            raise UserError(f"--ppo.lr-min {self.lr_min} is above --ppo.lr-max {self.lr_max}")


def symmetry_of(ppo: PPOConfig, net: NetConfig, has_symmetry: bool) -> SymmetryMode:
    """The symmetry mode that holds: "none" for a robot without a mirror image.

    Raises:
      UserError: a network of an odd width cannot be symmetric by construction.
    """
    if not has_symmetry:
        return "none"
    if ppo.symmetry != "network":
        return ppo.symmetry
    if net.memory == "gru":
        return "loss"
    for flag, widths in (("--net.policy", net.policy), ("--net.value", net.value)):
        if odd := [width for width in widths if width % 2]:
            raise UserError(
                f"{flag} has the odd width {odd[0]}: --ppo.symmetry network wants even ones, such "
                f"as {odd[0] + 1}; or use --ppo.symmetry loss"
            )
    return "network"


def _needs(ppo: PPOConfig, net: NetConfig, sizes: Sizes) -> Needs:
    symmetry = symmetry_of(ppo, net, sizes.has_symmetry)
    estimator = (net.policy[-1] + 1) * max(sizes.critic - sizes.obs, 0)
    return on_policy_needs(
        net,
        sizes,
        unroll=ppo.unroll,
        epochs=ppo.epochs,
        minibatch_size=ppo.minibatch_size,
        mirrors=symmetry in ("loss", "augment"),
        symmetric=symmetry == "network",
        more_weights=estimator if ppo.estimation_coef else 0,
        averages=bool(ppo.weight_averaging),
    )


_CRITIC_WARMUP = 740_000
"""Env steps in which a new value network learns what a trained policy is worth. Of g1_12dof: after
250,000 the policy still loses its tracking (0.21 m/s a million later), after 490,000 it is at 0.08,
after 740,000 at 0.07."""


def unroll_for(num_envs: int) -> int:
    """Control steps per iteration that suit a number of environments: 24 of 256, 6 of 4,096.

    With the minibatch's size fixed, every sample is used equally often at any number.
    """
    return square_root_rule(24, 48, num_envs)


_USUAL_BATCH, _KL, _CLIP = 6_144, 0.03, 0.2
"""Samples of 256 environments x 24 steps, and the trust region that suits them and fewer."""


def with_trust_region(ppo: PPOConfig, samples: int) -> PPOConfig:
    """The settings with the KL divergence and the clip range, where they are open, that suit a
    batch of so many samples.

    The larger the batch, the fewer updates there are in the same number of env steps, and the less
    noise there is in each: a policy may move further in one. The KL divergence, which goes with the
    square of a step, grows with the square root of the batch, and the clip range with its fourth
    root. Measured with g1_12dof and 4,096 environments (24,576 samples), docs/learning.md: with the
    KL divergence and the clip range of 6,144 samples they need twice the env steps of 256.
    """
    growth = max(1.0, samples / _USUAL_BATCH) ** 0.25
    return replace(
        ppo, desired_kl=ppo.desired_kl or _KL * growth**2, clip=ppo.clip or _CLIP * growth
    )


def _sized(ppo: PPOConfig, num_envs: int, platform: str = "") -> PPOConfig:
    unroll = ppo.unroll or unroll_for(num_envs)
    return with_trust_region(replace(ppo, unroll=unroll), num_envs * unroll)


def _warm_started(ppo: PPOConfig, env_steps: int, has_critic: bool) -> PPOConfig:
    """At the rate of a fresh network a trained policy's first iteration has a KL divergence of 3 to
    13; at a tenth it is 0.02. What the policy's training has annealed stays annealed."""
    return replace(
        ppo,
        learning_rate=ppo.learning_rate / 10.0,
        anneal_steps=ppo.anneal_steps and max(1, ppo.anneal_steps - env_steps),
        critic_warmup_steps=0 if has_critic else _CRITIC_WARMUP,
    )


def _why(ppo: PPOConfig, platform: str) -> str:
    limits = f"a clip range of {ppo.clip:.3g}"
    if ppo.lr_schedule == "adaptive":
        limits = f"a KL divergence of {ppo.desired_kl:.3g} and {limits}"
    return f"each keeps to {limits}; the defaults grow with the batch"


def _idle(ppo: PPOConfig, circumstances: Circumstances) -> dict[str, str]:
    idle = idle_motion(ppo, circumstances)
    if not circumstances.has_mirror and ppo.symmetry != "none":
        idle["symmetry"] = "where the robot has no mirror image: use --ppo.symmetry none"
    if symmetry_of(ppo, circumstances.net, circumstances.has_mirror) != "loss":
        idle["symmetry_coef"] = "without a mirror loss: use --ppo.symmetry loss"
    if ppo.estimation_coef and not circumstances.sees_more:
        idle["estimation_coef"] = "where the critic sees no more than the policy: use 0"
    if not ppo.anneal_steps:
        idle["end_std"] = "without annealing: give --ppo.anneal-steps"
    return idle


ENTRY = AlgorithmEntry(
    "ppo",
    PPOConfig,
    _needs,
    "jaxrl_hw.algos.ppo",
    _sized,
    _warm_started,
    inherits=("symmetry",),
    smaller_minibatches=lambda ppo: replace(ppo, minibatch_size=max(1, ppo.minibatch_size // 2)),
    shorter_unroll=lambda ppo: replace(ppo, unroll=max(1, ppo.unroll // 2)),
    shrinks=("minibatch_size", "unroll"),
    check=lambda ppo, circumstances: needs_continuous_actions("ppo", circumstances),
    why=_why,
    memories=get_args(MemoryKind),
    idle=_idle,
)
