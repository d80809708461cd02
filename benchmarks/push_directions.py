"""Which pushes fell a walking robot: by its command, the push's direction and the gait's phase.

    python benchmarks/push_directions.py --policy zoo:g1 | --run-dir DIR [--iteration K]
        [--speed 1.5] [--directions 12] [--phases 8] [--seed 0] [--out FILE]

Each robot follows one command in a calm world. After 2.5 s its base's horizontal velocity changes
by --speed. Every command meets every direction in every phase of the gait, evenly spaced. Robots
that are down within 2 s fell. Direction 0 pushes forward, 90 to the left. Phases are those at the
push, 0 to 1, as the policy sees them. Physics is that of `python -m jaxrl_hw.evaluate`.
"""

from __future__ import annotations

import itertools
import sys
from argparse import ArgumentTypeError, Namespace
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from jaxrl_hw.checkpointing.files import write_json
from jaxrl_hw.cli.arguments import OneLineParser, add_source_arguments, number, whole_number
from jaxrl_hw.cli.command import DONE, run_command
from jaxrl_hw.cli.trained_policy import open_trained
from jaxrl_hw.config.resolve import robot_spec, task_name
from jaxrl_hw.envs.tasks.joystick import geometry
from jaxrl_hw.errors import UserError
from jaxrl_hw.evaluation.drive import Driver, kicked, make_driver
from jaxrl_hw.evaluation.worlds import CALM
from jaxrl_hw.types import forget, to_policy

COMMANDS = {
    "stand": (0.0, 0.0, 0.0),
    "0.5 m/s forward": (0.5, 0.0, 0.0),
    "1.0 m/s forward": (1.0, 0.0, 0.0),
    "0.3 m/s to the left": (0.0, 0.3, 0.0),
    "turn left by 0.8 rad/s": (0.0, 0.0, 0.8),
}
BEFORE_S, AFTER_S = 2.5, 2.0


class Push(NamedTuple):
    """One robot's push."""

    command: str
    direction: float  # degrees, 0 forward, 90 to the left
    phase: float  # of the gait at the push, 0 to 1


def main(argv: Sequence[str] | None = None) -> int:
    return run_command(lambda: _measure(_parse(sys.argv[1:] if argv is None else argv)))


def _measure(args: Namespace) -> int:
    if args.out and not Path(args.out).parent.is_dir():
        raise UserError(f"--out {args.out} lies in a folder that does not exist")
    opened = open_trained(args)
    if task_name(opened.config) != "joystick":
        raise UserError(f"{opened.name} does not walk: pushes are for legged robots")
    pushes = plan(args.directions, args.phases)
    driver = make_driver(opened.config, len(pushes))
    cycle = robot_spec(opened.config).gait_period
    after = fell_after(driver, opened.policy, pushes, args.speed, cycle, args.seed)
    rows = [
        {**push._asdict(), "fell_after_s": None if seconds != seconds else float(seconds)}
        for push, seconds in zip(pushes, after, strict=True)
    ]
    for line in table(rows):
        print(line)
    if args.out:
        write_json(Path(args.out), {"policy": opened.name, "speed": args.speed, "pushes": rows})
    return DONE


def plan(directions: int, phases: int) -> list[Push]:
    """Every command with every direction and every phase."""
    degrees = [360.0 * i / directions for i in range(directions)]
    parts = [(i + 0.5) / phases for i in range(phases)]
    return [Push(*push) for push in itertools.product(COMMANDS, degrees, parts)]


