"""The package keeps the shape that docs/architecture.md describes."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

import jaxrl_hw
from jaxrl_hw.algos.registry import entries
from jaxrl_hw.cli.main import COMMANDS

PACKAGE = Path(jaxrl_hw.__file__).parent
FILES = sorted(PACKAGE.rglob("*.py"))


def test_at_most_13_entries_stand_at_the_top_beside_the_commands() -> None:
    entries = {path.stem for path in PACKAGE.glob("*.py")}
    entries |= {path.parent.name for path in PACKAGE.glob("*/__init__.py")}
    assert len(entries - {"__init__", *COMMANDS}) <= 13


@pytest.mark.parametrize("name", COMMANDS)
def test_a_command_module_has_fewer_than_40_lines(name: str) -> None:
    assert len((PACKAGE / f"{name}.py").read_text().splitlines()) < 40


def test_a_file_has_fewer_than_300_lines() -> None:
    assert [path for path in FILES if len(path.read_text().splitlines()) >= 300] == []


def test_a_function_has_fewer_than_60_lines() -> None:
    long = []
    for path in FILES:
        for function in _functions(path):
            lines = (function.end_lineno or 0) - function.lineno + 1
            if lines >= 60:
                long.append((path.name, function.name, lines))
    assert long == []


def test_only_algos_reads_the_settings_of_an_algorithm() -> None:
    readers = []
    for path in FILES:
        if "algos" not in path.parts:
            nodes = ast.walk(ast.parse(path.read_text()))
            readers += [
                path.name for n in nodes if isinstance(n, ast.Attribute) and n.attr in entries()
            ]
    assert readers == []


def _functions(path: Path) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield node
