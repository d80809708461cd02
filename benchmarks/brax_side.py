"""Brax PPO on MuJoCo Playground's G1 joystick, for versus_brax.py: runs in the peer's own Python.

    peer-python benchmarks/brax_side.py --out FILE --model-out FILE --num-envs 256 ...

Needs brax and playground, and nothing of this library. Writes a line of JSON to --out after each
iteration: {"iteration", "env_steps", "env_steps_per_s", "tracking/velocity_error"}. The clock reads
after brax has waited for the iteration's results; the first line has no speed, because its time
includes compiling. The error, m/s, is a mean over the episodes that ended; null before the first.

Playground's wheel holds its own MJCF but not the meshes that it shows, which it clones from another
repository at first use. No mesh collides and every body names its inertia, so the model is built
from the wheel's MJCF without them; --model-out gets what was done.
"""

from __future__ import annotations

import argparse
import functools
import json
import time
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import jax
import jax.numpy as jnp
from brax.training.agents.ppo import networks as ppo_networks
from brax.training.agents.ppo import train as ppo
from brax_on_jax import complete_jax
from mujoco_playground import wrapper
from mujoco_playground._src.locomotion.g1 import base, g1_constants, joystick, randomize

ERROR = "velocity_error_per_step"
"""brax divides what is so named by the length of the episode."""


def without_meshes(text: str) -> tuple[bytes, int]:
    """MJCF without meshes and the geoms that show them, and how many geoms that were."""
    root, geoms = ElementTree.fromstring(text), 0
    for parent in list(root.iter()):
        for child in list(parent):
            shown = child.tag == "geom" and child.get("mesh") is not None
            if shown or (child.tag == "mesh" and parent.tag == "asset"):
                parent.remove(child)
                geoms += shown
    return ElementTree.tostring(root), geoms


class Joystick(joystick.Joystick):
    """Playground's task; its metrics also have the error of the velocity."""

    def reset(self, rng: jax.Array) -> Any:
        state = super().reset(rng)
        state.metrics[ERROR] = jnp.zeros(())
        return state

    def step(self, state: Any, action: jax.Array) -> Any:
        command = state.info["command"]
        state = super().step(state, action)
        off = self.get_local_linvel(state.data, "pelvis")[:2] - command[:2]
        state.metrics[ERROR] = jnp.linalg.norm(off)
        return state


def environment(impl: str) -> tuple[Joystick, dict[str, Any]]:
    """The task, and what was done to build it."""
    files = {path.name: path for path in (g1_constants.ROOT_PATH / "xmls").glob("*.xml")}
    lean = {name: without_meshes(path.read_text()) for name, path in files.items()}
    base.get_assets = lambda: {name: text for name, (text, _) in lean.items()}
    env = Joystick(task="flat_terrain", config_overrides={"impl": impl})
    model = env.mj_model
    return env, {
        "impl": impl,
        "mesh_geoms_removed": lean["g1_mjx_feetonly.xml"][1],
        "mass_kg": round(float(model.body_mass.sum()), 3),
        "joints": int(model.nu),
        "pairs_that_may_meet": int(model.npair),
        "timestep_s": float(model.opt.timestep),
        "physics_steps_per_control_step": env.n_substeps,
        "solver_iterations": int(model.opt.iterations),
        "line_search_iterations": int(model.opt.ls_iterations),
    }


class Lines:
    """Writes what `ppo.train` reports, a line for each iteration."""

    def __init__(self, out: Path, steps: int) -> None:
        self._out, self._steps, self._iteration = out, steps, 0
        self._last = time.perf_counter()
        self._error: float | None = None

    def __call__(self, env_steps: int, metrics: dict[str, Any]) -> None:
        if "training/walltime" not in metrics:  # of episodes that ended, during the iteration
            self._error = metrics.get(f"episode/{ERROR}", self._error)
            return
        now, self._iteration = time.perf_counter(), self._iteration + 1
        row = {
            "iteration": self._iteration,
            "env_steps": env_steps,
            "env_steps_per_s": self._steps / (now - self._last) if self._iteration > 1 else None,
            "tracking/velocity_error": None if self._error is None else float(self._error),
        }
        self._last = now
        with self._out.open("a", encoding="utf-8") as file:
            file.write(json.dumps(row) + "\n")


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    for name in ("num-envs", "unroll", "epochs", "minibatches", "iterations", "seed"):
        parser.add_argument(f"--{name}", type=int, required=True)
    parser.add_argument("--net", type=int, nargs="+", required=True)
    parser.add_argument("--impl", default="jax")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--model-out", type=Path, required=True)
    args = parser.parse_args()
    complete_jax()
    env, made = environment(args.impl)
    args.model_out.write_text(json.dumps(made), encoding="utf-8")
    steps = args.num_envs * args.unroll
    networks = functools.partial(
        ppo_networks.make_ppo_networks,
        policy_hidden_layer_sizes=tuple(args.net),
        value_hidden_layer_sizes=tuple(args.net),
        policy_obs_key="state",
        value_obs_key="privileged_state",
    )
    ppo.train(
        env,
        num_timesteps=args.iterations * steps,
        num_evals=args.iterations + 1,  # an iteration between two reports
        run_evals=False,
        log_training_metrics=True,
        progress_fn=Lines(args.out, steps),
        num_envs=args.num_envs,
        batch_size=args.num_envs // args.minibatches,
        num_minibatches=args.minibatches,
        num_updates_per_batch=args.epochs,
        unroll_length=args.unroll,
        network_factory=networks,
        wrap_env_fn=wrapper.wrap_for_brax_training,
        randomization_fn=randomize.domain_randomize,
        seed=args.seed,
        # Playground's settings of its G1
        episode_length=1000,
        normalize_observations=True,
        discounting=0.97,
        learning_rate=3e-4,
        entropy_cost=0.005,
        clipping_epsilon=0.2,
        max_grad_norm=1.0,
    )


if __name__ == "__main__":
    main()
