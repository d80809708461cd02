"""Unitree H1 with its legs driven: torso and arms are held at home, 51.437 kg, 10 joints.

It keeps the deployment contract of unitree_rl_gym (gains, home pose, target = home + 0.25 action,
50 Hz), so that a policy trained on it runs in that project's scripts and on the robot.
Joints: per leg hip yaw, roll, pitch, knee, ankle; left leg first. No joint rolls the ankle.
"""

from pathlib import Path

from jaxrl_hw.envs.robots.spec import Mirror, RobotSpec

SPEC = RobotSpec(
    name="h1",
    mjcf=Path(__file__).resolve().parent / "h1.xml",
    other_mjcf=Path(__file__).resolve().parent / "other.xml",
    task="joystick",
    base="pelvis",
    torso="torso_link",
    feet=("left_foot", "right_foot"),
    gait_offsets=(0.0, 0.5),
    gait_period=0.8,
    action_scale=(0.25,) * 10,
    timestep=0.005,
    mjx_bounds=(8, 2),
    base_height=1.034228,
    fall_height=0.6,
    posture=(1.0, 1.0, 0.0, 0.0, 0.0) * 2,
    mirror=Mirror(
        joint_perm=(5, 6, 7, 8, 9, 0, 1, 2, 3, 4),
        joint_sign=(-1.0, -1.0, 1.0, 1.0, 1.0) * 2,
        foot_perm=(1, 0),
    ),
)
