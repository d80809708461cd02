"""Every reward term of the joystick task against numbers worked out by hand."""

from __future__ import annotations

from dataclasses import fields, replace

import jax
import jax.numpy as jnp
import pytest

from jaxrl_hw.config.factory import make_task
from jaxrl_hw.config.schema import Config
from jaxrl_hw.envs.tasks.joystick.rewards import ONCE, TERMS, Signals, weighted
from jaxrl_hw.envs.tasks.joystick.settings import JoystickConfig, JoystickReward
from jaxrl_hw.envs.vector import make_vector_env

SIGNALS = Signals(
    command=jnp.array([0.5, 0.0, 1.0]),
    standing=jnp.array(True),
    velocity=jnp.array([0.2, 0.4, -0.3]),
    angular_velocity=jnp.array([0.1, -0.2, 0.7]),
    gravity=jnp.array([0.6, 0.0, -0.8]),
    height_error=jnp.array(-0.05),
    joint=jnp.array([0.1, -0.2, 0.3]),
    beyond_limit=jnp.array([0.0, 0.02, 0.03]),
    power=jnp.array(80.0),
    action=jnp.array([1.0, 0.0, -1.0]),
    last_action=jnp.array([0.5, 0.0, 1.0]),
    posture=jnp.array([0.0, 1.0, 2.0]),
    foot_height=jnp.array([0.01, 0.05]),
    foot_speed=jnp.array([0.3, 2.0]),
    foot_sinking=jnp.array([0.2, 0.7]),
    contact=jnp.array([True, False]),
    self_contacts=jnp.array(3.0),
    stance=jnp.array([True, False]),
    swing_height=jnp.array([0.0, 0.08]),
    fell=jnp.array(True),
    velocity_sigma=0.25,
    velocity_fine_sigma=0.125,
    yaw_sigma=0.18,
    height_sigma=0.002,
)
BY_HAND = {
    "velocity": 0.3678794,  # 0.3^2 + 0.4^2 = 0.25: exp(-1)
    "velocity_fine": 0.1353353,  # 0.25 / 0.125: exp(-2)
    "yaw_rate": 0.6065307,  # 0.3^2 / 0.18: exp(-0.5)
    "foot_height": 0.6065307,  # (0.01^2 + 0.03^2) / 0.002: exp(-0.5)
    "foot_contact": 2.0,  # one is to stand and does, one is to swing and does
    "slip": 0.09,  # 0.3^2; the fast foot is in the air
    "landing": 0.04,  # 0.2^2; the other foot is 5 cm up
    "self_contact": 3.0,
    "vertical_velocity": 0.09,
    "roll_pitch_rate": 0.05,  # 0.1^2 + 0.2^2
    "tilt": 0.36,
    "base_height": 0.0025,
    "action_rate": 4.25,  # 0.5^2 + 2^2
    "velocity_error": 0.5,
    "yaw_error": 0.3,
    "power": 80.0,
    "walking_power": 80.0,
    "joint_limit": 0.05,
    "posture": 0.22,  # 1 * 0.2^2 + 2 * 0.3^2
    "stand_still": 0.14,  # 0.1^2 + 0.2^2 + 0.3^2
    "alive": 0.0,
    "fall": 1.0,
}


@pytest.mark.parametrize("term", sorted(BY_HAND))
def test_a_term_has_the_value_worked_out_by_hand(term: str) -> None:
    assert float(TERMS[term](SIGNALS)) == pytest.approx(BY_HAND[term], rel=1e-5)


def test_there_is_a_weight_and_a_figure_for_every_term() -> None:
    assert {field.name for field in fields(JoystickReward)} == set(TERMS) == set(BY_HAND)


def test_terms_that_ask_for_standing_still_and_being_up_are_zero_otherwise() -> None:
    going = SIGNALS._replace(standing=jnp.array(False), fell=jnp.array(False))
    assert float(TERMS["stand_still"](going)) == 0.0
    assert float(TERMS["alive"](going)) == 1.0
    assert float(TERMS["fall"](going)) == 0.0


def test_a_swinging_foot_may_be_higher_than_its_curve_a_standing_one_may_not() -> None:
    def height(first: float, second: float) -> float:
        return float(TERMS["foot_height"](SIGNALS._replace(foot_height=jnp.array([first, second]))))

    assert height(0.0, 0.08) == height(0.0, 0.2) == 1.0
    assert height(0.0, 0.06) < height(0.0, 0.07) < 1.0
    assert height(0.02, 0.08) < height(0.01, 0.08) < 1.0


def test_a_foot_that_disagrees_with_the_gait_is_not_paid() -> None:
    for contact, feet in (((True, True), 1.0), ((False, True), 0.0)):
        assert float(TERMS["foot_contact"](SIGNALS._replace(contact=jnp.array(contact)))) == feet


@pytest.mark.parametrize("term", ["walking_power", "landing"])
def test_what_is_asked_of_walking_is_free_for_who_is_told_to_stand(term: str) -> None:
    assert float(TERMS[term](SIGNALS._replace(command=jnp.zeros(3)))) == 0.0


def test_weights_are_per_second_and_a_fall_is_paid_once() -> None:
    parts = weighted(SIGNALS, dict.fromkeys(TERMS, 2.0), dt=0.02)
    for name, value in BY_HAND.items():
        wanted = 2.0 * value * (1.0 if name == "fall" else 0.02)
        assert float(parts[name]) == pytest.approx(wanted, rel=1e-5)
    assert frozenset({"fall"}) == ONCE


def test_a_term_whose_weight_is_zero_in_every_stage_is_left_out() -> None:
    names = {}
    for later in (0.0, -1.0):
        weights = JoystickReward(**{name: 0.0 for name in TERMS if name not in ("slip", "tilt")})
        config = Config(robot="g1_12dof", physics="native", num_envs=2)
        task, physics = make_task(replace(config, joystick=JoystickConfig(reward=weights)))
        then = task.params._replace(reward={**task.params.reward, "power": later})
        env = make_vector_env(task, physics, 2, [(0, task.params), (100, then)])
        form = jax.eval_shape(lambda key, env=env: env.reset(key), jax.random.key(0))
        _, step = jax.eval_shape(env.step, form, jnp.zeros((2, 12)), jax.random.key(0))
        names[later] = set(step.rewards)
    assert names == {0.0: {"slip", "tilt"}, -1.0: {"slip", "tilt", "power"}}
