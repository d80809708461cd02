"""Another library's environment among our own: episodes, observations, runs, and bad names."""

from __future__ import annotations

import importlib.util
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import flax.struct
import jax
import jax.numpy as jnp
import mujoco
import numpy as np
import pytest

from jaxrl_hw import evaluate, export, train
from jaxrl_hw.envs.tasks.outside import Loaded, facts_of, observation, world
from jaxrl_hw.envs.vector import Env, make_vector_env
from jaxrl_hw.errors import UserError

N = 3
needs_brax = pytest.mark.skipif(
    importlib.util.find_spec("brax") is None, reason='brax is not installed: pip install ".[brax]"'
)
needs_playground = pytest.mark.skipif(
    importlib.util.find_spec("mujoco_playground") is None,
    reason='MuJoCo Playground is not installed: pip install ".[playground]"',
)


@flax.struct.dataclass
class State:
    obs: Any
    reward: Any
    done: Any
    metrics: dict[str, Any]
    info: dict[str, Any]


class Walk:
    """A point that an action of size 1 moves by 1; the episode is over beyond 4. Its reward is
    where it is, its observation that and the steps since the reset."""

    action_size = 1

    def reset(self, rng):
        x = jax.random.uniform(rng)
        zero = jnp.zeros(())
        return State(jnp.stack([x, 0.0]), zero, zero, {"x": x}, {"rng": rng, "start": 0})

    def step(self, state, action):
        x = state.obs[0] + action[0]
        obs, done = jnp.stack([x, state.obs[1] + 1.0]), (x > 4.0).astype(jnp.float32)
        return state.replace(obs=obs, reward=x, done=done, metrics={"x": x})


def loaded(episode_steps: int) -> Loaded:
    def pose(state):
        return jnp.zeros(0), jnp.zeros(0)

    return Loaded("walk", Walk(), 0.05, episode_steps, mujoco.MjSpec().compile(), pose)


@pytest.fixture(scope="module")
def env() -> Env:
    made = make_vector_env(*world("brax", loaded(3)), N)
    return made._replace(reset=jax.jit(made.reset), step=jax.jit(made.step))


def begun(env: Env) -> Any:
    """Fresh environments with their clocks at 0."""
    return env.reset(jax.random.key(1))._replace(steps=jnp.zeros(N, jnp.int32))


def act(env: Env, state: Any, *actions: float) -> Any:
    moved = None
    for i, action in enumerate(actions):
        state, moved = env.step(state, jnp.full((N, 1), action), jax.random.key(10 + i))
    return state, moved


def test_its_sizes_and_its_clock_are_the_environments(env):
    assert facts_of(loaded(3)) == (2, 2, 1, 8, 0.05)
    assert (env.obs_size, env.critic_size, env.action_size) == (2, 2, 1)
    assert env.control_dt == pytest.approx(0.05)


def test_a_time_limit_truncates_and_keeps_the_true_final_observation(env):
    first = begun(env)
    state, moved = act(env, first, 1.0, 1.0, 1.0)
    assert np.all(moved.truncated)
    assert not np.any(moved.terminated)
    x = np.asarray(first.obs.policy[:, 0])
    np.testing.assert_allclose(moved.next_obs.policy, np.stack([x + 3.0, np.full(N, 3.0)], 1))
    np.testing.assert_allclose(moved.ended_return, 3 * x + 6.0, rtol=1e-6)
    assert np.all(state.obs.policy[:, 1] == 0.0)


def test_every_reset_is_freshly_random(env):
    first = begun(env)
    state, _ = act(env, first, 1.0, 1.0, 1.0)
    starts = np.concatenate([first.obs.policy[:, 0], state.obs.policy[:, 0]])
    assert len(np.unique(starts)) == 2 * N
    assert np.all((starts >= 0.0) & (starts < 1.0))


def test_done_terminates_with_its_reward(env):
    first = begun(env)
    beyond = first._replace(
        physics=first.physics._replace(
            state=first.physics.state.replace(obs=jnp.array([[3.5, 0.0]] * N))
        )
    )
    state, moved = act(env, beyond, 1.0)
    assert np.all(moved.terminated)
    np.testing.assert_allclose(moved.reward, 4.5)
    np.testing.assert_allclose(moved.diagnostics["metric/x"], 4.5)
    assert np.all(state.length == 0)


def test_an_action_counts_up_to_1(env):
    first = begun(env)
    _, moved = act(env, first, 7.0)
    np.testing.assert_allclose(moved.next_obs.policy[:, 0], first.obs.policy[:, 0] + 1.0)


def test_a_step_has_the_types_of_a_reset(env):
    first = begun(env)
    state, _ = act(env, first, 1.0)
    types = [[(x.dtype, x.weak_type) for x in jax.tree.leaves(each)] for each in (first, state)]
    assert types[0] == types[1]


