"""A replay of past experience: how large it is, whether it fits, and whether checkpoints hold it.

Such an algorithm has the settings buffer_size, batch_size and learning_starts in its group.
"""

from __future__ import annotations

from dataclasses import replace

from jaxrl_hw.algos.registry import algorithm_entry
from jaxrl_hw.config.goal import goal_iteration
from jaxrl_hw.config.resolve import algorithm_needs, algorithm_why
from jaxrl_hw.config.schema import Config
from jaxrl_hw.errors import UserError
from jaxrl_hw.loggers import formats
from jaxrl_hw.types import ReplayNeeds

SMALL = 200_000_000
"""Bytes up to which `--save-replay auto` saves a replay with every checkpoint."""
COPIES = 3
"""Copies of a replay in a CPU's memory while a checkpoint is written: one that leaves the replay
free to change, Orbax's, and the compressed one, hardly smaller where the replay is full. Measured
with replays of 11 to 111 MB: 2.2 to 2.6 where little of them is full, 3.7 of a full one of 28 MB,
with what a first checkpoint takes besides."""


def replay_of(config: Config) -> ReplayNeeds | None:
    """What the config's replay takes; None for an algorithm without one."""
    return algorithm_needs(config).replay


def is_open(config: Config) -> bool:
    """Whether the replay is to take what memory the rest leaves."""
    entry = algorithm_entry(config.algo)
    return entry.fills_memory(getattr(config, entry.name))


def with_capacity(config: Config, transitions: int) -> Config:
    """The config with a replay of another size."""
    entry = algorithm_entry(config.algo)
    if entry.with_replay is None:
        return config
    return replace(
        config, **{entry.name: entry.with_replay(getattr(config, entry.name), transitions)}
    )


def least(config: Config, num_envs: int) -> int:
    """The fewest transitions that a replay of the config works with."""
    needs = algorithm_needs(config)
    if needs.replay is None:
        return 0
    slots = num_envs * (needs.replay.span + needs.unroll + 1)
    return max(slots, needs.minibatch_size, needs.replay.learning_starts)


def most_useful(config: Config) -> int:
    """The transitions of a whole run, whose number of environments is settled."""
    return goal_iteration(config) * int(config.num_envs) * algorithm_needs(config).unroll


def filling(config: Config, needs: ReplayNeeds, left: int, on_cpu: bool) -> int:
    """The transitions that fill a run's memory.

    config: as asked for, whose `save_replay` may be open.
    needs: of the replay as it is now, of each seed. left: bytes that are left beside those of all.
    on_cpu: where checkpoints are copied in the same memory.
    """
    seeds = config.seeds
    room = max(0, left) + seeds * needs.bytes
    saved = config.save_replay == "yes"
    saved = saved or (config.save_replay == "auto" and room <= 2 * SMALL * seeds)
    return room // (seeds + saved * _copies(seeds, on_cpu)) // needs.transition_bytes


def bytes_of_saving(config: Config, on_cpu: bool) -> int:
    """What copies of a settled config's replay take of the device's memory while they are made."""
    if config.save_replay != "yes":
        return 0
    return _copies(config.seeds, on_cpu) * algorithm_needs(config).replay_bytes


def _copies(seeds: int, on_cpu: bool) -> int:
    """Copies of one seed's replay at a time. Several seeds wait for one another with what is to be
    written, and each has its own in the end."""
    waiting = seeds if seeds > 1 else 0
    return waiting + (COPIES if on_cpu else 0)


def settled_saving(config: Config) -> Config:
    """The config with `save_replay` settled."""
    needs = replay_of(config)
    if config.save_replay != "auto" or needs is None:
        return config
    return replace(config, save_replay="yes" if needs.bytes <= SMALL else "no")


def check_replay(config: Config) -> None:
    """Raises UserError where a settled config's replay cannot work, or never would."""
    needs, number = algorithm_needs(config), int(config.num_envs)
    if needs.replay is None:
        return
    flags = f"--{algorithm_entry(config.algo).name}"
    capacity, starts = needs.replay.capacity, needs.replay.learning_starts
    if needs.minibatch_size > capacity:
        raise UserError(
            f"{flags}.batch-size {needs.minibatch_size:,} is larger than the replay of "
            f"{capacity:,} transitions: give at most that, or a larger {flags}.buffer-size"
        )
    if starts > capacity:
        raise UserError(
            f"{flags}.learning-starts {starts:,} is more than the replay of {capacity:,} "
            f"transitions holds: give at most that, or a larger {flags}.buffer-size"
        )
    if capacity < least(config, number):
        raise UserError(
            f"{flags}.buffer-size {capacity:,} holds {capacity // number} control steps of "
            f"{number:,} environments, which is too few: give at least {least(config, number):,}, "
            "or fewer environments (--num-envs)"
        )
    if starts >= most_useful(config):
        raise UserError(
            f"{flags}.learning-starts {starts:,} is beyond the goal of {most_useful(config):,} env "
            "steps, so nothing would be learned: give fewer, or a farther --timesteps"
        )


def refuse_large(config: Config, expected: int, budget: int | None) -> None:
    """Raises UserError, with what fits, where a run fits but for its replay.

    expected: bytes of the run. budget: bytes that it may use; None where unknown.
    """
    needs = replay_of(config)
    if needs is None or budget is None or expected <= budget:
        return
    seeds, each = config.seeds, f" for each of {config.seeds} seeds" if config.seeds > 1 else ""
    room = (budget - expected + seeds * needs.bytes) // (seeds * needs.transition_bytes)
    if room > 0:
        flag = f"--{algorithm_entry(config.algo).name}.buffer-size"
        raise UserError(
            f"{flag} {needs.capacity:,} needs {formats.size(needs.bytes)}{each} "
            f"({needs.transition_bytes} bytes a transition), of {formats.size(budget)} that can be "
            f"used for the whole run: at most {room:,} fit, or use {flag} auto"
        )


def resumes_exactly(config: Config) -> bool:
    """Whether a settled config's checkpoints hold all that a run needs to go on to the bit."""
    return replay_of(config) is None or config.save_replay != "no"


def replay_notes(config: Config) -> list[str]:
    """What the user should know of a settled config's replay."""
    needs = replay_of(config)
    if needs is None or resumes_exactly(config):
        return []
    return [
        f"checkpoints leave out the replay ({formats.size(needs.bytes)}): a continued run starts "
        "with an empty one, and does not continue to the last bit; --save-replay yes keeps it"
    ]


def replay_text(config: Config) -> str:
    """The replay in words: its size, and whether it is saved."""
    needs = replay_of(config)
    assert needs is not None
    saved = "saved with every checkpoint" if config.save_replay == "yes" else "not saved"
    of_each = f"{needs.capacity:,} transitions of {needs.transition_bytes} bytes"
    each = f" for each of {config.seeds} seeds" if config.seeds > 1 else ""
    return f"{of_each}: {formats.size(needs.bytes)}{each}, {saved}"


def learner_text(config: Config, platform: str) -> str:
    """What the learner consists of, with its bytes, and why it is of this size."""
    parts = algorithm_needs(config).parts
    sizes = ", ".join(f"{name} {formats.size(number)}" for name, number in parts)
    why = algorithm_why(config, platform)
    return f"{sizes} ({why})" if why else sizes
