"""Swing a pole up with a cart and balance it over the middle of the rail."""

from __future__ import annotations

from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np
from jax import Array

from jaxrl_hw.envs.physics.api import ModelParams, PhysState, nominal_params, state_at
from jaxrl_hw.envs.tasks.api import Outcome, Start, Task, uniform
from jaxrl_hw.envs.tasks.cartpole.settings import CartpoleConfig
from jaxrl_hw.types import Observation

FIELDS = ("body_mass", "body_inertia", "body_subtreemass")
OBS_SIZE = 5
NUMBERS = 3
"""Random numbers of a fresh episode."""
ENERGY, UPRIGHT, BALANCED = 0.3, 0.2, 0.5
RAIL_COST, EFFORT_COST = 0.1, 0.01
GRAVITY = 9.81
"""m/s^2"""


class CartpoleParams(NamedTuple):
    """The settings of the same names in `CartpoleConfig`."""

    start_angle: Any  # rad
    pole_mass: tuple[Any, Any]


def params_of(settings: CartpoleConfig) -> CartpoleParams:
    """The parameters of settings, as plain numbers."""
    return CartpoleParams(settings.start_angle, settings.pole_mass)


class CartpoleState(NamedTuple):
    """The task remembers nothing between steps but the last action."""

    action: Array  # [1]


def make(config: CartpoleConfig, robot: Any, model: Any) -> Task:
    """The task for the cartpole model: qpos = (cart m, pole rad, 0 upright), one motor.

    The reward per control step is at most 1: 0.3 for the energy of an upright pole at rest (which
    a spinning pole exceeds; the swing-up of Astrom and Furuta 2000), 0.2 for the pole's height, 0.5
    for being up and still at once, less small costs for leaving the middle and for effort.
    """
    nominal = nominal_params(model, FIELDS)
    at_home = state_at(model)

    def reset(p: CartpoleParams, key: Array) -> Start:
        params, physics = nominal, at_home
        if config.randomize:
            u = uniform(key, NUMBERS)
            params = _model_params(p, nominal, model.body("pole").id, u[0])
            offset = 2.0 * u[1:] - 1.0
            angle = at_home.qpos[1] + p.start_angle * offset[1]
            physics = at_home._replace(qpos=jnp.stack([0.5 * offset[0], angle]))
        return Start(physics, params, CartpoleState(jnp.zeros(1)), _observe(physics))

    def outcome(
        p: CartpoleParams,
        state: CartpoleState,
        params: ModelParams,
        physics: PhysState,
        sensordata: Array,
        action: Array,
        key: Array,
    ) -> Outcome:
        (cart, angle), spin = physics.qpos, physics.qvel[1]
        # of a uniform rod of length 1 m, over its potential energy upright; 0 when up at rest
        excess = spin**2 / (3.0 * GRAVITY) + jnp.cos(angle) - 1.0
        rewards = {
            "energy": ENERGY / (1.0 + excess**2),
            "upright": UPRIGHT * 0.5 * (1.0 + jnp.cos(angle)),
            "balanced": BALANCED * jnp.exp(-5.0 * (1.0 - jnp.cos(angle)) - 0.1 * spin**2),
            "centred": -RAIL_COST * cart**2,
            "effort": -EFFORT_COST * jnp.sum(jnp.clip(action, -1.0, 1.0) ** 2),
        }
        diagnostics = {"upright_share": (jnp.cos(angle) > 0.9).astype(jnp.float32)}
        obs, state = _observe(physics), CartpoleState(action)
        return Outcome(physics, state, obs, rewards, jnp.zeros((), bool), diagnostics)

    return Task(
        name="cartpole",
        obs_size=OBS_SIZE,
        critic_size=OBS_SIZE,
        action_size=1,
        episode_steps=round(config.episode_s / robot.control_dt),
        fields=FIELDS,
        symmetry=None,
        reset=reset,
        control=lambda params, state, action: np.float32(robot.action_scale) * action,
        outcome=outcome,
        params=params_of(config),
        params_of=params_of,
        numbers=(NUMBERS, 0),
        stagger=True,
    )


def _model_params(p: CartpoleParams, nominal: ModelParams, pole: int, u: Array) -> ModelParams:
    """Model values with another mass of the pole, a body's id, by a uniform number u []."""
    low, high = (jnp.asarray(bound, jnp.float32) for bound in p.pole_mass)
    factor = low + (high - low) * u
    added = nominal["body_mass"][pole] * (factor - 1.0)
    return {
        "body_mass": nominal["body_mass"].at[pole].add(added),
        "body_inertia": nominal["body_inertia"].at[pole].multiply(factor),
        # the pole hangs on the cart, the cart on the world: all three carry its mass
        "body_subtreemass": nominal["body_subtreemass"].at[: pole + 1].add(added),
    }


def _observe(physics: PhysState) -> Observation:
    """Cart m, cos and sin of the pole's angle, velocities m/s and rad/s, both scaled down."""
    cart, angle = physics.qpos
    speed, spin = physics.qvel
    entries = jnp.stack([cart, jnp.cos(angle), jnp.sin(angle), 0.5 * speed, 0.2 * spin])
    return Observation(entries, entries)
