"""What memory did not do for in a run, so that the same command does not ask for it again."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from jaxrl_hw.checkpointing.run_dir import RunDir
from jaxrl_hw.config.schema import Config

SHRUNK_FROM = "shrunk_from"
"""In a line of sessions.jsonl: the sizes (`size_of`) that were tried before and did not fit."""


def size_of(config: Config) -> dict[str, int]:
    """What is made less of where memory runs out; the number of environments must be settled."""
    return {"num_envs": int(config.num_envs), "minibatches": config.ppo.minibatches}


def as_it_fits(
    config: Config, saved: Mapping[str, Any], run: RunDir, device: str
) -> tuple[Config, tuple[str, ...]]:
    """A run's config with what fitted in place of what did not, and a line for the user.

    Another device may hold more, and so may this one by now: there, and with `override_config`,
    what is asked for is tried.

    Args:
      config: with a settled number of environments.
      saved: the settings of the run's last session.
      run: whose sessions tell what did not fit.
      device: the hardware's name.
    """
    sessions = [s for s in run.read_sessions() if s.get("hardware") == device]
    tried = [size for s in sessions for size in s.get(SHRUNK_FROM, ())]
    if config.override_config or not tried or size_of(config) not in tried:
        return config, ()
    minibatches = saved.get("ppo", {}).get("minibatches", config.ppo.minibatches)
    num_envs = saved.get("num_envs", config.num_envs)
    fits = replace(config, num_envs=num_envs, ppo=replace(config.ppo, minibatches=minibatches))
    if fits == config:
        return config, ()
    said = (
        f"memory did not do for {_told(size_of(config))}: goes on with {_told(size_of(fits))} "
        "(--override-config tries again)"
    )
    return fits, (said,)


def _told(size: Mapping[str, int]) -> str:
    return f"{size['num_envs']:,} environments in {size['minibatches']} minibatches"
