"""What a legged robot's policy and critic see, in the order of unitree_rl_gym's deployment."""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from jaxrl_hw.envs.tasks.joystick import geometry
from jaxrl_hw.envs.tasks.joystick.commands import STANDING_SPEED
from jaxrl_hw.envs.tasks.joystick.settings import observation_sizes
from jaxrl_hw.types import Observation, PhaseMask, SignedPermutation, Symmetry

VELOCITY_SCALE = 2.0


class Entry(NamedTuple):
    """A part of the policy's observation: readings, multiplied by a scale."""

    name: str
    size: int
    scale: Any
    noise: float  # amplitude of uniform noise, as in unitree_rl_gym's training, in `unit`
    unit: str


def entries(joints: int) -> tuple[Entry, ...]:
    """The parts of the policy's observation [O] in the order of the deployment contract.

    Commands, actions and phase are known exactly.
    """
    return (
        Entry("gyro", 3, 0.25, 0.2, "rad/s, base frame"),
        Entry("gravity", 3, 1.0, 0.05, "unit vector, base frame"),
        Entry("command", 3, [2.0, 2.0, 0.25], 0.0, "m/s, m/s, rad/s, base frame"),
        Entry("joint_position", joints, 1.0, 0.01, "rad, from default_pose"),
        Entry("joint_velocity", joints, 0.05, 1.5, "rad/s"),
        Entry("last_action", joints, 1.0, 0.0, "as the policy gave it"),
        Entry("phase", 2, 1.0, 0.0, "sin and cos of 2 pi t / gait_period"),
    )


class Readings(NamedTuple):
    """What the observations are made of, without noise."""

    gyro: Array  # [3] rad/s, base frame
    gravity: Array  # [3] unit vector, base frame
    command: Array  # [3] m/s, m/s, rad/s
    joint: Array  # [A] rad, from home
    joint_velocity: Array  # [A] rad/s
    action: Array  # [A], the last one
    phase: Array  # [] gait phase as a fraction of the cycle
    velocity: Array  # [3] m/s, base frame; from here on only the critic knows
    base_height: Array  # [] m, above the standing height
    foot_height: Array  # [F] m
    foot_contact: Array  # [F] 0 or 1
    friction: Array  # [] floor friction coefficient
    ahead: Array  # [7] of `ahead_entries`, or [0]


def ahead_entries(
    quat: Array, command: Array, next_command: Array, push: Array, waits: tuple[Array, Array]
) -> Array:
    """What the critic sees of what is to come [7]: the nearness of the next push, that push in the
    base frame, the nearness of the next command, and the change that it brings.

    Nearness is 1 now and falls by e in `_SOON_S`; it scales what comes, so that what is far off
    does not show.

    Args:
      quat: [4] of the base, wxyz.
      command, next_command: [3].
      push: [2] m/s, in the frame of the heading.
      waits: [] s until the push and until the command.
    """
    pushed, told = (jnp.exp(-wait / _SOON_S) for wait in waits)
    kick = geometry.from_heading(quat, push)
    kick = geometry.rotate_inverse(quat, jnp.append(kick, 0.0))[:2]
    change = (next_command - command) * jnp.array([VELOCITY_SCALE, VELOCITY_SCALE, 1.0])
    return jnp.concatenate([pushed[None], pushed * kick, told[None], told * change])


_SOON_S = 0.5
"""About as far ahead as a discount of 0.97 per control step of 20 ms looks."""


def policy_entries(r: Readings) -> Array:
    """The policy's observation [O], without noise."""
    angle = 2.0 * jnp.pi * r.phase
    clock = jnp.stack([jnp.sin(angle), jnp.cos(angle)])
    parts = (r.gyro, r.gravity, r.command, r.joint, r.joint_velocity, r.action, clock)
    scales = (np.float32(entry.scale) for entry in entries(r.joint.shape[0]))
    return jnp.concatenate([part * scale for part, scale in zip(parts, scales, strict=True)])