def test_the_critic_sees_what_the_policy_sees_and_what_is_privileged():
    seen = observation({"state": jnp.ones(2), "privileged_state": jnp.zeros(3)})
    np.testing.assert_array_equal(seen.policy, [1.0, 1.0])
    np.testing.assert_array_equal(seen.critic, [1.0, 1.0, 0.0, 0.0, 0.0])
    with pytest.raises(UserError, match="pixels/view_0"):
        observation({"pixels/view_0": jnp.zeros((4, 4, 3))})


@pytest.mark.parametrize(
    ("words", "named"),
    [
        (["--env", "gym:ant"], "brax:NAME"),
        (["--env", "brx:fast"], "brax:fast"),
        (["--env", "brax:fast", "--robot", "go1"], "--robot"),
    ],
)
def test_a_bad_environment_is_one_line(words, named, capsys):
    if words[1] == "brax:fast" and importlib.util.find_spec("brax") is None:
        named = "jaxrl_hw[brax]"
    assert train.main(words) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert named in line


@pytest.mark.parametrize(
    ("name", "package"), [("brax:ant", "brax"), ("playground:HopperHop", "mujoco_playground")]
)
def test_without_its_package_a_line_says_how_to_install_it(name, package, capsys, monkeypatch):
    real = importlib.util.find_spec
    monkeypatch.setattr(
        importlib.util, "find_spec", lambda wanted: None if wanted == package else real(wanted)
    )
    assert train.main(["--env", name]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert f"jaxrl_hw[{name.partition(':')[0]}]" in line


FAST = ["--env", "brax:fast", "--num-envs", "8", "--no-tensorboard"]
FAST += ["--ppo.unroll", "4", "--net.policy", "8", "--net.value", "8", "--brax.episode-steps", "5"]


@pytest.fixture(scope="module")
def fast(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two iterations of Brax's smallest environment."""
    folder = tmp_path_factory.mktemp("fast") / "run"
    assert train.main([*FAST, "--iterations", "2", "--run-dir", str(folder)]) == 0
    return folder


def losses(folder: Path) -> list[float]:
    return [json.loads(line)["loss/value"] for line in (folder / "metrics.jsonl").open()]


@needs_brax
@pytest.mark.parametrize(("backend", "is_spared"), [("spring", False), ("generalized", True)])
def test_only_physics_that_factorizes_has_spare_threads_on_a_cpu(backend, is_spared):
    words = ["--env", "brax:inverted_pendulum", "--brax.backend", backend, "--json"]
    command = [sys.executable, "-m", "jaxrl_hw.plan", *words, "--num-envs", "4"]
    env = {k: v for k, v in os.environ.items() if k != "NPROC"}
    done = subprocess.run(command, env=env, capture_output=True, text=True, check=True)
    names = {one["name"] for one in json.loads(done.stdout)["xla"]}
    assert ("NPROC" in names) == is_spared


@needs_brax
def test_a_run_of_brax_is_continued_to_the_bit(fast, tmp_path):
    part, whole = tmp_path / "part", tmp_path / "whole"
    shutil.copytree(fast, part)
    assert train.main(["--env", "brax:fast", "--run-dir", str(part), "--iterations", "3"]) == 0
    assert train.main([*FAST, "--iterations", "3", "--run-dir", str(whole)]) == 0
    assert len(losses(part)) == 3
    assert losses(part) == losses(whole)


@needs_brax
def test_a_run_of_brax_is_exported_and_scored_by_its_return(fast, tmp_path, capsys):
    assert export.main(["--run-dir", str(fast), "--out", str(tmp_path)]) == 0
    capsys.readouterr()
    words = ["--seconds", "1", "--json"]
    assert evaluate.main(["--run-dir", str(fast), *words]) == 0
    of_run = json.loads(capsys.readouterr().out)
    assert evaluate.main(["--policy", str(tmp_path / "policy.npz"), *words]) == 0
    of_file = json.loads(capsys.readouterr().out)
    assert (of_run["robot"], of_run["task"]) == ("brax:fast", "brax")
    assert of_file["mean"]["return"] == pytest.approx(of_run["mean"]["return"], abs=1e-3)


@needs_brax
@pytest.mark.parametrize(
    ("words", "named"),
    [
        (["--env", "brax:hoper"], "hopper"),
        (["--env", "brax:"], "hopper"),
        (["--env", "brax"], "hopper"),
        (["--env", "brax:fast", "--physics", "native"], "--physics native"),
        (["--env", "brax:fast", "--task", "cartpole"], "--task brax"),
    ],
)
def test_what_brax_has_not_is_refused_in_a_line(words, named, capsys, tmp_path):
    assert train.main([*words, "--run-dir", str(tmp_path / "run")]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert named in line
    assert not (tmp_path / "run").exists()


@needs_playground
def test_playground_has_other_names(capsys):
    assert train.main(["--env", "playground:CartpoleBalanse"]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert "CartpoleBalance" in line
