"""What compiling the train step takes of a CPU's memory, and what stays of it, as measured."""

from __future__ import annotations

from jaxrl_hw.config.resolve import robot_spec, task_name
from jaxrl_hw.config.schema import Config

NATIVE = {"cartpole": (18_000_000, 600_000_000), "joystick": (105_000_000, 880_000_000)}
"""On a CPU, the program with what stays of compiling it, and a process's peak while it compiles the
halves of its step one after the other, by task: measured on Linux x86-64 with the native engine,
the first beyond the libraries (`profiles.CPU`); joystick with Go1 and both G1s (95 to 105 MB).
Less where the program comes from the compilation cache. Other tasks count as joystick."""
MJX = {"cartpole": (200_000_000, 800_000_000), "joystick": (345_000_000, 1_070_000_000)}
MJX_PER_MOTOR = (3_400_000, 7_200_000)
"""The same with MJX, and with each motor of a legged robot, as its step is compiled body by body.
Measured with cartpole, Go1 and G1 (1, 12 and 29)."""
WARP = (460_000_000, 1_170_000_000)
"""The same with MuJoCo Warp and its kernels: measured with Go1; cartpole: 0.1 GB less."""
AT_ONCE = {"cartpole": 65_000_000, "joystick": 160_000_000}
"""What the peak is higher by where both halves are compiled at once, by task. Measured on the
native engine: 50 MB with cartpole, 117, 125 and 185 MB with Go1 and both G1s."""
SEVERAL_SEEDS = {"cartpole": 75_000_000, "joystick": 90_000_000}
"""On a CPU, what several seeds in one program add to both, by task: programs of one seed beside
those of all, and what each run writes with. Measured with two seeds of cartpole with SAC and four
with PPO (49 and 100 MB), and with two and four of g1_12dof (71 and 105 MB)."""


def of_compiling(config: Config) -> tuple[int, int]:
    """What stays of compiling, and its peak where one half of the step follows the other, bytes.

    config: whose engine is settled.
    """
    task = _counted_as(config)
    if config.physics == "warp":
        held, peak = WARP
    elif config.physics == "native":
        held, peak = NATIVE[task]
    else:
        (held, peak), (more, each) = MJX[task], MJX_PER_MOTOR
        motors = len(robot_spec(config).action_scale) if task == "joystick" else 0
        held, peak = held + more * motors, peak + each * motors
    several = SEVERAL_SEEDS[task] if config.seeds > 1 else 0
    return held + several, peak + several


def at_once(config: Config) -> int:
    """Bytes that the peak is higher by where both halves of the step are compiled at once."""
    return AT_ONCE[_counted_as(config)]


def _counted_as(config: Config) -> str:
    task = task_name(config)
    return task if task in NATIVE else "joystick"
