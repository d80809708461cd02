"""The two kinds of failure a command can end with, besides a bug.

A command turns `UserError` into exit code 2 and `RunError` into exit code 1, each with one line.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable


class UserError(ValueError):
    """What the user gave cannot be used: says what was got, what is allowed, and a suggestion."""


class RunError(RuntimeError):
    """Something that is not the user's fault stopped the work: a full disk, damaged files."""


def suggest(got: str, allowed: Iterable[str]) -> str:
    """`; did you mean "g1"?`, or nothing where no name of `allowed` is near `got`."""
    near = difflib.get_close_matches(got, list(allowed), n=1, cutoff=0.5)
    return f'; did you mean "{near[0]}"?' if near else ""


def unknown(kind: str, got: str, allowed: Iterable[str]) -> UserError:
    """The error for a name that is not one of `allowed`."""
    names = sorted(allowed)
    return UserError(f'unknown {kind} "{got}": known are {", ".join(names)}{suggest(got, names)}')


def unknown_flag(name: str, known: Iterable[str]) -> UserError:
    """The error for a flag `--name` that is not one of `known`."""
    hint = suggest(name, known) or ";"
    return UserError(f'unknown flag "{name}"{hint} --help lists them all')


def one_line(error: BaseException) -> str:
    """The whole message of an exception in one line."""
    return " ".join(str(error).split())


def first_line(error: BaseException) -> str:
    """The first line of any exception's message, 200 characters at most."""
    text = str(error).strip() or type(error).__name__
    return text.splitlines()[0][:200]


def check_between(flag: str, value: float, low: float, high: float) -> None:
    """Raises UserError where a flag's value is out of bounds."""
    if not low <= value <= high:
        raise UserError(f"{flag} must be from {low:g} to {high:g}, got {value:g}")
