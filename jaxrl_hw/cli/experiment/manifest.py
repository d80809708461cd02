"""The file of an experiment, checked as a whole before anything is trained."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any

from jaxrl_hw.algos.registry import algorithm_entry
from jaxrl_hw.cli.experiment.numbered_yaml import Numbered, read_numbered
from jaxrl_hw.config import validation
from jaxrl_hw.config.fields import flatten, with_values
from jaxrl_hw.config.idle import refuse_idle
from jaxrl_hw.config.presets import preset_config
from jaxrl_hw.config.schema import Config
from jaxrl_hw.envs.robots import get_robot, robot_entry
from jaxrl_hw.errors import UserError, suggest

KEYS = {
    "robots": "a list of robots",
    "algorithms": "a list of algorithms (default: ppo)",
    "seeds": "a list of seeds (default: 0)",
    "base": "settings of every run, by name",
    "variants": "settings by variant: a run is made of each (default: one, of the base alone)",
}
"""Keys of a manifest, and what each holds."""
_ITS_OWN = {"robot": "robots", "algo": "algorithms", "seed": "seeds"}
"""Settings that have a key of their own."""
_OF_PLACES = ("run_dir", "resume", "mirror")
"""Settings that the experiment decides."""
_USUAL = "usual"


@dataclass(frozen=True)
class Cell:
    """One run of an experiment."""

    name: str
    """Of its folder: robot-algorithm-variant-seed."""
    settings: dict[str, Any]
    """For `train --config`, by dotted key: the robot, the algorithm, the seed and all given."""
    config: Config
    """With these settings; its goal is not settled."""

    def is_of(self, saved: Mapping[str, Any]) -> bool:
        """Whether a run with these saved settings is the one that is asked for."""
        now, then = flatten(validation.to_dict(self.config)), flatten(saved)
        keys = (key for key in self.settings if now[key] != "auto")
        return all(then.get(key) == now[key] for key in keys)


def read_manifest(path: Path) -> list[Cell]:
    """The runs of a manifest, those of one robot, algorithm and variant together.

    Raises:
      UserError: no such file, or it holds what cannot be trained; names the line, and the nearest
        name where one is not known.
    """
    return _Manifest(path, read_numbered(path)).cells()


class _Manifest:
    def __init__(self, path: Path, whole: Numbered) -> None:
        self._path = path
        self._entries = self._mapping(whole, "the experiment")
        for key, entry in self._entries.items():
            if key not in KEYS:
                known = f"known are {', '.join(KEYS)}"
                raise self._error(entry, f'unknown key "{key}": {known}{suggest(key, KEYS)}')

    def cells(self) -> list[Cell]:
        if "robots" not in self._entries:
            raise UserError(f"{self._path}: no robots; add a list, such as robots: [cartpole]")
        robots = self._list("robots", robot_entry)
        algorithms = self._list("algorithms", algorithm_entry) or [Numbered("ppo", 0)]
        seeds = self._list("seeds", self._check_seed) or [Numbered(0, 0)]
        base = self._settings("base", self._entries.get("base", Numbered({}, 0)))
        found = list[Cell]()
        for robot, algorithm, (name, variant) in product(robots, algorithms, self._variants()):
            config = self._config(robot, algorithm, base | variant)
            given = {key: one.plain for key, one in (base | variant).items()}
            for seed in seeds:
                words = (get_robot(config.robot).name, config.algo, name, str(seed.value))
                own = {"robot": robot.value, "algo": algorithm.value, "seed": seed.value}
                settings = {**given, **own}
                one = with_values(config, {"seed": seed.value, "robot": robot.value})
                found.append(Cell("-".join(words), settings, one))
        return found

    def _variants(self) -> Iterator[tuple[str, dict[str, Numbered]]]:
        variants = self._entries.get("variants")
        if variants is None:
            yield _USUAL, {}
            return
        for name, entry in self._mapping(variants, "variants").items():
            if not re.fullmatch(r"[\w.=+-]+", name):
                allowed = "letters, digits and _ . = + -, as it becomes the name of a folder"
                raise self._error(entry, f'the variant "{name}" may have only {allowed}')
            yield name, self._settings(name, entry)

    def _config(self, robot: Numbered, algo: Numbered, given: dict[str, Numbered]) -> Config:
        """The config of a run, which `train` would take."""
        names = {key: str(given[key].plain) for key in ("preset", "task") if key in given}
        at = next((given[key] for key in names), robot)
        config = self._at(at, lambda: preset_config(robot.value, algo=algo.value, **names))
        stages, changed = [(algo, config)], dict[str, Numbered]()
        for key, entry in given.items():
            before, source = config, f"{self._path}, line {entry.line}"
            config = validation.from_dict({key: entry.plain}, before, source)
            if config != before:
                changed[key] = entry
            stages.append((entry, config))
        self._check(stages)
        for key, entry in changed.items():
            self._at(entry, partial(refuse_idle, config, [key]))
        return config

    def _check(self, stages: list[tuple[Numbered, Config]]) -> None:
        """Raise the last config's error, if it has one, at the line that brings it.

        stages: the algorithm and the preset's config, then each setting and the config with it. A
            later setting may mend what an earlier one breaks, so the last config alone is judged.
        """
        problem = _problem(stages[-1][1])
        if not problem:
            return
        at = next(entry for entry, config in stages if _problem(config) == problem)
        if at is stages[0][0]:
            problem = f"{at.plain} does not fit robot {stages[0][1].robot}: {problem}"
        raise self._error(at, problem)

    def _settings(self, name: str, entry: Numbered) -> dict[str, Numbered]:
        """Settings by dotted key."""
        found = dict(self._flat(self._mapping(entry, name), ""))
        for key, one in found.items():
            if key in _ITS_OWN:
                raise self._error(one, f'"{key}" has a list of its own: use {_ITS_OWN[key]}')
            if key in _OF_PLACES:
                raise self._error(one, f'"{key}" is up to the experiment: leave it out')
        return found

    def _flat(self, entries: dict[str, Numbered], prefix: str) -> Iterator[tuple[str, Numbered]]:
        for key, entry in entries.items():
            if isinstance(entry.value, dict):
                yield from self._flat(entry.value, f"{prefix}{key}.")
            else:
                yield prefix + key, entry

    def _list(self, key: str, check: Callable[[Any], Any]) -> list[Numbered]:
        """The entries of a list, each checked; [] where the key is not there."""
        entry = self._entries.get(key)
        if entry is None:
            return []
        if not isinstance(entry.value, list) or not entry.value:
            raise self._error(entry, f'"{key}" must be {KEYS[key]}, got {entry.plain!r}')
        seen = list[Any]()
        for one in entry.value:
            self._at(one, partial(check, one.plain))
            if one.plain in seen:
                raise self._error(one, f"{one.plain} is in {key} twice; leave one out")
            seen.append(one.plain)
        return list(entry.value)

    def _check_seed(self, seed: Any) -> None:
        if type(seed) is not int or not 0 <= seed < 2**31:
            raise UserError(f"a seed must be a whole number from 0 to 2147483647, got {seed!r}")

    def _mapping(self, entry: Numbered, name: str) -> dict[str, Numbered]:
        if isinstance(entry.value, dict):
            return entry.value
        raise self._error(entry, f"{name} must hold entries by name, got {entry.plain!r}")

    def _at(self, entry: Numbered, action: Callable[[], Any]) -> Any:
        """What an action returns; its UserErrors name the entry's line."""
        try:
            return action()
        except UserError as error:
            raise self._error(entry, str(error)) from error

    def _error(self, entry: Numbered, text: str) -> UserError:
        return UserError(f"{self._path}, line {entry.line}: {text}")


def _problem(config: Config) -> str:
    """Why a config cannot be trained, "" where it can."""
    try:
        validation.check(config)
    except UserError as error:
        return str(error)
    return ""
