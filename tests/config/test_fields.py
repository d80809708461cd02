"""Settings by their dotted keys."""

from __future__ import annotations

from jaxrl_hw.config.fields import differences


def test_differences_are_dotted_and_ignore_what_may_change():
    old = {"seed": 0, "ppo": {"gamma": 0.9, "epochs": 4}, "vx": [-1, 1], "gone": 1}
    new = {"seed": 0, "ppo": {"gamma": 0.99, "epochs": 5}, "vx": (-1, 1), "iterations": 9}
    assert differences(old, new, {"ppo.epochs", "iterations"}) == [
        ("gone", 1, "(not there)"),
        ("ppo.gamma", 0.9, 0.99),
    ]
    assert differences(old, new, {"ppo", "gone", "iterations"}) == []
