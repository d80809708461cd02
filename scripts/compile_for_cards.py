"""Keep the GPU compiler's figures with the package: compile_for_cards.py [--card t4 ...]

Compiles each robot's program for each card, in minutes each, and adds it to
jaxrl_hw/planning/kept_figures.json after each. What is there already, from the same program and
the same versions, is skipped, so the script can be stopped and run again. Needs the compiler's
wheels: `python -m jaxrl_hw.plan --robot cartpole --gpu t4 --compile` names the line that installs
them. --check 2048 also compiles with that number of environments, which the tests compare with what
the kept figures predict; 2048x24 gives it an unroll too.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from jaxrl_hw.cli.arguments import OneLineParser
from jaxrl_hw.cli.command import DONE, FAILED, run_command
from jaxrl_hw.config.presets import preset_config
from jaxrl_hw.config.schema import Config
from jaxrl_hw.errors import RunError, UserError
from jaxrl_hw.hardware import gpu_compiler
from jaxrl_hw.planning import kept_figures
from jaxrl_hw.planning.kept_figures import Kept, Point
from jaxrl_hw.training.gpu_figures import compiled_point

CARDS = ("t4", "l4", "a100-40", "h100")
"""One of each compute capability; their figures count for the other cards of it too."""
ROBOTS = ("g1", "g1_12dof", "go1", "t1", "h1", "go2")
SIZES = (1024, 8192)
"""Environments that every program is compiled with: what a GPU trains with."""


Compile = Callable[[Config, str], Point]
"""(config, card) -> its program's memory; see `gpu_figures.compiled_point`."""


def main(argv: Sequence[str] | None = None, compiled: Compile = compiled_point) -> int:
    """Compile what is missing; 1 where a program could not be compiled, 2 for bad input."""
    return run_command(lambda: _run(sys.argv[1:] if argv is None else argv, compiled))


def _run(argv: Sequence[str], compiled: Compile) -> int:
    parser = OneLineParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--card", nargs="+", default=CARDS)
    parser.add_argument("--robot", nargs="+", default=ROBOTS)
    parser.add_argument("--precision", nargs="+", default=["float32", "bfloat16"])
    parser.add_argument("--preset", default="optimized")
    parser.add_argument("--check", nargs="+", default=[], metavar="ENVS[xUNROLL]")
    parser.add_argument("--out", type=Path, default=kept_figures.FILE)
    args = parser.parse(argv)
    checks = [_size(text) for text in args.check]
    for card in args.card:
        gpu_compiler.target(card)  # an unknown one is refused before anything is compiled
    failed = False
    for precision in args.precision:
        for robot in args.robot:
            config = replace(preset_config(robot, args.preset), precision=precision, physics="mjx")
            for card in args.card:
                try:
                    _keep(config, card, checks, args.out, compiled)
                except RunError as error:
                    failed = True
                    print(f"{robot}, {card}, {precision}: {error}", flush=True)
    return FAILED if failed else DONE


def _size(text: str) -> tuple[int, int]:
    """(environments, unroll) of "2048x24"; an unroll of 0 is the one that suits."""
    number, _, unroll = text.partition("x")
    if not number.isdigit() or not (unroll or "0").isdigit():
        raise UserError(f'--check takes ENVS or ENVSxUNROLL, such as 2048 or 2048x24, not "{text}"')
    return int(number), int(unroll or 0)


def _keep(
    config: Config, card: str, checks: list[tuple[int, int]], out: Path, compiled: Compile
) -> None:
    """Add to the file what it has not of a program: its points, and the checks."""
    program, versions = kept_figures.identity(config), kept_figures.versions_here()
    kept = Kept(card, config.preset, versions, program, (), (), gpu_compiler.alike(card))
    for one in kept_figures.load(out):
        if one._replace(points=(), checks=()) == kept:
            kept = one
    name = f"{config.robot}, {card}, {config.precision}, {config.preset}"

    def added(config: Config, number: int) -> Point:
        began = time.monotonic()
        point = compiled(replace(config, num_envs=number), card)
        print(f"{name}: {number:,} environments in {time.monotonic() - began:.0f} s", flush=True)
        return point

    for number in SIZES:
        if all(one.num_envs != number for one in kept.points):
            kept = kept._replace(points=(*kept.points, added(config, number)))
            _write(kept, out)
    for number, unroll in checks:
        if all(one.num_envs != number or unroll not in (0, one.unroll) for one in kept.checks):
            point = added(_with_unroll(config, unroll), number)
            kept = kept._replace(checks=(*kept.checks, point))
            _write(kept, out)
    print(f"{name}: is there", flush=True)


def _with_unroll(config: Config, unroll: int) -> Config:
    settings = getattr(config, config.algo)
    return replace(config, **{config.algo: replace(settings, unroll=unroll)})


def _write(kept: Kept, out: Path) -> None:
    """In place of what was kept for the same card, robot, preset and precision."""
    labels = ("robot", "precision")

    def label(one: Kept) -> tuple[Any, ...]:
        return (one.card, one.preset, *(one.program[key] for key in labels))

    others = (one for one in kept_figures.load(out) if label(one) != label(kept))
    kept_figures.save((*others, kept), out)


if __name__ == "__main__":
    sys.exit(main())
