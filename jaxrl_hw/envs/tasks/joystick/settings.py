"""The joystick task's settings: what is asked of a legged robot, and what that pays."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class JoystickReward:
    """Weights of the reward terms, per second of time in the term's own units.

    A term's reward per control step is weight * value * control_dt; `fall` is paid once.
    """

    velocity: float = 3.0
    """exp(-|v_xy - command|^2 / velocity_sigma), base frame."""
    velocity_fine: float = 0.0
    """exp(-|v_xy - command|^2 / velocity_fine_sigma): a narrow peak on the wide one, which leads
    there."""
    yaw_rate: float = 1.5
    """exp(-(yaw rate - command)^2 / yaw_sigma)."""
    foot_height: float = 8.0
    """exp(-sum over feet of e^2 / height_sigma): e is how far a swinging foot is below the swing
    curve, or a standing one above the floor."""
    foot_contact: float = 0.8
    """Per foot: 1 where contact agrees with the phase's stance or swing."""
    slip: float = -0.3
    """Squared horizontal speed of feet in contact, (m/s)^2."""
    landing: float = 0.0
    """Squared speed, (m/s)^2, at which feet within 3 cm of where they stand come down; of robots
    that are not told to stand."""
    vertical_velocity: float = -1.0
    """Squared vertical velocity of the base, (m/s)^2."""
    roll_pitch_rate: float = -0.1
    """Squared roll and pitch rates, (rad/s)^2."""
    tilt: float = -2.0
    """Squared horizontal part of the gravity direction in the base frame."""
    base_height: float = -10.0
    """Squared deviation of the base's height from its target, m^2."""
    action_rate: float = -0.01
    """Squared change of the action between control steps."""
    velocity_error: float = -2.0
    """|v_xy - command|, m/s."""
    yaw_error: float = -1.0
    """|yaw rate - command|, rad/s."""
    power: float = -0.002
    """Mechanical power, W: the sum over joints of |torque * velocity|."""
    walking_power: float = 0.0
    """The same, W, of robots that are not told to stand."""
    torque: float = 0.0
    """Squared motor torque as a fraction of its limit, summed over joints."""
    joint_limit: float = -5.0
    """How far joints are beyond the soft part of their range, rad."""
    posture: float = -1.0
    """Squared deviation from the home pose, weighted by the robot's posture weights, rad^2."""
    stand_still: float = -1.0
    """Squared deviation of all joints from home while the command is zero, rad^2."""
    alive: float = 0.05
    """1 in every step that is not a fall."""
    fall: float = -2.0
    """1 in the step of a fall; paid once, not per second."""


@dataclass(frozen=True)
class JoystickLater:
    """What counts from one iteration of a run on, in place of the settings of the same names: a
    robot that has yet to learn to walk is asked for less."""

    iteration: int = 0
    """The iteration; counted from the run's start, not from its goal. 0: never."""
    zero_command: float = 0.25
    """Probability that a new command is to stand still: pushed, who stands falls first."""
    recovery_speed: float = 0.4
    """Horizontal base speed, m/s, from which a robot that is told to stand is paid for stepping."""
    yaw_rate: float = 2.0
    """Weight of that reward term."""
    walking_power: float = -0.01
    """Weight of that reward term: whoever falls learns nothing from dear power."""
    landing: float = -5.0
    """Weight of that reward term: soft landings are for who lifts its feet."""
    fall: float = -5.0
    """Weight of that reward term."""


@dataclass(frozen=True)
class JoystickLast(JoystickLater):
    """The same once more, from a later iteration on: a robot that walks and stands is asked to come
    through anything, and to be exact."""

    zero_command: float = 0.45
    recovery_speed: float = 0.45
    standing_phase_speed: float = 0.45
    """Foot speed under the base, m/s, from which who is told to stand sees all of the clock."""
    velocity_fine: float = 2.2
    """Weight of that reward term."""
    walking_power: float = -0.030
    fall: float = -15.0


@dataclass(frozen=True)
class JoystickFinish(JoystickLast):
    """And once more, for the end: a gait that dear power has made cheap stays so where power is
    less dear again, and becomes exact; pushed more often, it practises what a push takes."""

    recovery_speed: float = 0.35
    standing_phase_speed: float = 0.35
    push_interval_s: float = 2.5
    """Mean seconds between pushes."""
    walking_power: float = -0.018
    velocity_fine: float = 2.7
    foot_height: float = 1.5
    """Weight of that reward term: feet that have learned to leave the ground may swing lower."""


STRETCHES = ("later", "last", "finish")
"""What follows the first stretch of a run, in this order."""


