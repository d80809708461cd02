"""Booster T1: a humanoid of 31.614 kg with 23 joints.

Joints: head yaw and pitch; per arm shoulder pitch, roll, elbow pitch, yaw; waist; per leg hip
pitch, roll, yaw, knee, ankle pitch, roll; left side first. Gains are those that Booster's own
deployment sets on the robot: MuJoCo Playground's are a sixth of them at hips and knees. With
200 N m/rad there, a quarter of a radian per unit of action is enough.
"""

from pathlib import Path

from jaxrl_hw.envs.robots.spec import Mirror, RobotSpec

_HEAD, _WAIST = (0, 1), (10,)
_LEFT_ARM, _RIGHT_ARM = (2, 3, 4, 5), (6, 7, 8, 9)
_LEFT_LEG, _RIGHT_LEG = tuple(range(11, 17)), tuple(range(17, 23))

SPEC = RobotSpec(
    name="t1",
    mjcf=Path(__file__).resolve().parent / "t1.xml",
    other_mjcf=Path(__file__).resolve().parent / "other.xml",
    task="joystick",
    base="Trunk",
    torso="Trunk",
    feet=("left_foot", "right_foot"),
    gait_offsets=(0.0, 0.5),
    gait_period=0.7,
    action_scale=(*(0.1,) * 2, *(0.25,) * 8, 0.1, *(0.25,) * 12),
    timestep=0.005,
    mjx_bounds=(10, 3),
    base_height=0.665853,
    fall_height=0.38,
    posture=((1.0,) * 11 + (0.0, 1.0, 1.0, 0.0, 0.0, 0.0) * 2),
    mirror=Mirror(
        joint_perm=_HEAD + _RIGHT_ARM + _LEFT_ARM + _WAIST + _RIGHT_LEG + _LEFT_LEG,
        joint_sign=(
            *(-1.0, 1.0),
            *(1.0, -1.0, 1.0, -1.0) * 2,
            -1.0,
            *(1.0, -1.0, -1.0, 1.0, 1.0, -1.0) * 2,
        ),
        foot_perm=(1, 0),
    ),
)
