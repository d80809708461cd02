"""The process that talks to Weights & Biases: python -m jaxrl_hw.loggers.wandb_process

It reads JSON lines: first what to start, then a row of metrics.jsonl each. It answers in lines too:
{"mode": ..., "why": ..., "folder": ..., "version": ...} once it has started, and {"done": true} at
the end.
"""

from __future__ import annotations

import json
import netrc
import os
import socket
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import IO, Any
from urllib.parse import urlsplit

_SERVER = "https://api.wandb.ai"
_TIMEOUT_S = 5.0


def why_offline(environ: Mapping[str, str]) -> str:
    """Why a run cannot be sent now; "" where it can.

    environ: WANDB_MODE, WANDB_API_KEY and WANDB_BASE_URL count, as for the package itself.
    """
    if environ.get("WANDB_MODE", "online") not in ("", "online"):
        return f"WANDB_MODE is {environ['WANDB_MODE']}"
    server = urlsplit(environ.get("WANDB_BASE_URL") or _SERVER)
    host = server.hostname or ""
    if not environ.get("WANDB_API_KEY") and not _has_login(host, environ):
        return "no login here"
    try:
        port = server.port or (80 if server.scheme == "http" else 443)
        socket.create_connection((host, port), _TIMEOUT_S).close()
    except OSError:
        return f"{host} cannot be reached"
    return ""


def _has_login(host: str, environ: Mapping[str, str]) -> bool:
    path = Path(environ.get("NETRC") or Path.home() / ".netrc")
    try:
        return netrc.netrc(path).authenticators(host) is not None
    except (OSError, netrc.NetrcParseError):
        return False


def send(lines: Iterable[str], answers: IO[str], environ: Mapping[str, str]) -> None:
    """Start a run and log rows until the lines end. Raises whatever the package raises."""
    source = iter(lines)
    start: dict[str, Any] = json.loads(next(source))
    why = "as asked for" if start.pop("is_offline") else why_offline(environ)
    mode = "offline" if why else "online"
    import wandb

    run = wandb.init(**start, mode=mode, resume="allow")
    # what `wandb sync` takes: the folder above the one for the user's files
    folder = Path(getattr(run, "dir", None) or start["dir"])
    folder = folder.parent if folder.name == "files" else folder
    _answer(answers, mode=mode, why=why, folder=str(folder), version=wandb.__version__)
    for line in source:
        row = json.loads(line)
        run.log(row, step=row["iteration"])
    run.finish()
    _answer(answers, done=True)


def _answer(stream: IO[str], **values: Any) -> None:
    print(json.dumps(values), file=stream, flush=True)


if __name__ == "__main__":
    # the package prints as it likes; the answers go through a stream of their own
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    try:
        send(sys.stdin, answers, os.environ)
    except Exception as error:
        text = " ".join(str(error).split())[:200]
        _answer(answers, error=f"{type(error).__name__}: {text}")
        sys.exit(1)
