"""Settings that an earlier version saved, in this version's terms."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

from jaxrl_hw.config.fields import flag, flatten, nested

RENAMED = {
    "ppo.guide": "ppo.motion_prior",
    "ppo.average": "ppo.weight_averaging",
    "joystick.standing_clock": "joystick.standing_phase",
    "joystick.standing_clock_speed": "joystick.standing_phase_speed",
}
"""Old keys, and what they are called now."""
BEFORE = {
    "gains": "",
    "joystick.gait_period": 0.0,
    "joystick.foresight": False,
    "joystick.standing_phase": 1.0,
    "joystick.standing_phase_speed": 0.0,
    "joystick.recovery_speed": 0.0,
    "joystick.recovery_after_s": 2.0,
    "joystick.kp": (1.0, 1.0),
    "joystick.kd": (1.0, 1.0),
    "joystick.torque_limit": (1.0, 1.0),
    "joystick.joint_damping": (1.0, 1.0),
    "joystick.joint_offset": 0.0,
    "joystick.imu_tilt": 0.0,
    "joystick.gyro_bias": 0.0,
    "joystick.action_delay": (0.0, 0.0),
    "joystick.observation_delay": (0.0, 0.0),
    "joystick.reward.velocity_fine": 0.0,
    "joystick.reward.landing": 0.0,
    "joystick.reward.self_contact": 0.0,
    "joystick.reward.walking_power": 0.0,
    "net.memory": "none",
    "ppo.weight_averaging": 0.0,
    "ppo.critic_warmup_steps": 0,
    "ppo.estimation_coef": 0.0,
    "sac.motion_prior": False,
    "sac.policy_delay": 1,
    "timesteps": 0,
    "eval_every": 0,
}
"""What held before there was a setting for it, whatever a preset says today."""
IN_ITERATIONS = {
    "ppo.anneal": "ppo.anneal_steps",
    "ppo.critic_warmup": "ppo.critic_warmup_steps",
    "ppo.value_first": "ppo.critic_warmup_steps",
}
"""Old keys that counted iterations, and those that count env steps now."""
COUNTED = {"ppo.minibatches": "ppo.minibatch_size"}
"""Old keys that gave a number of minibatches, and those that give their size now, in samples."""
RETIRED = {
    "joystick.ease_in": 0,
    "joystick.ease_from": None,
    "joystick.pause_clock": False,
    "joystick.self_collision": True,
    "joystick.swing_exponent": 1.0,
    "joystick.reward.torque": 0.0,
}
"""Settings without a successor, each with the value that had no effect; None: it never had one of
its own."""

_LATER = {
    "joystick.zero_command": 0.25,
    "joystick.recovery_speed": 0.4,
    "joystick.reward.yaw_rate": 2.0,
    "joystick.reward.walking_power": -0.01,
    "joystick.reward.landing": -5.0,
    "joystick.reward.fall": -5.0,
}
_LAST = {
    **_LATER,
    "joystick.zero_command": 0.45,
    "joystick.recovery_speed": 0.45,
    "joystick.standing_phase_speed": 0.45,
    "joystick.reward.velocity_fine": 2.2,
    "joystick.reward.walking_power": -0.030,
    "joystick.reward.fall": -15.0,
}
_FINISH = {
    **_LAST,
    "joystick.recovery_speed": 0.35,
    "joystick.standing_phase_speed": 0.35,
    "joystick.push_interval_s": 5.0,  # what held where a run is from before this one
    "joystick.reward.walking_power": -0.018,
    "joystick.reward.velocity_fine": 2.7,
    "joystick.reward.foot_height": 1.5,
}
STAGES = {"joystick.later": _LATER, "joystick.last": _LAST, "joystick.finish": _FINISH}
"""Groups of settings that were stages before there was a curriculum: each held from its `iteration`
on (0: never), with these values where a run does not name them."""
_USUAL_ENVS = 256
"""Environments of a run whose number is not known: those of the published recipes."""

EnvSteps = Callable[[int], int]
"""Iteration of a run -> env steps done by then."""


def as_now(saved: Mapping[str, Any], env_steps_at: EnvSteps | None = None) -> dict[str, Any]:
    """A whole configuration of any earlier version in this version's terms.

    Args:
      saved: settings as JSON has them, all of them: in a few written by hand a missing one means
        the preset's.
      env_steps_at: of the run; None takes iterations of its num_envs * unroll.
    """
    env_steps_at = env_steps_at or by_size(saved)
    now = {RENAMED.get(key, key): value for key, value in flatten(saved).items()}
    now = _in_steps(now, env_steps_at, by_size(saved)(1))
    there = {key.rpartition(".")[0] for key in now}
    before = {key: value for key, value in BEFORE.items() if key.rpartition(".")[0] in there}
    now = {**before, **now}
    stages = _stages(now, env_steps_at)
    now = {"curriculum": stages, **now}
    return nested({key: value for key, value in now.items() if key not in RETIRED})


def lost(saved: Mapping[str, Any]) -> list[tuple[str, Any]]:
    """Settings that had an effect and have no successor, each with its value."""
    values, idle = flatten(saved), {k: v for k, v in RETIRED.items() if v is not None}
    return [(key, values[key]) for key in idle if values.get(key, idle[key]) != idle[key]]


def since_trained(saved: Mapping[str, Any], task: str) -> str:
    """What has changed in a task's simulation since a policy with these settings was trained; ""
    where nothing has."""
    if task != "joystick" or "joystick.reward.self_contact" in flatten(saved):
        return ""
    return "it was trained without collisions between the robot's own parts, which collide now"


def successor(key: str, as_flag: bool = False) -> str:
    """What to use in place of a renamed or retired key or group, as the end of a message; "" for
    any other key."""
    for table, unit in (
        (RENAMED, ""),
        (IN_ITERATIONS, ", in env steps"),
        (COUNTED, ", in samples"),
    ):
        if key in table:
            return f'; it is now "{flag(table[key]) if as_flag else table[key]}"{unit}'
    if any(key == group or key.startswith(f"{group}.") for group in STAGES):
        return f'; it is now a stage of "{flag("curriculum") if as_flag else "curriculum"}"'
    return "; it is retired and has no successor" if key in RETIRED else ""


def _in_steps(now: dict[str, Any], env_steps_at: EnvSteps, samples: int) -> dict[str, Any]:
    """Settings that counted iterations or minibatches, in env steps and samples.

    samples: of an iteration, as the run was saved.
    """
    steps = {IN_ITERATIONS[key]: env_steps_at(int(now[key])) for key in IN_ITERATIONS if key in now}
    sizes = {COUNTED[key]: max(1, samples // int(now[key])) for key in COUNTED if key in now}
    rule = str(now.get("early_stop", ""))
    if "timesteps" not in now and (found := re.search(r"patience *= *(\d+)", rule)):
        patience = env_steps_at(int(found[1]))
        now["early_stop"] = f"{rule[: found.start(1)]}{patience}{rule[found.end(1) :]}"
    kept = {key: value for key, value in now.items() if key not in IN_ITERATIONS | COUNTED}
    return {**kept, **steps, **sizes}


def _stages(now: dict[str, Any], env_steps_at: EnvSteps) -> list[dict[str, Any]]:
    """Take the old groups of stages out of the settings, and give them as a curriculum.

    A stage holds only what it changes, so that equal curricula have one form.
    """
    value, stages = dict(now), []
    for place, defaults in STAGES.items():
        group = f"{place}."
        old = {key.removeprefix(group): now.pop(key) for key in value if key.startswith(group)}
        if not old.get("iteration"):
            continue
        changes = {}
        for key, default in defaults.items():
            names = (key, *(before for before, after in RENAMED.items() if after == key))
            given = [old[name] for name in (n.rpartition(".")[2] for n in names) if name in old]
            new = given[0] if given else default
            if value.get(key) != new:
                changes[key] = value[key] = new
        stages.append({"env_steps": env_steps_at(int(old["iteration"])), "settings": changes})
    return stages


def by_size(saved: Mapping[str, Any]) -> EnvSteps:
    num_envs, unroll = saved.get("num_envs"), flatten(saved).get("ppo.unroll") or 24
    samples = (num_envs if isinstance(num_envs, int) else _USUAL_ENVS) * unroll
    return lambda iteration: iteration * samples
