"""Keys and sticks change the command within what the policy was trained for."""

from __future__ import annotations

import pytest

from jaxrl_hw.envs.tasks.joystick.settings import JoystickConfig
from jaxrl_hw.evaluation.steering import (
    DEAD_ZONE,
    Pad,
    Steering,
    after_key,
    after_pad,
    read_gamepad,
)

TRAINED = JoystickConfig(vx=(-0.5, 1.0), vy=(-0.3, 0.3), yaw_rate=(-1.0, 1.0))
STILL = Steering((0.0, 0.0, 0.0))
REST = Pad((0.0, 0.0), (0.0, 0.0))


@pytest.mark.parametrize(
    ("keys", "axis", "sign"),
    [
        ((265, 328), 0, 1),  # up, keypad 8
        ((264, 322), 0, -1),
        ((268, 327), 1, 1),
        ((269, 329), 1, -1),
        ((263, 324), 2, 1),  # left is positive
        ((262, 326), 2, -1),
    ],
)
def test_a_key_changes_one_part_of_the_command_by_a_step(keys, axis, sign):
    for key in keys:
        moved = after_key(STILL, key, TRAINED)
        assert moved.command == tuple(0.1 * sign * (i == axis) for i in range(3))
        assert moved.pushes == 0


def test_commands_stay_within_what_was_trained_and_pass_through_zero():
    steering, seen = STILL, []
    for key in [265] * 12 + [264] * 20:
        steering = after_key(steering, key, TRAINED)
        seen.append(steering.command[0])
    assert max(seen) == 1.0
    assert min(seen) == -0.5
    assert 0.0 in seen
    assert str(seen[seen.index(0.0)]) == "0.0"


def test_keys_stand_and_push_and_others_mean_nothing():
    walking = Steering((0.4, 0.1, -0.2))
    for key in (257, 335, 325):
        assert after_key(walking, key, TRAINED) == STILL
    for key in (260, 320):
        assert after_key(walking, key, TRAINED) == walking._replace(pushes=1)
    assert after_key(walking, ord("W"), TRAINED) is None


def test_full_sticks_are_the_fastest_commands_that_were_trained():
    forward_left = Pad((-1.0, -1.0), (0.0, 0.0))
    assert after_pad(STILL, REST, forward_left, TRAINED).command == (1.0, 0.3, 0.0)
    back_right = Pad((1.0, 1.0), (1.0, 0.0))
    assert after_pad(STILL, REST, back_right, TRAINED).command == (-0.5, -0.3, -1.0)
    half = Pad((0.0, -(DEAD_ZONE + 0.5 * (1 - DEAD_ZONE))), (0.0, 0.0))
    assert after_pad(STILL, REST, half, TRAINED).command == pytest.approx((0.5, 0.0, 0.0))


def test_a_pad_at_rest_leaves_the_keys_command_and_one_let_go_stands():
    walking = Steering((0.4, 0.0, 0.0))
    worn = Pad((0.1, -0.1), (0.1, 0.0))
    assert after_pad(walking, worn, worn, TRAINED) is None
    assert after_pad(walking, None, None, TRAINED) is None
    assert after_pad(walking, Pad((0.0, -1.0), (0.0, 0.0)), worn, TRAINED) == STILL


def test_a_button_counts_once_per_press():
    held = REST._replace(push=True)
    assert after_pad(STILL, REST, held, TRAINED).pushes == 1
    assert after_pad(STILL, held, held, TRAINED) is None
    both = after_pad(Steering((0.4, 0.0, 0.0)), REST, held._replace(stand=True), TRAINED)
    assert both == Steering((0.0, 0.0, 0.0), 1)


def test_without_a_gamepad_there_is_none():
    assert read_gamepad() is None
