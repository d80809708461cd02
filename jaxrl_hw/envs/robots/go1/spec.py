"""Unitree Go1: a quadruped of 12.743 kg with 12 joints.

Joints: per leg hip (abduction, about x), thigh and calf (about y); legs in the order front right,
front left, rear right, rear left, as on the robot's own motor bus. At home all hips turn the feet
inwards by 0.1 rad.
"""

from pathlib import Path

from jaxrl_hw.envs.robots.spec import Mirror, RobotSpec

SPEC = RobotSpec(
    name="go1",
    mjcf=Path(__file__).resolve().parent / "go1.xml",
    other_mjcf=Path(__file__).resolve().parent / "other.xml",
    task="joystick",
    base="trunk",
    torso="trunk",
    feet=("FR", "FL", "RR", "RL"),
    gait_offsets=(0.0, 0.5, 0.5, 0.0),  # trot: diagonal feet swing together
    gait_period=0.5,
    action_scale=(0.5,) * 12,
    timestep=0.004,
    mjx_bounds=(8, 2),
    base_height=0.294469594,
    fall_height=0.18,
    posture=(1.0, 0.1, 0.1) * 4,
    mirror=Mirror(
        joint_perm=(3, 4, 5, 0, 1, 2, 9, 10, 11, 6, 7, 8),
        joint_sign=(-1.0, 1.0, 1.0) * 4,
        foot_perm=(1, 0, 3, 2),
    ),
)