def fell_after(
    driver: Driver, policy: Any, pushes: Sequence[Push], speed: float, cycle: float, seed: int
) -> np.ndarray:
    """Seconds [N] from its push until each robot fell; nan where it stayed up.

    speed: m/s. cycle: of the gait, s. Raises UserError where a robot falls before it is pushed.
    """
    commands = np.asarray([COMMANDS[push.command] for push in pushes], np.float32)
    before, after = (round(s / driver.control_dt) for s in (BEFORE_S, AFTER_S))
    state = driver.reset(seed, commands, CALM)
    phases = np.asarray([push.phase for push in pushes]) - before * driver.control_dt / cycle
    state = _with_phases(state, phases % 1.0)
    policy = to_policy(policy)
    memory, found = policy.start(len(pushes)), np.full(len(pushes), np.nan)
    for step in range(before + after):
        if step == before:
            state = kicked(state, _kicks(state, pushes, speed))
        action, memory = policy.step(state.envs.obs.policy, memory)
        state, seen = driver.step(state, action, commands)
        memory, fell = forget(memory, seen.fell), np.asarray(seen.fell)
        if step < before and fell.any():
            raise UserError("the policy falls without a push: train it further")
        found = np.where(np.isnan(found) & fell, (step + 1 - before) * driver.control_dt, found)
    return found


def _with_phases(state: Any, phases: np.ndarray) -> Any:
    task = state.envs.task
    task = task._replace(phase=np.asarray(phases, task.phase.dtype))
    return state._replace(envs=state.envs._replace(task=task))


def _kicks(state: Any, pushes: Sequence[Push], speed: float) -> np.ndarray:
    """The pushes [N, 2] in the world's frame, m/s."""
    angle = jnp.deg2rad(jnp.asarray([push.direction for push in pushes]))
    pushed = speed * jnp.stack([jnp.cos(angle), jnp.sin(angle)], axis=-1)
    return np.asarray(jax.vmap(geometry.from_heading)(state.envs.physics.qpos[:, 3:7], pushed))


def table(rows: Sequence[dict[str, Any]]) -> list[str]:
    """Lines of markdown. The first say which share of each command's robots fell, by where the push
    went. The last two say the same of all robots pushed to one side, by the gait's phase."""
    kinds = {
        "all": rows,
        "to a side": [row for row in rows if row["direction"] % 180 == 90],
        "ahead or back": [row for row in rows if row["direction"] % 180 == 0],
        "between": [row for row in rows if row["direction"] % 90],
    }
    lines = ["| fell, of those told to | " + " | ".join(kinds) + " |", "|---" * 5 + "|"]
    for name in COMMANDS:
        cells = [_share([r for r in kind if r["command"] == name]) for kind in kinds.values()]
        lines.append(f"| {name} | " + " | ".join(cells) + " |")
    lines.append("| any of these | " + " | ".join(map(_share, kinds.values())) + " |")
    for degrees, side in ((90.0, "left"), (270.0, "right")):
        pushed = [row for row in rows if row["direction"] == degrees]
        phases = sorted({row["phase"] for row in pushed})
        cells = [_share([r for r in pushed if r["phase"] == phase]) for phase in phases]
        lines.append(f"to the {side}, by phase: " + (", ".join(cells) or "-"))
    return lines


def _share(rows: Sequence[dict[str, Any]]) -> str:
    fell = sum(row["fell_after_s"] is not None for row in rows)
    return f"{100 * fell / len(rows):.0f} %" if rows else "-"


def _parse(argv: Sequence[str]) -> Namespace:
    parser = OneLineParser(prog="push_directions.py", description=__doc__)
    add_source_arguments(parser)
    parser.add_argument("--speed", type=number, default=1.5, help="m/s (default: 1.5)")
    parser.add_argument("--directions", type=_some, default=12, help="(default: 12)")
    parser.add_argument("--phases", type=_some, default=8, help="(default: 8)")
    parser.add_argument("--seed", type=whole_number, default=0, help="of starts (default: 0)")
    parser.add_argument("--out", help="JSON of every push")
    return parser.parse(argv)


def _some(text: str) -> int:
    value = whole_number(text)
    if not 1 <= value <= 64:
        raise ArgumentTypeError(f"must be from 1 to 64, got {value}")
    return value


if __name__ == "__main__":
    sys.exit(main())
