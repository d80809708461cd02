"""What a preset becomes where a new run starts from a trained policy, before jax is loaded."""

from __future__ import annotations

from dataclasses import replace

from jaxrl_hw.algos.registry import algorithm_entry
from jaxrl_hw.checkpointing.run_dir import is_run_folder
from jaxrl_hw.config.fields import with_values
from jaxrl_hw.config.schema import Config
from jaxrl_hw.policies.sources import origin_of


def like_origin(config: Config, source: str) -> Config:
    """A preset for a run that starts from a policy: with the policy's networks, and as far in its
    annealing and its curriculum as the policy's training was.

    Args:
      config: a preset's, for the same robot.
      source: zoo:NAME, a policy file or a run's folder; empty leaves all as it is.

    Raises:
      UserError: see `policies.sources.origin_of`.
    """
    if not source:
        return config
    origin, algorithm = origin_of(source), algorithm_entry(config.algo)
    same = {f"net.{name}": getattr(origin.net, name) for name in ("policy", "value", "activation")}
    begun = tuple(
        replace(stage, env_steps=stage.env_steps and max(1, stage.env_steps - origin.env_steps))
        for stage in config.curriculum
    )
    settings = algorithm.warm_started(
        getattr(config, algorithm.name), origin.env_steps, is_run_folder(source)
    )
    return with_values(config, {**same, "curriculum": begun, algorithm.name: settings})
