"""A run on disk or just trained: its metrics, its policy, its state."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

import jax

from jaxrl_hw.algos.registry import algorithm_entry
from jaxrl_hw.checkpointing.checkpoint import Checkpoints
from jaxrl_hw.checkpointing.run_dir import RunDir
from jaxrl_hw.config import fields, migrations, validation
from jaxrl_hw.config.factory import make_algorithm, make_env
from jaxrl_hw.config.resolve import task_name
from jaxrl_hw.config.saved import config_from, read_settings
from jaxrl_hw.config.schema import Config
from jaxrl_hw.envs.vector import Env
from jaxrl_hw.errors import UserError
from jaxrl_hw.loggers.jsonl import read_columns
from jaxrl_hw.training.train_step import state_form
from jaxrl_hw.types import Algorithm, Policy, TrainState


@dataclass(frozen=True)
class Run:
    """What `fit` and `load_run` give back."""

    config: Config
    """With every "auto" settled."""
    folder: Path
    metrics: dict[str, list[Any]] = field(repr=False)
    """metrics.jsonl as columns: one list per name, one entry per iteration."""
    state: TrainState = field(repr=False)
    policy: Policy = field(repr=False)
    """policy(observations [..., O]) -> actions [..., A], without exploration noise. One with a
    memory is driven by its `start` and `step`."""
    ended: str = ""
    """Why training stopped: "goal", "early stop", "time limit", a signal's name, or "callback"."""

    @property
    def iteration(self) -> int:
        """Iterations done."""
        return int(self.state.iteration)


def environments(config: Config) -> tuple[Env, Algorithm]:
    """Environments and algorithm of a config. Raises UserError as `make_env` does."""
    env = make_env(config)
    return env, make_algorithm(config, env)


def make_policy(env: Env, algorithm: Algorithm, state: TrainState) -> Policy:
    """The deterministic policy of a state, jitted."""
    learner = state.learner._replace(replay=())
    phase_mask = env.phase_mask(env.params_at(state.env_steps))

    act = jax.jit(partial(algorithm.policy, phase_mask=phase_mask))
    return Policy(algorithm.start, lambda obs, memory: act(learner, obs, memory=memory))


def saved_config(folder: str | Path) -> Config:
    """The config of a run folder.

    Raises:
      UserError: no run is there, or its config.json is damaged.
    """
    run = RunDir(folder)
    saved = read_settings(run)
    if saved is None:
        raise UserError(f"no run in {run.path}: it has no config.json; train one first")
    return replace(config_from(saved, str(run.config_json)), run_dir=str(run.path), seeds=1)


def saved_form(
    config: Config, env: Env, algorithm: Algorithm, source: Path
) -> Callable[[dict[str, Any]], TrainState]:
    """A function from the settings that a checkpoint was saved with to the form of its state.

    The form follows their number of environments, their replay, which may not be saved, and their
    task's settings: what the task does not simulate takes no room.

    source: the run's folder, or one in it. Older versions wrote checkpoints without settings: then
        its config.json has them.
    """

    def form(saved: dict[str, Any]) -> TrainState:
        then = _as_saved(config, saved or _settings_of(source))
        is_same = then == replace(config, num_envs=env.num_envs)
        whole = state_form(env, algorithm) if is_same else state_form(*environments(then))
        return whole._replace(replay=()) if saved.get("save_replay") == "no" else whole

    return form


def _as_saved(config: Config, saved: dict[str, Any]) -> Config:
    """The config with the environments of saved settings; with its own where none are saved."""
    if not saved:
        return config
    now, known = fields.flatten(migrations.as_now(saved)), fields.settings_of(type(config))
    entry, group = algorithm_entry(config.algo), task_name(config)
    replay = [f"{entry.name}.{name}" for name in entry.replay_form]
    shared = {
        key: value
        for key, value in now.items()
        if key in known
        and (key in ("num_envs", "curriculum", *replay) or key.startswith(f"{group}."))
    }
    return validation.from_dict(shared, config, "the checkpoint's settings")


def _settings_of(source: Path) -> dict[str, Any]:
    """Settings of the run that a folder is, or is in; {} where no config.json says."""
    for folder in (source, source.parent, source.parent.parent):
        if (folder / "config.json").is_file():
            return read_settings(RunDir(folder)) or {}
    return {}


def trained(
    config: Config, env: Env, algorithm: Algorithm, state: TrainState, run: RunDir, ended: str = ""
) -> Run:
    """The run of a state, with its metrics and its policy."""
    policy = make_policy(env, algorithm, state)
    return Run(config, run.path, _columns(run), state, policy, ended)


def _columns(run: RunDir) -> dict[str, list[Any]]:
    return read_columns(run.metrics_jsonl) if run.metrics_jsonl.exists() else {}


def load_run(folder: str | Path, iteration: int | None = None, metrics: bool = True) -> Run:
    """A run from its folder, at its newest whole checkpoint or the one named.

    metrics: False leaves `Run.metrics` empty, so that damaged rows do not matter.

    Raises:
      UserError: no run, or no checkpoint yet, or none of that iteration, or a damaged row.
      RunError: every checkpoint is damaged.
    """
    run = RunDir(folder)
    config = saved_config(folder)
    env, algorithm = environments(config)
    form = saved_form(config, env, algorithm, run.path)
    with Checkpoints(run.checkpoints, keep=config.keep) as checkpoints:
        found = checkpoints.restore(form, iteration)
    if found is None:
        raise UserError(f"no checkpoint in {run.path} yet: train it first")
    columns = _columns(run) if metrics else {}
    policy = make_policy(env, algorithm, found[0])
    return Run(config, run.path, columns, found[0], policy)
