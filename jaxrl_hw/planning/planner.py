"""From a config to a plan: everything is settled before anything heavy is imported."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

from jaxrl_hw.config import validation
from jaxrl_hw.config.resolve import algorithm_needs, run_folder, sized, task_name, task_settings
from jaxrl_hw.config.schema import Config
from jaxrl_hw.config.units import parse_memory
from jaxrl_hw.envs.tasks import task_entry
from jaxrl_hw.errors import UserError
from jaxrl_hw.hardware import profiles, sizing, xla
from jaxrl_hw.hardware.detect import Hardware, detect, refine
from jaxrl_hw.loggers import formats
from jaxrl_hw.planning.continuation import find_start
from jaxrl_hw.planning.devices import check_divides, devices_here, dividing, settled_devices
from jaxrl_hw.planning.disk_space import Storage, storage
from jaxrl_hw.planning.engine import settled
from jaxrl_hw.planning.memory_model import Footprint, footprint
from jaxrl_hw.planning.plan import Plan
from jaxrl_hw.planning.replay import (
    check_replay,
    filling,
    is_open,
    least,
    most_useful,
    refuse_large,
    replay_notes,
    replay_of,
    settled_saving,
    with_capacity,
)
from jaxrl_hw.types.process import backend_running

BOUNDS = {"cpu": (64, 4096), "gpu": (512, 8192), "tpu": (512, 8192)}
"""Environments tried by `auto`, least and most, by platform: benchmarks/learning_vs_envs.py
has measured learning with up to the most."""


def make_plan(config: Config, hardware: Hardware | None = None, processes: int = 1) -> Plan:
    """Settle a config for this machine. Does not import jax; sets XLA's variables before it is.

    config: as asked for.
    hardware: what to plan for; None looks at this machine.
    processes: that train the run together, where no hardware is given.
    Raises UserError for a value that cannot be used, a number of environments that does not fit, a
    run folder that cannot be continued.
    """
    config = validation.check(config)
    if config.seeds > 1:
        config = replace(config, on_oom="fail")  # all have one size
    if hardware is None:
        # an open device knows its memory best, but XLA's variables are set before one is opened
        hardware = refine(detect()) if backend_running() else detect()
        hardware = replace(hardware, processes=processes)
    config, notes = settled(settled_devices(config, hardware), hardware)
    notes = [*hardware.notes, *notes, *_platform_notes(config, hardware)]
    folder = run_folder(config)
    auto = config.num_envs == "auto"
    start = find_start(config, folder, hardware.name)
    config, notes = start.config, [*notes, *start.notes]
    asked = config
    config, memory, chosen, more = _sized(config, hardware, may_choose=auto)
    config, memory, chosen = _filled(asked, config, hardware, memory, chosen)
    check_replay(config)
    notes += [*more, *replay_notes(config)]
    applied = xla.configure(
        fraction=_reserved(config, hardware, chosen.budget_bytes),
        ceiling=_ceiling(config, hardware),
        cache_dir=None,
        platform=hardware.platform,
        host_callback=config.physics != "mjx" or _evaluates_beside(config, hardware),
        deterministic=config.deterministic,
        factorizes=task_entry(task_name(config)).factorizes(task_settings(config)),
        # the network's part of an all-reduce holds a thread as another device does
        devices=max(devices_here(config, hardware), min(hardware.processes, 2)),
    )
    late = [s.name for s in applied if s.origin == "too late"]
    if late:
        notes.append(f"jax was already imported: {', '.join(late)} cannot be set any more")
    disk = storage(config, chosen.num_envs, folder)
    notes += _disk_notes(config, disk, folder)
    return Plan(
        config=config,
        hardware=hardware,
        folder=folder,
        sizing=chosen,
        memory=memory.items(chosen.num_envs),
        footprint=memory,
        xla=tuple(applied),
        iterations_done=start.iterations,
        warnings=tuple(notes),
        storage=disk,
        source=start.source,
        halvings=start.halvings,
    )


def _evaluates_beside(config: Config, hardware: Hardware) -> bool:
    """Whether an accelerator's run calls the C engine to evaluate. On a CPU it needs no setting:
    XLA runs inline there, and MJX needs the other settings of a run without callbacks."""
    return hardware.platform != "cpu" and bool(config.eval_every)


def _platform_notes(config: Config, hardware: Hardware) -> list[str]:
    notes, platform = [], hardware.platform
    profile = profiles.of(platform, hardware.name, hardware.memory_total)
    if config.precision == "bfloat16" and not profile.bfloat16:
        notes.append(f"the {hardware.name} has no bfloat16 units: --precision float32 is faster")
    if config.eval_every and task_name(config) != "joystick":
        notes.append(
            f"--eval-every has no effect: robots of the {task_name(config)} task follow no commands"
        )
    if config.deterministic and platform == "cpu":
        notes.append("--deterministic has no effect on a CPU: its results repeat to the bit anyway")
    if config.deterministic and platform == "gpu":
        notes.append(
            "--deterministic adds in one fixed order, which is slower; by how much has not been "
            "measured on a GPU yet"
        )
    return notes


def _disk_notes(config: Config, disk: Storage, folder: Path) -> list[str]:
    notes = []
    if disk.is_tight:
        notes.append(
            f"the checkpoints need {formats.size(disk.total_bytes)}, but "
            f"{formats.size(disk.free_bytes)} is free in {folder}; use a lower --keep"
        )
    mirror = Path(config.mirror).expanduser()
    if config.mirror and not mirror.is_dir() and not mirror.parent.is_dir():
        notes.append(f"--mirror {mirror}: {mirror.parent} is not there (is the drive mounted?)")
    return notes


def _reserved(config: Config, hardware: Hardware, budget: int | None) -> float | None:
    """The share of the card to take at once, where the user named one: no more than is free."""
    fraction = config.mem_fraction
    if not isinstance(fraction, float):
        return None
    total = hardware.memory_total
    return min(fraction, budget / total) if budget is not None and total else fraction


def _ceiling(config: Config, hardware: Hardware) -> float | None:
    """The share of the card that the pool may grow to: what other programs leave free."""
    free, total = hardware.memory_free, hardware.memory_total
    if not free or not total:
        return None
    usable = sizing.MOST * free
    return min(usable, parse_memory(config.memory_limit) or usable) / total


def _sized(
    config: Config, hardware: Hardware, may_choose: bool
) -> tuple[Config, Footprint, sizing.Sizing, tuple[str, ...]]:
    """As `_size`, and notes: a run keeps its own number of environments as long as that fits."""
    continues = may_choose and config.num_envs != "auto"
    try:
        settled, memory, chosen = _size(config, hardware)
    except UserError:
        if not continues:
            raise
        settled, memory, chosen = _size(replace(config, num_envs="auto"), hardware)
        usable = sizing.budget_of(hardware, _limits(config), given=True)[0]
        note = (
            f"{config.num_envs:,} environments do not fit in {formats.size(usable)}: continuing "
            f"with {chosen.num_envs:,} environments (reset)"
        )
        return settled, memory, chosen, (note,)
    if continues:
        chosen = chosen._replace(reasons=("as in the run so far", *chosen.reasons[1:]))
    return settled, memory, chosen, ()


def _size(config: Config, hardware: Hardware) -> tuple[Config, Footprint, sizing.Sizing]:
    """A config with its number of environments and the batch that suits it, and what it needs.

    A batch takes memory, and memory decides the number: where the number changes the batch, both
    are worked out again. The loop ends, as each turn takes a larger batch.
    """
    bounds, guess = BOUNDS[hardware.platform], config.num_envs
    is_given = isinstance(guess, int)
    batch = _batch(config, guess if isinstance(guess, int) else bounds[1], hardware)
    while True:
        memory = footprint(batch, hardware)
        common: Any = {"need": memory.total, "limits": _limits(config), "rates": memory.rates}
        budget, _ = sizing.budget_of(hardware, _limits(config), given=is_given)
        refuse_large(batch, memory.total.total(guess if isinstance(guess, int) else 1), budget)
        if isinstance(guess, int):
            check_divides(batch)
            return batch, memory, sizing.check_num_envs(guess, hardware, **common)
        chosen = sizing.choose_num_envs(hardware, bounds=bounds, **common)
        number = dividing(config, chosen.num_envs)
        chosen = chosen._replace(num_envs=number, expected_bytes=memory.total.total(number))
        longer = _batch(config, chosen.num_envs, hardware)
        unroll = algorithm_needs(longer).unroll
        if unroll <= (before := algorithm_needs(batch).unroll):
            # gradient steps on a replay, and the trust region, follow the number itself
            if replay_of(longer) is not None or unroll == before:
                batch = longer
            return replace(batch, num_envs=chosen.num_envs), memory, chosen
        batch = longer


def _batch(config: Config, num_envs: int, hardware: Hardware) -> Config:
    """The config with the batch, and the replay, that suit a number of environments; with the
    smallest replay where it is to take what is left."""
    batch = sized(config, num_envs, hardware.platform)
    return settled_saving(
        with_capacity(batch, least(batch, num_envs)) if is_open(config) else batch
    )


def _filled(
    asked: Config, config: Config, hardware: Hardware, memory: Footprint, chosen: sizing.Sizing
) -> tuple[Config, Footprint, sizing.Sizing]:
    """The same with a replay that takes what the rest leaves, where that was asked for."""
    needs, budget = replay_of(config), chosen.budget_bytes
    if needs is None or budget is None or not is_open(asked):
        return config, memory, chosen
    left = budget - memory.total.total(chosen.num_envs)
    capacity = filling(asked, needs, left, on_cpu=hardware.platform == "cpu")
    capacity = max(needs.capacity, min(capacity, most_useful(config)))
    config = settled_saving(replace(with_capacity(config, capacity), save_replay=asked.save_replay))
    memory = footprint(config, hardware)
    expected = memory.total.total(chosen.num_envs)
    return config, memory, chosen._replace(expected_bytes=expected)


def _limits(config: Config) -> sizing.Limits:
    return sizing.Limits(config.mem_fraction, parse_memory(config.memory_limit), config.max_envs)
