"""Both physics engines against plain C MuJoCo, on a cartpole that meets the end of its rail."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any

from jaxrl_hw.cli.doctor.open_jax import open_jax
from jaxrl_hw.cli.doctor.results import FAIL, PASS, Finding
from jaxrl_hw.cli.doctor.run_in_subprocess import call
from jaxrl_hw.cli.doctor.runner import Visit
from jaxrl_hw.loggers import formats

LIMIT_S = 120.0
CLOSE = {"native": 1e-4, "mjx": 1e-3}
"""Largest difference allowed, in m, rad, m/s and rad/s. The C engine's state is rounded to 32 bits
once per control step, MJX computes in 32 bits throughout."""
_CHECK = "physics"
_STEPS = 10
_ENVS = 8


def check(engine: str) -> Callable[[Visit], Iterator[Finding]]:
    """The check of an engine, "native" or "mjx"."""

    def run(visit: Visit) -> Iterator[Finding]:
        seen = call(step, engine, visit.platform, limit_s=LIMIT_S, environ=visit.environ)
        yield judge(engine, seen)

    return run


def judge(engine: str, seen: dict[str, Any]) -> Finding:
    """The row of what `step` has measured."""
    difference, first = seen["difference"], formats.duration(seen["first_s"])
    text = (
        f"at most {difference:.1e} off mj_step (m, rad, m/s, rad/s) in {seen['steps']} control "
        f"steps; the first took {first}, with compilation"
    )
    if difference < CLOSE[engine]:
        return Finding(_CHECK, engine, PASS, text, figures=seen)
    text = f"{text}: more than {CLOSE[engine]:.0e}"
    advice = "install the tested versions of mujoco, mujoco-mjx and jax"
    return Finding(_CHECK, engine, FAIL, text, advice, seen)


def step(engine: str, platform: str) -> dict[str, Any]:
    """Step cartpoles on an engine and with mj_step, and compare.

    Returns:
      difference: the largest of any position or velocity at any control step (m, rad, m/s, rad/s);
        infinite where the engine gives what is no number. steps, envs, first_s.
    """
    jax = open_jax(platform)
    import jax.numpy as jnp
    import numpy as np

    from jaxrl_hw.envs.physics import make_physics
    from jaxrl_hw.envs.physics.api import state_at
    from jaxrl_hw.envs.physics.model import compile_model
    from jaxrl_hw.envs.robots import get_robot

    robot = get_robot("cartpole")
    model = compile_model(robot.mjcf, robot.timestep)
    physics = make_physics(engine, model, robot.substeps)
    qpos, qvel = _starts()
    ctrl = np.linspace(-1.0, 1.0, _ENVS, dtype=np.float32)[:, None]
    start = jax.vmap(lambda q, v: state_at(model)._replace(qpos=q, qvel=v))
    state = start(jnp.asarray(qpos), jnp.asarray(qvel))
    began = time.perf_counter()
    # a handful of steps: on a CPU the compiler would take longer over them than it could save
    quick = {"xla_backend_optimization_level": "0"} if platform == "cpu" else None
    advance = jax.jit(jax.vmap(lambda s, c: physics.step({}, s, c)))
    advance = advance.lower(state, ctrl).compile(quick)
    expected = _with_mj_step(model, qpos, qvel, ctrl, robot.substeps)
    largest, first_s = 0.0, 0.0
    for number in range(_STEPS):
        state, _ = jax.block_until_ready(advance(state, ctrl))
        first_s = first_s or time.perf_counter() - began
        got = np.concatenate([state.qpos, state.qvel], axis=1)
        difference = np.abs(got - expected[number]).max()
        largest = max(largest, float(difference) if np.isfinite(difference) else float("inf"))
    return {"difference": largest, "steps": _STEPS, "envs": _ENVS, "first_s": first_s}


def _starts() -> tuple[Any, Any]:
    """qpos and qvel [N, 2] in 32 bits: some carts run into the end of the rail, poles anywhere."""
    import numpy as np

    place = np.linspace(-1.0, 1.0, _ENVS, dtype=np.float32)
    qpos = np.stack([1.75 * place, np.pi * place], axis=1)
    qvel = np.stack([2.0 * place, -3.0 * place], axis=1)
    return qpos.astype(np.float32), qvel.astype(np.float32)


def _with_mj_step(model: Any, qpos: Any, qvel: Any, ctrl: Any, substeps: int) -> Any:
    """Positions and velocities [T, N, nq + nv] by the C engine alone, in 64 bits."""
    import mujoco
    import numpy as np

    out = np.empty((_STEPS, _ENVS, model.nq + model.nv))
    for env in range(_ENVS):
        data = mujoco.MjData(model)
        data.qpos[:], data.qvel[:], data.ctrl[:] = qpos[env], qvel[env], ctrl[env]
        for number in range(_STEPS):
            mujoco.mj_step(model, data, nstep=substeps)
            out[number, env] = np.concatenate([data.qpos, data.qvel])
    return out
