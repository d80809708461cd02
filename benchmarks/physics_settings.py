"""How exact and how expensive MJX, or MuJoCo Warp, is with other bounds on its solver.

    python benchmarks/physics_settings.py [--robots g1,g1_12dof] [--settings 8/3,8/2]
        [--mjx-solve 8/5] [--engine mjx|warp] [--gpu h100] [--num-envs 64] [--control-steps 60]

A setting is solver iterations / line search trips; those of --mjx-solve are for MJX's own solver,
which this package replaces (`jaxrl_hw.envs.physics.newton`).
Every setting steps the same states with the same lively actions as MuJoCo's C engine: from each of
the C engine's states one control step is taken by both, so that errors do not add up. `off` is the
share of these steps after which a position (m, rad) differs by more than 1e-3. C stops at 1e-8.
Times are of this machine's CPU; compare those of one row's robot. With --gpu, launches, bytes that
kernels move and bytes of temporaries are those of XLA's compiler for that card, per control step of
1,024 environments: nothing has run on a GPU. Writes benchmarks/results/physics-settings.json, or
-warp.json, after each row; other rows stay in it. `enough` picks a robot's `RobotSpec.mjx_bounds`
from its rows.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from unittest import mock

import jax
import jax.numpy as jnp
import mujoco
import numpy as np

from jaxrl_hw import get_robot, make_physics, preset_config
from jaxrl_hw.config.factory import load_task
from jaxrl_hw.envs.physics import mjx, newton, warp
from jaxrl_hw.envs.physics.api import Physics, PhysState, nominal_params, state_at
from jaxrl_hw.hardware import gpu_compiler, hlo, xla

RESULTS = Path(__file__).parent / "results"
OWN, MJX = "newton", "mjx"
FEWEST = 8
OFF, MORE_OFF = 1e-3, 1e-3
COMPILED_FOR = 1024


def main() -> None:
    parser = argparse.ArgumentParser(description="MJX's solver bounds: exactness and cost.")
    parser.add_argument("--robots", default="g1,g1_12dof,go1,h1,t1,go2")
    parser.add_argument("--settings", default="8/3,8/2,7/3,7/2,6/3")
    parser.add_argument("--mjx-solve", default="", help="settings of MJX's own solver")
    parser.add_argument("--num-envs", type=int, default=64)
    parser.add_argument("--control-steps", type=int, default=60)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--engine", choices=("mjx", "warp"), default="mjx")
    parser.add_argument("--gpu", default="", help="a card that XLA's compiler knows, such as h100")
    parser.add_argument("--launches-of", help=argparse.SUPPRESS)  # of the process that compiles
    parser.add_argument("--out", type=Path)
    args = parser.parse_args()
    if args.gpu and args.engine != "mjx":
        parser.error("--gpu is for --engine mjx: XLA's compiler does not see Warp's kernels")
    if args.launches_of:
        print(json.dumps(compiled(*args.launches_of.split(":"), args.gpu)))
        return
    xla.configure(fraction=None, cache_dir=None, platform="cpu", host_callback=False)
    settings = _settings(args.settings, OWN) + _settings(args.mjx_solve, MJX)
    command = f"python benchmarks/physics_settings.py {' '.join(sys.argv[1:])}".strip()
    usual = RESULTS / f"physics-settings{'' if args.engine == 'mjx' else '-warp'}.json"
    out = args.out or usual
    kept = json.loads(out.read_text()) if out.exists() else {"commands": [], "rows": []}
    kept["commands"] = [*(one for one in kept["commands"] if one != command), command]
    for name in args.robots.split(","):
        for row in measure(name, settings, args):
            others = [one for one in kept["rows"] if _setting(one) != _setting(row)]
            kept["rows"] = sorted([*others, row], key=_setting)
            out.write_text(json.dumps(kept, indent=2) + "\n")
    show(kept["rows"])
    print(f"written to {out}")


def enough(rows: list[dict[str, Any]]) -> tuple[int, int]:
    """The least bounds, of one robot's rows of this package's solver, that are exact enough: at
    most `MORE_OFF` more of the steps are off than with the highest bounds.

    An iteration costs more than all its line search, so fewer iterations count first. Fewer than
    `FEWEST` are not taken: steps of a robot that hardly moves, which are not in the table, miss.
    """
    known = {
        (r["iterations"], r["line_search"]): r["off"]
        for r in rows
        if r["solver"] == OWN and r["iterations"] >= FEWEST
    }
    return min(bounds for bounds, off in known.items() if off <= known[max(known)] + MORE_OFF)


def _setting(row: dict[str, Any]) -> tuple[str, bool, int, int]:
    """What a row is of; the robots' rows of this package's solver come first, the highest bounds
    before lower ones."""
    return row["robot"], row.get("solver") != OWN, -row["iterations"], -row["line_search"]


def _settings(text: str, solver: str) -> list[tuple[int, int, str]]:
    """Solver iterations, line search trips and whose solver, of "8/3,8/2"."""
    pairs = [one.split("/") for one in text.split(",") if one]
    return [(int(iterations), int(trips), solver) for iterations, trips in pairs]


def measure(name: str, settings: list[Any], args: argparse.Namespace) -> Iterator[dict[str, Any]]:
    """All settings of one robot, on the same trajectory of the C engine."""
    model, substeps = model_of(name)
    native = make_physics("native", model, substeps)
    before, ctrls, after = trajectory(native, args.num_envs, args.control_steps, args.seed)
    for iterations, searches, solver in settings:
        physics = engine(args.engine, model, substeps, iterations, searches, solver)
        step = jax.jit(jax.vmap(lambda s, c, p=physics: p.step({}, s, c)[0]))
        step(*slot(before, ctrls, 0))  # compiles
        errors, began = [], time.perf_counter()
        for k in range(args.control_steps):
            got = step(*slot(before, ctrls, k))
            errors.append(np.abs(np.asarray(got.qpos) - after[k]).max(axis=1))
        took = time.perf_counter() - began
        error = np.concatenate(errors)
        row = {
            "robot": name,
            "engine": args.engine,
            "solver": solver if args.engine == "mjx" else "warp",
            "iterations": iterations,
            "line_search": searches,
            "off": float((~(error <= OFF)).mean()),
            "steps": error.size,
            "largest_error": float(error.max()),
            "cpu_ms_per_control_step": round(1e3 * took / args.control_steps, 1),
        }
        if args.gpu:
            row |= elsewhere(f"{name}:{iterations}:{searches}:{solver}", args.gpu)
        print(json.dumps(row), flush=True)
        yield row


def model_of(name: str) -> tuple[mujoco.MjModel, int]:
    """A robot's model as its preset trains it, and its physics steps per control step."""
    _, model = load_task(preset_config(name))
    return model, round(get_robot(name).control_dt / model.opt.timestep)