def normalized_like(noise: Array, command: Array, phase: Array, size: Array) -> Array:
    """A normalized policy observation [O] with a known command and phase.

    Args:
      noise: [O] of unit variance, for all other entries.
      command: [3] in standard deviations of the commands that are drawn.
      phase: [] of the gait, 0 to 1.
      size: [] scale at which the policy sees the phase, 0 to 1.
    """
    angle = 2.0 * jnp.pi * phase
    clock = jnp.stack([jnp.sin(angle), jnp.cos(angle)])
    # a sine's variance is 1/2
    return noise.at[6:9].set(command).at[-2:].set(jnp.sqrt(2.0) * size * clock)


def phase_mask(standing_phase: Any, feet: np.ndarray, fastest: Any) -> PhaseMask:
    """A phase that a standing robot sees scaled down.

    Args:
      standing_phase: its scale while the command is to stand still and no foot is faster.
      feet: [3 + A, K], rates of gyro and joints, rad/s -> velocities of the feet, m/s.
      fastest: m/s; 0 for feet of any speed.
    """
    joints = len(feet) - 3
    scale = {entry.name: np.float32(entry.scale) for entry in entries(joints)}
    size, _ = observation_sizes(joints, 0)
    told = np.zeros((size, 3), np.float32)
    told[6:9] = np.diag(1.0 / (scale["command"] * STANDING_SPEED))
    moves = np.zeros((size, feet.shape[1]), np.float32)
    moves[:3] = feet[:3] / scale["gyro"]
    moves[9 + joints : 9 + 2 * joints] = feet[3:] / scale["joint_velocity"]
    phase = np.zeros(size, np.float32)
    phase[-2:] = 1.0
    traced = any(isinstance(x, jax.Array) for x in (standing_phase, fastest))
    xp: Any = jnp if traced else np  # JAX would compile a program for each operation
    foot_speeds = xp.where(fastest > 0.0, moves / xp.maximum(fastest, 1e-6), 0.0)
    motion = xp.concatenate([told, foot_speeds], axis=1).astype(xp.float32)
    return PhaseMask(motion, phase * xp.float32(1.0 - standing_phase))


def observe(r: Readings, seen: Readings, unit_noise: Array, scale: Any) -> Observation:
    """Both observations.

    Args:
      r: the truth, which the critic knows.
      seen: what the policy's sensors read.
      unit_noise: [O], uniform in [-1, 1].
      scale: factor on all of the policy's noise.
    """
    parts = entries(r.joint.shape[0])
    amplitudes = np.concatenate([np.full(e.size, e.noise) * e.scale for e in parts])
    noise = unit_noise * amplitudes.astype(np.float32) * scale
    critic = jnp.concatenate(
        [
            policy_entries(r),
            r.ahead,
            r.velocity * VELOCITY_SCALE,
            r.base_height[None] * 5.0,
            r.foot_height * 10.0,
            r.foot_contact,
            r.friction[None],
        ]
    )
    return Observation(policy_entries(seen) + noise, critic)


def symmetry(mirror: Any, foresight: bool = False) -> Symmetry:
    """Reflection through the robot's xz plane, from its `robots.spec.Mirror`.

    Vectors flip y, rotation vectors flip x and z, and the gait is half a cycle on, which turns
    the sine and the cosine of the phase around.
    """
    joints = SignedPermutation(np.array(mirror.joint_perm), np.array(mirror.joint_sign, np.float32))
    feet = SignedPermutation(np.array(mirror.foot_perm), np.ones(len(mirror.foot_perm), np.float32))
    gyro, gravity, command = _signs(-1, 1, -1), _signs(1, -1, 1), _signs(1, -1, -1)
    policy = _concatenate([gyro, gravity, command, joints, joints, joints, _signs(-1, -1)])
    ahead = [_signs(1, 1, -1), _signs(1, 1, -1, -1)] if foresight else []
    seen = [_signs(1, -1, 1), _signs(1), feet, feet, _signs(1)]
    critic = _concatenate([policy, *ahead, *seen])
    return Symmetry(policy, critic, joints)


def _signs(*sign: int) -> SignedPermutation:
    return SignedPermutation(np.arange(len(sign)), np.array(sign, np.float32))


def _concatenate(parts: list[SignedPermutation]) -> SignedPermutation:
    """The map of several parts laid end to end."""
    sizes = np.cumsum([0] + [len(p.perm) for p in parts])
    perm = [np.asarray(p.perm) + start for p, start in zip(parts, sizes, strict=False)]
    return SignedPermutation(np.concatenate(perm), np.concatenate([p.sign for p in parts]))
