"""Write the zoo's figures into the pages: zoo_tables.py [--check]

README.md and docs/benchmarks.md have tables between `<!-- zoo: NAME -->` and `<!-- end -->`. Each
is made from the evaluation.json and origin.json of the zoo's policies. With --check nothing is
written; the exit code is 1 where a page's table is not the one that its files make.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from jaxrl_hw.policies import zoo

ROOT = Path(__file__).resolve().parents[1]
PAGES = (ROOT / "README.md", ROOT / "docs" / "benchmarks.md")
BLOCK = re.compile(r"(<!-- zoo: (\w+) -->\n).*?(<!-- end -->)", re.DOTALL)
FIRST = ("g1_12dof", "g1", "h1", "t1", "go1", "go2")
IN_SHORT = ("no pushes", "pushes 0.5 m/s", "pushes 1.0 m/s", "all four", "another model")


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "--check", action="store_true", help="write nothing; 1 where a table is old"
    )
    args = parser.parse_args(argv)
    old = [page for page in PAGES if filled(page.read_text()) != page.read_text()]
    for page in old:
        print(f"{'old' if args.check else 'written'}: {page.name}")
        if not args.check:
            page.write_text(filled(page.read_text()))
    return int(args.check and bool(old))


def filled(text: str) -> str:
    """A page's text with its tables made anew. Raises KeyError for a table of another name."""
    return BLOCK.sub(lambda block: block[1] + TABLES[block[2]]() + block[3], text)


def short() -> str:
    """Velocity error and falls in the cases that tell most, and what training took."""

    def cell(case: dict[str, Any]) -> str:
        return f"{case['velocity_error']:.3f} m/s, {case['falls']} of {case['trials']} fall"

    def cost(origin: dict[str, Any]) -> str:
        return f"{origin['env_steps'] / 1e6:.1f}M env steps, {origin['minutes']:.0f} min"

    trained = ["training", *(cost(read(name, "origin")) for name in names())]
    return table("`evaluate --suite robust`", [*cases(cell, IN_SHORT), trained])


def full() -> str:
    """All cases, with all figures."""

    def cell(case: dict[str, Any]) -> str:
        return (
            f"{case['velocity_error']:.3f}, {case['yaw_error']:.3f}, "
            f"{case['falls']} of {case['trials']}, {case['power']:.0f} W, "
            f"{case['self_contacts']:.1f}"
        )

    drift = [f"{read(name, 'evaluation')['mean']['drift']:.2f} m" for name in names()]
    return table("", [*cases(cell), ["drift in 10 s, told to stand", *drift]])


TABLES: dict[str, Callable[[], str]] = {"short": short, "full": full}


def names() -> tuple[str, ...]:
    """The zoo's policies in the order of the columns."""
    return (*FIRST, *(name for name in zoo.names() if name not in FIRST))


def read(name: str, kind: str) -> dict[str, Any]:
    return dict(json.loads((zoo.folder_of(name) / f"{kind}.json").read_text()))


def cases(cell: Callable[[dict[str, Any]], str], wanted: Sequence[str] = ()) -> list[list[str]]:
    """A row for each case of the robust suite: its name, and a cell for each policy.

    Robots differ in the load that they are given: a row has the first one's name.
    """
    columns = [read(name, "evaluation")["cases"] for name in names()]
    rows = [[row[0]["name"], *map(cell, row)] for row in zip(*columns, strict=True)]
    return [row for row in rows if not wanted or row[0] in wanted]


def table(title: str, rows: Sequence[Sequence[str]]) -> str:
    """Markdown, with a column for each policy."""
    head = [title, *(f"`zoo:{name}`" for name in names())]
    lines = (head, ["---"] * len(head), *rows)
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


if __name__ == "__main__":
    sys.exit(main())
