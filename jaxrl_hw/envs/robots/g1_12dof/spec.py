"""Unitree G1 with legs only: waist and arms are welded to the pelvis, 32.107 kg, 12 joints.

It keeps the deployment contract of unitree_rl_gym (gains, home pose, target = home + 0.25 action,
50 Hz), so that a policy trained on it runs in that project's scripts and on the robot.
Joints: per leg hip pitch, roll, yaw, knee, ankle pitch, roll; left leg first.
"""

from pathlib import Path

from jaxrl_hw.envs.robots.spec import Mirror, RobotSpec

SPEC = RobotSpec(
    name="g1_12dof",
    mjcf=Path(__file__).resolve().parent / "g1_12dof.xml",
    other_mjcf=Path(__file__).resolve().parent / "other.xml",
    task="joystick",
    base="pelvis",
    torso="pelvis",
    feet=("left_foot", "right_foot"),
    gait_offsets=(0.0, 0.5),
    gait_period=0.8,
    action_scale=(0.25,) * 12,
    timestep=0.005,
    mjx_bounds=(8, 2),
    base_height=0.784202,
    fall_height=0.45,
    posture=(0.0, 1.0, 1.0, 0.0, 0.0, 0.0) * 2,
    mirror=Mirror(
        joint_perm=(6, 7, 8, 9, 10, 11, 0, 1, 2, 3, 4, 5),
        joint_sign=(1.0, -1.0, -1.0, 1.0, 1.0, -1.0) * 2,
        foot_perm=(1, 0),
    ),
    deploy_name="g1",  # as unitree_rl_gym names it
)
