"""The joystick task's settings: what a legged robot is asked for, and how it is rewarded."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from jaxrl_hw.envs.tasks import TaskEntry
from jaxrl_hw.envs.tasks.joystick.params import params_of, parts_of
from jaxrl_hw.errors import UserError
from jaxrl_hw.types import setting


def _varies(default: Any, unit: str = "", **bounds: Any) -> Any:
    """A setting that a stage of the curriculum may change."""
    return setting(default, unit=unit, stage=True, **bounds)


@dataclass(frozen=True)
class JoystickReward:
    """Weights of the reward terms, per second of time in the term's own units.

    A term's reward per control step is weight * value * control_dt; `fall` is paid once.
    """

    velocity: float = _varies(3.0)
    """exp(-|v_xy - command|^2 / velocity_sigma), base frame."""
    velocity_fine: float = _varies(0.0)
    """exp(-|v_xy - command|^2 / velocity_fine_sigma): a narrow peak on top of the wide one."""
    yaw_rate: float = _varies(1.5)
    """exp(-(yaw rate - command)^2 / yaw_sigma)."""
    foot_height: float = _varies(8.0)
    """exp(-sum over feet of e^2 / height_sigma): e is how far a swing foot is below the swing
    curve, or a stance foot above the floor."""
    foot_contact: float = _varies(0.8)
    """Per foot: 1 where contact agrees with the phase's stance or swing."""
    slip: float = _varies(-0.3)
    """Squared horizontal speed of feet in contact, (m/s)^2."""
    landing: float = _varies(0.0)
    """Squared downward speed of feet within 3 cm of their standing height, (m/s)^2, while the
    command is not to stand still."""
    self_contact: float = _varies(-1.0)
    """Number of points at which the robot's own parts touch each other."""
    vertical_velocity: float = _varies(-1.0)
    """Squared vertical velocity of the base, (m/s)^2."""
    roll_pitch_rate: float = _varies(-0.1)
    """Squared roll and pitch rates, (rad/s)^2."""
    tilt: float = _varies(-2.0)
    """Squared horizontal part of the gravity direction in the base frame."""
    base_height: float = _varies(-10.0)
    """Squared deviation of the base's height from its target, m^2."""
    action_rate: float = _varies(-0.01)
    """Squared change of the action between control steps."""
    velocity_error: float = _varies(-2.0)
    """|v_xy - command|, m/s."""
    yaw_error: float = _varies(-1.0)
    """|yaw rate - command|, rad/s."""
    power: float = _varies(-0.002)
    """Mechanical power, W: the sum over joints of |torque * velocity|."""
    walking_power: float = _varies(0.0)
    """Mechanical power, W, while the command is not to stand still."""
    joint_limit: float = _varies(-5.0)
    """How far joints are beyond the soft part of their range, rad."""
    posture: float = _varies(-1.0)
    """Squared deviation from the home pose, weighted by the robot's posture weights, rad^2."""
    stand_still: float = _varies(-1.0)
    """Squared deviation of all joints from home while the command is zero, rad^2."""
    alive: float = _varies(0.05)
    """1 in every step that is not a fall."""
    fall: float = _varies(-2.0)
    """1 in the step of a fall; paid once, not per second."""