def engine(
    name: str, model: mujoco.MjModel, substeps: int, iterations: int, searches: int, solver: str
) -> Physics:
    """An engine with other bounds on its solver, or with MJX's own solver."""
    if name == "mjx" and solver == OWN:
        return make_physics(name, model, substeps, bounds=(iterations, searches))
    with contextlib.ExitStack() as stack:
        if name == "mjx":
            stack.enter_context(mock.patch.object(mjx, "MJX_LINESEARCH_ITERATIONS", searches))
            stack.enter_context(mock.patch.object(newton, "suits", return_value=False))
        else:
            stack.enter_context(mock.patch.object(warp, "SOLVER_ITERATIONS", iterations))
            stack.enter_context(mock.patch.object(warp, "LINESEARCH_ITERATIONS", searches))
        return make_physics(name, model, substeps, bounds=(iterations, searches))


def trajectory(
    native: Physics, num_envs: int, control_steps: int, seed: int
) -> tuple[list[PhysState], np.ndarray, np.ndarray]:
    """States before each control step, the ctrl in it, and C's positions after it.

    Lively actions about the home pose, a new one every control step; fallen robots start anew.
    """
    model, rng = native.model, np.random.default_rng(seed)
    home = state_at(model)
    start = jax.tree.map(lambda leaf: jnp.broadcast_to(leaf, (num_envs, *leaf.shape)), home)
    step = jax.jit(jax.vmap(lambda s, c: native.step(nominal_params(model, ()), s, c)[0]))
    state, states, ctrls, after = start, [], [], []
    for _ in range(control_steps):
        noise = 0.3 * rng.standard_normal((num_envs, model.nu))
        ctrl = (np.asarray(model.key("home").qpos[7:]) + noise).astype(np.float32)
        states.append(state)
        ctrls.append(ctrl)
        state = step(state, jnp.asarray(ctrl))
        after.append(np.asarray(state.qpos))
        fallen = state.qpos[:, 2] < 0.5 * home.qpos[2]

        def anew(old: Any, new: Any, fallen: Any = fallen) -> Any:
            return jnp.where(fallen.reshape(-1, *[1] * (old.ndim - 1)), new, old)

        state = jax.tree.map(anew, state, start)
    return states, np.stack(ctrls), np.stack(after)


