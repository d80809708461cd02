"""What the files of a run say: its progress, how it ended, whether it can continue."""

from __future__ import annotations

import contextlib
import os
import shlex
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from jaxrl_hw.algos.registry import is_module
from jaxrl_hw.checkpointing import sessions, store
from jaxrl_hw.checkpointing.run_dir import RunDir, is_run, name_of
from jaxrl_hw.checkpointing.sessions import TRAINING, Session
from jaxrl_hw.checkpointing.store import SavedCheckpoint
from jaxrl_hw.config.goal import goal_iteration
from jaxrl_hw.config.saved import config_from, env_steps_at, read_settings
from jaxrl_hw.envs.robots import get_robot
from jaxrl_hw.errors import UserError, one_line
from jaxrl_hw.loggers.jsonl import jsonable, last_iteration, read_rows

READY, DONE, EMPTY, REFUSED, DAMAGED = "ready", "done", "empty", "refused", "damaged"


@dataclass(frozen=True)
class Summary:
    """One run; figures that its files lack are None or 0."""

    name: str
    folder: Path
    status: str = DAMAGED
    """ready, training, done (the goal is reached), empty (no checkpoint yet), refused (its settings
    cannot be used here) or damaged."""
    why: str = ""
    """Why the run cannot continue, or a remark where it can."""
    robot: str = ""
    robot_flag: str = ""
    """What --robot must be to continue the run, "" where the flag may be left out."""
    algo_flag: str = ""
    """What --algo must be, likewise."""
    task: str = ""
    num_envs: int | str | None = None
    goal: int | None = None
    saved: int = 0
    """Iteration of the newest checkpoint; the next session continues after it."""
    trained: int = 0
    """Iteration of the last row of metrics.jsonl."""
    bytes: int = 0
    sessions: list[Session] = field(default_factory=list)
    checkpoints: list[SavedCheckpoint] = field(default_factory=list)

    @property
    def done(self) -> int:
        """Iterations done; of a run that is not in training, those that are saved."""
        return max(self.trained, self.saved) if self.status == TRAINING else self.saved

    @property
    def best(self) -> SavedCheckpoint | None:
        return store.best_checkpoint(self.checkpoints)

    @property
    def is_exact(self) -> bool:
        """Whether the run continues to the last bit."""
        newest = store.newest_checkpoint(self.checkpoints)
        return newest is None or newest.is_exact

    @property
    def command(self) -> str:
        """The command that continues the run, "" where none does."""
        if not self.saved or self.status not in (READY, DONE, TRAINING):
            return ""
        words = ["python", "-m", "jaxrl_hw.train", "--run-dir", str(self.folder)]
        words += ["--robot", self.robot_flag] if self.robot_flag else []
        words += ["--algo", self.algo_flag] if self.algo_flag else []
        if self.status == DONE:
            words += ["--iterations", str(2 * max(self.goal or 0, self.saved))]
        return shlex.join(words)

    def to_dict(self, detailed: bool = False) -> dict[str, Any]:
        """The summary as JSON; `detailed` adds every session and checkpoint."""
        best = self.best
        names = "name status why robot task num_envs goal done saved bytes"
        found: dict[str, Any] = {
            **{name: getattr(self, name) for name in names.split()},
            "folder": str(self.folder),
            "resumable": self.status == READY,
            "exact_resume": self.is_exact,
            "best_return": best.episode_return if best else None,
            "last_session": asdict(self.sessions[-1]) if self.sessions else None,
        }
        if detailed:
            found["sessions"] = [asdict(session) for session in self.sessions]
            found["checkpoints"] = [
                {name: getattr(save, name) for name in _SAVED}
                | {"bytes": disk_size(save.folder), "best": save is best}
                | {"exact_resume": save.is_exact}
                for save in self.checkpoints
            ]
            found["command"] = self.command
        return dict(jsonable(found))


_SAVED = ("iteration", "episode_return", "evaluation", "problem")
"""Of each checkpoint in a detailed summary."""


