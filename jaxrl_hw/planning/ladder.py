"""What halves where memory runs out: a replay first, then environments, minibatches, the unroll."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from jaxrl_hw.algos.registry import algorithm_entry
from jaxrl_hw.config.resolve import algorithm_needs
from jaxrl_hw.config.schema import Config
from jaxrl_hw.planning.devices import dividing
from jaxrl_hw.planning.replay import least, replay_of, with_capacity
from jaxrl_hw.types import Sizes

_SHOWN = 2
"""Sizes of a rung that are named; the last one is too."""


def size_of(config: Config) -> dict[str, int]:
    """What shrinks where memory runs out; the number of environments must be settled."""
    entry = algorithm_entry(config.algo)
    # neither networks nor observations decide these
    needs = entry.needs(getattr(config, entry.name), config.net, Sizes(0, 0, 0, False))
    number = int(config.num_envs)
    size = {
        "num_envs": number,
        "minibatch_size": min(needs.minibatch_size, number * max(1, needs.unroll)),
        "unroll": needs.unroll,
    }
    if needs.replay is not None:
        size = {**size, "minibatch_size": needs.minibatch_size, "replay": needs.replay.capacity}
    return size


def halved_envs(config: Config) -> Config | None:
    """A config with half of the environments; None where there are none to spare."""
    half = dividing(config, int(config.num_envs) // 2)
    return replace(config, num_envs=half) if half < int(config.num_envs) else None


def halved_replay(config: Config) -> Config | None:
    """A config with half of its replay; None where it would hold less than it must."""
    needs = replay_of(config)
    if needs is None or needs.capacity // 2 < least(config, int(config.num_envs)):
        return None
    return with_capacity(config, needs.capacity // 2)


def halved_minibatches(config: Config) -> Config | None:
    """A config with minibatches of half the size; None where that makes no more of them."""
    entry = algorithm_entry(config.algo)
    settings = entry.smaller_minibatches(getattr(config, entry.name))
    smaller = replace(config, **{entry.name: settings})
    if replay_of(config) is not None:
        less = size_of(smaller)["minibatch_size"] < size_of(config)["minibatch_size"]
        return smaller if less else None
    samples = int(config.num_envs) * algorithm_needs(config).unroll
    now, then = (algorithm_needs(c).minibatches(samples) for c in (config, smaller))
    return smaller if then != now else None


def halved_unroll(config: Config) -> Config | None:
    """A config with half of the steps per iteration; None where it cannot have fewer."""
    entry = algorithm_entry(config.algo)
    shorter = replace(config, **{entry.name: entry.shorter_unroll(getattr(config, entry.name))})
    return shorter if size_of(shorter)["unroll"] < size_of(config)["unroll"] else None


def next_rung(config: Config) -> Config | None:
    """The config with the first of them that can be halved; None at the ladder's foot. A replay
    comes first: what it holds is the least loss."""
    if replay_of(config) is not None:
        return halved_replay(config) or halved_minibatches(config) or halved_envs(config)
    return halved_envs(config) or halved_minibatches(config) or halved_unroll(config)


def rungs(config: Config) -> Iterator[dict[str, int]]:
    """The sizes (`size_of`) that a run would come to, one after the other."""
    smaller = next_rung(config)
    while smaller is not None:
        yield size_of(smaller)
        smaller = next_rung(smaller)


def ladder_text(config: Config) -> str:
    """The rungs in words."""
    if config.seeds > 1:
        return f"the run fails: the {config.seeds} seeds keep one size"
    if config.on_oom == "fail":
        return "the run fails (--on-oom fail)"
    last, columns = size_of(config), dict[str, list[int]]()
    for size in rungs(config):
        halved = [name for name in size if size[name] != last[name]]
        if len(halved) > 1:  # a minibatch of the whole batch is halved with the batch
            halved.remove("minibatch_size")
        for name in halved:
            columns.setdefault(name, []).append(size[name])
        last = size
    shown = {
        "replay": "a replay of {} transitions",
        "num_envs": "{} environments",
        "minibatch_size": "minibatches of {} samples",
        "unroll": "{} steps per iteration",
    }
    texts = [shown[name].format(_named(values)) for name, values in columns.items()]
    return f"shrinks to {'; then to '.join(texts)}" if texts else "nothing can be halved"


def _named(values: Sequence[int]) -> str:
    first = ", ".join(f"{value:,}" for value in values[:_SHOWN])
    return first if len(values) <= _SHOWN else f"{first} ... {values[-1]:,}"