@dataclass(frozen=True)
class JoystickConfig:
    """Follow a commanded planar velocity and yaw rate."""

    vx: tuple[float, float] = _varies((-1.0, 1.0), "m/s")
    """Range of the commanded forward velocity."""
    vy: tuple[float, float] = _varies((-0.5, 0.5), "m/s")
    """Range of the commanded leftward velocity."""
    yaw_rate: tuple[float, float] = _varies((-1.0, 1.0), "rad/s")
    """Range of the commanded yaw rate."""
    zero_command: float = _varies(0.15, at_least=0.0, at_most=1.0, driven=0.0)
    """Probability that a new command is to stand still."""
    resample_s: tuple[float, float] = _varies((4.0, 10.0), "s", above=0.0, driven=(0.0, 0.0))
    """Time between new commands, uniform."""
    episode_s: float = setting(20.0, unit="s", at_least=0.1, driven=1e6)
    """Time limit of an episode (a truncation)."""
    fall_tilt: float = setting(1.0, unit="rad")
    """Angle of the base's up axis to the vertical that counts as a fall."""
    crouch: float = _varies(0.02, "m")
    """How far under its standing height the base should be."""
    velocity_sigma: float = _varies(0.15, "(m/s)^2", at_least=1e-6)
    """Scale of the velocity reward."""
    velocity_fine_sigma: float = _varies(0.04, "(m/s)^2", at_least=1e-6)
    """Scale of the fine velocity reward."""
    yaw_sigma: float = _varies(0.15, "(rad/s)^2", at_least=1e-6)
    """Scale of the yaw reward."""
    height_sigma: float = _varies(0.003, "m^2", at_least=1e-9)
    """Scale of the foot-height reward."""
    gait_period: float = setting(0.0, unit="s", at_least=0.0)
    """Duration of a gait cycle, in which each foot swings once; 0 is the robot's own."""
    swing_height: float = _varies(0.08, "m")
    """Height of the swing curve's top."""
    swing_fraction: float = _varies(0.45, at_least=0.0, at_most=0.95)
    """Part of the gait cycle in which a foot swings."""
    standing_phase: float = _varies(1.0, at_least=0.0, at_most=1.0)
    """Scale of the gait phase that the policy sees while the command is to stand still: 1 leaves it
    as it is, 0 hides it."""
    standing_phase_speed: float = _varies(0.0, "m/s", at_least=0.0)
    """Foot speed under the base along one axis, from gyro and joint rates, from which a policy that
    is to stand still sees the whole phase, and is rewarded for stepping by it: a push has moved the
    robot. 0: never."""
    recovery_speed: float = _varies(0.0, "m/s", at_least=0.0)
    """Horizontal base speed from which a robot that is to stand still is rewarded for stepping: a
    push has moved it. 0: never."""
    recovery_after_s: float = _varies(0.0, "s")
    """Time in an episode from which `recovery_speed` counts: a robot that has just begun falls, it
    does not stumble."""
    push_speed: float = _varies(1.2, "m/s", driven=0.0)
    """Largest sudden change of the base's horizontal velocity; 0 for none."""
    push_interval_s: float = _varies(5.0, "s", at_least=0.1)
    """Mean time between pushes."""
    push_sideways: float = _varies(0.0, at_least=0.0, at_most=1.0)
    """Share of pushes that come within 30 degrees of the robot's left or right, where a biped falls
    first; the others come from anywhere."""
    foresight: bool = setting(False, driven=False)
    """The critic sees the next push and the next command before they come. They are no consequence
    of an action, so a critic that knows them leaves less noise in the advantages (Mao et al. 2019,
    arXiv:1807.02264). The policy never sees them."""
    noise: float = _varies(1.0, at_least=0.0)
    """Scale of all observation noise; 0 for none."""
    randomize: bool = setting(True, driven=True)
    """Draw all that follows anew in every episode, down to the start pose."""
    friction: tuple[float, float] = _varies((0.3, 1.2), above=0.0)
    """Friction coefficient between feet and floor, uniform."""
    link_mass: tuple[float, float] = _varies((0.9, 1.1), above=0.0, driven=(1.0, 1.0))
    """Factor on every link's mass and inertia, uniform per link."""
    torso_mass: tuple[float, float] = _varies((-1.0, 3.0), "kg")
    """Mass added to the torso, uniform."""
    torso_offset: float = _varies(0.05, "m", driven=0.0)
    """Largest shift of the torso's centre of mass along each axis."""
    joint_friction: tuple[float, float] = _varies((0.5, 2.0), above=0.0, driven=(1.0, 1.0))
    """Factor on joint friction loss, log-uniform per joint."""
    joint_damping: tuple[float, float] = _varies((0.5, 2.0), above=0.0, driven=(1.0, 1.0))
    """Factor on the joints' own damping, log-uniform per joint."""
    armature: tuple[float, float] = _varies((0.9, 1.2), above=0.0, driven=(1.0, 1.0))
    """Factor on joint armature, uniform per joint."""
    kp: tuple[float, float] = _varies((0.9, 1.1), above=0.0, driven=(1.0, 1.0))
    """Factor on the motors' proportional gain, uniform per joint."""
    kd: tuple[float, float] = _varies((0.9, 1.1), above=0.0, driven=(1.0, 1.0))
    """Factor on the motors' derivative gain, uniform per joint."""
    torque_limit: tuple[float, float] = _varies((0.9, 1.1), above=0.0, driven=(1.0, 1.0))
    """Factor on the motors' largest torque, uniform per joint."""
    joint_offset: float = _varies(0.02, "rad", at_least=0.0, driven=0.0)
    """Largest error of a joint's zero: its encoder reads the angle and this, and the motor holds
    its target in the encoder's frame."""
    imu_tilt: float = _varies(0.0175, "rad", at_least=0.0, at_most=0.5, driven=0.0)
    """Largest rotation of the IMU in its mount about each axis; it turns gyro and gravity."""
    gyro_bias: float = _varies(0.05, "rad/s", at_least=0.0, driven=0.0)
    """Largest constant error of the gyro about each axis."""
    action_delay: tuple[float, float] = _varies(
        (-0.02, 0.02), "s", at_least=-1.0, driven=(0.0, 0.0)
    )
    """Time after which an action reaches the motors, uniform, rounded to physics steps; a control
    step at most. What is below 0 counts as 0: half of the robots have none. Where all are late, a
    policy learns to expect it."""
    observation_delay: tuple[float, float] = _varies(
        (-0.02, 0.02), "s", at_least=-1.0, driven=(0.0, 0.0)
    )
    """Age of what the policy sees of IMU and encoders, uniform: interpolated between the readings
    of this control step and of the one before; a control step at most. Below 0 as above."""
    dry_friction: bool = setting(True, driven=True)
    """Simulate the joints' dry friction; off, a physics step is a fifth cheaper."""
    start_yaw: float = _varies(3.1416, "rad", driven=0.0)
    """Largest heading at the start, to either side."""
    start_joint: float = _varies(0.1, "rad", driven=0.0)
    """Largest offset of a joint at the start."""
    start_velocity: float = _varies(0.3, "m/s, rad/s", driven=0.0)
    """Largest base velocity at the start."""
    reward: JoystickReward = setting(JoystickReward)


