"""The subcommands of `jaxrl_hw.runs`: list, show, pack and unpack."""

from __future__ import annotations

import json
import os
import sys
from argparse import Namespace
from collections.abc import Callable
from pathlib import Path
from typing import Any

from jaxrl_hw.algos.registry import load_algorithm
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
    body, help_, groups = _SUBCOMMANDS[name]
    parser = OneLineParser(prog=f"{_PROG} {name}", description=help_ or about)
    for title, arguments in groups.items():
        group = parser.add_argument_group(title)
        for flag, options in arguments:
            group.add_argument(flag, **options)
    args = parser.parse(argv)
    if getattr(args, "robot", ""):  # code of the user's own
        load_robot(args.robot)
    if getattr(args, "algo", ""):
        load_algorithm(args.algo)
    body(args)
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


def _list(args: Namespace) -> None:
    runs = list_runs(args.folder, args.robot)
    if args.json:
        print(
            json.dumps({"folder": str(args.folder), "runs": [x.to_dict() for x in runs]}, indent=2)
        )
    elif not runs:
        _print(f"no runs in {args.folder}; train one: python -m jaxrl_hw.train")
    else:
        from jaxrl_hw.cli.run_tables import runs_view

        console = _console()
        console.print(runs_view(runs, console))


def _show(args: Namespace) -> None:
    check_run(args.folder)
    run = summarize(args.folder, args.robot, thorough=True)
    if args.json:
        print(json.dumps(run.to_dict(detailed=True), indent=2))
        return
    from jaxrl_hw.cli.run_tables import progress, run_view

    size = formats.size(run.bytes)
    _print(f"{args.folder}: {run.robot or '?'}, iteration {progress(run)}, {size}")
    console = _console()
    console.print(run_view(run, console))
    _print(*_next_step(run))


def _pack(args: Namespace) -> None:
    made = pack(args.folder, args.out, args.force)
    files, best = len(made.manifest.files), made.manifest.best
    also = "" if best in (None, made.manifest.iteration) else f" and {best} (best)"
    _print(
        f"packed {made.path}: {formats.size(made.size)}, {files} files, "
        f"checkpoint {made.manifest.iteration} (newest){also}",
        f"on another machine: {_PROG} unpack {made.path.name}",
    )


def _unpack(args: Namespace) -> None:
    made = unpack(args.zip, args.out)
    size, files = formats.size(made.manifest.size), len(made.manifest.files)
    _print(f"unpacked {made.folder}: {size}, {files} files, every checksum agrees")
    _print(*_next_step(summarize(made.folder, args.robot)))


def _next_step(run: Summary) -> list[str]:
    """The command that continues a run, or why none does."""
    lines = [] if run.status == READY and not run.why else [f"{run.status}: {run.why}"]
    if run.command:
        when = "when that session has ended" if run.status == TRAINING else "it"
        lines.append(f"continue {when}: {run.command}")
    return lines


_Argument = tuple[str, dict[str, Any]]


def _path(name: str, metavar: str, help_: str, **options: Any) -> _Argument:
    kind = {"type": lambda text: Path(text).expanduser(), "metavar": metavar, "help": help_}
    return name, {**kind, **options}


_PRINTED = {"action": "store_true", "help": "print JSON in place of the table"}
_FORCED = {"action": "store_true", "help": "replace a file of that name (default: refuse it)"}
_JSON: _Argument = ("--json", _PRINTED)
_FORCE: _Argument = ("--force", _FORCED)
_OWN = "module of a robot of your own, such as package.module (default: none)"
_ROBOT: _Argument = ("--robot", {"default": "", "metavar": "NAME", "help": _OWN})
_OWN_ALGO = "module of an algorithm of your own, such as package.module (default: none)"
_ALGO: _Argument = ("--algo", {"default": "", "metavar": "NAME", "help": _OWN_ALGO})
_RUNS = _path("folder", "FOLDER", "of runs (default: runs)", nargs="?", default=Path("runs"))
_RUN = _path("folder", "DIR", "folder of the run")
_ZIP = _path("zip", "ZIP", "the zip that `pack` has written")
_OUT_ZIP = _path("--out", "FILE.zip", "the zip (default: NAME.zip here, of the run's folder NAME)")
_OUT_DIR = _path("--out", "DIR", "new folder (default: runs/NAME of the run)")
_SHOWS = f"""Show a run's sessions and checkpoints, and the command that continues it.

    {_PROG} show runs/g1-joystick-ppo-0"""
_PACKS = f"""Write a run, which may be in training, as one zip, to be unpacked elsewhere.

    {_PROG} pack runs/g1-joystick-ppo-0 --out run.zip"""
_UNPACKS = f"""Restore a packed run; verifies every checksum.

    {_PROG} unpack run.zip --out runs/again"""

_WHICH, _OUTPUT = "which run", "output"
_IMPORTED = {"code of your own": (_ROBOT, _ALGO)}
_SHOWN = {_OUTPUT: (_JSON,), **_IMPORTED}

_Groups = dict[str, tuple[_Argument, ...]]
_SUBCOMMANDS: dict[str, tuple[Callable[[Namespace], None], str, _Groups]] = {
    "list": (_list, "", {"which runs": (_RUNS,), **_SHOWN}),
    "show": (_show, _SHOWS, {_WHICH: (_RUN,), **_SHOWN}),
    "pack": (_pack, _PACKS, {_WHICH: (_RUN,), _OUTPUT: (_OUT_ZIP, _FORCE)}),
    "unpack": (_unpack, _UNPACKS, {_WHICH: (_ZIP,), _OUTPUT: (_OUT_DIR,), **_IMPORTED}),
}
"""Name: what it does, its help, its arguments by the groups of the help."""


def _console() -> Any:
    from jaxrl_hw.loggers.terminal import can_redraw, make_console

    # In a pipe every run stays on one line; a terminal or a notebook has a width of its own.
    width = None if sys.stdout.isatty() else _PIPE_WIDTH
    return make_console(sys.stdout, can_redraw(sys.stdout), width)


def _print(*lines: str) -> None:
    console = _console()
    for line in lines:
        console.print(line, soft_wrap=True, markup=False)
