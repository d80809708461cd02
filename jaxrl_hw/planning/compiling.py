"""What compiling the train step takes of a CPU's memory, and what stays of it, as measured."""

from __future__ import annotations

from jaxrl_hw.config.resolve import robot_spec, task_name
from jaxrl_hw.config.schema import Config

NATIVE = {"cartpole": (32_000_000, 700_000_000), "joystick": (90_000_000, 910_000_000)}
"""On a CPU, the program with what stays of compiling it, and a process's peak while it compiles, by
task: measured on Linux x86-64 with the native engine, the first beyond the libraries
(`profiles.CPU`). Less where the program comes from the compilation cache. Other tasks count as
joystick."""
MJX, MJX_PER_MOTOR = (122_000_000, 880_000_000), (7_200_000, 33_400_000)
"""The same with MJX: for any robot, and per motor, as its step is compiled body by body. Measured
with cartpole, Go1 and G1 (1, 12 and 29)."""
WARP = (400_000_000, 1_320_000_000)
"""The same with MuJoCo Warp and its kernels: measured with Go1 and G1; cartpole: 0.1 GB less."""
SEVERAL_SEEDS = {"cartpole": 75_000_000, "joystick": 140_000_000}
"""On a CPU, what several seeds in one program add to both, by task: programs of one seed beside
those of all. Measured with two and four seeds of cartpole (82 and 60 MB) and two and three of
g1_12dof (190 and 110 MB)."""


def of_compiling(config: Config) -> tuple[int, int]:
    """What stays of compiling, and its peak, bytes.

    config: whose engine is settled.
    """
    task = task_name(config) if task_name(config) in NATIVE else "joystick"
    if config.physics == "warp":
        held, peak = WARP
    elif config.physics == "native":
        held, peak = NATIVE[task]
    else:
        (held, peak), (more, each) = MJX, MJX_PER_MOTOR
        motors = len(robot_spec(config).action_scale)
        held, peak = held + more * motors, peak + each * motors
    several = SEVERAL_SEEDS[task] if config.seeds > 1 else 0
    return held + several, peak + several
