"""DQN's settings."""

from __future__ import annotations

from dataclasses import dataclass, replace

from jaxrl_hw.algos import replay_knobs
from jaxrl_hw.algos.networks.settings import NetConfig, policy_size
from jaxrl_hw.algos.registry import AlgorithmEntry, Circumstances
from jaxrl_hw.algos.replay_knobs import REPLAY_ENTRY, ReplayConfig, replay_needs, sized_for
from jaxrl_hw.errors import UserError
from jaxrl_hw.types import Needs, Sizes, setting

_ACCELERATOR = (50_000, 128, (256, 256, 256))
_CPU = (10_000, 32, (128, 128))
"""Replay, batch and hidden layers that suit a device."""


@dataclass(frozen=True)
class DQNConfig(ReplayConfig):
    """Deep Q-learning (Mnih et al. 2015, doi:10.1038/nature14236), for discrete actions."""

    widths: tuple[int, ...] = setting(())
    """Widths of the Q-network's hidden layers; none: those that suit the device."""
    double: bool = setting(True)
    """The network chooses the next action, its target values it (van Hasselt et al. 2016,
    arXiv:1509.06461)."""
    dueling: bool = setting(False)
    """A value and an advantage of each action (Wang et al. 2016, arXiv:1511.06581)."""
    epsilon_start: float = setting(1.0, at_least=0.0, at_most=1.0)
    """Share of random actions at the start."""
    epsilon_end: float = setting(0.05, at_least=0.0, at_most=1.0)
    """Share of random actions after epsilon_steps."""
    epsilon_steps: int = setting(50_000, unit="env steps", at_least=0)
    """Env steps over which the share of random actions falls linearly."""
    learning_starts: int = setting(1_000, unit="env steps", at_least=0)
    """The first gradient step comes when the replay holds so many env steps."""
    gamma: float = setting(0.98, at_least=0.0, at_most=1.0)
    """Discount per control step."""
    tau: float = setting(0.01, above=0.0, at_most=1.0)
    """Share of the network that goes into the target network at each gradient step."""
    learning_rate: float = setting(1e-3, at_least=1e-9)
    """Adam's step size."""
    max_grad_norm: float = setting(10.0, at_least=1e-9)
    """Gradients are scaled down to this global norm."""

    def check(self) -> None:
        """Raises UserError for layers without units."""
        if any(width < 1 for width in self.widths):
            raise UserError(f"--dqn.widths must be at least 1, got {_shown(self.widths)}")


def q_net(dqn: DQNConfig, net: NetConfig) -> NetConfig:
    """The Q-network's settings."""
    return replace(net, policy=dqn.widths)


def outputs_of(dqn: DQNConfig, actions: int) -> int:
    """Outputs of the Q-network: a value or an advantage of each action, and one value."""
    return actions + dqn.dueling


def _needs(dqn: DQNConfig, net: NetConfig, sizes: Sizes) -> Needs:
    network = policy_size(q_net(dqn, net), sizes.obs, outputs_of(dqn, sizes.actions), False)
    seen = replay_knobs.history_of(net) * sizes.obs
    # activations and their gradients, and what both networks say of what follows
    update = 4 * dqn.batch_size * (6 * network.activations + 4 * seen)
    weights = 4 * network.weights
    return Needs(
        unroll=dqn.train_freq,
        epochs=dqn.gradient_steps,
        minibatch_size=dqn.batch_size,
        network_bytes=2 * weights,
        optimizer_bytes=2 * weights,
        normalizer_bytes=8 * sizes.obs,
        replay=replay_needs(dqn, net, sizes.obs, 1),
        sample_bytes=4 * (2 * (sizes.obs + sizes.critic) + sizes.action + 6),
        memory_bytes=4 * network.memory,
        update_bytes=update,
        networks=(("Q", dqn.widths),),
        parts=(
            ("Q-network", weights),
            ("target", weights),
            ("optimizer", 2 * weights),
            ("batch and gradients", update),
        ),
    )


def _sized(dqn: DQNConfig, num_envs: int, platform: str = "cpu") -> DQNConfig:
    replay, batch, widths = _CPU if platform == "cpu" else _ACCELERATOR
    sized = sized_for(dqn, num_envs, replay, batch)
    return replace(sized, widths=dqn.widths or widths)


def _why(dqn: DQNConfig, platform: str) -> str:
    usual, other = (_CPU, _ACCELERATOR) if platform == "cpu" else (_ACCELERATOR, _CPU)
    names = ("a CPU", "an accelerator") if platform == "cpu" else ("an accelerator", "a CPU")
    own = (dqn.buffer_size, dqn.batch_size, dqn.widths)
    if own == usual:
        replay, batch, widths = other
        return f"usual on {names[0]}; on {names[1]} {replay:,}, {batch}, {_shown(widths)}"
    return f"usual on {names[0]} are {usual[0]:,}, {usual[1]}, {_shown(usual[2])}"


def _shown(widths: tuple[int, ...]) -> str:
    return "-".join(map(str, widths))


def _check(dqn: DQNConfig, circumstances: Circumstances) -> None:
    if not circumstances.actions:
        raise UserError(
            "--algo dqn chooses from a set of actions, and these are continuous: give "
            "--discrete-actions 2 or more, where motors are few, or --robot cartpole_discrete, or "
            "use --algo sac"
        )
    replay_knobs.check("dqn", circumstances)


ENTRY = AlgorithmEntry(
    "dqn",
    DQNConfig,
    _needs,
    "jaxrl_hw.algos.dqn",
    _sized,
    check=_check,
    why=_why,
    ignores=("net.policy", "net.value", "net.init_std"),
    **REPLAY_ENTRY,
)
