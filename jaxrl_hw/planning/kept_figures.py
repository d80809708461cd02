"""The GPU compiler's figures that ship with the package, for cards that are not here.

`kept_figures.json` holds programs that XLA's GPU compiler compiled for a card, each with two
numbers of environments (scripts/compile_for_cards.py). `find` scales them to any other:

    networks, optimizer, normalizer, program   as compiled
    environments                               a line in the environments
    rollout, temporaries of the collection     so much per environment, so much per sample
    temporaries of the update                  a line in the samples (its minibatch has one size)

where samples are environments times unroll. Of the temporaries the larger counts.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

from jaxrl_hw.checkpointing.provenance import package_versions
from jaxrl_hw.config import validation
from jaxrl_hw.config.resolve import (
    algorithm_needs,
    robot_spec,
    state_bytes,
    task_name,
    task_settings,
)
from jaxrl_hw.config.schema import Config
from jaxrl_hw.hardware import profiles
from jaxrl_hw.hardware.detect import Hardware
from jaxrl_hw.hardware.sizing import MemoryNeed
from jaxrl_hw.planning.devices import is_sharded
from jaxrl_hw.types import Needs

FILE = Path(__file__).with_suffix(".json")
MADE_WITH = ("jax", "jaxlib", "mujoco", "mujoco-mjx")
"""Packages whose versions are kept with the figures."""

FURTHEST = 1.2
"""Times the largest batch that was compiled, up to which figures are scaled: usual batches pass it
by a ninth. The update's temporaries leave their line: of g1_12dof with 98,304 samples it gives 33 %
more than the compiler, of cartpole with 196,608 a fifth less."""


class Point(NamedTuple):
    """A program's bytes with one number of environments, by item."""

    num_envs: int
    unroll: int
    items: Mapping[str, int]
    """`memory_model.ITEMS` without driver and temporaries."""
    collect: int
    """Temporaries of the collection."""
    update: int
    """Temporaries of the update."""
    work: Mapping[str, Mapping[str, int]] = MappingProxyType({})
    """`hlo.Work` of an iteration by its half, "collect" and "update": one with one iteration of
    loops whose end is not known. Empty where it was not counted."""

    @property
    def samples(self) -> int:
        """Of an iteration."""
        return self.num_envs * self.unroll


class Kept(NamedTuple):
    """One program compiled for one card."""

    card: str
    """Name of its profile."""
    preset: str
    """That the program is from; says nothing that `program` does not."""
    versions: Mapping[str, str]
    """Of the packages that it was compiled with (`MADE_WITH`)."""
    program: Mapping[str, Any]
    """See `identity`."""
    points: tuple[Point, ...]
    """With few environments and with many, whose unrolls differ. Fewer while they are made."""
    checks: tuple[Point, ...] = ()
    """With other numbers: nothing is scaled from them, the tests compare."""
    stands_for: tuple[str, ...] = ()
    """Further cards that the figures count for where they have none of their own, by their
    profiles' names: those of the same compute capability. The tests compare two such cards."""


def find(
    config: Config, hardware: Hardware, file: Path = FILE
) -> tuple[dict[str, MemoryNeed], str] | None:
    """Bytes by item without the driver's, and in words where they are from.

    None where no kept program is the config's (another robot, card, engine, network, minibatch,
    precision or physics setting than was compiled), or where its batch is too large to tell.

    config: with its engine, devices and unroll settled.
    """
    profile = profiles.of(hardware.platform, hardware.name, hardware.memory_total)
    if profile.platform != "gpu" or config.physics != "mjx" or is_sharded(config):
        return None
    if robot_spec(config).mjcf is None or config.seeds > 1:
        return None
    of_card = [one for one in load(file) if profile.name in (one.card, *one.stands_for)]
    of_card.sort(key=lambda one: one.card != profile.name)  # its own figures come first
    program = identity(config) if of_card else {}
    for kept in of_card:
        if kept.program == program and len(kept.points) == 2:
            number = config.num_envs if isinstance(config.num_envs, int) else None
            unroll, many = algorithm_needs(config).unroll, kept.points[1]
            if (number or many.num_envs) * unroll > FURTHEST * many.samples:
                return None
            parts = scaled(kept, unroll, number)
            source = f"the compiler's figures for the {profiles.named(kept.card).device}"
            if kept.card != profile.name:
                source += f", of the same compute capability as the {profile.device}"
            return parts, f"{source}, kept with the package{_versions_beside(kept.versions)}"
    return None


