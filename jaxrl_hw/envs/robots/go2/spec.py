"""Unitree Go2: a quadruped of 15.206 kg with 12 joints.

Joints: per leg hip (abduction, about x), thigh and calf (about y); legs in the order front left,
front right, rear left, rear right, as in Unitree's model. The robot's own motor bus has front right
first: go by names. Gains are those of Unitree's training with mjlab (20, at the calf 40 N m/rad):
of the published sets it alone tells the calf's motor, with its further linkage, from the others.
"""

from pathlib import Path

from jaxrl_hw.envs.robots.spec import Mirror, RobotSpec

SPEC = RobotSpec(
    name="go2",
    mjcf=Path(__file__).resolve().parent / "go2.xml",
    other_mjcf=Path(__file__).resolve().parent / "other.xml",
    task="joystick",
    base="base_link",
    torso="base_link",
    feet=("FL", "FR", "RL", "RR"),
    gait_offsets=(0.0, 0.5, 0.5, 0.0),  # trot: diagonal feet swing together
    gait_period=0.5,
    action_scale=(0.5,) * 12,
    timestep=0.004,
    mjx_bounds=(8, 2),
    base_height=0.288373,
    fall_height=0.18,
    posture=(1.0, 0.1, 0.1) * 4,
    mirror=Mirror(
        joint_perm=(3, 4, 5, 0, 1, 2, 9, 10, 11, 6, 7, 8),
        joint_sign=(-1.0, 1.0, 1.0) * 4,
        foot_perm=(1, 0, 3, 2),
    ),
)
