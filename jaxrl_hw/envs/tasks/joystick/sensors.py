"""What a robot's IMU and encoders read: late, biased, tilted, from wrong zeros."""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np
from jax import Array

from jaxrl_hw.envs.tasks.joystick import geometry
from jaxrl_hw.envs.tasks.joystick.observations import Readings

Own = dict[str, Array]
"""What a robot has of its own beside its model, and keeps for an episode; of these what the task
simulates (`params.Parts`):

    joint_offset       [A] rad, encoder minus joint angle
    imu_quat           [4] unit, wxyz, IMU to base
    gyro_bias          [3] rad/s, frame of the IMU
    action_delay       [] physics steps
    observation_delay  [] control steps, 0 to 1
    measured           [6 + 2 A] what `_measured` gives of the last control step
"""
NOTHING: Own = {}


def seen(own: Own, readings: Readings) -> Readings:
    """The readings as the policy's sensors give them.

    Late ones lie on the line between those of this control step and of the last one. That is exact
    for what moves evenly, and needs one older reading, whatever the delay.
    """
    if "measured" in own:
        now = _measured(readings)
        late = now + own["observation_delay"] * (own["measured"] - now)
        joints = len(readings.joint)
        gyro, gravity, joint, velocity = jnp.split(late, np.cumsum([3, 3, joints]))
        readings = readings._replace(
            gyro=gyro, gravity=gravity, joint=joint, joint_velocity=velocity
        )
    if "imu_quat" in own:
        gyro, gravity = (
            geometry.rotate_inverse(own["imu_quat"], vector)
            for vector in (readings.gyro, readings.gravity)
        )
        readings = readings._replace(gyro=gyro + own["gyro_bias"], gravity=gravity)
    if "joint_offset" in own:
        readings = readings._replace(joint=readings.joint + own["joint_offset"])
    return readings


def remembered(own: Own, readings: Readings) -> Own:
    """`own` for the next control step, where these readings are the last ones."""
    return {**own, "measured": _measured(readings)} if "observation_delay" in own else own


def _measured(readings: Readings) -> Array:
    r = readings
    return jnp.concatenate([r.gyro, r.gravity, r.joint, r.joint_velocity])