def scaled(kept: Kept, unroll: int, num_envs: int | None) -> dict[str, MemoryNeed]:
    """Bytes by item of a kept program with another unroll.

    num_envs: for which the larger of the temporaries counts; None, where it is open, takes the line
      through the larger ones with few and with many environments.
    """
    few, many = kept.points
    more = many.num_envs - few.num_envs

    def each_with(unroll: int, of_few: int, of_many: int) -> MemoryNeed:
        """So much per environment, which grows with the unroll."""
        short, long = of_many / many.num_envs, of_few / few.num_envs
        step = (long - short) / (few.unroll - many.unroll)
        return _line(0, 0, short + (unroll - many.unroll) * step)

    state = (many.items["environments"] - few.items["environments"]) / more
    parts = {name: MemoryNeed(size, 0) for name, size in many.items.items()}
    parts["environments"] = _line(many.items["environments"], many.num_envs, state)
    parts["rollout"] = each_with(unroll, *(point.items["rollout"] for point in kept.points))
    ends = [num_envs, num_envs] if num_envs else [few.num_envs, many.num_envs]
    collecting = each_with(unroll, few.collect, many.collect)
    growth = (many.update - few.update) / (many.samples - few.samples)
    updating = _line(round(many.update - growth * many.samples), 0, growth * unroll)
    low, high = (max(collecting.total(n), updating.total(n)) for n in ends)
    if num_envs:
        temporaries = collecting if collecting.total(num_envs) == high else updating
    else:
        temporaries = _line(high, many.num_envs, (high - low) / more)
    return {**parts, "temporaries": temporaries}


def _line(size: int, at: int, slope: float) -> MemoryNeed:
    """The line with a slope, bytes per environment, through a size at a number of environments."""
    return MemoryNeed(size - round(slope) * at, round(slope))


def identity(config: Config) -> dict[str, Any]:
    """What the memory of a config's program depends on, besides card, environments and unroll.

    Sizes stand for the settings that make them, and switches that are off are left out, so that a
    new setting which changes nothing leaves kept figures valid. The source code is no part of it.

    config: whose engine is settled.
    """
    robot, needs, settings = robot_spec(config), algorithm_needs(config), task_settings(config)
    switches = vars(settings) if settings is not config else {}
    net = validation.to_dict(config)["net"].items()
    model = b"" if robot.mjcf is None else robot.mjcf.read_bytes()
    return {
        "robot": robot.name,
        "model": hashlib.sha256(model).hexdigest()[:16],
        "task": task_name(config),
        "on": sorted(name for name, value in switches.items() if value is True),
        "state_bytes": list(state_bytes(config)),
        "algo": config.algo,
        "net": {name: value for name, value in net if not isinstance(value, float)},
        "needs": {**_sizes_in(needs), "replay_bytes": needs.replay_bytes},
        "precision": config.precision,
        "timestep": config.timestep or robot.timestep,
        "deterministic": config.deterministic,
        **({"bounds": list(robot.mjx_bounds)} if robot.mjx_bounds else {}),
    }


def _sizes_in(needs: Needs) -> dict[str, int]:
    """Numbers, and switches that are on."""
    kept = {n: v for n, v in needs._asdict().items() if isinstance(v, int) and v is not False}
    return {n: v for n, v in kept.items() if n not in ("unroll", "epochs")}


@cache
def load(file: Path = FILE) -> tuple[Kept, ...]:
    """The programs of a file; none where it is missing."""
    if not file.exists():
        return ()
    return tuple(_kept(one) for one in json.loads(file.read_text(encoding="utf-8"))["programs"])


def save(programs: tuple[Kept, ...], file: Path) -> None:
    """Write programs, one a line, whole or not at all."""
    ordered = sorted(
        programs,
        key=lambda one: (one.program["robot"], one.program["precision"], one.preset, one.card),
    )
    lines = ",\n".join(json.dumps(_record(one), separators=(",", ":")) for one in ordered)
    partial = file.with_suffix(".tmp")
    partial.write_text(f'{{"programs":[\n{lines}\n]}}\n', encoding="utf-8")
    partial.replace(file)
    load.cache_clear()


def versions_here() -> dict[str, str]:
    """Versions of the packages that a program is compiled with here."""
    return {name: value for name, value in package_versions().items() if name in MADE_WITH}


def _versions_beside(made_with: Mapping[str, str]) -> str:
    """Versions other than those that are installed, in words; empty where they are the same."""
    here = versions_here()
    other = [f"{name} {value}" for name, value in made_with.items() if here.get(name) != value]
    return f" (made with {', '.join(other)})" if other else ""


def _kept(record: dict[str, Any]) -> Kept:
    points, checks = (tuple(Point(**one) for one in record[k]) for k in ("points", "checks"))
    others = tuple(record.get("stands_for", ()))
    return Kept(**{**record, "points": points, "checks": checks, "stands_for": others})


def _record(kept: Kept) -> dict[str, Any]:
    points, checks = (
        [{**one._asdict(), "work": dict(one.work)} for one in many]
        for many in (kept.points, kept.checks)
    )
    return {**kept._asdict(), "points": points, "checks": checks}
