"""The folder of a run: names of its files, its configuration, and one line per session."""

from __future__ import annotations

import contextlib
import json
import os
import time
import uuid
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from jaxrl_hw.checkpointing.files import disk_errors, existing, read_json, write_json
from jaxrl_hw.checkpointing.lock import Lock
from jaxrl_hw.checkpointing.provenance import git_commit, package_versions
from jaxrl_hw.errors import RunError, UserError

FORMAT = 1
"""Version of the run folder's layout, in config.json."""

SMALL_FILES = ("config.json", "plan.json", "sessions.jsonl", "metrics.jsonl", "console.log")
"""What describes a run beside its checkpoints."""
_MARKS = ("config.json", "sessions.jsonl", "session.open", "metrics.jsonl", "checkpoints")


class RunDir:
    """Paths and small files of one run. Creating the object does not touch the disk."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path).expanduser()
        self.config_json = self.path / "config.json"
        self.plan_json = self.path / "plan.json"
        self.sessions_jsonl = self.path / "sessions.jsonl"
        self.session_open = self.path / "session.open"
        self.metrics_jsonl = self.path / "metrics.jsonl"
        self.console_log = self.path / "console.log"
        self.checkpoints = self.path / "checkpoints"
        self.tensorboard = self.path / "tensorboard"
        self.videos = self.path / "videos"
        self.profile = self.path / "profile"
        self.policy = self.path / "policy"
        self.lock = Lock(self.session_open)

    def prepare(self) -> None:
        """Create the folder if it is missing and check that files can be written there.

        Changes nothing of an existing run. Raises UserError where the path is a file or may not be
        written, RunError where the disk refuses.
        """
        place = existing(self.path)
        if not place.is_dir():
            raise UserError(f"--run-dir must be a folder, but {place} is a file; choose another")
        probe = self.path / f".probe-{os.getpid()}"
        with disk_errors(f"write in {self.path}"):
            try:
                self.path.mkdir(parents=True, exist_ok=True)
                probe.write_text("a full disk fails here, not after the first hour\n")
            except (PermissionError, FileNotFoundError) as error:
                raise UserError(
                    f"the run folder {self.path} may not be written ({error.strerror}); "
                    "choose another --run-dir"
                ) from error
            finally:
                with contextlib.suppress(OSError):
                    probe.unlink()

    def write_config(self, config: Mapping[str, Any]) -> None:
        """Write config.json: settings, package versions, git commit. Raises RunError.

        The first call makes the run's id, which identifies its copies; later calls keep it.
        """
        record = {
            "format": FORMAT,
            "id": self.read_id() or uuid.uuid4().hex,
            "config": dict(config),
            "versions": package_versions(),
            "git_commit": git_commit(),
        }
        write_json(self.config_json, record)

    def read_config(self) -> dict[str, Any] | None:
        """The settings in config.json as they were saved, None in a new folder.

        `jaxrl_hw.config.saved` translates them to this version's settings.

        Raises UserError where the file is damaged or of a newer format.
        """
        advice = "restore it from a copy, or start a new run with another --run-dir"
        record = read_json(self.config_json, advice)
        if record is None:
            return None
        if not isinstance(record, dict) or not isinstance(record.get("config"), dict):
            raise UserError(f'{self.config_json} has no "config" object: {advice}')
        if record.get("format", FORMAT) != FORMAT:
            raise UserError(
                f"{self.config_json} has format {record['format']!r}, this version reads format "
                f"{FORMAT}: use the version of jaxrl_hw that wrote it"
            )
        return dict(record["config"])

    def read_id(self) -> str:
        """The run's id, "" without a config.json or with one from before there were ids."""
        try:
            record = read_json(self.config_json, "")
        except UserError:
            return ""
        return str(record.get("id", "")) if isinstance(record, dict) else ""

    def newest_checkpoint(self) -> int:
        """The newest complete checkpoint's iteration, 0 without one. Reads names only.

        Raises OSError where the folder cannot be read, as on a drive that fails.
        """
        if not self.checkpoints.is_dir():
            return 0
        names = (entry.name for entry in self.checkpoints.iterdir())
        return max((int(name) for name in names if name.isdecimal()), default=0)

    def write_plan(self, plan: Mapping[str, Any]) -> None:
        """Write plan.json. Raises RunError where it cannot be written."""
        write_json(self.plan_json, dict(plan))

    def claim(self) -> None:
        """Lock the folder, so that only this process trains in it, until `release`.

        A killed session becomes a line of sessions.jsonl with `"ended": "killed"`. Raises UserError
        where another process trains here, RunError where the disk refuses.
        """
        previous = self.lock.acquire()
        if previous:  # {} where the process was killed before its session began
            self.append_session({**previous, "ended": "killed"})

    def release(self) -> None:
        """Unlock the folder; without effect where this object does not hold the lock."""
        self.lock.release()

    def open_session(self, record: Mapping[str, Any]) -> None:
        """Write to the lock file that a session runs, so that a killed one still counts.

        Claims the folder unless it is claimed. Raises as `claim` does.
        """
        if not self.lock.held:
            self.claim()
        self.lock.write({"started": time.strftime("%Y-%m-%dT%H:%M:%S%z"), **record})

    def close_session(self, record: Mapping[str, Any]) -> None:
        """Write the session's line: the record of `open_session`, completed by this one.

        Raises RunError where it cannot be written; the session then counts as killed.
        """
        try:
            self.append_session({**self.lock.record, **record})
        except RunError:
            self.lock.abandon()
            raise
        self.lock.release()

    def append_session(self, record: Mapping[str, Any]) -> None:
        """Add one line to sessions.jsonl. Raises RunError where it cannot be written."""
        line = json.dumps(dict(record), ensure_ascii=False) + "\n"
        with disk_errors(f"write {self.sessions_jsonl}"), open(self.sessions_jsonl, "a+b") as file:
            file.seek(max(0, file.seek(0, os.SEEK_END) - 1))
            if file.read(1) not in (b"", b"\n"):  # a crash cut the line before
                line = "\n" + line
            file.write(line.encode())
            file.flush()
            os.fsync(file.fileno())

    def read_sessions(self) -> list[dict[str, Any]]:
        """All sessions that ended, oldest first, without lines that a crash has cut.

        Raises UserError where the file is no text, OSError where it cannot be read.
        """
        try:
            lines = self.sessions_jsonl.read_text(encoding="utf-8").splitlines()
        except FileNotFoundError:
            return []
        except UnicodeDecodeError as error:
            problem = f"{self.sessions_jsonl} is not a text file; delete or restore it"
            raise UserError(problem) from error
        sessions = []
        for line in lines:
            with contextlib.suppress(ValueError):
                record = json.loads(line)
                if isinstance(record, dict):
                    sessions.append(record)
        return sessions


def name_of(folder: Path) -> str:
    """A run's name: the last part of its path, even where the path is `.`."""
    return os.path.basename(os.path.abspath(folder))


def is_run(folder: Path) -> bool:
    """Whether a folder looks like a run, or what is left of one."""
    return folder.is_dir() and any((folder / name).exists() for name in _MARKS)


def check_run(folder: Path) -> None:
    """Raises UserError where a folder is no run."""
    if is_run(folder):
        return
    if not folder.exists():
        raise UserError(f"no run: {folder} does not exist; python -m jaxrl_hw.runs lists them")
    reason = "it has no config.json" if folder.is_dir() else "it is a file"
    raise UserError(f"{folder} is no run, {reason}; name the folder of one, such as runs/NAME")


def is_run_folder(source: str) -> bool:
    """Whether a policy's source is a folder, not zoo:NAME or a file."""
    return not source.startswith("zoo:") and Path(source).expanduser().is_dir()
