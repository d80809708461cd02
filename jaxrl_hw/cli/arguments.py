"""The flags that the commands for a trained policy share."""

from __future__ import annotations

import argparse
import re
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NoReturn

from jaxrl_hw.algos.registry import load_algorithm
from jaxrl_hw.cli.help_text import HelpFormatter
from jaxrl_hw.envs.robots import load_robot
from jaxrl_hw.errors import UserError, unknown_flag


class OneLineParser(argparse.ArgumentParser):
    """argparse whose errors are one-line UserErrors, with the nearest flag as a suggestion."""

    def __init__(self, **options: Any) -> None:
        super().__init__(allow_abbrev=False, formatter_class=HelpFormatter, **options)

    def error(self, message: str) -> NoReturn:
        """Raises UserError instead of printing the usage and exiting."""
        message = re.sub(r"^argument (\S+): expected one argument$", r"\1 needs a value", message)
        raise UserError(f"{message}; --help lists the flags")

    def parse(self, argv: Sequence[str]) -> argparse.Namespace:
        """Parse all of a command line; `--run_dir` is read as `--run-dir`.

        Raises:
          UserError: an unknown flag, or a value of the wrong kind.
        """
        words = [re.sub(r"^--[\w-]+", lambda m: m[0].replace("_", "-"), word) for word in argv]
        known = [flag for action in self._actions for flag in action.option_strings]
        # argparse would report a missing flag first and hide the misspelt one
        for word in words:
            name = word.split("=")[0]
            if name.startswith("--") and name != "--" and name not in known:
                raise unknown_flag(name, known)
        found, rest = self.parse_known_args(words)
        if rest:
            raise UserError(f'unexpected argument "{rest[0]}"; settings are given as --name value')
        return found


def add_run_arguments(
    parser: OneLineParser, seconds: float, baselines: Sequence[str] = ()
) -> argparse._ArgumentGroup:
    """The flags of every command that drives a policy; the group of those that say how.

    baselines: names that --policy takes beside those of trained policies.
    """
    add_source_arguments(parser, baselines)
    group = parser.add_argument_group("what is driven")
    about = f"simulated time, s (default: {seconds:g})"
    group.add_argument("--seconds", type=number, default=seconds, metavar="S", help=about)
    about = "of starts and disturbances (default: 0)"
    group.add_argument("--seed", type=whole_number, default=0, metavar="N", help=about)
    return group


def add_source_arguments(parser: OneLineParser, baselines: Sequence[str] = ()) -> None:
    """The flags that name the policy; `check_source` checks them."""
    group = parser.add_argument_group("which policy", "Give --run-dir or --policy.")
    group.add_argument("--run-dir", metavar="DIR", help="folder of the run")
    about = "checkpoint of the run (default: the newest)"
    group.add_argument("--iteration", type=whole_number, metavar="K", help=about)
    about = "a policy of the package, or an exported one, in place of a run"
    if baselines:
        about += f"; {' or '.join(baselines)}: one that has learned nothing, for --robot"
    names = "|".join(("zoo:NAME", "FILE.npz", *baselines))
    group.add_argument("--policy", metavar=names, help=about)
    about = "refuse a policy for another robot; imports the module of a robot of your own"
    group.add_argument("--robot", metavar="NAME", help=about)
    about = "imports the module of an algorithm of your own"
    group.add_argument("--algo", metavar="NAME", help=about)


def check_source(args: argparse.Namespace) -> str:
    """The run's folder or the policy, as given; imports the code that --robot and --algo name.

    Raises:
      UserError: an unknown robot, not exactly one of --run-dir and --policy, --iteration with a
        policy, or no folder.
    """
    if args.robot is not None:
        load_robot(args.robot)
    if args.algo is not None:
        load_algorithm(args.algo)
    if (args.run_dir is None) == (args.policy is None):
        got = "neither" if args.run_dir is None else "both"
        raise UserError(f"give one of --run-dir DIR and --policy zoo:NAME|FILE.npz, got {got}")
    if args.policy is None:
        run_folder(args.run_dir)
        return str(args.run_dir)
    if args.iteration is not None:
        raise UserError(
            "--iteration chooses a checkpoint of a run; a policy has only its own: leave it out"
        )
    return str(args.policy)


def run_folder(folder: str) -> Path:
    """The folder of --run-dir; UserError where it is none."""
    path = Path(folder).expanduser()
    if not path.is_dir():
        state = "is a file" if path.exists() else "does not exist"
        raise UserError(f"--run-dir must be the folder of a run, but {path} {state}")
    return path


def number(text: str) -> float:
    """A finite number, for argparse."""
    try:
        value = float(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f'"{text}" is not a number') from None
    if value != value or abs(value) == float("inf"):
        raise argparse.ArgumentTypeError(f'"{text}" is not a finite number')
    return value


def whole_number(text: str) -> int:
    """A whole number of at least 0, for argparse."""
    if not (text.isascii() and text.isdecimal() and int(text) < 2**31):
        raise argparse.ArgumentTypeError(f'"{text}" is not a whole number from 0 to 2147483647')
    return int(text)


def make_writable(folder: Path, what: str) -> Path:
    """The folder of --out, made where it is missing.

    what: goes into it, such as "a film".
    Raises UserError where no file can be written into it.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            pass
    except OSError as error:
        reason = error.strerror or type(error).__name__
        problem = f"cannot write {what} into {folder} ({reason})"
        raise UserError(f"{problem}; choose another --out") from error
    return folder
