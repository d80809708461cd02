"""Policies by the name that a user gives: zoo:NAME, or a policy.npz. Never imports jax."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

from jaxrl_hw.algos.registry import algorithm_entry
from jaxrl_hw.checkpointing.run_dir import RunDir, is_run_folder
from jaxrl_hw.config import migrations
from jaxrl_hw.config.fields import with_values
from jaxrl_hw.config.saved import config_from, env_steps_at, read_settings
from jaxrl_hw.config.schema import Config
from jaxrl_hw.errors import UserError
from jaxrl_hw.policies import zoo
from jaxrl_hw.policies.io import load_policy
from jaxrl_hw.policies.portable import PortablePolicy

ZOO = "zoo:"


def open_policy(source: str, zoo_root: Path = zoo.ROOT) -> PortablePolicy:
    """The policy that `source` names: zoo:NAME or a file.

    zoo_root: folder of the zoo; the package's own by default.

    Raises:
      UserError: there is none of that name, or the file cannot be used.
    """
    if source.startswith(ZOO):
        return load_policy(zoo.folder_of(source.removeprefix(ZOO), zoo_root) / "policy.npz")
    return load_policy(Path(source))


def name_of(source: str) -> str:
    """A short name for files made from a policy: its name in the zoo, or the file's stem."""
    return source.removeprefix(ZOO) if source.startswith(ZOO) else Path(source).stem


def config_of(policy: PortablePolicy, source: str) -> Config:
    """The config that trained a policy, from its description.

    Raises:
      UserError: its robot is not known here, or its settings are of another version.
    """
    return config_from(migrations.as_now(policy.meta["config"]), source)


class Origin(NamedTuple):
    """What `--init-from` names, without loading jax."""

    config: Config
    iteration: int
    env_steps: int


def origin_of(source: str) -> Origin:
    """The networks and the iteration that a new run starts from.

    Raises:
      UserError: nothing of that name, a file that cannot be used, a run without a checkpoint.
    """
    if not is_run_folder(source):
        if not source.startswith(ZOO) and not Path(source).expanduser().exists():
            raise UserError(
                f"--init-from must be zoo:NAME, a policy file (.npz) or the folder of a run; "
                f"{source} does not exist"
            )
        policy = open_policy(source)
        own = config_of(policy, source)
        own = replace(own, net=with_values(own.net, policy.form))
        done = int(policy.meta["iteration"]), int(policy.meta["env_steps"])
        return Origin(own, *done)
    run = RunDir(Path(source).expanduser())
    saved, iteration = read_settings(run), run.newest_checkpoint()
    if saved is None or not iteration:
        lacks = "config.json" if saved is None else "checkpoint yet"
        raise UserError(f"--init-from {source} is no run to start from: it has no {lacks}")
    own = config_from(saved, str(run.config_json))
    return Origin(own, iteration, env_steps_at(run, saved, iteration))


_FORM = ("policy", "value", "activation", "memory", "history", "gru")
"""What a policy's own networks decide of a run that starts from it."""


def like_origin(config: Config, source: str) -> Config:
    """A preset for a run that starts from a policy: with the policy's networks, gains and gait
    period, and as far in its annealing and its curriculum as the policy's training was.

    Args:
      config: a preset's, for the same robot.
      source: zoo:NAME, a policy file or a run's folder; empty leaves all as it is.

    Raises:
      UserError: as `origin_of` does.
    """
    if not source:
        return config
    origin, algorithm = origin_of(source), algorithm_entry(config.algo)
    same: dict[str, Any] = {f"net.{name}": getattr(origin.config.net, name) for name in _FORM}
    if origin.config.robot == config.robot:
        same["gains"] = origin.config.gains
        same["joystick.gait_period"] = origin.config.joystick.gait_period
    begun = tuple(
        replace(stage, env_steps=stage.env_steps and max(1, stage.env_steps - origin.env_steps))
        for stage in config.curriculum
    )
    settings = algorithm.started_from(
        source, getattr(config, algorithm.name), origin.env_steps, is_run_folder(source)
    )
    if algorithm.name == origin.config.algo:
        own = getattr(origin.config, algorithm.name)
        settings = replace(settings, **{name: getattr(own, name) for name in algorithm.inherits})
    return with_values(config, {**same, "curriculum": begun, algorithm.name: settings})
