"""Checks run one after the other; one that raises becomes a row like any other."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from jaxrl_hw.cli.doctor.results import FAIL, WARN, Finding
from jaxrl_hw.cli.doctor.run_in_subprocess import reason

UnderWay = Callable[[str], AbstractContextManager[Any]]


@dataclass
class Visit:
    """What checks are told, and what they leave for those after them."""

    run_dir: Path
    """Where runs would be written; it need not be there yet."""
    scratch: Path
    """An empty folder that is removed at the end."""
    opened: dict[str, Any] | None = None
    """What `devices.look` saw; None until JAX has opened its devices."""

    trouble: str = ""
    """Why JAX has opened none, in all that was said of it."""

    @property
    def environ(self) -> dict[str, str]:
        """Environment variables for processes that compile: each visit does so anew, and leaves
        nothing in the user's own cache."""
        cache = str(self.scratch / "cache")
        return {**os.environ, "JAXRL_HW_CACHE": cache, "JAX_COMPILATION_CACHE_DIR": cache}

    @property
    def platform(self) -> str:
        """cpu, gpu or tpu; "" where JAX has opened nothing."""
        return "" if self.opened is None else str(self.opened["platform"])

    def blames(self, variable: str) -> bool:
        """Whether JAX, opening nothing, has named an environment variable."""
        return variable.startswith(("JAX_", "XLA_")) and variable in self.trouble


class Check(NamedTuple):
    """One thing that is looked at."""

    name: str
    item: str
    """Of the row that tells that the check itself failed."""
    label: str
    """What is under way meanwhile: "opening devices"."""
    run: Callable[[Visit], Iterable[Finding]]
    advice: str = ""
    """What to do where it fails as a whole."""
    on_device: bool = False
    """Whether there is nothing to try where JAX has opened no device."""


def run_checks(checks: Iterable[Check], visit: Visit, under_way: UnderWay) -> list[Finding]:
    """The rows of all checks, in their order.

    under_way: entered with a check's label while it runs.
    """
    found: list[Finding] = []
    for check in checks:
        if check.on_device and visit.opened is None:
            found.append(_not_tried(check))
            continue
        with under_way(check.label):
            found += _guarded(check, visit)
    return found


def _guarded(check: Check, visit: Visit) -> list[Finding]:
    rows: list[Finding] = []
    try:
        rows.extend(check.run(visit))
    except Exception as error:  # whatever is wrong with a machine, the rest is still worth a look
        rows.append(Finding(check.name, check.item, FAIL, reason(error), check.advice))
    return rows


def _not_tried(check: Check) -> Finding:
    return Finding(
        check.name, check.item, WARN, "not tried, because JAX opens no device", 'see "devices"'
    )
