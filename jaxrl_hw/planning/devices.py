"""`--devices`: how many devices of all processes a run trains on, and what each of them holds."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from jaxrl_hw.config.schema import Config
from jaxrl_hw.errors import UserError
from jaxrl_hw.hardware.detect import Hardware
from jaxrl_hw.hardware.sizing import MemoryNeed

SHARDS = 8
"""Equal parts that the environments are in on 1, 2, 4 and 8 devices alike. Each part draws its own
random numbers and permutes its own samples, so results do not depend on the number of devices."""
_LEARNER = ("networks", "optimizer", "normalizer", "replay")
"""Items of memory that every device has a copy of."""
_SHARED = ("program", "physics")
"""Items whose fixed part all seeds share."""
_OF_SEEDS = (*_LEARNER, "environments", "rollout", "temporaries")
"""Items of which each seed has its own."""


def is_sharded(config: Config) -> bool:
    """Whether `--devices` was given; without it a run computes as it did before there were any."""
    return config.devices != ""


def device_count(config: Config) -> int:
    """Of a config whose devices are settled."""
    return int(config.devices or 1)


def devices_here(config: Config, hardware: Hardware) -> int:
    """Those of this process, of a config whose devices are settled."""
    return device_count(config) // hardware.processes


def shards_of(num_envs: int, devices: int) -> int:
    """The parts that so many environments are in: `SHARDS`, or fewer where they do not divide by
    that; one per device where those parts do not divide over the devices."""
    parts = next(n for n in (SHARDS, 4, 2, 1) if num_envs % n == 0)
    return parts if parts % devices == 0 else devices


def settled_devices(config: Config, hardware: Hardware) -> Config:
    """The config with a number in place of "all".

    Raises:
      UserError: there are not as many, or they do not divide over the processes.
    """
    if not is_sharded(config):
        return config
    processes = hardware.processes
    count = hardware.count * processes
    wanted = count if config.devices == "all" else int(config.devices)
    if wanted > count:
        there = f"there {'is' if count == 1 else 'are'} {count}"
        raise UserError(f"--devices got {wanted}, {there}: try --devices {count}")
    if wanted % processes:
        nearest = max(1, wanted // processes) * processes
        raise UserError(
            f"--devices {wanted} does not divide over {processes} processes: use --devices "
            f"{nearest}"
        )
    return replace(config, devices=wanted)


def check_divides(config: Config) -> None:
    """Raises UserError where a settled number of environments does not divide over the devices."""
    number, devices = int(config.num_envs), device_count(config)
    if number % devices == 0:
        return
    below = number // devices * devices
    nearest = f"{below} or {below + devices}" if below else f"{devices}"
    raise UserError(
        f"--num-envs {number} does not divide over --devices {devices}: use --num-envs {nearest}"
    )


def dividing(config: Config, num_envs: int) -> int:
    """The number of environments, or the next lower one that makes parts of equal size: what is
    chosen for the user. At least one environment in each part."""
    devices = device_count(config)
    parts = shards_of(SHARDS, devices) if is_sharded(config) else 1
    return max(parts, num_envs // parts * parts)


def on_each(
    parts: Mapping[str, MemoryNeed], config: Config, hardware: Hardware
) -> dict[str, MemoryNeed]:
    """The memory of a run on one device as that of each of its devices. The devices of a CPU share
    its memory: there it is that of all of a process's. Several seeds take as many times as much."""
    if config.seeds > 1:
        return {
            name: part._replace(
                fixed=part.fixed * (1 if name in _SHARED else config.seeds),
                per_env=part.per_env * config.seeds,
            )
            for name, part in parts.items()
        }
    if hardware.platform == "cpu":
        here, shared = devices_here(config, hardware), _divided(parts, hardware.processes)
        return {
            name: part._replace(fixed=here * part.fixed) if name in _LEARNER else part
            for name, part in shared.items()
        }
    return _divided(parts, device_count(config))


def of_each_seed(memory: Mapping[str, int], config: Config) -> dict[str, int]:
    """What each of several seeds takes of a run's memory, by item; empty for one seed."""
    if config.seeds == 1:
        return {}
    return {name: size // config.seeds for name, size in memory.items() if name in _OF_SEEDS}


def _divided(parts: Mapping[str, MemoryNeed], by: int) -> dict[str, MemoryNeed]:
    return {n: part._replace(per_env=-(-part.per_env // by)) for n, part in parts.items()}
