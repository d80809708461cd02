"""How much memory a run needs, item by item, worked out without importing jax.

The figures are the compiler's where the program has been measured on this machine; else those kept
with the package, where they are of this program and this card; else an estimate from the sizes of
networks, batch and environments.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import jaxrl_hw
from jaxrl_hw.checkpointing.provenance import package_versions
from jaxrl_hw.config import validation
from jaxrl_hw.config.goal import goal_iteration
from jaxrl_hw.config.resolve import (
    algorithm_needs,
    robot_spec,
    sized,
    state_bytes,
    task_name,
)
from jaxrl_hw.config.schema import Config
from jaxrl_hw.hardware import measurement_cache, profiles
from jaxrl_hw.hardware.detect import Hardware
from jaxrl_hw.hardware.sizing import MemoryNeed
from jaxrl_hw.planning import kept_figures
from jaxrl_hw.planning.compiling import of_compiling
from jaxrl_hw.planning.devices import on_each
from jaxrl_hw.planning.replay import bytes_of_saving
from jaxrl_hw.planning.warp_scratch import warp_scratch
from jaxrl_hw.types import Needs

ITEMS = (
    "libraries",  # "driver" on an accelerator: all that is not the run's arrays
    "program",
    "networks",
    "optimizer",
    "normalizer",
    "replay",
    "environments",
    "rollout",
    "temporaries",
    "physics",
)
"""What memory goes to, in the order in which it is shown."""
SAVING = "saving"
"""The last item where checkpoints have a replay that is copied for them: on a CPU, and of several
seeds."""
ESTIMATED = "estimated from sizes"
"""`Footprint.source` where the program has not been measured."""
COMPILED = "the compiler's figures"
MEASURED_AT = (256, 1024)
"""Numbers of environments, about, for which a program is measured. From the first on its memory is
a line in their number; with fewer, malloc keeps what small arrays took."""

FIRST_ITERATIONS = 18_000_000
"""What the first iterations and checkpoints add to a process that has compiled its program: 8 to
24 MB with cartpole, Go1 and both G1s on the native engine, 18 MB with cartpole on MJX."""
EVALUATING = 90_000_000
"""What `--eval-every` keeps of a CPU's memory: the compiled driver and its engine, 58 to 73 MB at
the first evaluations of Go1, H1 and both G1s on Linux x86-64, and what the later ones add.
Compiling it takes less than the train step did."""
LATER_EVALUATIONS = 20_000_000
"""What of it comes after the driver is compiled: a few MB with the first, 40 MB within hours."""
POOL_PER_THREAD = 4_000_000
"""One mjData and its arena on each thread of the native engine."""
MJX_PER_DOF = 2_200
"""mjx.Data and the solver's temporaries inside a control step, bytes per environment and degree of
freedom: what XLA counts on a CPU for cartpole, Go1 and G1 (with Warp 1,700 for Go1, 2,400 for G1);
not yet measured on an accelerator."""
MJX_SCRATCH = 500
"""What its kernels on a CPU leave with malloc, likewise; measured there."""

CHECKPOINT_FILES = 45_000
"""What a checkpoint's descriptions take on disk, whatever the run's size."""
PACKED_WEIGHTS, PACKED_ENVS, PACKED_PARTS = 0.93, 0.72, 0.31
"""Bytes on disk per byte of the learner, of the environments, and of what they have beside their
task's `sizes` (gains, which are mostly zeros): Orbax compresses with zstd, and trained weights
hardly yield. Measured in trainings of cartpole and g1_12dof, the last with g1_12dof and g1."""


class Footprint(NamedTuple):
    """Bytes by item, each a fixed part and a part per environment, and where they are from."""

    parts: dict[str, MemoryNeed]
    source: str
    covers_all_sizes: bool
    """Whether the measured sizes determine the memory of any other."""
    compiling: int
    """Least peak of the process while it compiles, bytes: one half of the step after the other. 0
    where it does not count (an accelerator)."""
    rates: dict[int, float]
    """Control steps per second that were measured here, by number of environments."""
    compile_s: float | None = None
    """Seconds that the last session took to compile; None before the first."""

    @property
    def total(self) -> MemoryNeed:
        """All items together."""
        fixed, per_env, _ = map(sum, zip(*self.parts.values(), strict=True))
        return MemoryNeed(fixed, per_env, self.compiling)

    def items(self, num_envs: int) -> dict[str, int]:
        """Bytes by item with that many environments."""
        return {name: part.total(num_envs) for name, part in self.parts.items()}


def footprint(config: Config, hardware: Hardware) -> Footprint:
    """The expected footprint of a config whose engine and devices are settled."""
    known = measurement_cache.load(program_key(config, hardware))
    parts, source = estimate(config, hardware, algorithm_needs(config)), ESTIMATED
    if kept := kept_figures.find(config, hardware):
        parts, source = kept
    parts = on_each(parts, config, hardware)
    low, high = min(known.points, default=0), max(known.points, default=0)
    covers_all_sizes = high >= max(2 * low, MEASURED_AT[1])
    if covers_all_sizes:
        few, source = known.points[low], COMPILED
        grown = {name: value - few.get(name, value) for name, value in known.points[high].items()}
        parts = _lines(known.points[high], high, grown, high - low)
    elif high:
        at = config.num_envs if config.num_envs in known.points else high
        items, source = known.points[at], COMPILED
        if at != config.num_envs:
            source += f" for {at:,} environments"
        # the estimate gives the fixed part; of temporaries the fixed ones may not be the largest
        grown = {
            name: max(items[name] - part.fixed, min(items[name], part.per_env * at))
            for name, part in parts.items()
            if name in items and part.per_env > 0
        }
        parts = _lines(items, at, grown, at)
    profile = profiles.of(hardware.platform, hardware.name, hardware.memory_total)
    name, reserved, compiling = "driver", profile.reserved, 0
    if hardware.platform == "cpu":
        resident, compiling = of_compiling(config)
        name, reserved = "libraries", known.resident or reserved + resident
        reserved += EVALUATING if evaluates(config) else 0
        compiling = known.compiling or compiling
    if saving := bytes_of_saving(config, on_cpu=hardware.platform == "cpu"):
        parts = {**parts, SAVING: MemoryNeed(saving, 0)}
    parts = {name: MemoryNeed(reserved, 0), **parts}
    return Footprint(parts, source, covers_all_sizes, compiling, known.rates, known.compile_s)


def _lines(
    items: Mapping[str, int], at: int, grown: Mapping[str, int], over: int
) -> dict[str, MemoryNeed]:
    """Each item as a line through its bytes `at` a number of environments.

    grown: by how many bytes an item grows over so many environments.
    """
    slopes = {name: max(0, grown.get(name, 0)) // over for name in items}
    return {n: MemoryNeed(value - slopes[n] * at, slopes[n]) for n, value in items.items()}


def checkpoint_bytes(config: Config, num_envs: int) -> int:
    """What one checkpoint is expected to take on disk: the learner and the environments."""
    needs, (state, parts) = algorithm_needs(config), state_bytes(config)
    learner = PACKED_WEIGHTS * (needs.network_bytes + needs.optimizer_bytes)
    learner += needs.replay_bytes if config.save_replay == "yes" else 0
    each = PACKED_ENVS * (state + needs.memory_bytes) + PACKED_PARTS * parts
    return round(CHECKPOINT_FILES + learner + each * num_envs)


def evaluates(config: Config) -> bool:
    """Whether a run is long enough for an evaluation; with an open size, by its env steps alone."""
    if not config.eval_every or task_name(config) != "joystick":
        return False
    if isinstance(config.num_envs, str):
        return config.timesteps >= config.eval_every or not config.timesteps
    goal, unroll = goal_iteration(config), algorithm_needs(sized(config, config.num_envs)).unroll
    steps = goal * config.num_envs * unroll
    return goal >= config.save_every and steps >= config.eval_every


def estimate(config: Config, hardware: Hardware, needs: Needs) -> dict[str, MemoryNeed]:
    """The items but for libraries and driver, from sizes alone.

    config: whose engine is settled.
    needs: of its algorithm.
    """
    state = sum(state_bytes(config))
    dofs = len(robot_spec(config).action_scale) + 6
    if config.physics == "native":
        engine = MemoryNeed(POOL_PER_THREAD * (config.threads or hardware.cores), 4 * state)
        collecting = 9 * state // 4
    else:
        scratch = MJX_SCRATCH * dofs if hardware.platform == "cpu" else 0
        engine = MemoryNeed(0, warp_scratch(dofs) if config.physics == "warp" else scratch)
        collecting = MJX_PER_DOF * dofs
    return {
        "program": MemoryNeed(0, 0),
        # the learner that goes into an update stays whole until the next one is there
        "networks": MemoryNeed(2 * needs.network_bytes, 0),
        "optimizer": MemoryNeed(2 * needs.optimizer_bytes, 0),
        "normalizer": MemoryNeed(2 * needs.normalizer_bytes, 0),
        "replay": MemoryNeed(needs.replay_bytes, 0),
        "environments": MemoryNeed(0, state + needs.memory_bytes),
        "rollout": MemoryNeed(0, needs.unroll * needs.sample_bytes),
        "temporaries": _temporaries(needs, collecting),
        "physics": engine,
    }


def _temporaries(needs: Needs, collecting: int) -> MemoryNeed:
    """Of a minibatch, or of the whole batch where the usual numbers of environments do not fill
    one minibatch. Before either, the critic values the whole batch at once.

    collecting: bytes per environment of the collection.
    """
    each = max(collecting, needs.unroll * needs.value_bytes)
    if needs.replay is not None or needs.minibatch_size <= needs.unroll * MEASURED_AT[1]:
        return MemoryNeed(needs.update_bytes, each)
    of_a_step = needs.unroll * needs.update_bytes // needs.minibatch_size
    return MemoryNeed(0, max(each, of_a_step))


def program_key(
    config: Config, hardware: Hardware, package: Path = Path(jaxrl_hw.__file__).parent
) -> dict[str, Any]:
    """What identifies a run's compiled program: settings, source code, device and versions.

    The number of environments is left out, and so are settings that change numbers only (reward
    weights, what the curriculum's stages change). Of fractions, such as a clip range, it counts
    whether they are 0: the program has the others as constants.

    config: whose engine is settled.
    package: folder of the library's source code.
    """
    settings = validation.to_dict(config)
    groups = {
        name: {
            key: value != 0.0 if isinstance(value, float) else value
            for key, value in group.items()
            if not isinstance(value, dict)
        }
        for name, group in settings.items()
        if isinstance(group, dict)
    }
    mjcf = robot_spec(config).mjcf
    model = mjcf.read_bytes() if mjcf is not None else b""
    return {
        **{name: settings[name] for name in _SHAPING},
        **groups,
        "stages": len(config.curriculum),
        "staged": sorted({key for stage in config.curriculum for key in stage.settings}),
        "model": hashlib.sha256(model).hexdigest(),
        "sources": _source_hash(package),
        "device": hardware.name,
        **({"processes": hardware.processes} if hardware.processes > 1 else {}),
        **({"seeds": config.seeds} if config.seeds > 1 else {}),
        "versions": {n: v for n, v in package_versions().items() if n in _COMPILED_BY},
    }


_SHAPING = (
    *("robot", "task", "algo", "physics", "timestep", "precision", "threads", "deterministic"),
    "devices",
)
"""Settings that change the program, besides the groups of network, algorithm and task."""
_COMPILED_BY = ("jax", "jaxlib", "mujoco", "mujoco-mjx", "warp-lang", "brax", "playground")
_ABOVE_TRAINING = ("cli", "evaluation")
"""Packages that no train step imports."""


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
