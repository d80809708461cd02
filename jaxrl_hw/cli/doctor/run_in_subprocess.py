"""A function called in a process of its own, with a time limit.

Drivers hang, OpenGL crashes, and XLA ends its process over a flag that it does not know. None of
that may end the caller. Arguments and result travel as JSON.
"""

from __future__ import annotations

import contextlib
import importlib
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping
from typing import IO, Any, NoReturn

from jaxrl_hw.errors import RunError, UserError

_LONGEST = 300
_GRACE_S = 3.0
_FATAL = re.compile(r"^F\d{4} \S+ +\d+ \S+\] *(?P<text>.*)$")  # the line XLA ends a process with


class CallError(RuntimeError):
    """The call gave no result; says why, in one line."""


def run_in_subprocess(
    function: Callable[..., Any],
    *arguments: Any,
    timeout_s: float,
    environ: Mapping[str, str] | None = None,
) -> Any:
    """The result of `function(*arguments)`, called in a fresh Python.

    Args:
      function: a module's own function; JSON can hold its result.
      arguments: JSON can hold them.
      timeout_s: seconds after which the process and all that it started are ended.
      environ: environment variables; None for those of this process.

    Raises:
      CallError: the function raised, crashed, or took longer.
    """
    words = [function.__module__, function.__name__, json.dumps(arguments)]
    with tempfile.TemporaryFile() as stderr:  # a pipe would wait for grandchildren to close it
        process = subprocess.Popen(
            [sys.executable, "-m", __name__, *words],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=stderr,
            env=None if environ is None else dict(environ),
            start_new_session=True,
        )
        try:
            answer, _ = process.communicate(timeout=timeout_s)
        except subprocess.TimeoutExpired:
            raise CallError(f"no answer within {timeout_s:g} s") from None
        finally:
            _end(process)
        return _read(answer, process.returncode, stderr)


def one_line(error: BaseException) -> str:
    """An exception in one line; our own errors go without their type's name."""
    text = " ".join(str(error).split())
    if not isinstance(error, (UserError, RunError, CallError)):
        text = f"{type(error).__name__}: {text}".removesuffix(": ")
    return _short(text)


def _read(answer: bytes, code: int, stderr: IO[bytes]) -> Any:
    try:
        got = json.loads(answer)
    except ValueError:
        stderr.seek(0)
        last = _last_words(stderr.read().decode(errors="replace"))
        raise CallError(_short(f"{_ending(code)}: {last}".removesuffix(": "))) from None
    if "error" in got:
        raise CallError(str(got["error"]))
    return got["result"]


def _ending(code: int) -> str:
    if code >= 0:
        return f"the process ended with exit code {code}"
    with contextlib.suppress(ValueError):
        return f"{signal.Signals(-code).name} ended the process"
    return f"signal {-code} ended the process"


def _last_words(text: str) -> str:
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    fatal = [match["text"] for match in map(_FATAL.match, lines) if match is not None]
    return (fatal[:1] or lines[-1:] or [""])[0]


def _short(text: str) -> str:
    text = " ".join(text.split())
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 4]} ..."


def _end(process: subprocess.Popen[bytes]) -> None:
    """End the process and its children; SIGTERM comes first and lets them clean up."""
    for number in (signal.SIGTERM, signal.SIGKILL):
        if process.poll() is not None:
            break
        with contextlib.suppress(OSError):
            os.killpg(process.pid, number)
        # a process that sleeps inside a broken driver cannot be reaped: it stays
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(timeout=_GRACE_S)
    if process.stdout is not None:
        process.stdout.close()


def _serve(module: str, name: str, arguments: str) -> NoReturn:
    """In the new process: call the function and write the result to what was stdout."""
    answer = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what libraries print must not mix with the answer
    signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(128 + number))
    try:
        function = getattr(importlib.import_module(module), name)
        text = json.dumps({"result": function(*json.loads(arguments))})
    except Exception as error:
        text = json.dumps({"error": one_line(error)})
    answer.write(text)
    answer.flush()
    os._exit(0)  # some drivers crash or hang in a normal exit


if __name__ == "__main__":
    _serve(*sys.argv[1:])
