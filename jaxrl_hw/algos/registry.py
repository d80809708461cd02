"""The algorithms: each registers its settings class and says what it needs, without jax."""

from __future__ import annotations

import dataclasses
import importlib
import pkgutil
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from jaxrl_hw.errors import unknown
from jaxrl_hw.types import Algorithm, EnvSpec, Needs, Sizes

_RATES = ("learning_rate", "lr_min", "lr_max", "entropy_coef")
"""Settings that `halved` halves."""


def halved(settings: Any) -> Any:
    """An algorithm's settings with half the learning rate, its bounds and the entropy bonus."""
    names = (field.name for field in dataclasses.fields(settings) if field.name in _RATES)
    return dataclasses.replace(settings, **{name: getattr(settings, name) / 2 for name in names})


class AlgorithmEntry(NamedTuple):
    """An algorithm by its name; looking at it imports neither jax nor flax."""

    name: str
    settings: type
    """Its settings class; the group of that name in `Config`."""
    needs: Callable[[Any, Any, Sizes], Needs]
    """(its settings, NetConfig, Sizes) -> Needs"""
    module: str
    """Defines make(settings, NetConfig, EnvSpec, precision) -> Algorithm."""
    sized: Callable[[Any, int], Any]
    """(settings, number of environments) -> settings with all that follows from the number."""
    warm_started: Callable[[Any, int, bool], Any]
    """(settings, env steps that the policy has trained, whether its critic comes along) ->
    settings that do not throw a trained policy off."""
    smaller_minibatches: Callable[[Any], Any]
    """The settings with minibatches of half the size: after out of memory."""
    shorter_unroll: Callable[[Any], Any] = lambda settings: settings
    """The settings with half of the steps per iteration, or as they are: after out of memory, where
    neither environments nor minibatches can be halved."""
    calmer: Callable[[Any], Any] = halved
    """The settings that learn half as fast: after updates that were not finite."""

    def make(self, settings: Any, net: Any, spec: EnvSpec, precision: str) -> Algorithm:
        """The algorithm for an environment's sizes; imports jax.

        Raises:
          UserError: settings that it cannot use.
        """
        made: Algorithm = importlib.import_module(self.module).make(settings, net, spec, precision)
        return made


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
