"""The learning rate, halved after updates that were not finite: what a run remembers of it.

The command line may give the rate that the run began with, and a checkpoint may be from before a
halving. So `sessions.jsonl` has the truth: each halving as values before and after. Whatever has a
value from before gets the one after.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, replace
from typing import Any

from jaxrl_hw.algos.registry import algorithm_entry
from jaxrl_hw.checkpointing.run_dir import RunDir
from jaxrl_hw.checkpointing.sessions import open_session
from jaxrl_hw.config.fields import flatten, nested, value_at, with_values
from jaxrl_hw.config.schema import Config
from jaxrl_hw.loggers import formats

HALVED = "halved"
"""In a line of sessions.jsonl: the halvings of the run so far."""
MOST_HALVINGS = 3
"""Of a run; after them it fails."""

Halving = dict[str, list[float]]
"""By dotted key of a setting: its value before and after."""


def halve(config: Config) -> tuple[Config, Halving]:
    """The config with its learning rate and entropy bonus halved, and what has changed."""
    entry = algorithm_entry(config.algo)
    before = getattr(config, entry.name)
    after = entry.calmer(before)
    then = asdict(after)
    changed = {k: [v, then[k]] for k, v in asdict(before).items() if then[k] != v}
    return (
        replace(config, **{entry.name: after}),
        {f"{entry.name}.{key}": pair for key, pair in changed.items()},
    )


def halvings_of(run: RunDir) -> tuple[Halving, ...]:
    """A run's halvings by its last session, which may have been killed. Raises RunError."""
    opened = open_session(run)
    last = opened.record if opened is not None and opened.record else None
    last = last or next(reversed(run.read_sessions()), {})
    return tuple(last.get(HALVED, ()))


def with_halvings(config: Config, halvings: Sequence[Halving]) -> tuple[Config, tuple[str, ...]]:
    """A config as the halvings leave it, and a note where they change it."""
    keys = {key: value_at(config, key) for halving in halvings for key in halving}
    after = {key: _after(value, key, halvings)[0] for key, value in keys.items()}
    changed = {key: value for key, value in after.items() if value != keys[key]}
    if not changed:
        return config, ()
    text = ", ".join(f"{key} {formats.figure(value)}" for key, value in changed.items())
    note = f"halved after updates that were not finite: {text} (--override-config undoes it)"
    return with_values(config, changed), (note,)


def applied(settings: dict[str, Any], halvings: Sequence[Halving]) -> dict[str, Any]:
    """Saved settings, nested, as the halvings leave them."""
    keys = {key for halving in halvings for key in halving}
    if not keys:
        return settings
    flat = flatten(settings)
    return nested({k: _after(v, k, halvings)[0] if k in keys else v for k, v in flat.items()})


def missing(settings: dict[str, Any], halvings: Sequence[Halving]) -> int:
    """How many of the halvings came after these settings, nested, were saved."""
    flat = flatten(settings)
    keys = {key for halving in halvings for key in halving if key in flat}
    return max((_after(flat[key], key, halvings)[1] for key in keys), default=0)


def _after(value: Any, key: str, halvings: Sequence[Halving]) -> tuple[Any, int]:
    """What a value has become, and by how many halvings."""
    count = 0
    for before, after in (halving[key] for halving in halvings if key in halving):
        if value == before:
            value, count = after, count + 1
    return value, count
