"""SAC's settings."""

from __future__ import annotations

from dataclasses import dataclass

from jaxrl_hw.algos import replay_knobs
from jaxrl_hw.algos.networks.settings import NetConfig, count_weights, policy_size
from jaxrl_hw.algos.registry import (
    AlgorithmEntry,
    Circumstances,
    idle_motion,
    needs_continuous_actions,
)
from jaxrl_hw.algos.replay_knobs import REPLAY_ENTRY, ReplayConfig, replay_needs, sized_for
from jaxrl_hw.errors import UserError
from jaxrl_hw.types import Needs, Sizes, setting

_REPLAY, _BATCH, _CPU_BATCH = 1_000_000, 8192, 1024
"""What suits a device that steps thousands of environments, and a CPU that steps hundreds."""


@dataclass(frozen=True)
class SACConfig(ReplayConfig):
    """Soft actor-critic (Haarnoja et al. 2018, arXiv:1812.05905). The defaults suit many
    environments side by side; the cartpole's preset has those of few."""

    motion_prior: bool = setting(True)
    """Pretrain the policy on the task's open-loop motion (stepping in place), if it has one."""
    prior_coef: float = setting(0.06, at_least=0.0)
    """Weight of the policy's distance from its motion prior, squared, in units of action, summed
    over the motors. It falls linearly to 0 over prior_steps. A policy that nothing holds leaves the
    motion within 30,000 env steps, and stands still."""
    prior_steps: int = setting(4_000_000, unit="env steps", at_least=0)
    """Env steps after which the motion prior no longer counts; 0: it is where the policy starts,
    and no more."""
    policy_delay: int = setting(4, at_least=1)
    """The policy and the temperature learn at every so many gradient steps, the critics at each."""
    alpha_start: float = setting(1e-3, at_least=1e-6)
    """Temperature at the start: the weight of the policy's entropy, which is that of all motors
    together. Where it weighs more than a step's reward, the policy seeks noise."""
    target_entropy: float = setting(-0.5)
    """Entropy per motor, in nats of an action's own units, that the temperature holds the policy
    to: -0.5 is a standard deviation of 0.15."""
    alpha_learning_rate: float = setting(3e-4, at_least=0.0)
    """Adam's step size for the temperature; 0 keeps it as it is."""
    layer_norm: bool = setting(True)
    """Layer normalization in the critics: it bounds their features."""
    max_grad_norm: float = setting(0.0, at_least=0.0)
    """Global norm above which the critics' gradient, and the policy's, is scaled down; 0: none."""
    max_weight_norm: float = setting(0.0, at_least=0.0)
    """Largest norm of the weights into one unit, in critics and policy; longer ones are scaled back
    to it after every gradient step. 0: none."""
    atoms: int = setting(0, at_least=0)
    """Returns over which each critic gives a distribution (Bellemare et al. 2017); 0: it gives a
    value. 101 are usual."""
    return_range: tuple[float, float] = setting((-20.0, 20.0))
    """Lowest and highest of these returns, discounted; what is beyond counts as the end."""


def critic_weights(sac: SACConfig, net: NetConfig, critic: int, action: int) -> int:
    """Parameters of one critic."""
    norms = 2 * sum(net.value) if sac.layer_norm else 0
    return count_weights(critic + action, net.value, sac.atoms or 1) + norms


def _needs(sac: SACConfig, net: NetConfig, sizes: Sizes) -> Needs:
    actor = policy_size(net, sizes.obs, 2 * sizes.action, False)
    critics = 2 * critic_weights(sac, net, sizes.critic, sizes.action)
    learned = actor.weights + critics
    stored = sizes.obs + sizes.critic
    seen = replay_knobs.history_of(net) * sizes.obs + sizes.critic + sizes.action
    # activations and their gradients: two critics thrice (target, fit, actor), the actor twice
    critic = sum(net.value) * (1 + sac.layer_norm) + 3 * sac.atoms
    widths = 2 * actor.activations + 6 * critic
    update = 4 * sac.batch_size * (2 * widths + 2 * seen)
    return Needs(
        unroll=sac.train_freq,
        epochs=sac.gradient_steps,
        minibatch_size=sac.batch_size,
        network_bytes=4 * (learned + critics),
        optimizer_bytes=8 * learned,
        normalizer_bytes=8 * stored,
        replay=replay_needs(sac, net, stored, sizes.action),
        sample_bytes=4 * (2 * stored + sizes.action + 6),
        memory_bytes=4 * actor.memory,
        update_bytes=update,
        networks=(("actor", net.policy), ("critics", net.value)),
        parts=(
            ("actor", 4 * actor.weights),
            ("critics", 4 * critics),
            ("targets", 4 * critics),
            ("optimizer", 8 * learned),
            ("batch and gradients", update),
        ),
    )


def _sized(sac: SACConfig, num_envs: int, platform: str = "cpu") -> SACConfig:
    return sized_for(sac, num_envs, _REPLAY, _CPU_BATCH if platform == "cpu" else _BATCH)


def _why(sac: SACConfig, platform: str) -> str:
    on_cpu = platform == "cpu"
    names = ("a CPU", "an accelerator") if on_cpu else ("an accelerator", "a CPU")
    usual, other = (_CPU_BATCH, _BATCH) if on_cpu else (_BATCH, _CPU_BATCH)
    if sac.batch_size == usual:
        return f"batches usual on {names[0]}; on {names[1]} {other:,}"
    return f"usual on {names[0]} are batches of {usual:,}"


def _check(sac: SACConfig, circumstances: Circumstances) -> None:
    needs_continuous_actions("sac", circumstances)
    low, high = sac.return_range
    if sac.atoms == 1:
        raise UserError("--sac.atoms must be 0 or at least 2, got 1; 101 are usual")
    if not sac.atoms and sac.return_range != SACConfig().return_range:
        raise UserError(
            f"--sac.return-range {low:g} {high:g} has no effect without atoms: add "
            "--sac.atoms 101, or leave it out"
        )
    if not low < high:
        raise UserError(
            f"--sac.return-range must rise, got {low:g} {high:g}; try "
            f"--sac.return-range {high:g} {low:g}"
        )
    replay_knobs.check("sac", circumstances)


def _idle(sac: SACConfig, circumstances: Circumstances) -> dict[str, str]:
    idle = idle_motion(sac, circumstances, "prior_coef", "prior_steps")
    if not sac.prior_coef and sac.prior_steps:
        idle.setdefault("prior_steps", "with --sac.prior-coef 0: give that more than 0")
    return idle


ENTRY = AlgorithmEntry(
    "sac",
    SACConfig,
    _needs,
    "jaxrl_hw.algos.sac",
    _sized,
    check=_check,
    why=_why,
    idle=_idle,
    **REPLAY_ENTRY,
)