@dataclass(frozen=True)
class JoystickConfig:
    """Follow a commanded planar velocity and yaw rate."""

    vx: tuple[float, float] = (-1.0, 1.0)
    """Range of the commanded forward velocity, m/s."""
    vy: tuple[float, float] = (-0.5, 0.5)
    """Range of the commanded leftward velocity, m/s."""
    yaw_rate: tuple[float, float] = (-1.0, 1.0)
    """Range of the commanded yaw rate, rad/s."""
    zero_command: float = 0.15
    """Probability that a new command is to stand still."""
    resample_s: tuple[float, float] = (4.0, 10.0)
    """Seconds between new commands, uniform."""
    episode_s: float = 20.0
    """Time limit of an episode, s (a truncation)."""
    fall_tilt: float = 1.0
    """Angle of the base's up axis to the vertical that counts as a fall, rad."""
    crouch: float = 0.02
    """How far under its standing height the base should be, m."""
    velocity_sigma: float = 0.15
    """Scale of the velocity reward, (m/s)^2."""
    velocity_fine_sigma: float = 0.04
    """Scale of the fine velocity reward, (m/s)^2."""
    yaw_sigma: float = 0.15
    """Scale of the yaw reward, (rad/s)^2."""
    height_sigma: float = 0.003
    """Scale of the foot-height reward, m^2."""
    swing_height: float = 0.08
    """Height of the swing curve's top, m."""
    swing_exponent: float = 1.0
    """Power of the half sine that a swinging foot follows: at 2 it lands and leaves at no speed."""
    swing_fraction: float = 0.45
    """Part of the gait cycle that a foot swings."""
    standing_phase: float = 1.0
    """Size at which the policy sees the gait's clock while it is told to stand still: 1 is as ever,
    0 is not at all."""
    standing_phase_speed: float = 0.0
    """Speed of a foot under the base along one axis, m/s, as gyro and joint rates tell it, from
    which the policy sees all of the clock even so, and is paid for stepping by it: a push has set
    the robot off. 0: never."""
    recovery_speed: float = 0.0
    """Horizontal base speed, m/s, from which a robot that is told to stand is paid for stepping: a
    push has set it off. 0 never pays for that."""
    recovery_after_s: float = 0.0
    """Seconds of an episode from which that counts: who has just begun falls, not stumbles."""
    push_speed: float = 1.2
    """Largest sudden change of the base's horizontal velocity, m/s; 0 for none."""
    push_interval_s: float = 5.0
    """Mean seconds between pushes."""
    noise: float = 1.0
    """Scale of all observation noise; 0 for none."""
    randomize: bool = True
    """Randomize friction, masses, torso offset, joint friction and armature, and start pose."""
    friction: tuple[float, float] = (0.3, 1.25)
    """Floor friction coefficient, uniform."""
    link_mass: tuple[float, float] = (0.9, 1.1)
    """Factor on every link's mass and inertia, uniform per link."""
    torso_mass: tuple[float, float] = (-1.0, 3.0)
    """Mass added to the torso, kg, uniform."""
    torso_offset: float = 0.03
    """Largest shift of the torso's centre of mass along each axis, m."""
    joint_friction: tuple[float, float] = (0.5, 2.0)
    """Factor on joint friction loss, log-uniform per joint."""
    armature: tuple[float, float] = (0.9, 1.2)
    """Factor on joint armature, uniform per joint."""
    dry_friction: bool = True
    """Simulate the joints' dry friction; off, a physics step is a fifth cheaper."""
    self_collision: bool = True
    """Parts of the robot meet each other where its model has contact pairs for them; off, only
    soles and floor do."""
    start_yaw: float = 3.1416
    """Largest heading at the start, rad, to either side."""
    start_joint: float = 0.1
    """Largest offset of a joint at the start, rad."""
    start_velocity: float = 0.3
    """Largest base velocity at the start, m/s and rad/s."""
    reward: JoystickReward = field(default_factory=JoystickReward)
    later: JoystickLater = field(default_factory=JoystickLater)
    last: JoystickLast = field(default_factory=JoystickLast)
    finish: JoystickFinish = field(default_factory=JoystickFinish)


def sizes(robot: Any) -> tuple[int, int, int]:
    """Numbers in the policy's observation, in the critic's, and in one environment's state.

    They follow from the robot's joints and feet, so that a plan needs no simulator. `robot` is a
    RobotSpec. Sources: observations.py for the observations, episode.EnvState for the state.
    """
    joints, feet = len(robot.action_scale), len(robot.feet)
    bodies = joints + 2
    obs = 11 + 3 * joints
    critic = obs + 5 + 2 * feet
    physics = 3 * (joints + 7) + 8 * bodies + 2 * (joints + 6)
    return obs, critic, physics + 13 * 3 + joints + obs + critic
