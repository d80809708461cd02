"""The algorithms: each registers its settings class and says what it needs, without jax.

An algorithm of your own is a module that calls `register_algorithm` or defines ALGORITHM.
"""

from __future__ import annotations

import dataclasses
import importlib
import pkgutil
import sys
from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from jaxrl_hw.errors import UserError, unknown
from jaxrl_hw.types import Algorithm, EnvSpec, Needs, Sizes

_RATES = ("learning_rate", "lr_min", "lr_max", "entropy_coef")
"""Settings that `halved` halves."""


def halved(settings: Any) -> Any:
    """An algorithm's settings with half the learning rate, its bounds and the entropy bonus."""
    names = (field.name for field in dataclasses.fields(settings) if field.name in _RATES)
    return dataclasses.replace(settings, **{name: getattr(settings, name) / 2 for name in names})


AlgorithmMaker = Callable[[Any, Any, EnvSpec, str], Algorithm]
"""(its settings, NetConfig, EnvSpec, precision) -> Algorithm"""


class Circumstances(NamedTuple):
    """What an algorithm's settings are checked against."""

    net: Any  # NetConfig
    actions: int  # of a discrete set; 0 for continuous ones
    sharded: bool  # the environments are divided over devices
    has_motion: bool | None  # the task has a motion for a policy to start from; None: not known
    has_mirror: bool  # the robot has a mirror image
    sees_more: bool  # the critic's observation is larger than the policy's


def _any(settings: Any, circumstances: Circumstances) -> None:
    """No circumstances are refused."""


def _all_count(settings: Any, circumstances: Circumstances) -> dict[str, str]:
    """No setting is without effect."""
    return {}


def idle_motion(settings: Any, circumstances: Circumstances, *others: str) -> dict[str, str]:
    """Those of an algorithm's settings of the motion prior that have no effect; for `idle`.

    others: names of settings of it, beside `motion_prior`, that are numbers; 0 asks for nothing.
    """
    asked = [name for name in ("motion_prior", *others) if getattr(settings, name)]
    if circumstances.has_motion is False:
        return dict.fromkeys(asked, "where the task has no motion prior: choose another --task")
    off = "without the motion prior: turn that on"
    return {} if settings.motion_prior else dict.fromkeys(asked, off)


def needs_continuous_actions(name: str, circumstances: Circumstances) -> None:
    """Raises UserError where actions are of a discrete set."""
    if circumstances.actions:
        raise UserError(
            f"--algo {name} is for continuous actions, got {circumstances.actions} discrete ones: "
            "use --algo dqn, or leave them continuous (--discrete-actions 0, --robot cartpole)"
        )


class AlgorithmEntry(NamedTuple):
    """An algorithm by its name; looking at it imports neither jax nor flax."""

    name: str
    settings: type
    """Its settings class; the group of that name in `Config`."""
    needs: Callable[[Any, Any, Sizes], Needs]
    """(its settings, NetConfig, Sizes) -> Needs"""
    module: str = ""
    """Defines make(settings, NetConfig, EnvSpec, precision) -> Algorithm."""
    sized: Callable[[Any, int, str], Any] = lambda settings, num_envs, platform: settings
    """(settings, number of environments, "cpu", "gpu" or "tpu") -> settings with all that follows
    from these."""
    warm_started: Callable[[Any, int, bool], Any] | None = None
    """(settings, env steps that the policy has trained, whether its critic comes along) ->
    settings that do not throw a trained policy off; None where it cannot start from one."""
    inherits: tuple[str, ...] = ()
    """Names of its settings that a policy to start from decides: they say what form it has."""
    smaller_minibatches: Callable[[Any], Any] = lambda settings: settings
    """The settings with minibatches of half the size: after out of memory."""
    shrinks: tuple[str, ...] = ()
    """Names of its settings that get smaller, or follow, after out of memory."""
    shorter_unroll: Callable[[Any], Any] = lambda settings: settings
    """The settings with half of the steps per iteration, or as they are: after out of memory, where
    neither environments nor minibatches can be halved."""
    calmer: Callable[[Any], Any] = halved
    """The settings that learn half as fast: after updates that were not finite."""
    with_replay: Callable[[Any, int], Any] | None = None
    """(settings, transitions) -> settings with a replay for so many; None without a replay."""
    fills_memory: Callable[[Any], bool] = lambda settings: False
    """Whether the replay is to take what memory is left."""
    check: Callable[[Any, Circumstances], None] = _any
    """Raises UserError where the algorithm cannot learn under such circumstances."""
    why: Callable[[Any, str], str] = lambda settings, platform: ""
    """(settings, platform) -> what the plan says of the learner: with a replay, why its sizes are
    what they are; else what bounds an update. "" for nothing."""
    ignores: tuple[str, ...] = ()
    """Settings of `Config`, or their prefixes, that have no effect on it."""
    memories: tuple[str, ...] = ("none",)
    """The kinds of `net.memory` that it can use; another one that is asked for is refused."""
    idle: Callable[[Any, Circumstances], Mapping[str, str]] = _all_count
    """(its settings, circumstances) -> those of its settings that ask for something and have no
    effect, each with why and what to do instead: refused where a flag or a file gives them."""
    replay_form: tuple[str, ...] = ()
    """Names of its settings that decide the form of a saved replay."""
    maker: AlgorithmMaker | None = None
    """In place of a module's `make`."""

    def started_from(self, source: str, settings: Any, env_steps: int, has_critic: bool) -> Any:
        """Settings for a run that starts from a trained policy; see `warm_started`.

        Raises:
          UserError: the algorithm cannot.
        """
        if self.warm_started is None:
            raise UserError(
                f"--init-from {source} does not go with --algo {self.name}, which cannot start "
                "from a policy: use --algo ppo or a2c, or leave --init-from out"
            )
        return self.warm_started(settings, env_steps, has_critic)

    def make(self, settings: Any, net: Any, spec: EnvSpec, precision: str) -> Algorithm:
        """The algorithm for an environment's sizes; imports jax.

        Raises:
          UserError: settings that it cannot use.
        """
        make = self.maker or importlib.import_module(self.module).make
        made: Algorithm = make(settings, net, spec, precision)
        return made


