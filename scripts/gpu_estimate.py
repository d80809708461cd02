"""Write the estimate of GPUs' speed into docs/gpu.md: gpu_estimate.py [--check]

The tables stand between `<!-- gpu: ROBOT -->` and `<!-- end -->`. They are made from the compiler's
figures that ship with the package (jaxrl_hw/planning/kept_figures.json) and from the cards' data
sheets (jaxrl_hw/hardware/targets). With --check nothing is written; the exit code is 1 where a
table is not the one that these files make.
"""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from jaxrl_hw.hardware import gpu_compiler
from jaxrl_hw.planning import kept_figures
from jaxrl_hw.planning.kept_figures import Kept, Point

PAGE = Path(__file__).resolve().parents[1] / "docs" / "gpu.md"
BLOCK = re.compile(r"(<!-- gpu: (\w+) -->\n).*?(<!-- end -->)", re.DOTALL)
CARDS = ("t4", "l4", "rtx4060-laptop", "a100-40", "h100", "h200")
LAUNCH_S = 4e-6
"""Seconds from one small kernel to the next: assumed, not measured. Graphs of CUDA take less."""


class Sheet(NamedTuple):
    """A card's data sheet."""

    capability: tuple[int, int]
    bandwidth: float  # bytes/s
    flops: float  # float32 operations/s, without matrix units


class Step(NamedTuple):
    """What a control step asks of a card, its share of the update included."""

    launches: float
    bytes: float
    flops: float


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "--check", action="store_true", help="write nothing; 1 where a table is old"
    )
    args = parser.parse_args(argv)
    text = PAGE.read_text()
    is_old = filled(text) != text
    if is_old and not args.check:
        PAGE.write_text(filled(text))
    return int(args.check and is_old)


def filled(text: str) -> str:
    """The page's text with its tables made anew."""
    return BLOCK.sub(lambda block: block[1] + table(block[2]) + block[3], text)


def table(robot: str) -> str:
    """Markdown: a row for each card. Raises ValueError where no program of the robot is kept."""
    kept = [one for one in kept_figures.load() if is_of(one, robot)]
    if not kept:
        raise ValueError(f"kept_figures.json has no program of {robot} with its work")
    numbers = [max(point.num_envs for point in points_of(one)) for one in kept]
    largest = min(numbers)
    lines = [
        f"| `{robot}`, {largest:,} environments | program of | launches | per environment "
        "| launching | memory | arithmetic | env steps/s |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for card in CARDS:
        program = nearest(kept, card)
        point = next(one for one in points_of(program) if one.num_envs == largest)
        lines.append(row(card, program.card, point))
    return "\n".join(lines) + "\n"


def is_of(kept: Kept, robot: str) -> bool:
    program = kept.program
    return (program["robot"], program["precision"]) == (robot, "float32") and bool(points_of(kept))


def points_of(kept: Kept) -> list[Point]:
    """Those whose work was counted."""
    return [point for point in kept.points if point.work]


def nearest(kept: Sequence[Kept], card: str) -> Kept:
    """The card's own program, else that of the nearest compute capability, an earlier one first."""
    mine = sheet(card).capability

    def distance(one: Kept) -> tuple[bool, bool, int, bool]:
        other = sheet(one.card).capability
        apart = 10 * (mine[0] - other[0]) + mine[1] - other[1]
        other_card = one.card != card
        return other_card and card not in one.stands_for, other_card, abs(apart), apart < 0

    return min(kept, key=distance)


def row(card: str, compiled_for: str, point: Point) -> str:
    """A card's line: what a control step asks for, and for how long that keeps the card busy."""
    step, known = step_of(point), sheet(card)
    times = (LAUNCH_S * step.launches, step.bytes / known.bandwidth, step.flops / known.flops)
    slow, fast = (point.num_envs / seconds for seconds in (sum(times), max(times)))
    each = f"{step.bytes / point.num_envs / 1e6:.2f} MB, {step.flops / point.num_envs / 1e6:.1f} M"
    spent = (f"{1e3 * seconds:.1f} ms" for seconds in times)
    cells = (card, compiled_for, f"{step.launches:,.0f}", each, *spent)
    return f"| {' | '.join(cells)} | {rounded(slow):,} to {rounded(fast):,} |"


def step_of(point: Point) -> Step:
    """Of one iteration's collection and update, the part of one control step."""
    halves = point.work["collect"], point.work["update"]
    totals = (sum(half[name] for half in halves) for name in Step._fields)
    return Step(*(total / point.unroll for total in totals))


def sheet(card: str) -> Sheet:
    """What the description for the compiler says of a card."""
    text = gpu_compiler.target(card).read_text()

    def number(name: str) -> float:
        found = re.search(rf"{name}: ([\d.]+)", text)
        assert found is not None, (card, name)
        return float(found[1])

    units = number("core_count") * number("fpus_per_core")
    return Sheet(
        (int(number("major")), int(number("minor"))),
        number("memory_bandwidth"),
        2 * units * 1e9 * number("clock_rate_ghz"),  # a product and a sum at once
    )


def rounded(value: float) -> int:
    """To two digits: it is no more than an estimate."""
    return int(float(f"{value:.1e}"))


if __name__ == "__main__":
    sys.exit(main())