def slot(before: list[PhysState], ctrls: np.ndarray, k: int) -> tuple[PhysState, Any]:
    """The arguments of control step k."""
    return before[k], jnp.asarray(ctrls[k])


def elsewhere(setting: str, card: str) -> dict[str, Any]:
    """What the compiler says of a setting on a card, from a process that has the compiler."""
    gpu_compiler.check_installed()
    command = [sys.executable, __file__, "--launches-of", setting, "--gpu", card]
    done = subprocess.run(
        command, env=gpu_compiler.environment(os.environ), capture_output=True, text=True
    )
    if done.returncode:
        sys.exit(f"{' '.join(command)} failed:\n{done.stderr}")
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def compiled(name: str, iterations: str, searches: str, solver: str, card: str) -> dict[str, Any]:
    """Launches and bytes of one control step of `COMPILED_FOR` environments on a card."""
    on = gpu_compiler.sharding(gpu_compiler.target(card))
    model, substeps = model_of(name)
    physics = engine("mjx", model, substeps, int(iterations), int(searches), solver)

    def form(leaf: Any) -> Any:
        return jax.ShapeDtypeStruct((COMPILED_FOR, *leaf.shape), jnp.float32, sharding=on)

    step = jax.vmap(lambda s, c: physics.step({}, s, c))
    state, ctrl = jax.tree.map(form, state_at(model)), form(np.zeros(model.nu))
    program = jax.jit(step).lower(state, ctrl).compile()
    text = program.as_text()
    at_most = hlo.work(text, int(iterations))
    return {
        "gpu": card,
        "launches_at_most": at_most.launches,
        "waits_of_the_host_at_most": at_most.waits,
        "launches_with_two_iterations": hlo.work(text, 2).launches,
        "bytes_per_env_at_most": at_most.bytes // COMPILED_FOR,
        "flops_per_env_at_most": at_most.flops // COMPILED_FOR,
        "temporary_bytes_per_env": program.memory_analysis().temp_size_in_bytes // COMPILED_FOR,
    }


def show(rows: list[dict[str, Any]]) -> None:
    """The table, one line per robot and setting."""
    print(
        f"{'robot':10} {'solver':>7} {'bounds':>7} {'off':>8} {'largest':>9} {'CPU ms':>7} launches"
    )
    for r in rows:
        bounds = f"{r['iterations']}/{r['line_search']}"
        launches = f"{r['launches_at_most']:,}" if "gpu" in r else "-"
        print(
            f"{r['robot']:10} {r['solver']:>7} {bounds:>7} {r['off']:8.2%} "
            f"{r['largest_error']:9.2g} {r['cpu_ms_per_control_step']:7.1f} {launches:>8}"
        )


if __name__ == "__main__":
    main()
