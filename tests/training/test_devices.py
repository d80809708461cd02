"""`--devices`: the same training on 1, 2 and 4 devices, which are a CPU's virtual ones here."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytestmark = pytest.mark.slow

RTOL, ATOL = 2e-3, 2e-5
"""The number of devices changes the order of sums alone: about 1e-7 of a gradient, of which Adam
makes more where the gradient is small; 5 iterations of 4 steps each stay well below a step of 1e-3.
"""

TINY = """
import dataclasses, io, json, os, sys
import jax, numpy as np
import jaxrl_hw as jh
from jaxrl_hw.loggers.console import Console
from jaxrl_hw.training.layout import layout_of
from jaxrl_hw.training.train_step import compile_train_step

def tiny(robot, **changes):
    base = jh.preset_config(robot)
    ppo = dataclasses.replace(base.ppo, unroll=4, epochs=2, minibatch_size=32, motion_prior=False)
    net = jh.NetConfig(policy=(16,), value=(16,))
    return dataclasses.replace(
        base, num_envs=16, net=net, ppo=ppo, seed=3, tensorboard=False, **changes
    )
"""

TRAIN = """
robot, engine, out, *counts = sys.argv[1:]
config = tiny(robot, physics=engine)
env = jh.make_env(config)
algorithm = jh.make_algorithm(config, env)
first = jh.init_train_state(env, algorithm, config.seed)

def reduces_in_loops(program):
    text = program.as_text()
    outside = text.split("ENTRY ")[1]
    return text.count(" all-reduce(") - outside.count(" all-reduce(")

for devices in map(int, counts):
    layout = layout_of(dataclasses.replace(config, devices=devices))
    state = layout.place(jax.tree.map(lambda leaf: leaf.copy(), first))
    compiled = compile_train_step(env, algorithm, state, layout=layout)
    for _ in range(5):
        state, metrics = compiled.step(state)
    leaves = jax.tree.leaves(state.learner)
    copies = [[np.asarray(part.data) for part in leaf.addressable_shards] for leaf in leaves]
    assert all(len(parts) == devices for parts in copies)
    assert all(np.array_equal(parts[0], part) for parts in copies for part in parts)
    qpos = state.env_state.envs.physics.qpos
    assert {part.data.shape[0] for part in qpos.addressable_shards} == {16 // devices}
    arrays = {f"learner{i}": leaf for i, leaf in enumerate(leaves)}
    np.savez(f"{out}/{devices}.npz", qpos=qpos, **arrays, **metrics)
    halves = {"collect": compiled.collect, "update": compiled.update}
    reduces = {name: reduces_in_loops(half) for name, half in halves.items()}
    open(f"{out}/{devices}.json", "w").write(json.dumps(reduces))
"""

RESUME = """
import shutil
folder = sys.argv[1]

def train(name, devices, iterations, stop_at=0):
    config = tiny("cartpole", physics="native", devices=devices, iterations=iterations)
    config = dataclasses.replace(config, run_dir=f"{folder}/{name}")
    quiet = Console(io.StringIO())
    return jh.fit(config, lambda row: row["iteration"] == stop_at, quiet).ended

assert train("whole", 2, 4) == "goal"
assert train("one", 2, 4, stop_at=2) == "callback"
shutil.copytree(f"{folder}/one", f"{folder}/four")
assert train("one", 1, 4) == train("four", 4, 4) == "goal"
"""


def run_on_four(script: str, *argv: Any) -> None:
    """A script in a process of its own, in which JAX has four devices."""
    flags = f"{os.environ.get('XLA_FLAGS', '')} --xla_force_host_platform_device_count=4"
    # each device holds a thread of XLA's pool while it waits (`hardware.xla`)
    env = {**os.environ, "XLA_FLAGS": flags, "JAX_PLATFORMS": "cpu", "NPROC": "12"}
    command = [sys.executable, "-c", TINY + script, *map(str, argv)]
    done = subprocess.run(command, env=env, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(
    ("robot", "engine", "counts"),
    [("g1_12dof", "native", (1, 2, 4)), ("cartpole", "mjx", (1, 2))],
)
def test_the_number_of_devices_changes_nothing_but_rounding(
    tmp_path: Path, robot: str, engine: str, counts: tuple[int, ...]
) -> None:
    run_on_four(TRAIN, robot, engine, tmp_path, *counts)
    one, *others = (np.load(tmp_path / f"{devices}.npz") for devices in counts)
    assert len(one.files) > 20
    for other in others:
        for name in one.files:
            np.testing.assert_allclose(other[name], one[name], RTOL, ATOL, err_msg=name)
    for devices in counts[1:]:  # every minibatch waits for all devices, no step of the physics does
        reduces = json.loads((tmp_path / f"{devices}.json").read_text())
        assert reduces["collect"] == 0 < reduces["update"]


def test_a_run_continues_on_another_number_of_devices(tmp_path: Path) -> None:
    run_on_four(RESUME, tmp_path)

    def rows(name: str) -> list[dict[str, Any]]:
        lines = (tmp_path / name / "metrics.jsonl").read_text().splitlines()
        return [json.loads(line) for line in lines]

    whole = rows("whole")
    for name, devices in (("one", 1), ("four", 4)):
        found = rows(name)
        assert [row["iteration"] for row in found] == [1, 2, 3, 4]
        assert json.loads((tmp_path / name / "config.json").read_text())["config"]["devices"] == (
            devices
        )
        for key in ("loss/value", "kl", "reward/total", "lr", "episode_return"):
            values = [[np.nan if r[key] is None else r[key] for r in run] for run in (found, whole)]
            np.testing.assert_allclose(*values, RTOL, ATOL, err_msg=f"{name}: {key}")
