"""Settings that all algorithms with a replay share, and what follows from them. Without jax."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Literal, TypeVar

from jaxrl_hw.algos.networks.settings import NetConfig
from jaxrl_hw.algos.registry import Circumstances
from jaxrl_hw.algos.replay_size import transition_bytes
from jaxrl_hw.errors import UserError
from jaxrl_hw.types import ReplayNeeds, setting

AUTO = "auto"
SMALLEST_BATCH = 32
"""Out of memory does not halve a batch below this."""


@dataclass(frozen=True)
class ReplayConfig:
    """Learning from a replay of past experience."""

    buffer_size: int | str = setting(0, unit="transitions", at_least=0)
    """Transitions that the replay holds, of all environments together: a number, such as 1M; auto,
    as many as fit beside the rest; 0: as many as suit the device."""
    batch_size: int = setting(0, unit="samples", at_least=0)
    """Transitions of one gradient step; 0: as many as suit the device."""
    train_freq: int = setting(8, at_least=1)
    """Control steps collected from every environment per iteration, before the gradient steps."""
    gradient_steps: int = setting(0, at_least=0)
    """Gradient steps per iteration; 0: as many as `reuse` asks for."""
    reuse: float = setting(8.0, above=0.0)
    """How often each transition is learned from, on average; means the same with any number of
    environments, batch size and train_freq."""
    learning_starts: int = setting(10_000, unit="env steps", at_least=0)
    """The first gradient step comes when the replay holds so many env steps."""
    n_step: int = setting(1, at_least=1)
    """Rewards that are summed up before a target network is asked; fewer where an episode ends."""
    gamma: float = setting(0.97, at_least=0.0, at_most=1.0)
    """Discount per control step."""
    tau: float = setting(0.1, above=0.0, at_most=1.0)
    """Share of the networks that goes into the target networks at each gradient step."""
    learning_rate: float = setting(3e-4, at_least=1e-9)
    """Adam's step size."""
    replay_dtype: Literal["float32", "float16", "bfloat16"] = setting("float32")
    """In what observations are stored; two bytes halve the replay."""


C = TypeVar("C", bound=ReplayConfig)


def history_of(net: NetConfig) -> int:
    """Observations that the policy sees, the present one included."""
    return net.history if net.memory == "history" else 1


def replay_needs(config: ReplayConfig, net: NetConfig, numbers: int, action: int) -> ReplayNeeds:
    """What the replay takes.

    numbers: of an observation as it is stored. action: entries of an action.
    """
    return ReplayNeeds(
        config.buffer_size if isinstance(config.buffer_size, int) else 0,
        transition_bytes(numbers, action, config.replay_dtype),
        config.learning_starts,
        config.n_step + history_of(net),
    )


def sized_for(config: C, num_envs: int, buffer_size: int, batch_size: int) -> C:
    """The settings with what is open filled in.

    buffer_size, batch_size: those that suit the device.
    """
    given = config.buffer_size
    size = config.batch_size or batch_size
    wanted = round(config.reuse * num_envs * config.train_freq / size)
    return replace(
        config,
        buffer_size=given if isinstance(given, int) and given else buffer_size,
        batch_size=size,
        gradient_steps=config.gradient_steps or max(1, wanted),
    )


def smaller_batch(config: C) -> C:
    """Batches of half the size, and twice as many; the same settings where they are small."""
    if config.batch_size // 2 < SMALLEST_BATCH:
        return config
    steps = 2 * config.gradient_steps
    return replace(config, batch_size=config.batch_size // 2, gradient_steps=steps)


def with_replay(config: C, transitions: int) -> C:
    """The settings with a replay of another size."""
    return replace(config, buffer_size=transitions)


def fills_memory(config: ReplayConfig) -> bool:
    """Whether the replay takes what memory is left."""
    return config.buffer_size == AUTO


def check(name: str, circumstances: Circumstances) -> None:
    """Raises UserError for what no algorithm with a replay can do."""
    if circumstances.net.memory == "gru":
        raise UserError(
            f"--net.memory gru does not go with --algo {name}, whose replay holds no recurrent "
            "states: use --net.memory history or none"
        )
    if circumstances.sharded:
        raise UserError(
            f"--devices does not go with --algo {name}, whose replay lies on one device: leave it "
            "out, or use --algo ppo or a2c"
        )


REPLAY_ENTRY: dict[str, Any] = {
    "smaller_minibatches": smaller_batch,
    "with_replay": with_replay,
    "fills_memory": fills_memory,
    "shrinks": ("buffer_size", "batch_size", "gradient_steps"),
    "replay_form": ("buffer_size", "replay_dtype"),
    "memories": ("none", "history"),
}
"""What the entries of all algorithms with a replay have in common."""