_REGISTERED: dict[str, AlgorithmEntry] = {}
_LOADED: dict[str, str] = {}
"""Modules named on the command line, and the algorithm that each has registered."""


@cache
def _shipped() -> dict[str, AlgorithmEntry]:
    """The ENTRY of each module `NAME_settings` of the package."""
    here = str(Path(__file__).parent)
    names = [m.name for m in pkgutil.iter_modules([here]) if m.name.endswith("_settings")]
    package = __name__.rpartition(".")[0]
    found = [importlib.import_module(f"{package}.{name}").ENTRY for name in sorted(names)]
    return {entry.name: entry for entry in found}


def entries() -> dict[str, AlgorithmEntry]:
    """Every algorithm by its name."""
    return {**_shipped(), **_REGISTERED}


def algorithm_entry(name: str) -> AlgorithmEntry:
    """The algorithm of that name.

    Raises:
      UserError: there is none, with those there are; or the name is of a module that
        `load_algorithm` has not loaded.
    """
    known = entries()
    if _LOADED.get(name, name) in known:
        return known[_LOADED.get(name, name)]
    if is_module(name):
        raise UserError(
            f'algorithm "{name}" is a module, and no command imports what only files name: '
            f"give --algo {name}"
        )
    raise unknown("algorithm", name, known)


def register_algorithm(entry: AlgorithmEntry) -> None:
    """Make an algorithm of your own known by its name.

    Registering the same settings class again replaces the entry, so a notebook cell can be run
    twice.

    Args:
      entry: with a `maker`. Its settings become the group of its name in config.json, and flags
        such as `--NAME.learning-rate`.

    Raises:
      UserError: another algorithm has that name already, or it is no identifier.
    """
    if not entry.name.isidentifier():
        raise UserError(f'an algorithm needs an identifier as its name, got "{entry.name}"')
    known = entries().get(entry.name)
    if known is not None and known.settings.__qualname__ != entry.settings.__qualname__:
        taken = ", ".join(entries())
        raise UserError(
            f'algorithm "{entry.name}" exists already: give yours another name (taken: {taken})'
        )
    _REGISTERED[entry.name] = entry


def load_algorithm(name: str) -> AlgorithmEntry:
    """The algorithm that a command line names; the only way in which a name imports code.

    name: an algorithm's, or a module's (`my_package.my_algorithm`, the current folder's included),
        which registers one or defines ALGORITHM.

    Raises:
      UserError: no such algorithm, or its code cannot be imported.
    """
    if name in _LOADED or name in entries() or not is_module(name):
        return algorithm_entry(name)
    before = set(_REGISTERED)
    if str(Path.cwd()) not in sys.path:
        sys.path.insert(0, str(Path.cwd()))
    try:
        module = importlib.import_module(name)
    except UserError:
        raise
    except Exception as error:  # whatever the user's code raises
        where = f"{type(error).__name__}: {error}"
        raise UserError(f"--algo {name} cannot be imported: {where}") from error
    found, new = getattr(module, "ALGORITHM", None), set(_REGISTERED) - before
    if isinstance(found, AlgorithmEntry):
        register_algorithm(found)
        new = {found.name}
    if len(new) != 1:
        raise UserError(
            f"--algo {name} must define ALGORITHM, an AlgorithmEntry, or register one algorithm; "
            f"it registers {len(new)}"
        )
    _LOADED[name] = new.pop()
    return algorithm_entry(name)


def is_module(name: str) -> bool:
    """Whether a name is of a module, and not of an algorithm of the package."""
    return "." in name or (name.isidentifier() and Path(f"{name}.py").is_file())
