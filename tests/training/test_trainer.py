"""The trainer's phases: whichever fails, its own error is reported and the folder is free again."""

from __future__ import annotations

import io
import json
import shutil
import threading
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from jaxrl_hw import Run, RunError, UserError, fit
from jaxrl_hw.hardware.gpu_load import Load
from jaxrl_hw.loggers.console import Console
from jaxrl_hw.training.build import Built, build_step
from jaxrl_hw.training.session import TrainContext

pytestmark = pytest.mark.slow


@pytest.fixture
def copied(cartpole_run: Run, tmp_path: Path) -> Run:
    """A run of 2 iterations, to be continued."""
    folder = shutil.copytree(cartpole_run.folder, tmp_path / "copy")
    return replace(cartpole_run, folder=folder)


def continued(run: Run, **more: Any) -> Run:
    config = replace(run.config, run_dir=str(run.folder), iterations=4)
    return fit(config, console=Console(io.StringIO()), **more)


def sessions(run: Run) -> list[dict[str, Any]]:
    return [json.loads(x) for x in (run.folder / "sessions.jsonl").read_text().splitlines()]


def test_a_failure_while_a_session_opens_is_the_one_that_is_raised(copied: Run) -> None:
    log = copied.folder / "metrics.jsonl"
    lines = [json.loads(x) for x in log.read_text().splitlines()]
    lines[-1]["wall_s"] = "soon"
    log.write_text("".join(json.dumps(line) + "\n" for line in lines))
    with pytest.raises(UserError, match="soon"):
        continued(copied)
    assert not (copied.folder / "session.open").exists()
    assert (sessions(copied)[-1]["first_iteration"], sessions(copied)[-1]["ended"]) == (3, "failed")


def test_a_file_that_cannot_be_written_at_the_start_is_named(copied: Run) -> None:
    (copied.folder / "plan.json").unlink()
    (copied.folder / "plan.json").mkdir()
    with pytest.raises(RunError, match=r"plan\.json"):
        continued(copied)
    assert sessions(copied)[-1]["ended"] == "failed"


def test_a_build_that_fails_leaves_the_run_as_it_was(copied: Run) -> None:
    def build(*args: Any, **kwargs: Any) -> Built:
        raise ZeroDivisionError

    before = sessions(copied)
    with pytest.raises(ZeroDivisionError):
        continued(copied, build=build)
    assert sessions(copied) == before
    assert not (copied.folder / "session.open").exists()
    assert continued(copied).iteration == 4


def test_a_first_step_that_fails_is_recorded_and_the_run_can_be_continued(copied: Run) -> None:
    def build(*args: Any, **kwargs: Any) -> Built:
        def step(state: Any) -> Any:
            raise ZeroDivisionError

        return build_step(*args, **kwargs)._replace(step=step)

    with pytest.raises(ZeroDivisionError):
        continued(copied, build=build)
    last = sessions(copied)[-1]
    assert (last["first_iteration"], last["last_iteration"], last["ended"]) == (3, 2, "failed")
    assert continued(copied).iteration == 4


def test_the_load_of_the_card_is_in_the_rows_and_the_output_in_the_folder(copied: Run) -> None:
    asked = threading.Event()

    def read() -> Load:
        asked.set()
        return Load(42.0, 55.0, 70.0)

    def wait(row: dict[str, Any]) -> None:
        asked.wait(60.0)

    config = replace(copied.config, run_dir=str(copied.folder), iterations=30, quiet=True)
    shown = io.StringIO()
    run = fit(config, wait, Console(shown, quiet=True), read_gpu=read)
    assert run.metrics["gpu/utilization"][-1] == 42.0
    assert run.metrics["gpu/power"][:2] == [None, None], "of the session before"
    log = (copied.folder / "console.log").read_text()
    assert "iteration 30/30" in log
    assert "GPU 42 %" in log
    assert "iteration 30/30" not in shown.getvalue()
    assert log.endswith(shown.getvalue().splitlines()[-1] + "\n")
    assert log.count("done:") == 2, "a session is added to those before"


def test_the_context_is_frozen() -> None:
    assert TrainContext.__dataclass_params__.frozen  # type: ignore[attr-defined]