AHEAD = 7
"""Entries of the critic's observation that tell what is to come (`observations.ahead_entries`)."""


def observation_sizes(joints: int, feet: int, foresight: bool = False) -> tuple[int, int]:
    """Entries of the policy's and the critic's observation: (O, C)."""
    policy = 11 + 3 * joints
    return policy, policy + AHEAD * foresight + 5 + 2 * feet


def sizes(robot: Any, settings: JoystickConfig | None = None) -> tuple[int, int, int]:
    """Numbers in the policy's observation, in the critic's, and in one environment's state.

    They follow from the robot's joints and feet, so that a plan needs no simulator. `robot` is a
    RobotSpec. Source: episode.EnvState for the state.
    """
    foresight = settings is not None and settings.foresight
    joints, feet = len(robot.action_scale), len(robot.feet)
    bodies = joints + 2
    obs, critic = observation_sizes(joints, feet, foresight)
    physics = 3 * (joints + 7) + 8 * bodies + 2 * (joints + 6)
    return obs, critic, physics + 13 * 3 + 5 * foresight + joints + obs + critic


def more_numbers(stages: Sequence[JoystickConfig], robot: Any) -> int:
    """Numbers in one environment's state beside those of `sizes`, where a run has these stages.

    robot: a RobotSpec. Source: randomize.fields and sensors.Own.
    """
    if not stages[0].randomize:
        return 0
    parts, joints = parts_of([params_of(settings) for settings in stages]), len(robot.action_scale)
    return (
        22 * joints * parts.gains  # 10 gains, 10 biases and a range
        + (joints + 6) * parts.damping
        + joints * parts.zeros
        + 7 * parts.imu
        + parts.action_delay
        + (7 + 2 * joints) * parts.observation_delay
    )


STEPS_OF_A_CYCLE = 10
"""Control steps that a gait cycle has at least."""


def check_times(settings: JoystickConfig, robot: Any) -> None:
    """Raises UserError where a delay is longer than the robot's control step, or always below 0, or
    where a gait cycle has too few control steps.

    robot: a RobotSpec.
    """
    shortest = STEPS_OF_A_CYCLE * robot.control_dt
    if 0.0 < settings.gait_period < shortest - 1e-9:
        raise UserError(
            f"--joystick.gait-period must be at least {STEPS_OF_A_CYCLE} control steps, "
            f"{shortest:g} s, or 0 for the robot's own, got {settings.gait_period:g} s"
        )
    for name in ("action_delay", "observation_delay"):
        low, high = getattr(settings, name)
        name = name.replace("_", "-")
        if high < 0.0:
            raise UserError(
                f"--joystick.{name} must end at 0 s or above, got {low:g} {high:g}; "
                f"try --joystick.{name} {low:g} {robot.control_dt:g}"
            )
        if high > robot.control_dt + 1e-9:
            raise UserError(
                f"--joystick.{name} must be at most a control step, {1e3 * robot.control_dt:g} ms, "
                f"got {low:g} {high:g} s ({1e3 * high:g} ms); "
                f"try --joystick.{name} {min(low, robot.control_dt):g} {robot.control_dt:g}"
            )


def with_gait_period(settings: JoystickConfig, robot: Any) -> Any:
    """The RobotSpec with the settings' gait period in place of its own, where they give one."""
    if not settings.gait_period:
        return robot
    return replace(robot, gait_period=settings.gait_period)


ENTRY = TaskEntry(
    "joystick",
    JoystickConfig,
    lambda robot: bool(robot.feet),
    sizes,
    more_numbers,
    check_times,
    has_motion=True,
    configure=with_gait_period,
)
