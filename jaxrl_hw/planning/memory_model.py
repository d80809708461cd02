"""How much memory a run needs, item by item, told without importing jax.

The compiler's own figures for the program, where they are known on this machine; else an estimate
from the sizes of networks, batch and environments.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import jaxrl_hw
from jaxrl_hw.config import validation
from jaxrl_hw.config.resolve import task_name
from jaxrl_hw.config.schema import Config
from jaxrl_hw.envs.robots import get_robot
from jaxrl_hw.envs.tasks import task_sizes
from jaxrl_hw.hardware import profiles
from jaxrl_hw.hardware.detect import Hardware
from jaxrl_hw.hardware.measurement_cache import load
from jaxrl_hw.hardware.sizing import MemoryNeed

ITEMS = (
    "libraries",  # "driver" on an accelerator: what is held beside the run's arrays
    "program",
    "networks",
    "optimizer",
    "normalizer",
    "environments",
    "rollout",
    "temporaries",
    "physics",
)
"""What memory goes to, in the order in which it is shown."""
ESTIMATED = "estimated from sizes"
"""`Footprint.source` where the compiler has not been asked."""
COMPILED = "the compiler's figures"
MEASURED_AT = (256, 1024)
"""Numbers of environments, about, for which a program is measured: beyond them its memory is a line
in their number. With fewer it is not quite: malloc keeps what small arrays took."""

RESIDENT = {"cartpole": 32_000_000, "joystick": 90_000_000}
"""On a CPU, the program and what stays of compiling it, by task: measured on Linux x86-64 beyond
the libraries (`profiles.CPU`), with the native engine."""
STARTING = 32_000_000
"""What the first iterations and the saving of checkpoints add to a process that has compiled its
program: 25 to 42 MB with cartpole, Go1 and G1, both engines and 64 to 2,048 environments."""
COMPILING = {"cartpole": 700_000_000, "joystick": 910_000_000}
"""A process's peak while it compiles on a CPU, measured likewise. Less where the program comes from
the compilation cache."""
MJX_RESIDENT = 122_000_000, 7_200_000
MJX_COMPILING = 880_000_000, 33_400_000
"""The same with MJX: for any robot, and per motor, as its step is compiled body by body. Measured
with cartpole, Go1 and G1 (1, 12 and 29)."""
POOL_PER_THREAD = 4_000_000
"""One mjData and its arena on each thread of the native engine."""
MJX_PER_DOF = 2_200
"""mjx.Data and the solver's temporaries inside a control step, bytes per environment and degree of
freedom: what XLA counts on a CPU for cartpole, Go1 and G1; not yet measured on an accelerator."""
MJX_SCRATCH = 500
"""What its kernels on a CPU leave with malloc, likewise; measured there."""

CHECKPOINT_FILES = 45_000
"""What a checkpoint's descriptions take on disk, whatever the run's size."""
PACKED_WEIGHTS, PACKED_ENVS = 0.93, 0.72
"""Bytes on disk per byte of the learner and of the environments: Orbax compresses with zstd, and
trained weights hardly yield. Measured in trainings of cartpole and g1_12dof."""


class Footprint(NamedTuple):
    """Bytes by item, each a fixed part and a part per environment, and where they are from."""

    parts: dict[str, MemoryNeed]
    source: str
    covers_all_sizes: bool
    """Whether the compiler was asked for numbers of environments that tell any other."""
    compiling: int
    """Peak of the process while it compiles, bytes; 0 where it does not count (an accelerator)."""
    rates: dict[int, float]
    """Control steps per second that were measured here, by number of environments."""

    @property
    def total(self) -> MemoryNeed:
        return MemoryNeed(
            sum(p.fixed for p in self.parts.values()),
            sum(p.per_env for p in self.parts.values()),
            self.compiling,
        )

    def items(self, num_envs: int) -> dict[str, int]:
        return {name: part.total(num_envs) for name, part in self.parts.items()}


def footprint(config: Config, hardware: Hardware) -> Footprint:
    """The expected footprint of a config whose engine is settled."""
    known = load(program_key(config, hardware))
    parts, source = _estimate(config, hardware), ESTIMATED
    low, high = min(known.points, default=0), max(known.points, default=0)
    covers_all_sizes = high >= max(2 * low, MEASURED_AT[1])
    if covers_all_sizes:
        parts, source = _line(known.points[low], low, known.points[high], high), COMPILED
    elif high:
        number = config.num_envs
        at = number if isinstance(number, int) and number in known.points else high
        parts = _through(known.points[at], at, parts)
        source = COMPILED if at == number else f"{COMPILED} for {at:,} environments"
    profile = profiles.of(hardware.platform, hardware.name, hardware.memory_total)
    beside, compiling = profile.reserved, 0
    if hardware.platform == "cpu":
        resident, compiling = _compiled(config)
        beside = known.resident or beside + resident
        compiling = known.compiling or compiling
    name = "libraries" if hardware.platform == "cpu" else "driver"
    parts = {name: MemoryNeed(beside, 0), **parts}
    return Footprint(parts, source, covers_all_sizes, compiling, known.rates)


def _compiled(config: Config) -> tuple[int, int]:
    """What stays of compiling on a CPU, and its peak, bytes."""
    numbers = _numbers(config)
    if config.physics == "mjx":
        (held, more), (peak, each) = MJX_RESIDENT, MJX_COMPILING
        return held + more * numbers.joints, peak + each * numbers.joints
    known = numbers.task if numbers.task in RESIDENT else "joystick"
    return RESIDENT[known], COMPILING[known]


def program_key(
    config: Config, hardware: Hardware, package: Path = Path(jaxrl_hw.__file__).parent
) -> dict[str, Any]:
    """What tells a run's compiled program from others: settings, source code, device and versions.

    The number of environments is left out, and so are settings that change numbers only.

    Args:
      config: whose engine is settled.
      hardware: that it is compiled for.
      package: folder of the library's source code.
    """
    settings = validation.to_dict(config)
    shaping = {k: v for k, v in settings.items() if k in _SHAPING or isinstance(v, dict)}
    shaping["joystick"].pop("reward", None)
    shaping["staged"] = sorted({key for stage in config.curriculum for key in stage.settings})
    model = get_robot(config.robot).mjcf.read_bytes()
    return {
        **shaping,
        "model": hashlib.sha256(model).hexdigest(),
        "sources": _source_hash(package),
        "device": hardware.name,
        "versions": {name: _version(name) for name in _COMPILED_BY},
    }


_SHAPING = {"robot", "task", "algo", "physics", "timestep", "precision", "threads", "deterministic"}
"""With every group of settings (net, the algorithm's, the tasks')."""
_COMPILED_BY = ("jax", "jaxlib", "mujoco", "mujoco-mjx")
_ABOVE_TRAINING = ("cli", "evaluation")
"""What no train step can import: the floors above it, and the branch beside it."""


@cache
def _source_hash(package: Path) -> str:
    """Hash of every module and model that a train step can import, with their names.

    All but `_ABOVE_TRAINING` is taken, so a module that is new or has moved cannot be missed.
    """
    files = [path for path in package.rglob("*") if path.suffix in (".py", ".xml")]
    digest = hashlib.sha256()
    for path in sorted(files):
        name = path.relative_to(package)
        if name.parts[0] not in _ABOVE_TRAINING:
            digest.update(f"{name.as_posix()}\0".encode() + path.read_bytes())
    return digest.hexdigest()


def _version(name: str) -> str:
    try:
        return version(name)
    except PackageNotFoundError:
        return ""


def _line(
    few: Mapping[str, int], low: int, many: Mapping[str, int], high: int
) -> dict[str, MemoryNeed]:
    """Each item as a line through its bytes with two numbers of environments."""
    parts = {}
    for name, value in many.items():
        per_env = max(0, value - few.get(name, value)) // (high - low)
        parts[name] = MemoryNeed(value - per_env * high, per_env)
    return parts


def _through(
    items: Mapping[str, int], at: int, guess: Mapping[str, MemoryNeed]
) -> dict[str, MemoryNeed]:
    """Each item as a line through its bytes with one number; the estimate tells what is fixed."""
    parts = {}
    for name, value in items.items():
        fixed, grows = guess[name].fixed, guess[name].per_env > 0
        per_env = max(0, value - fixed) // at if grows else 0
        parts[name] = MemoryNeed(value - per_env * at, per_env)
    return parts


def _estimate(config: Config, hardware: Hardware) -> dict[str, MemoryNeed]:
    """The items from sizes alone."""
    _, joints, obs, critic, state, weights, averaged = _numbers(config)
    samples = config.ppo.unroll * (2 * (obs + critic) + 3 * joints + 8) * 4
    native = config.physics == "native"
    engine = MemoryNeed(0, MJX_SCRATCH * (joints + 6) if hardware.platform == "cpu" else 0)
    if native:
        engine = MemoryNeed(POOL_PER_THREAD * (config.threads or hardware.cores), 16 * state)
    updating = _activations(config) // max(config.ppo.minibatches, 1)
    collecting = 9 * state if native else MJX_PER_DOF * (joints + 6)
    return {
        "program": MemoryNeed(0, 0),
        "networks": MemoryNeed(2 * weights * 4, 0),
        "optimizer": MemoryNeed(2 * (2 * weights + averaged) * 4, 0),  # two moments
        "normalizer": MemoryNeed(2 * 2 * (obs + critic) * 4, 0),
        "environments": MemoryNeed(0, state * 4),
        "rollout": MemoryNeed(0, samples),
        "temporaries": MemoryNeed(0, max(collecting, updating)),
        "physics": engine,
    }


def checkpoint_bytes(config: Config, num_envs: int) -> int:
    """What one checkpoint is expected to take on disk: learner, optimizer and environments."""
    numbers = _numbers(config)
    learner = PACKED_WEIGHTS * (3 * numbers.weights + numbers.averaged) * 4
    return round(CHECKPOINT_FILES + learner + PACKED_ENVS * num_envs * numbers.state * 4)


class _Numbers(NamedTuple):
    """A config's task, and its sizes in float32 numbers."""

    task: str
    joints: int
    obs: int
    critic: int
    state: int  # of one environment
    weights: int
    averaged: int  # of the weights, those whose mean is kept as well


def _numbers(config: Config) -> _Numbers:
    robot = get_robot(config.robot)
    joints = len(robot.action_scale)
    task = task_name(config)
    obs, critic, state = task_sizes(task, robot)
    policy = _weights(obs, config.net.policy, joints)
    weights = policy + _weights(critic, config.net.value, 1)
    averaged = policy if config.ppo.weight_averaging else 0
    return _Numbers(task, joints, obs, critic, state, weights, averaged)


def _weights(size: int, widths: tuple[int, ...], out: int) -> int:
    sizes = [size, *widths, out]
    return sum((a + 1) * b for a, b in pairwise(sizes))


def _activations(config: Config) -> int:
    """Bytes of activations and their gradients over one environment's samples."""
    mirrored = 1 if config.ppo.symmetry == "none" else 2
    widths = mirrored * sum(config.net.policy) + sum(config.net.value)
    return config.ppo.unroll * widths * 4 * 4
