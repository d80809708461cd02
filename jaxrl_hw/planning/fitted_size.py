"""Sizes that did not fit in memory in a run, so that the same command does not try them again."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from jaxrl_hw.algos.registry import algorithm_entry
from jaxrl_hw.checkpointing.run_dir import RunDir
from jaxrl_hw.config import validation
from jaxrl_hw.config.schema import Config
from jaxrl_hw.types import Sizes

SHRUNK_FROM = "shrunk_from"
"""In a line of sessions.jsonl: the sizes (`size_of`) that were tried before and did not fit."""


def size_of(config: Config) -> dict[str, int]:
    """What shrinks where memory runs out; the number of environments must be settled."""
    entry = algorithm_entry(config.algo)
    # neither networks nor observations decide the minibatches
    needs = entry.needs(getattr(config, entry.name), config.net, Sizes(0, 0, 0, False))
    return {"num_envs": int(config.num_envs), "minibatches": needs.minibatches}


def as_it_fits(
    config: Config, saved: Mapping[str, Any], run: RunDir, device: str
) -> tuple[Config, tuple[str, ...]]:
    """A run's config with the size that fitted in place of one that did not, and a line about it.

    Another device, or this one with `override_config`, tries the size that is asked for.

    Args:
      config: with a settled number of environments.
      saved: the settings of the run's last session.
      run: whose sessions say what did not fit.
      device: the hardware's name.
    """
    sessions = [s for s in run.read_sessions() if s.get("hardware") == device]
    tried = [size for s in sessions for size in s.get(SHRUNK_FROM, ())]
    if config.override_config or not tried or size_of(config) not in tried:
        return config, ()
    fitted = size_of(validation.from_dict(dict(saved), config, str(run.config_json)))
    fits = replace(config, num_envs=fitted["num_envs"])
    entry = algorithm_entry(config.algo)
    while size_of(fits)["minibatches"] < fitted["minibatches"]:
        settings = entry.more_minibatches(getattr(fits, entry.name))
        fits = replace(fits, **{entry.name: settings})
    if fits == config:
        return config, ()
    message = (
        f"{_text(size_of(config))} did not fit in memory: continuing with {_text(size_of(fits))} "
        "(--override-config tries again)"
    )
    return fits, (message,)


def _text(size: Mapping[str, int]) -> str:
    return f"{size['num_envs']:,} environments in {size['minibatches']} minibatches"
