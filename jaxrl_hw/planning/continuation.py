"""How a run starts: resumed from its folder, from another checkpoint, warm or fresh.

Small files alone decide, before jax is loaded.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

from jaxrl_hw.algos.registry import algorithm_entry
from jaxrl_hw.checkpointing.files import free_name
from jaxrl_hw.checkpointing.mirror import locate_run
from jaxrl_hw.checkpointing.run_dir import RunDir, is_run_folder
from jaxrl_hw.config import migrations, validation
from jaxrl_hw.config.curriculum import Stage, format_stage
from jaxrl_hw.config.fields import MISSING, differences, settings_of
from jaxrl_hw.config.resolve import task_name, with_settled
from jaxrl_hw.config.saved import config_from, env_steps_at, read_settings
from jaxrl_hw.config.schema import Config
from jaxrl_hw.config.units import format_count
from jaxrl_hw.errors import UserError
from jaxrl_hw.loggers.console import Console
from jaxrl_hw.loggers.jsonl import read_rows
from jaxrl_hw.planning.disk_space import mirror_of
from jaxrl_hw.planning.halving import Halving, applied, halvings_of, with_halvings
from jaxrl_hw.planning.ladder import size_of

SHRUNK_FROM = "shrunk_from"
"""In a line of sessions.jsonl: the sizes (`size_of`) that were tried before and did not fit."""
RESUME_WORDS = ("auto", "never", "required")
_MACHINE = ("num_envs", "physics", "precision", "devices")
"""Settings with which another machine may resume a run: the learner continues, but not to the
bit."""
_FORM = ("robot", "task", "algo", "net")
"""Settings that decide the form of a checkpoint."""

_Change = tuple[str, Any, Any]  # dotted key, old value, new value


class Start(NamedTuple):
    """How a run starts."""

    config: Config
    iterations: int  # done; 0 for a new run
    source: Path  # the run's folder, or its copy in the mirror
    notes: tuple[str, ...] = ()  # what the user should know
    halvings: tuple[Halving, ...] = ()  # of the learning rate, in the run so far


def find_start(config: Config, folder: Path, device: str) -> Start:
    """The run to resume where there is one, else how a new one starts.

    The run to resume is in its folder, or in the mirror where the folder has no checkpoint. An
    "auto" number of environments becomes the run's own, so that it continues exactly. A number that
    did not fit on this device becomes the one that did.

    config: as asked for.
    folder: of the run.
    device: the hardware's name.
    Raises UserError where the folder holds another run; or, unless `override_config`, one that
    began with other learning settings.
    """
    if folder.exists() and not folder.is_dir():
        raise UserError(f"--run-dir must be a folder, but {folder} is a file; choose another")
    run = locate_run(RunDir(folder), mirror_of(config.mirror, folder))
    saved, done = read_settings(run), run.newest_checkpoint()
    if done and run.metrics_jsonl.exists():
        read_rows(run.metrics_jsonl)  # refuses a damaged file before anything is built or written
    if config.resume == "required" and not done:
        raise UserError(f"--resume required, but there is no checkpoint in {folder}")
    if config.resume == "never" or saved is None or not done:
        if config.init_from:
            _check_init_from(config, folder)
        elif config.resume not in RESUME_WORDS:
            config = _branch(config)
        return Start(config, 0, folder)
    config = with_settled(config, config_from(saved, str(run.config_json)))
    config, notes = _as_it_fits(_with_own_envs(config, saved), saved, run, device)
    halvings = () if config.override_config else halvings_of(run)
    config, more = with_halvings(config, halvings)
    saved = applied(saved, halvings)
    notes += more + _check_settings(saved, config, run)
    _check_goal(config, run, done)
    # the source of a warm start is history: it need not exist any more, nor be given again
    config = replace(config, init_from=str(saved.get("init_from", "")))
    if text := migrations.since_trained(run.read_config() or {}, task_name(config)):
        notes += (f"{run.path}: {text}",)
    return Start(config, done, run.path, notes + _machine_notes(saved, config), halvings)


def move_aside(run: RunDir, console: Console) -> None:
    """Rename the folder of a run that is not to be resumed; it must be claimed."""
    free = free_name(run.path)
    run.path.rename(free)
    run.lock.abandon()
    (free / run.session_open.name).unlink(missing_ok=True)
    console.message(f"moved aside: the run in {run.path} is now in {free}")


def _check_goal(config: Config, run: RunDir, done: int) -> None:
    """Refuse a goal that the run had passed before its last iteration."""
    saved = run.read_config() or {}
    asked, past = f"--iterations {config.iterations}", f"{done}"
    is_below = 0 < config.iterations < done
    if not is_below and config.timesteps:
        asked = f"--timesteps {format_count(config.timesteps)}"
        past = format_count(env_steps_at(run, saved, done))
        is_below = config.timesteps <= env_steps_at(run, saved, done - 1)
    if is_below:
        raise UserError(
            f"{asked} is below the {past} that are done in {run.path}; give more than {past}"
        )


def _check_settings(saved: dict[str, Any], config: Config, run: RunDir) -> tuple[str, ...]:
    """Refuse learning settings that changed; with `override_config` a note about them."""
    # none of the settings with the mark "resume" changes what is learned, except `_MACHINE`
    settings = settings_of(type(config)).items()
    may_change = {key for key, setting in settings if setting.about.get("resume")}
    changed = _changes(saved, validation.to_dict(config), may_change)
    changed += [(key, value, MISSING) for key, value in migrations.lost(run.read_config() or {})]
    if not changed:
        return ()
    if any(key.split(".")[0] in _FORM for key, _, _ in changed):
        raise _another_run(run.path, changed)
    if not config.override_config:
        hint = "choose another --run-dir, use its settings, or continue with --override-config"
        raise _another_run(run.path, changed, hint)
    return (f"the run continues with other settings than it began with: {_text(changed)}",)


def _machine_notes(saved: dict[str, Any], config: Config) -> tuple[str, ...]:
    """A note about what another machine does otherwise."""
    changed = _changes_of(_MACHINE, saved, config)
    if not changed:
        return ()
    reset = "; its environments are reset" if any(c[0] == "num_envs" for c in changed) else ""
    return (f"{_text(changed)}: the learner continues, but not to the last bit{reset}",)


def _check_init_from(config: Config, folder: Path) -> None:
    """Refuse a warm start that contradicts the run's other settings."""
    source, entry = config.init_from, algorithm_entry(config.algo)
    entry.started_from(source, getattr(config, entry.name), 0, False)
    if config.resume not in RESUME_WORDS:
        raise UserError(
            f"--resume {config.resume} and --init-from {source} are two starts: give one of them"
        )
    if is_run_folder(source) and Path(source).expanduser().resolve() == folder.resolve():
        raise UserError(
            f"--init-from {source} is the run's own folder; choose another --run-dir, "
            "or leave --init-from out to resume it"
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
            if changed := _changes_of(_FORM, saved, config):
                raise _another_run(folder, changed)
            return _with_own_envs(config, saved)
    return config


def _with_own_envs(config: Config, saved: dict[str, Any]) -> Config:
    if config.num_envs == "auto" and isinstance(saved.get("num_envs"), int):
        return replace(config, num_envs=saved["num_envs"])
    return config


def _changes_of(names: tuple[str, ...], saved: dict[str, Any], config: Config) -> list[_Change]:
    now = validation.to_dict(config)
    return _changes({n: saved[n] for n in names if n in saved}, {n: now[n] for n in names})


def _changes(saved: Any, now: Any, may_change: Iterable[str] = ()) -> list[_Change]:
    # a setting that a later version has added was not there to be changed
    return [c for c in differences(saved, now, may_change) if c[1] != MISSING]


def _another_run(
    folder: Path,
    changed: list[_Change],
    hint: str = "choose another --run-dir, or use its settings",
) -> UserError:
    return UserError(f"{folder} holds another run: {_text(changed)}; {hint}")


def _text(changed: list[_Change]) -> str:
    def show(key: str, value: Any) -> str:
        if key == "curriculum":
            return ", ".join(f'"{format_stage(Stage(**stage))}"' for stage in value) or "none"
        return f'"{value}"' if isinstance(value, str) else str(value)

    parts = [f"{key} was {show(key, old)}, now {show(key, new)}" for key, old, new in changed[:6]]
    more = f" and {len(changed) - 6} more" if len(changed) > 6 else ""
    return "; ".join(parts) + more


def _as_it_fits(
    config: Config, saved: Mapping[str, Any], run: RunDir, device: str
) -> tuple[Config, tuple[str, ...]]:
    """A run's config with the size that fitted in place of one that did not, and a line about it.

    Another device, or this one with `override_config`, tries the size that is asked for.

    config: with a settled number of environments.
    saved: the settings of the run's last session.
    run: whose sessions say what did not fit.
    device: the hardware's name.
    """
    sessions = [s for s in run.read_sessions() if s.get("hardware") == device]
    tried = [size for s in sessions for size in s.get(SHRUNK_FROM, ())]
    size = size_of(config).items()
    if config.override_config or not any(too_large.items() <= size for too_large in tried):
        return config, ()
    fitted = size_of(validation.from_dict(dict(saved), config, str(run.config_json)))
    entry, last = algorithm_entry(config.algo), config_from(saved, str(run.config_json))
    shrunk = {name: getattr(getattr(last, entry.name), name) for name in entry.shrinks}
    settings = replace(getattr(config, entry.name), **shrunk)
    fits = replace(config, num_envs=fitted["num_envs"], **{entry.name: settings})
    if fits == config:
        return config, ()
    message = (
        f"{_size_text(size_of(config))} did not fit in memory: continuing with "
        f"{_size_text(size_of(fits))} (--override-config tries again)"
    )
    return fits, (message,)


def _size_text(size: Mapping[str, int]) -> str:
    samples = size["minibatch_size"]
    text = f"{size['num_envs']:,} environments with "
    if "replay" in size:
        return f"{text}minibatches of {samples:,} samples from a replay of {size['replay']:,}"
    return f"{text}{size['unroll']} steps in minibatches of {samples:,} samples"
