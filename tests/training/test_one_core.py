"""A train step from a script, on a machine with one core."""

import os
import subprocess
import sys

import pytest

SCRIPT = """
import dataclasses, os
if hasattr(os, "sched_setaffinity"): os.sched_setaffinity(0, list(os.sched_getaffinity(0))[:1])
import jaxrl_hw as jh
config = jh.preset_config("g1_12dof")
ppo = dataclasses.replace(config.ppo, unroll=4, epochs=1, minibatch_size=1024)
ppo = dataclasses.replace(ppo, motion_prior=False, symmetry="none")
net = jh.NetConfig(policy=(16,), value=(16,))
config = dataclasses.replace(config, num_envs=256, physics="native", ppo=ppo, net=net)
env = jh.make_env(config)
algorithm = jh.make_algorithm(config, env)
state = jh.init_train_state(env, algorithm, seed=0)
step = jh.make_train_step(env, algorithm)
for _ in range(3): state, _ = step(state)
print(int(state.iteration))
"""


@pytest.mark.slow
def test_a_script_steps_the_native_engine_on_one_core():
    """Large arrays reach the C engine's callback while the only core waits for it."""
    env = {k: v for k, v in os.environ.items() if not k.startswith(("XLA", "NPROC"))}
    env = {k: v for k, v in env.items() if k != "JAX_CPU_ENABLE_ASYNC_DISPATCH"}
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT],
        env={**env, "JAX_PLATFORMS": "cpu"},
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    assert int(done.stdout.splitlines()[-1]) == 3
