"""Runs on this disk, and on their way to another: python -m jaxrl_hw.runs

    list [FOLDER]            every run in a folder (default: runs), and whether it can go on
    show DIR                 the sessions and checkpoints of one, and the command that continues it
    pack DIR [--out FILE]    one zip: newest and best checkpoint, policy, settings, history
    unpack ZIP [--out DIR]   that zip as a run again, on this machine or another

`list` may be left out. `list` and `show` take --json.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from jaxrl_hw.checkpointing.pack import pack
from jaxrl_hw.checkpointing.run_dir import check_run
from jaxrl_hw.checkpointing.sessions import TRAINING
from jaxrl_hw.checkpointing.unpack import unpack
from jaxrl_hw.cli.arguments import OneLineParser
from jaxrl_hw.cli.command import DONE, run_command
from jaxrl_hw.cli.run_summary import READY, Summary, list_runs, summarize
from jaxrl_hw.errors import UserError, suggest
from jaxrl_hw.loggers import formats

FOLDER = "runs"
_PROG = "python -m jaxrl_hw.runs"
_PIPE_WIDTH = 400


def main(argv: Sequence[str] | None = None) -> int:
    """Exit code 0: shown or written; 2: bad input, nothing changed; 1: the disk refuses."""

    def body() -> int:
        name, words = _subcommand(list(sys.argv[1:] if argv is None else argv))
        _SUBCOMMANDS[name](words)
        return DONE

    return run_command(body)


def _subcommand(words: list[str]) -> tuple[str, list[str]]:
    """Which one is asked for, and its words; a folder alone is one to list."""
    place = next((i for i, word in enumerate(words) if not word.startswith("-")), None)
    if place is None:
        return "list", words
    word = words[place]
    if word in _SUBCOMMANDS:
        return word, words[:place] + words[place + 1 :]
    if os.sep in word or Path(word).expanduser().exists():
        return "list", words
    names = ", ".join(_SUBCOMMANDS)
    raise UserError(
        f'"{word}" is neither a subcommand ({names}) nor a folder here{suggest(word, _SUBCOMMANDS)}'
    )


def _list(words: list[str]) -> None:
    parser = _parser("list", __doc__)
    parser.add_argument("folder", nargs="?", default=FOLDER, metavar="FOLDER")
    parser.add_argument("--json", action="store_true", help="the same as data")
    asked = parser.parse(words)
    folder = Path(asked.folder).expanduser()
    runs = list_runs(folder)
    if asked.json:
        _print_json({"folder": str(folder), "runs": [run.to_dict() for run in runs]})
    elif not runs:
        _say(f"no runs in {folder}; train one: python -m jaxrl_hw.train")
    else:
        from jaxrl_hw.cli.run_tables import runs_view

        console = _console()
        console.print(runs_view(runs, console))


def _show(words: list[str]) -> None:
    parser = _parser("show", "The sessions and checkpoints of a run, and how it is continued.")
    parser.add_argument("folder", metavar="DIR", help="folder of the run")
    parser.add_argument("--json", action="store_true", help="the same as data")
    asked = parser.parse(words)
    folder = Path(asked.folder).expanduser()
    check_run(folder)
    run = summarize(folder, thorough=True)
    if asked.json:
        _print_json(run.to_dict(detailed=True))
        return
    from jaxrl_hw.cli.run_tables import progress, run_view

    _say(f"{folder}: {run.robot or '?'}, iteration {progress(run)}, {formats.size(run.bytes)}")
    console = _console()
    console.print(run_view(run, console))
    _say(*_way_on(run))


def _pack(words: list[str]) -> None:
    parser = _parser("pack", "One zip of what is worth taking along, to be unpacked elsewhere.")
    parser.add_argument("folder", metavar="DIR", help="folder of the run; it may be in training")
    parser.add_argument("--out", metavar="FILE.zip", help="default: the run's name, here")
    parser.add_argument("--force", action="store_true", help="replace a file of that name")
    asked = parser.parse(words)
    out = None if asked.out is None else Path(asked.out)
    made = pack(Path(asked.folder).expanduser(), out, asked.force)
    files, best = len(made.manifest.files), made.manifest.best
    also = "" if best in (None, made.manifest.iteration) else f" and {best} (best)"
    _say(
        f"packed {made.path}: {formats.size(made.size)}, {files} files, "
        f"checkpoint {made.manifest.iteration} (newest){also}",
        f"on another machine: {_PROG} unpack {made.path.name}",
    )


def _unpack(words: list[str]) -> None:
    parser = _parser("unpack", "Restore a packed run; every file is held to its checksum.")
    parser.add_argument("zip", metavar="ZIP", help="what `pack` has written")
    parser.add_argument("--out", metavar="DIR", help="new folder (default: runs/<the run's name>)")
    asked = parser.parse(words)
    made = unpack(Path(asked.zip), None if asked.out is None else Path(asked.out))
    size, files = formats.size(made.manifest.size), len(made.manifest.files)
    _say(f"unpacked {made.folder}: {size}, {files} files, every checksum agrees")
    _say(*_way_on(summarize(made.folder)))


def _way_on(run: Summary) -> list[str]:
    """How a run is continued, or why it is not."""
    lines = [] if run.status == READY and not run.why else [f"{run.status}: {run.why}"]
    if run.command and run.status != TRAINING:
        lines.append(f"continue it: {run.command}")
    elif run.command:
        lines.append(f"continue it when that has ended: {run.command}")
    return lines


_SUBCOMMANDS: dict[str, Callable[[list[str]], None]] = {
    "list": _list,
    "show": _show,
    "pack": _pack,
    "unpack": _unpack,
}


def _parser(name: str, description: str) -> OneLineParser:
    return OneLineParser(prog=f"{_PROG} {name}", description=description)


def _print_json(value: Any) -> None:
    print(json.dumps(value, indent=2))


def _console() -> Any:
    from jaxrl_hw.loggers.terminal import can_redraw, make_console

    # in a pipe a run stays on one line; a terminal or a notebook has a width of its own
    width = None if sys.stdout.isatty() else _PIPE_WIDTH
    return make_console(sys.stdout, can_redraw(sys.stdout), width)


def _say(*lines: str) -> None:
    console = _console()
    for line in lines:
        console.print(line, soft_wrap=True, markup=False)


if __name__ == "__main__":
    sys.exit(main())
