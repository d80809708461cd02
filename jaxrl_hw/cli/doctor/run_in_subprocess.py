"""A function called in a process of its own, with a time limit.

Drivers hang, OpenGL crashes, and XLA ends the process over a flag that it does not know: none of
that may end whoever asks. Arguments and result travel as JSON.
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
_FATAL = re.compile(r"^F\d{4} \S+ +\d+ \S+\] *(?P<said>.*)$")  # XLA's last words


class NoResult(RuntimeError):
    """The call gave no result; says why, in one line."""


def call(
    function: Callable[..., Any],
    *arguments: Any,
    limit_s: float,
    environ: Mapping[str, str] | None = None,
) -> Any:
    """The result of `function(*arguments)`, called in a fresh Python.

    Args:
      function: one that a module defines; its result is one that JSON can hold.
      arguments: likewise.
      limit_s: seconds after which it is ended, with all processes that it has started.
      environ: environment variables; None for those of this process.

    Raises:
      NoResult: the function raised, crashed, or took longer.
    """
    words = [function.__module__, function.__name__, json.dumps(arguments)]
    with tempfile.TemporaryFile() as said:  # a pipe would wait for grandchildren to close it
        process = subprocess.Popen(
            [sys.executable, "-m", __name__, *words],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=said,
            env=None if environ is None else dict(environ),
            start_new_session=True,
        )
        try:
            answer, _ = process.communicate(timeout=limit_s)
        except subprocess.TimeoutExpired:
            raise NoResult(f"no answer within {limit_s:g} s: ended") from None
        finally:
            _end(process)
        return _read(answer, process.returncode, said)


def reason(error: BaseException) -> str:
    """An exception in one line; the kind of error is left out where it says nothing to a user."""
    text = " ".join(str(error).split())
    if isinstance(error, (UserError, RunError, NoResult)):
        return _short(text)
    kind = type(error).__name__
    return _short(f"{kind}: {text}" if text else kind)


def _read(answer: bytes, code: int, said: IO[bytes]) -> Any:
    try:
        got = json.loads(answer)
    except ValueError:
        said.seek(0)
        words = _last_words(said.read().decode(errors="replace"))
        raise NoResult(_short(f"{_ending(code)}{': ' if words else ''}{words}")) from None
    if "error" in got:
        raise NoResult(str(got["error"]))
    return got["result"]


def _ending(code: int) -> str:
    if code >= 0:
        return f"the process ended with exit code {code}"
    with contextlib.suppress(ValueError):
        return f"the process was ended by {signal.Signals(-code).name}"
    return f"the process was ended by signal {-code}"


def _last_words(text: str) -> str:
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    for line in lines:
        if (fatal := _FATAL.match(line)) is not None:
            return fatal["said"]
    return lines[-1] if lines else ""


def _short(text: str) -> str:
    text = " ".join(text.split())
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 4]} ..."


def _end(process: subprocess.Popen[bytes]) -> None:
    """End the process and its children, first in a way that lets it clean up."""
    for number in (signal.SIGTERM, signal.SIGKILL):
        if process.poll() is not None:
            break
        with contextlib.suppress(OSError):
            os.killpg(process.pid, number)
        # in uninterruptible sleep inside a broken driver it cannot be reaped: it is left alone
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(timeout=_GRACE_S)
    if process.stdout is not None:
        process.stdout.close()


def _serve(module: str, name: str, arguments: str) -> NoReturn:
    """The other end: call the function, and write what came of it to what was stdout."""
    answer = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what libraries print is no answer
    signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(128 + number))
    try:
        function = getattr(importlib.import_module(module), name)
        text = json.dumps({"result": function(*json.loads(arguments))})
    except Exception as error:
        text = json.dumps({"error": reason(error)})
    answer.write(text)
    answer.flush()
    os._exit(0)  # some drivers crash or hang at a proper end, when all is done


if __name__ == "__main__":
    _serve(*sys.argv[1:])
