"""The subcommands of `jaxrl_hw.runs`: list, show, pack and unpack."""

from __future__ import annotations

import json
import os
import sys
from argparse import Namespace
from collections.abc import Callable
from pathlib import Path
from typing import Any

from jaxrl_hw.checkpointing.pack import pack
from jaxrl_hw.checkpointing.run_dir import check_run
from jaxrl_hw.checkpointing.sessions import TRAINING
from jaxrl_hw.checkpointing.unpack import unpack
from jaxrl_hw.cli.arguments import OneLineParser
from jaxrl_hw.cli.command import DONE
from jaxrl_hw.cli.run_summary import READY, Summary, list_runs, summarize
from jaxrl_hw.envs.robots import load_robot
from jaxrl_hw.errors import UserError, suggest
from jaxrl_hw.loggers import formats

_PROG = "python -m jaxrl_hw.runs"
_PIPE_WIDTH = 400


def run(argv: list[str], about: str) -> int:
    """Run the subcommand that the command line names; `about` is the help of `list`."""
    name, argv = _subcommand(argv)
    _SUBCOMMANDS[name](argv, about)
    return DONE


def _subcommand(argv: list[str]) -> tuple[str, list[str]]:
    """The subcommand and its arguments; a folder alone means `list`."""
    place = next((i for i, word in enumerate(argv) if not word.startswith("-")), None)
    if place is None:
        return "list", argv
    word = argv[place]
    if word in _SUBCOMMANDS:
        return word, argv[:place] + argv[place + 1 :]
    if os.sep in word or Path(word).expanduser().exists():
        return "list", argv
    names = ", ".join(_SUBCOMMANDS)
    raise UserError(
        f'"{word}" is neither a subcommand ({names}) nor a folder here{suggest(word, _SUBCOMMANDS)}'
    )


def _list(argv: list[str], about: str) -> None:
    parser = OneLineParser(prog=f"{_PROG} list", description=about)
    parser.add_argument(
        "folder", type=_path, nargs="?", default=Path("runs"), metavar="FOLDER", help="of runs"
    )
    parser.add_argument("--json", action="store_true", help="print JSON")
    args = _parse_with_robot(parser, argv)
    runs = list_runs(args.folder, args.robot)
    if args.json:
        _print_json({"folder": str(args.folder), "runs": [run.to_dict() for run in runs]})
    elif not runs:
        _print(f"no runs in {args.folder}; train one: python -m jaxrl_hw.train")
    else:
        from jaxrl_hw.cli.run_tables import runs_view

        console = _console()
        console.print(runs_view(runs, console))


def _show(argv: list[str], _: str) -> None:
    about = "Show a run's sessions and checkpoints, and the command that continues it."
    parser = OneLineParser(prog=f"{_PROG} show", description=about)
    parser.add_argument("folder", type=_path, metavar="DIR", help="folder of the run")
    parser.add_argument("--json", action="store_true", help="print JSON")
    args = _parse_with_robot(parser, argv)
    check_run(args.folder)
    run = summarize(args.folder, args.robot, thorough=True)
    if args.json:
        _print_json(run.to_dict(detailed=True))
        return
    from jaxrl_hw.cli.run_tables import progress, run_view

    size = formats.size(run.bytes)
    _print(f"{args.folder}: {run.robot or '?'}, iteration {progress(run)}, {size}")
    console = _console()
    console.print(run_view(run, console))
    _print(*_next_step(run))


def _pack(argv: list[str], _: str) -> None:
    about = "Write a run as one zip, to be unpacked elsewhere."
    parser = OneLineParser(prog=f"{_PROG} pack", description=about)
    parser.add_argument(
        "folder", type=_path, metavar="DIR", help="folder of the run; it may be in training"
    )
    parser.add_argument("--out", type=_path, metavar="FILE.zip", help="default: NAME.zip here")
    parser.add_argument("--force", action="store_true", help="replace a file of that name")
    args = parser.parse(argv)
    made = pack(args.folder, args.out, args.force)
    files, best = len(made.manifest.files), made.manifest.best
    also = "" if best in (None, made.manifest.iteration) else f" and {best} (best)"
    _print(
        f"packed {made.path}: {formats.size(made.size)}, {files} files, "
        f"checkpoint {made.manifest.iteration} (newest){also}",
        f"on another machine: {_PROG} unpack {made.path.name}",
    )


def _unpack(argv: list[str], _: str) -> None:
    about = "Restore a packed run; verifies every checksum."
    parser = OneLineParser(prog=f"{_PROG} unpack", description=about)
    parser.add_argument("zip", type=_path, metavar="ZIP", help="the zip that `pack` has written")
    parser.add_argument(
        "--out", type=_path, metavar="DIR", help="new folder (default: runs/NAME of the run)"
    )
    args = _parse_with_robot(parser, argv)
    made = unpack(args.zip, args.out)
    size, files = formats.size(made.manifest.size), len(made.manifest.files)
    _print(f"unpacked {made.folder}: {size}, {files} files, every checksum agrees")
    _print(*_next_step(summarize(made.folder, args.robot)))


def _parse_with_robot(parser: OneLineParser, argv: list[str]) -> Namespace:
    """Parse; where --robot names code of the user's own, import it."""
    parser.add_argument(
        "--robot", default="", metavar="NAME", help="a robot of your own, such as package.module"
    )
    args = parser.parse(argv)
    if args.robot:
        load_robot(args.robot)
    return args


def _path(text: str) -> Path:
    return Path(text).expanduser()


def _next_step(run: Summary) -> list[str]:
    """The command that continues a run, or why none does."""
    lines = [] if run.status == READY and not run.why else [f"{run.status}: {run.why}"]
    if run.command:
        when = "when that session has ended" if run.status == TRAINING else "it"
        lines.append(f"continue {when}: {run.command}")
    return lines


_SUBCOMMANDS: dict[str, Callable[[list[str], str], None]] = {
    "list": _list,
    "show": _show,
    "pack": _pack,
    "unpack": _unpack,
}


def _print_json(value: Any) -> None:
    print(json.dumps(value, indent=2))


def _console() -> Any:
    from jaxrl_hw.loggers.terminal import can_redraw, make_console

    # In a pipe every run stays on one line; a terminal or a notebook has a width of its own.
    width = None if sys.stdout.isatty() else _PIPE_WIDTH
    return make_console(sys.stdout, can_redraw(sys.stdout), width)


def _print(*lines: str) -> None:
    console = _console()
    for line in lines:
        console.print(line, soft_wrap=True, markup=False)
