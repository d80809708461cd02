"""What a run goes on from, decided from small files alone, before jax is loaded.

The run that is in its folder already; else another run's checkpoint (`--resume PATH`), another
policy (`--init-from`), or nothing.
"""

from __future__ import annotations

import itertools
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

from jaxrl_hw.checkpointing.mirror import locate_run
from jaxrl_hw.checkpointing.run_dir import MISSING, RunDir, config_differences, is_run_folder
from jaxrl_hw.config import validation
from jaxrl_hw.config.fields import settings_of
from jaxrl_hw.config.saved import lost_settings, read_settings
from jaxrl_hw.config.schema import Config
from jaxrl_hw.errors import UserError
from jaxrl_hw.loggers.console import Console
from jaxrl_hw.loggers.jsonl import read_rows
from jaxrl_hw.planning.disk_space import mirror_of
from jaxrl_hw.planning.fitted_size import as_it_fits

RESUME_WORDS = ("auto", "never", "required")
_TAKEN_UP = ("num_envs", "physics", "precision")
"""Settings in which another machine may take a run up: the learner goes on, but not to the bit."""


def _may_change(config: Config) -> set[str]:
    """Settings that may differ between the sessions of one run: none of them changes what is
    learned from, except those of `_TAKEN_UP`."""
    settings = settings_of(type(config))
    return {key for key, setting in settings.items() if setting.about.get("resume")}


class Continued(NamedTuple):
    """The run to continue, or the new one that is to start."""

    config: Config
    iterations: int  # done; 0 for a new run
    source: Path  # its folder, or its copy in the mirror
    notes: tuple[str, ...] = ()  # what the user should know


def continued(config: Config, folder: Path, device: str) -> Continued:
    """The run to continue, if there is one.

    It is in its folder, or in the mirror where the folder has no checkpoint. An "auto" number of
    environments is the run's own, so that it continues exactly; so is one that did not fit on this
    device (the hardware's name).

    Raises:
      UserError: the folder holds another run; or, unless `override_config`, one that began with
        other learning settings.
    """
    if folder.exists() and not folder.is_dir():
        raise UserError(f"--run-dir must be a folder, but {folder} is a file; choose another")
    run = locate_run(RunDir(folder), mirror_of(config.mirror, folder))
    saved, done = read_settings(run), run.newest_checkpoint()
    if done and run.metrics_jsonl.exists():
        read_rows(run.metrics_jsonl)  # a damaged file is told before anything is built or written
    if config.resume == "required" and not done:
        raise UserError(f"--resume required, but there is no checkpoint in {folder}")
    if config.resume == "never" or saved is None or not done:
        if config.init_from:
            _check_origin(config, folder)
        elif config.resume not in RESUME_WORDS:
            config = _branch(config)
        return Continued(config, 0, folder)
    config, notes = as_it_fits(_same_envs(config, saved), saved, run, device)
    notes += _changes(saved, config, run)
    if config.iterations < done:
        raise UserError(
            f"--iterations {config.iterations} is below the {done} that are done in {folder}; "
            f"give more than {done}"
        )
    # what a run started from is history: it need not be there any more, nor be given again
    config = replace(config, init_from=str(saved.get("init_from", "")))
    return Continued(config, done, run.path, notes + _taken_up(saved, config))


def _changes(saved: dict[str, Any], config: Config, run: RunDir) -> tuple[str, ...]:
    """Refuse what changed since the run began, or tell it where the user goes on with it."""
    changed = _differing(saved, validation.to_dict(config), _may_change(config))
    changed += [(key, value, MISSING) for key, value in lost_settings(run)]
    if not changed:
        return ()
    if any(key.split(".")[0] in _FORM for key, _, _ in changed):
        raise _another_run(run.path, changed)
    if not config.override_config:
        hint = "choose another --run-dir, use its settings, or go on with --override-config"
        raise _another_run(run.path, changed, hint)
    return (f"the run goes on with other settings than it began with: {_listed(changed)}",)


def _taken_up(saved: dict[str, Any], config: Config) -> tuple[str, ...]:
    """Tell what another machine does otherwise."""
    now = validation.to_dict(config)
    theirs, ours = ({k: d[k] for k in _TAKEN_UP if k in saved} for d in (saved, now))
    changed = _differing(theirs, ours, set())
    if not changed:
        return ()
    anew = " in environments made anew" if any(key == "num_envs" for key, _, _ in changed) else ""
    return (f"{_listed(changed)}: the learner goes on{anew}, no longer the same to the last bit",)


def _check_origin(config: Config, folder: Path) -> None:
    """Refuse a policy to start from that contradicts the run's other settings."""
    source = config.init_from
    if config.resume not in RESUME_WORDS:
        raise UserError(
            f"--resume {config.resume} and --init-from {source} are two starts: give one of them"
        )
    if is_run_folder(source) and Path(source).expanduser().resolve() == folder.resolve():
        raise UserError(
            f"--init-from {source} is the run's own folder; choose another --run-dir, "
            "or leave --init-from out to continue it"
        )


def _branch(config: Config) -> Config:
    """A new run's config where `--resume PATH` names the checkpoint it starts from."""
    path = Path(config.resume).expanduser()
    if not path.is_dir():
        raise UserError(
            f"--resume must be auto, never, required, or the folder of a run or a checkpoint; "
            f"{config.resume} is none"
        )
    for folder in (path, path.parent, path.parent.parent):
        if (folder / "config.json").is_file():
            saved = read_settings(RunDir(folder)) or {}
            theirs, ours = (
                {k: d.get(k) for k in _FORM} for d in (saved, validation.to_dict(config))
            )
            if changed := _differing(theirs, ours, set()):
                raise _another_run(folder, changed)
            return _same_envs(config, saved)
    return config


_FORM = ("robot", "task", "algo", "net")
"""Settings that decide what shape a checkpoint has."""


def _differing(saved: Any, now: Any, may: set[str]) -> list[tuple[str, Any, Any]]:
    # a setting that came with a later version was not there to be another one
    return [c for c in config_differences(saved, now, may) if c[1] != MISSING]


def _another_run(
    folder: Path,
    changed: list[tuple[str, Any, Any]],
    hint: str = "choose another --run-dir, or use its settings",
) -> UserError:
    return UserError(f"{folder} holds another run: {_listed(changed)}; {hint}")


def _listed(changed: list[tuple[str, Any, Any]]) -> str:
    parts = [f"{key} was {_show(old)}, now {_show(new)}" for key, old, new in changed[:6]]
    more = f" and {len(changed) - 6} more" if len(changed) > 6 else ""
    return "; ".join(parts) + more


def _same_envs(config: Config, saved: dict[str, Any]) -> Config:
    if config.num_envs == "auto" and isinstance(saved.get("num_envs"), int):
        return replace(config, num_envs=saved["num_envs"])
    return config


def move_aside(run: RunDir, console: Console) -> None:
    """Keep a run that is not to be continued under another name; it must be claimed."""
    names = (run.path.with_name(f"{run.path.name}.{n}") for n in itertools.count(1))
    free = next(path for path in names if not path.exists())
    run.path.rename(free)
    run.lock.abandon()
    (free / run.session_open.name).unlink(missing_ok=True)
    console.message(f"the run that was in {run.path} is now in {free}")


def _show(value: Any) -> str:
    return f'"{value}"' if isinstance(value, str) else str(value)
