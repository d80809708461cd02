"""What the rest of the library needs to know of a robot that its MJCF cannot say.

Importing this module loads neither MuJoCo nor JAX: a command can list and check robots before it
decides where to run. Frames: x forward, y left, z up. Units: m, rad, s, kg, N m.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from jaxrl_hw.errors import UserError, suggest

if TYPE_CHECKING:
    import mujoco


@dataclasses.dataclass(frozen=True)
class Mirror:
    """Left-right reflection of a robot through its xz plane.

    A pose `joints` and its mirror image are related by
    `mirrored[i] = joint_sign[i] * joints[joint_perm[i]]`; mirroring twice gives the pose back.
    """

    joint_perm: tuple[int, ...]
    """Index of the joint on the other side; joints are counted without the free joint."""
    joint_sign: tuple[float, ...]
    """+1 for axes along y (pitch), -1 for axes along x or z (roll, yaw)."""
    foot_perm: tuple[int, ...]
    """Index, in `RobotSpec.feet`, of the foot on the other side."""

    def __post_init__(self) -> None:
        for name in ("joint_perm", "foot_perm"):
            perm = getattr(self, name)
            if any(not 0 <= j < len(perm) or perm[j] != i for i, j in enumerate(perm)):
                raise ValueError(f"Mirror.{name} must swap pairs of indices: got {perm}")
        if len(self.joint_sign) != len(self.joint_perm):
            raise ValueError(
                f"Mirror.joint_sign has {len(self.joint_sign)} entries "
                f"for {len(self.joint_perm)} joints"
            )


@dataclasses.dataclass(frozen=True)
class Gains:
    """Gains of all motors, and how far an action moves their targets. Per actuator, [A] each."""

    kp: tuple[float, ...]
    """N m/rad."""
    kd: tuple[float, ...]
    """N m s/rad."""
    action_scale: tuple[float, ...]
    """rad of joint target per unit of action."""

    def set_on(self, model: mujoco.MjModel) -> None:
        """Give a model's actuators these gains. The keyframes' targets move with them, so that they
        hold the same torques: ctrl = q + (old ctrl - q) old kp / kp."""
        joints = model.jnt_qposadr[model.actuator_trnid[:, 0]]
        pose = model.key_qpos[:, joints]
        model.key_ctrl[:] = pose + (model.key_ctrl - pose) * model.actuator_gainprm[:, 0] / self.kp
        model.actuator_gainprm[:, 0] = self.kp
        model.actuator_biasprm[:, 1] = [-kp for kp in self.kp]
        model.actuator_biasprm[:, 2] = [-kd for kd in self.kd]


@dataclasses.dataclass(frozen=True)
class RobotSpec:
    """A robot: where its MJCF is and the figures that training it needs.

    The MJCF keeps these promises. A keyframe "home": its qpos is the pose that actions are relative
    to, its ctrl holds that pose against gravity (so ctrl differs from the pose a little). A geom
    "floor" whose friction decides every foot contact (priority 1). A camera "track". And for a
    legged robot the sites "imu", FOOT and FOOT_zone and the sensors gyro, linvel, upvector (site
    imu; rad/s and m/s in the frame of the site, unit vector in the world frame) and per foot
    FOOT_pos, FOOT_vel (m, m/s, world frame), FOOT_up (unit vector, world frame) and FOOT_force
    (normal force, N). Where it has the contact sensors "contacts" (all that touch) and
    "floor_contacts", the robot's parts that touch each other are counted.
    Actuators come in the order of the joints; a joint's target is `home + action_scale * action`.
    """

    name: str
    mjcf: Path | None
    """Absolute path of the model; None for another library's environment, which brings its own."""
    task: str
    """Task trained when none is named, such as "joystick"."""
    action_scale: tuple[float, ...]
    """Per actuator: rad (of joint target) per unit of action; for a motor, ctrl per unit."""
    timestep: float
    """Physics step for training, s."""
    control_dt: float = 0.02
    """Time between two actions, s: a whole number of timesteps."""
    base: str = ""
    """Body that carries the free joint; "" where the base is fixed to the world."""
    torso: str = ""
    """Body whose mass and centre of mass are randomized; a legged robot needs it."""
    feet: tuple[str, ...] = ()
    """Foot names; each names a site and, with its suffixes, sensors."""
    gait_offsets: tuple[float, ...] = ()
    """Phase of each foot as a fraction of the gait cycle, in the order of `feet`."""
    gait_period: float = 1.0
    """Duration of a gait cycle, s."""
    base_height: float = 0.0
    """Height of the base's origin in the keyframe "home", m. Unused where `base` is ""."""
    fall_height: float = -math.inf
    """A base lower than this has fallen, m. Unused where `base` is ""."""
    posture: tuple[float, ...] = ()
    """Per joint: weight (>= 0) of the penalty for leaving the home pose."""
    mirror: Mirror | None = None
    """Left-right reflection, or None for a robot without that symmetry."""
    soft_limit: float = 0.95
    """Fraction of each joint's range, about its middle, that a policy may use freely."""
    other_mjcf: Path | None = None
    """Absolute path of another model of the same robot, which keeps the same promises: other shapes
    of feet and legs, another floor, another armature. Policies are evaluated on it, never
    trained."""
    mjx_bounds: tuple[int, int] | None = None
    """Iterations of MJX's solver, and trips of its line search: the fewest that are exact enough by
    benchmarks/physics_settings.py. None, for a robot that was not measured, takes MJX's usual
    ones (`envs.physics.mjx.BOUNDS`)."""
    deploy_name: str = ""
    """Name of the YAML that `export` writes for a deployment; "" is the robot's own name."""
    gain_sets: Mapping[str, Gains] = dataclasses.field(default_factory=dict, hash=False)
    """Other gains that the robot can be driven with, by name."""
    gains: Gains | None = None
    """Gains in place of those of the MJCF; `with_gains` sets them, and action_scale."""

    def __post_init__(self) -> None:
        if fault := next(self._faults(), ""):
            raise ValueError(f'robot "{self.name}": {fault}')

    def _faults(self) -> Iterator[str]:
        feet = f"for {len(self.feet)} feet"
        if len(self.gait_offsets) != len(self.feet):
            yield f"{len(self.gait_offsets)} gait_offsets {feet}"
        if abs(self.substeps * self.timestep - self.control_dt) > 1e-9 or self.substeps < 1:
            step = f"timesteps of {self.timestep} s"
            yield f"control_dt {self.control_dt} s is not a whole number of {step}"
        for name, gains in self.gain_sets.items():
            sizes = {len(gains.kp), len(gains.kd), len(gains.action_scale)}
            if sizes != {len(self.action_scale)}:
                yield f"gain set {name} must have {len(self.action_scale)} values of each kind"
        if any(weight < 0 for weight in self.posture):
            yield f"posture weights must be >= 0: {self.posture}"
        if self.mirror is not None and len(self.mirror.foot_perm) != len(self.feet):
            yield f"mirror.foot_perm has {len(self.mirror.foot_perm)} entries {feet}"

    @property
    def substeps(self) -> int:
        """Physics steps per control step."""
        return round(self.control_dt / self.timestep)

    def with_gains(self, name: str) -> RobotSpec:
        """The robot driven with one of its `gain_sets`; "" keeps the MJCF's gains.

        Raises:
          UserError: it has none of that name.
        """
        if not name:
            return self
        if name not in self.gain_sets:
            allowed = "".join(f"{known} or " for known in self.gain_sets)
            raise UserError(
                f'--gains must be {allowed}"" (its model\'s) for robot {self.name}, got "{name}"'
                f"{suggest(name, self.gain_sets)}"
            )
        found = self.gain_sets[name]
        return dataclasses.replace(self, gains=found, action_scale=found.action_scale)

    def load(self, timestep: float | None = None) -> mujoco.MjModel:
        """Compile the robot's MJCF with all that is only looked at; `physics.model.compile_model`
        leaves that out.

        timestep: physics step, s; None keeps the training step `self.timestep`.
        Raises ValueError where there is no MJCF.
        """
        import mujoco

        if self.mjcf is None:
            raise ValueError(f"robot {self.name} has no MJCF: see `config.factory.shown_model`")

        spec = mujoco.MjSpec.from_file(str(self.mjcf))
        spec.option.timestep = self.timestep if timestep is None else timestep
        model = spec.compile()
        if self.gains is not None:
            self.gains.set_on(model)
        return model
