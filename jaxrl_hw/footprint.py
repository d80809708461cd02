"""How much memory a run needs, item by item, computed without importing jax."""

from __future__ import annotations

from itertools import pairwise
from typing import NamedTuple

from jaxrl_hw.config import Config
from jaxrl_hw.hardware.sizing import MemoryNeed
from jaxrl_hw.robots import get_robot

LIBRARIES = 530_000_000
"""Python, jax and MuJoCo, resident: measured on Linux x86-64, CPU."""
COMPILER = {"cartpole": 160_000_000, "joystick": 400_000_000}
"""XLA's peak while it compiles the train step of a task, and the program: measured likewise. Less
where the program comes from the compilation cache."""
MJX_COMPILER = 700_000_000
"""What compiling an MJX physics step adds on a CPU; measured with G1."""
POOL_PER_THREAD = 4_000_000
"""One mjData and its arena on each thread of the native engine."""
MJX_PER_ENV = 220_000
"""mjx.Data and the solver's temporaries per environment inside a control step; estimated from
MJX on a CPU with G1, not yet measured on an accelerator."""


CHECKPOINT_FILES = 45_000
"""What a checkpoint's descriptions take on disk, whatever the run's size."""
PACKED_WEIGHTS, PACKED_ENVS = 0.93, 0.72
"""Bytes on disk per byte of the learner and of the environments: Orbax compresses with zstd, and
trained weights hardly yield. Measured in trainings of cartpole and g1_12dof."""


class Footprint(NamedTuple):
    """Bytes by item, each a fixed part and a part per environment."""

    parts: dict[str, MemoryNeed]

    @property
    def total(self) -> MemoryNeed:
        return MemoryNeed(
            sum(p.fixed for p in self.parts.values()), sum(p.per_env for p in self.parts.values())
        )

    def items(self, num_envs: int) -> dict[str, int]:
        return {name: part.total(num_envs) for name, part in self.parts.items()}


def need(config: Config) -> Footprint:
    """The expected footprint of a config whose engine is settled."""
    task, joints, obs, critic, state, weights = _numbers(config)
    samples = config.ppo.unroll * (2 * (obs + critic) + 3 * joints + 8) * 4
    parts = {
        "libraries": MemoryNeed(LIBRARIES, 0),
        "compiler": MemoryNeed(COMPILER.get(task, COMPILER["joystick"]), 0),
        "networks": MemoryNeed(4 * weights * 4, 0),  # weights, two moments, a gradient
        # held once by the collection, once flattened, once gathered into minibatches
        "batch": MemoryNeed(0, 3 * samples),
        "update": MemoryNeed(0, _activations(config) // max(config.ppo.minibatches, 1)),
        "environments": MemoryNeed(0, 3 * state * 4),
    }
    if config.physics == "native":
        threads = config.threads or 2
        parts["physics"] = MemoryNeed(POOL_PER_THREAD * threads, 8 * state + 2_000)
    else:
        parts["physics"] = MemoryNeed(MJX_COMPILER, MJX_PER_ENV)
    return Footprint(parts)


def checkpoint_bytes(config: Config, num_envs: int) -> int:
    """What one checkpoint is expected to take on disk: learner, optimizer and environments."""
    numbers = _numbers(config)
    learner = PACKED_WEIGHTS * 3 * numbers.weights * 4  # weights, two moments
    return round(CHECKPOINT_FILES + learner + PACKED_ENVS * num_envs * numbers.state * 4)


class _Numbers(NamedTuple):
    """A config's task, and its sizes in float32 numbers."""

    task: str
    joints: int
    obs: int
    critic: int
    state: int  # of one environment
    weights: int


def _numbers(config: Config) -> _Numbers:
    robot = get_robot(config.robot)
    joints, feet = len(robot.action_scale), len(robot.feet)
    task = robot.task if config.task == "auto" else config.task
    if task == "cartpole":
        obs, critic, state = 5, 5, 40
    else:
        # the layouts of envs.observations and of episode.EnvState
        obs = 11 + 3 * joints
        critic = obs + 5 + 2 * feet
        bodies = joints + 2
        state = 3 * (joints + 7) + 8 * bodies + 2 * (joints + 6) + 13 * 3 + joints + obs + critic
    weights = _weights(obs, config.net.policy, joints) + _weights(critic, config.net.value, 1)
    return _Numbers(task, joints, obs, critic, state, weights)


def _weights(size: int, widths: tuple[int, ...], out: int) -> int:
    sizes = [size, *widths, out]
    return sum((a + 1) * b for a, b in pairwise(sizes))


def _activations(config: Config) -> int:
    """Bytes of activations and their gradients over one environment's samples."""
    mirrored = 1 if config.ppo.symmetry == "none" else 2
    widths = mirrored * sum(config.net.policy) + sum(config.net.value)
    return config.ppo.unroll * widths * 4 * 4
