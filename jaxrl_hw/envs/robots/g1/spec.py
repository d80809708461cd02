"""Unitree G1 (rev 1.0, no hands): 29 joints, 33.341 kg.

Joints: per leg hip pitch, roll, yaw, knee, ankle pitch, roll (left leg first); waist yaw, roll,
pitch; per arm shoulder pitch, roll, yaw, elbow, wrist roll, pitch, yaw (left arm first).

The MJCF's gains come from the motors, not from a manual: kp = I (2 pi f)^2 and kd = 2 z I (2 pi f),
with I the rotor inertia seen at the joint, f = 10 Hz and z = 2. That assumes the controller should
feel like an overdamped spring on the rotor alone; mjlab trains the robot so. A unit action of a leg
then moves the target by a quarter of what stalls the motor: 0.25 effort / kp. Waist and arms get
less of that (`_WAIST_SHARE`, `_ARM_SHARE`): walking needs little of them, and the noise that
explores the legs would throw them about.
"""

from pathlib import Path

from jaxrl_hw.envs.robots.spec import Gains, Mirror, RobotSpec

_WAIST_SHARE, _ARM_SHARE = 0.5, 0.3
_STIFF_LEG, _STIFF_WAIST = 0.25, 0.0625  # rad per unit of action

# rad of target per unit of action: 0.25 effort (N m) / kp (N m/rad) of each kind of motor.
_HIP = 0.25 * 88 / 40.1792386  # hip pitch, hip yaw, waist yaw
_KNEE = 0.25 * 139 / 99.0984278  # hip roll, knee
_ANKLE = 0.25 * 50 / 28.5012462  # ankle, waist roll and pitch: two motors in parallel
_ARM = 0.25 * 25 / 14.2506231  # shoulder, elbow, wrist roll
_WRIST = 0.25 * 5 / 16.7783275  # wrist pitch and yaw

_LEFT_LEG, _RIGHT_LEG = tuple(range(6)), tuple(range(6, 12))
_WAIST = (12, 13, 14)
_LEFT_ARM, _RIGHT_ARM = tuple(range(15, 22)), tuple(range(22, 29))

_ARM_SCALE = tuple(_ARM_SHARE * scale for scale in (*(_ARM,) * 5, _WRIST, _WRIST))
_STIFF = Gains(
    kp=(
        *(100.0, 100.0, 100.0, 150.0, 40.0, 40.0) * 2,
        *(200.0,) * 3,
        *(*(14.2506231,) * 5, 16.7783275, 16.7783275) * 2,
    ),
    kd=(
        *(2.0, 2.0, 2.0, 4.0, 2.0, 2.0) * 2,
        *(5.0,) * 3,
        *(*(0.907222843,) * 5, 1.0681415, 1.0681415) * 2,
    ),
    action_scale=(*(_STIFF_LEG,) * 12, *(_STIFF_WAIST,) * 3, *_ARM_SCALE * 2),
)
"""Legs and waist as unitree_rl_lab drives them on the robot. Its arms have kd 10, which an explicit
controller of 500 Hz cannot hold on joints of 0.004 kg m^2: they keep the motors' gains."""

SPEC = RobotSpec(
    name="g1",
    mjcf=Path(__file__).resolve().parent / "g1.xml",
    other_mjcf=Path(__file__).resolve().parent / "other.xml",
    task="joystick",
    base="pelvis",
    torso="torso_link",
    feet=("left_foot", "right_foot"),
    gait_offsets=(0.0, 0.5),
    gait_period=0.8,
    action_scale=(
        *(_HIP, _KNEE, _HIP, _KNEE, _ANKLE, _ANKLE) * 2,
        *(_WAIST_SHARE * scale for scale in (_HIP, _ANKLE, _ANKLE)),
        *_ARM_SCALE * 2,
    ),
    gain_sets={"stiff": _STIFF},
    timestep=0.002,
    mjx_bounds=(8, 2),
    base_height=0.784202,
    fall_height=0.45,
    posture=((0.0, 1.0, 1.0, 0.0, 0.0, 0.0) * 2 + (1.0,) * 17),
    mirror=Mirror(
        joint_perm=_RIGHT_LEG + _LEFT_LEG + _WAIST + _RIGHT_ARM + _LEFT_ARM,
        joint_sign=(
            *(1.0, -1.0, -1.0, 1.0, 1.0, -1.0) * 2,
            *(-1.0, -1.0, 1.0),
            *(1.0, -1.0, -1.0, 1.0, -1.0, 1.0, -1.0) * 2,
        ),
        foot_perm=(1, 0),
    ),
)
