"""The algorithms: each registers its settings class and says what it needs, without jax."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from jaxrl_hw.errors import unknown


class Sizes(NamedTuple):
    """What planning knows of an environment before any is made."""

    obs: int  # entries of the policy's observation
    critic: int  # entries of the critic's
    action: int  # entries of an action
    has_symmetry: bool  # whether the robot has a mirror image


class Needs(NamedTuple):
    """What an algorithm needs of memory and of the batch; bytes unless told otherwise."""

    unroll: int  # control steps collected from every environment per iteration
    epochs: int  # passes over the batch per iteration
    minibatches: int  # per pass; num_envs * unroll must be divisible by it
    network_bytes: int  # all parameters
    optimizer_bytes: int  # moments and averages
    normalizer_bytes: int  # observation statistics
    replay_bytes: int  # a replay buffer, whatever the number of environments
    sample_bytes: int  # one sample of the batch
    update_bytes_per_env: int  # activations and gradients of an update, per environment


class AlgorithmEntry(NamedTuple):
    """An algorithm by its name; looking at it imports neither jax nor flax."""

    name: str
    settings: type
    """Its settings class; the group of that name in `Config`."""
    needs: Callable[[Any, Any, Sizes], Needs]
    """(its settings, NetConfig, Sizes) -> Needs"""
    module: str
    """Defines make(settings, net, env, precision) -> Algorithm."""
    more_minibatches: Callable[[Any], Any | None] = lambda settings: None
    """The settings with smaller minibatches, None where there are none: after out of memory."""


@cache
def entries() -> dict[str, AlgorithmEntry]:
    """Every algorithm of the package: the ENTRY of each module `NAME_settings`."""
    here = str(Path(__file__).parent)
    names = [m.name for m in pkgutil.iter_modules([here]) if m.name.endswith("_settings")]
    package = __name__.rpartition(".")[0]
    found = [importlib.import_module(f"{package}.{name}").ENTRY for name in sorted(names)]
    return {entry.name: entry for entry in found}


def algorithm_entry(name: str) -> AlgorithmEntry:
    """The algorithm of that name.

    Raises:
      UserError: there is none; lists those there are.
    """
    known = entries()
    if name not in known:
        raise unknown("algorithm", name, known)
    return known[name]