def list_runs(folder: Path, robot: str = "") -> list[Summary]:
    """Every run in a folder, the one with the latest session first.

    robot: as for `summarize`.
    Raises:
      UserError: the folder does not exist, is a run itself, or may not be read.
    """
    if is_run(folder):
        raise UserError(
            f"{folder} is one run, not a folder of runs; python -m jaxrl_hw.runs show {folder}"
        )
    try:
        names = sorted(entry.name for entry in os.scandir(folder) if not entry.name.startswith("."))
    except OSError as error:
        raise UserError(
            f"no folder of runs: {folder}: {error.strerror}; name another, or train first: "
            "python -m jaxrl_hw.train"
        ) from error
    found = [summarize(folder / name, robot) for name in names if is_run(folder / name)]
    found.sort(key=lambda x: (x.sessions[-1].started if x.sessions else "", x.name), reverse=True)
    return found


def summarize(folder: Path, robot: str = "", thorough: bool = False) -> Summary:
    """The summary of a run; whatever is wrong with it becomes `status` and `why`.

    robot: a robot that `load_robot` has loaded for the command line. Nothing is imported because
        the files of a run name it.
    thorough: reads every row of metrics.jsonl, as continuing the run does.
    """
    run = RunDir(folder)
    saved = store.list_checkpoints(run.checkpoints)
    newest = store.newest_checkpoint(saved)
    found = Summary(
        name_of(folder),
        folder,
        bytes=disk_size(folder),
        checkpoints=saved,
        saved=newest.iteration if newest else 0,
        trained=last_iteration(run.metrics_jsonl),
    )
    problem, opened, settings = "", None, None
    try:
        opened = sessions.open_session(run)
        history = sessions.session_history(run, opened, found.saved, found.trained)
        found = replace(found, sessions=history)
    except (OSError, ValueError, RuntimeError) as error:  # UserError and RunError are such
        problem = one_line(error)
    try:
        settings = read_settings(run)
        if settings is None:
            raise UserError("it has no config.json")
        if not isinstance(settings.get("robot"), str):
            raise UserError('config.json has no usable "robot"')
        found = replace(
            found,
            robot=settings["robot"],
            robot_flag=robot if robot and _is_same_robot(robot, settings["robot"]) else "",
            algo_flag=algo if is_module(algo := str(settings.get("algo", ""))) else "",
            task=str(settings.get("task", "")),
            num_envs=settings.get("num_envs"),
            goal=_goal(run, settings, found.saved),
        )
        if thorough and run.metrics_jsonl.exists():
            read_rows(run.metrics_jsonl)
    except (OSError, ValueError, RuntimeError) as error:
        problem = problem or one_line(error)
    if problem or settings is None:
        return replace(found, status=DAMAGED, why=problem)
    status, why = _status(found, settings, opened)
    return replace(found, status=status, why=why)


def _status(
    found: Summary, settings: dict[str, Any], opened: sessions.OpenSession | None
) -> tuple[str, str]:
    if opened is not None and opened.state == TRAINING:
        return TRAINING, f"in training now by {opened.owner}"
    if not found.checkpoints:
        return EMPTY, "no checkpoint yet"
    last = found.checkpoints[-1]
    if not found.saved:
        return DAMAGED, f"checkpoint {last.iteration} is damaged: {last.problem}"
    try:
        config_from(settings, "config.json")
    except UserError as error:
        return REFUSED, one_line(error)
    if found.goal is not None and found.saved >= found.goal:
        return DONE, "goal reached; a higher --timesteps or --iterations continues it"
    remarks = []
    if last.problem:
        remarks.append(f"checkpoint {last.iteration} is damaged: continues after {found.saved}")
    if not found.is_exact:
        remarks.append("not to the bit: its checkpoint is without the replay, which fills anew")
    return READY, "; ".join(remarks)


def _goal(run: RunDir, settings: dict[str, Any], saved: int) -> int | None:
    """The iteration after which a run ends; None where its settings cannot be used."""
    try:
        config = config_from(settings, "config.json")
        return goal_iteration(config, saved, env_steps_at(run, settings, saved))
    except (UserError, ValueError):
        return None


def _is_same_robot(first: str, second: str) -> bool:
    try:
        return get_robot(first) == get_robot(second)
    except UserError:
        return False


def disk_size(folder: Path) -> int:
    """Bytes of all files below a folder; skips what another process deletes meanwhile."""
    total = 0
    for root, _, names in os.walk(folder):
        for name in names:
            with contextlib.suppress(OSError):
                total += os.lstat(os.path.join(root, name)).st_size
    return total
