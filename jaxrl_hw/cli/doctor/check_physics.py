"""Each physics engine against plain C MuJoCo, on a cartpole that reaches the end of its rail."""

from __future__ import annotations

import time
from collections.abc import Iterator
from functools import partial
from typing import Any

from jaxrl_hw.cli.doctor.check_devices import open_jax
from jaxrl_hw.cli.doctor.results import FAIL, PASS, CheckResult, Context
from jaxrl_hw.cli.doctor.run_in_subprocess import run_in_subprocess
from jaxrl_hw.hardware.cuda_plugin import installed_version
from jaxrl_hw.hardware.detect import detect
from jaxrl_hw.hardware.passed_checks import remember
from jaxrl_hw.loggers import formats
from jaxrl_hw.planning.engine import warp_versions

TOLERANCE = {"native": 1e-4, "mjx": 1e-3, "warp": 1e-3}
"""Largest difference allowed, in m, rad, m/s and rad/s. The C engine's state is rounded to 32 bits
once per control step; MJX and Warp compute in 32 bits throughout."""
_STEPS = 10
_ENVS = 8


def check(engine: str, context: Context) -> Iterator[CheckResult]:
    """The row of an engine, "native", "mjx" or "warp"."""
    environ = context.environ
    seen = run_in_subprocess(measure, engine, context.platform, timeout_s=120, environ=environ)
    yield judge(engine, seen)


native, mjx = partial(check, "native"), partial(check, "mjx")


def warp(context: Context) -> Iterator[CheckResult]:
    """The row of MuJoCo Warp. Where it passes on a GPU, `--physics auto` takes it from then on."""
    version = installed_version("warp-lang")
    if version is None:
        absent = "warp-lang is not installed: optional, a faster engine for NVIDIA GPUs"
        yield CheckResult("warp", absent)
    elif context.platform != "gpu":
        idle = f"warp-lang {version} is installed; on this platform auto does not take it"
        yield CheckResult("warp", idle)
    else:
        environ = context.environ
        seen = run_in_subprocess(measure, "warp", "gpu", timeout_s=300, environ=environ)
        row = judge("warp", seen)
        if row.status == PASS:
            remember("warp", detect().name, warp_versions())
        yield row


def judge(engine: str, seen: dict[str, Any]) -> CheckResult:
    """The row of what `measure` returned."""
    text = (
        f"at most {seen['difference']:.1e} off mj_step (m, rad, m/s, rad/s) in {seen['steps']} "
        f"control steps; the first took {formats.duration(seen['first_s'])}, with compilation"
    )
    if seen["difference"] < TOLERANCE[engine]:
        return CheckResult(engine, text, figures=seen)
    text = f"{text}: more than {TOLERANCE[engine]:.0e}"
    advice = "install the tested versions of mujoco, mujoco-mjx and jax"
    return CheckResult(engine, text, advice, seen, FAIL)


def measure(engine: str, platform: str) -> dict[str, Any]:
    """`compare` on this platform, for an engine of the library."""
    open_jax(platform)
    from jaxrl_hw.envs.physics import make_physics
    from jaxrl_hw.envs.physics.model import compile_model
    from jaxrl_hw.envs.robots import get_robot

    robot = get_robot("cartpole")
    assert robot.mjcf is not None
    model = compile_model(robot.mjcf, robot.timestep)
    physics = make_physics(engine, model, robot.substeps, bounds=robot.mjx_bounds)
    return compare(physics, model, robot.substeps, platform)


def compare(physics: Any, model: Any, substeps: int, platform: str) -> dict[str, Any]:
    """Step cartpoles with `physics` and with mj_step.

    Returns:
      difference: the largest of any position or velocity at any control step (m, rad, m/s, rad/s);
        infinite where the engine's numbers are not finite.
      steps, envs, first_s: control steps, cartpoles, and seconds of the first step.
    """
    import jax
    import jax.numpy as jnp
    import numpy as np

    from jaxrl_hw.envs.physics.api import state_at

    qpos, qvel = _starts()
    ctrl = np.linspace(-1.0, 1.0, _ENVS, dtype=np.float32)[:, None]
    start = jax.vmap(lambda q, v: state_at(model)._replace(qpos=q, qvel=v))
    state = start(jnp.asarray(qpos), jnp.asarray(qvel))
    began = time.perf_counter()
    # on a CPU, optimizing a handful of steps takes longer than running them
    quick: Any = {"xla_backend_optimization_level": "0"} if platform == "cpu" else None
    step = jax.jit(jax.vmap(lambda s, c: physics.step({}, s, c)), compiler_options=quick)
    expected = _with_mj_step(model, qpos, qvel, ctrl, substeps)
    largest, first_s = 0.0, 0.0
    for number in range(_STEPS):
        state, _ = jax.block_until_ready(step(state, ctrl))
        first_s = first_s or time.perf_counter() - began
        got = np.concatenate([state.qpos, state.qvel], axis=1)
        difference = np.abs(got - expected[number]).max()
        largest = max(largest, float(difference) if np.isfinite(difference) else float("inf"))
    return {"difference": largest, "steps": _STEPS, "envs": _ENVS, "first_s": first_s}


def _starts() -> tuple[Any, Any]:
    """qpos and qvel [N, 2] in 32 bits: poles at any angle, some carts close to the rail's end."""
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
