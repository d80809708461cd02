"""What is known of another library's environment before jax is loaded, and whether it is there.

`--env brax:ant` names environment "ant" of the task "brax". Its sizes are in its code alone, which
loads jax: a process of its own asks for them once, and they are kept on disk.
"""

from __future__ import annotations

import contextlib
import difflib
import hashlib
import importlib
import importlib.util
import json
import os
import subprocess
import sys
from collections.abc import Iterable
from dataclasses import asdict
from functools import cache
from importlib import metadata
from pathlib import Path
from typing import Any

from jaxrl_hw.envs.tasks import Facts, TaskEntry
from jaxrl_hw.errors import RunError, UserError, first_line
from jaxrl_hw.types.process import backend_running, cache_folder

_MARK = "facts: "
_NEAREST = 5


def entry_of(name: str, settings: type, package: str) -> TaskEntry:
    """The entry of a task whose robots are the environments of another library.

    Its module `envs.tasks.NAME.task` has `load(environment, settings) -> outside.Loaded`.

    package: the module that has to be installed; the extra [NAME] installs it.
    """

    def facts(environment: str, own: Any) -> Facts:
        return _facts(name, package, environment, own or settings())

    def sizes(robot: Any, own: Any) -> tuple[int, int, int]:
        found = facts(environment_of(robot.name), own)
        return found.obs, found.critic, found.state

    return TaskEntry(
        name,
        settings,
        suits=lambda robot: robot.task == name,
        sizes=sizes,
        has_motion=False,
        facts=facts,
    )


def environment_of(robot: str) -> str:
    """ "ant" of "brax:ant"."""
    return robot.partition(":")[2]


def unknown_environment(source: str, got: str, known: Iterable[str]) -> UserError:
    """The error for an environment that a library does not have, with the nearest names."""
    names = sorted(known)
    if not got:
        return UserError(f"--env {source}:NAME names an environment: one of {', '.join(names)}")
    lower = {name.lower(): name for name in names}
    near = difflib.get_close_matches(got.lower(), list(lower), n=_NEAREST, cutoff=0.4)
    shown = [lower[name] for name in near] or names[:_NEAREST]
    more = len(names) - len(shown)
    text = f"nearest are {', '.join(shown)}" if near else f"known are {', '.join(shown)}"
    return UserError(f'unknown environment "{source}:{got}": {text} ({more} more)')


@cache
def _facts(source: str, package: str, environment: str, settings: Any) -> Facts:
    """Raises UserError where the package or the environment is not there."""
    if importlib.util.find_spec(package) is None:
        raise UserError(
            f"--env {source}:{environment} needs the package {package}, which is not installed: "
            f'pip install "jaxrl_hw[{source}]"'
        )
    if backend_running():  # loading it here settles nothing any more
        return Facts(*ask(source, environment, asdict(settings)))
    question = [source, environment, asdict(settings)]
    kept = _kept_in(question, package)
    with contextlib.suppress(OSError, ValueError, TypeError):
        return Facts(*json.loads(kept.read_text(encoding="utf-8")))
    found = Facts(*_asked(question))
    with contextlib.suppress(OSError):
        kept.parent.mkdir(parents=True, exist_ok=True)
        kept.write_text(json.dumps(found), encoding="utf-8")
    return found


def ask(source: str, environment: str, settings: dict[str, Any]) -> list[Any]:
    """The facts of an environment, by loading it. Raises UserError where that is not possible."""
    from jaxrl_hw.envs.tasks.outside import facts_of

    own = importlib.import_module(f"jaxrl_hw.envs.tasks.{source}.settings").ENTRY.settings
    task = importlib.import_module(f"jaxrl_hw.envs.tasks.{source}.task")
    return list(facts_of(task.load(environment, own(**settings))))


def _asked(question: list[Any]) -> list[Any]:
    """The same by a process of its own: loading jax here would settle its memory too early."""
    done = subprocess.run(
        [sys.executable, "-m", __name__, json.dumps(question)],
        env={**os.environ, "JAX_PLATFORMS": "cpu"},
        capture_output=True,
        text=True,
        stdin=subprocess.DEVNULL,
        check=False,
    )
    answers = [line for line in done.stdout.splitlines() if line.startswith(_MARK)]
    if not answers:
        last = (done.stderr.strip().splitlines() or [f"exit code {done.returncode}"])[-1]
        raise RunError(f"--env {question[0]}:{question[1]} cannot be loaded: {last}")
    answer = json.loads(answers[-1].removeprefix(_MARK))
    if isinstance(answer, str):
        raise UserError(answer)
    return list(answer)


def _kept_in(question: list[Any], package: str) -> Path:
    """The file that keeps an answer, of these versions."""
    here = Path(__file__).parent
    sources = (here / "outside.py", here / question[0] / "task.py")
    names = (question[0], "brax", "mujoco", "mujoco-mjx", package)
    versions = []
    for name in names:
        with contextlib.suppress(metadata.PackageNotFoundError):
            versions.append((name, metadata.version(name)))
    text = json.dumps([question, versions, [path.read_text() for path in sources]])
    name = hashlib.sha256(text.encode()).hexdigest()[:16]
    return cache_folder() / "environments" / f"{question[0]}-{name}.json"


def _main(question: str) -> None:
    try:
        answer: Any = ask(*json.loads(question))
    except UserError as error:
        answer = str(error)
    except Exception as error:  # whatever the other library raises
        source, environment, _ = json.loads(question)
        answer = f"--env {source}:{environment} cannot be loaded: {first_line(error)}"
    print(f"\n{_MARK}{json.dumps(answer)}", flush=True)


if __name__ == "__main__":
    _main(sys.argv[1])
