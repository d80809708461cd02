"""Fixtures of several folders: engines that take long to compile, and tiny runs."""

from __future__ import annotations

import atexit
import functools
import gc
import hashlib
import inspect
import io
import json
import os
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import jax
import mujoco
import numpy as np
import pytest
from jax._src import compiler

from jaxrl_hw import Config, NetConfig, Run, fit, preset_config
from jaxrl_hw.checkpointing.run_dir import RunDir
from jaxrl_hw.config import validation
from jaxrl_hw.config.factory import make_task
from jaxrl_hw.config.resolve import sized
from jaxrl_hw.envs.physics import Physics
from jaxrl_hw.envs.tasks.api import Task
from jaxrl_hw.envs.tasks.joystick.settings import JoystickConfig
from jaxrl_hw.loggers.console import Console

# As `hardware.xla` does for every run on the C engine: otherwise a host callback may wait for the
# very thread it runs on. It has no effect after the first computation of the process.
jax.config.update("jax_cpu_enable_async_dispatch", False)


def compile_little() -> None:
    """Most of these tests' time goes into compiling what runs a few times only.

    For this process, pytest's workers and the processes that tests start: XLA optimizes less,
    leaves out the emitters that take it the longest, and keeps what it has compiled in one folder.
    The folder is a new one each time, so that no result depends on an earlier run of pytest.
    """
    # XLA ends a process over a flag that it does not know, and later versions may not know this one
    flags = "--xla_cpu_use_fusion_emitters=false" if jax.__version_info__ < (0, 11) else ""
    settings = {
        "jax_disable_most_optimizations": True,
        "jax_persistent_cache_min_compile_time_secs": 0.05,
        "jax_compilation_cache_dir": os.environ.get("JAX_COMPILATION_CACHE_DIR", ""),
    }
    if "PYTEST_XDIST_WORKER" not in os.environ:  # a worker has inherited them
        os.environ["XLA_FLAGS"] = f"{flags} {os.environ.get('XLA_FLAGS', '')}".strip()
        folder = tempfile.mkdtemp(prefix="jaxrl_hw-xla-")
        atexit.register(shutil.rmtree, folder, ignore_errors=True)
        settings["jax_compilation_cache_dir"] = folder
    for name, value in settings.items():
        os.environ[name.upper()] = str(value)
        jax.config.update(name, value)


compile_little()


def engine_of(callback: Any) -> dict[str, Any] | None:
    """What the C engine behind a host callback is made of, by name; None where there is none."""
    seen: set[int] = set()
    found = [callback]
    while found:
        one = found.pop()
        if id(one) in seen:
            continue
        seen.add(id(one))
        if isinstance(one, functools.partial):
            found.append(one.func)
        elif hasattr(one, "callback_func"):  # JAX's own wrapper
            found.append(one.callback_func)
        elif inspect.isfunction(one):
            inside = dict(inspect.getclosurevars(one).nonlocals)
            if one.__module__ == "jaxrl_hw.envs.physics.native" and "pools" in inside:
                return inside
            found += inside.values()
    return None


def as_value(engine: dict[str, Any]) -> tuple[Any, ...] | None:
    """The same for engines that compute the same; None where that cannot be told."""
    model, loop = engine["model"], engine["loop"]
    data = np.empty(mujoco.mj_sizeModel(model), np.uint8)
    mujoco.mj_saveModel(model, None, data)
    value = [data.tobytes(), engine["fields"], engine["threads"], loop.extra, loop.advance.__code__]
    for name, part in sorted(inspect.getclosurevars(loop.advance).nonlocals.items()):
        if not isinstance(part, int | np.ndarray | None):
            return None
        value.append((name, part.tobytes() if isinstance(part, np.ndarray) else part))
    return tuple(value)


KEPT_PROGRAMS = 32
"""Most programs that `compile_once` keeps, the last used ones: each holds memory."""


def compile_once() -> None:
    """A program that calls the C engine is compiled once in a process, not in each session.

    JAX keeps none with a host callback, and to compile it is a third of a small session. A program
    is the same where its text is, and where it calls the same code on an equal model. Each time
    it begins with new pools of simulations, as if it had been compiled for them.
    """
    compile_or_load = getattr(compiler, "compile_or_get_cached", None)
    if compile_or_load is None:  # it is private: another JAX compiles each time
        return
    kept: dict[tuple[Any, ...], tuple[Any, dict[str, Any]]] = {}

    def compile_or_find(*args: Any) -> Any:
        _, program, _, options, callbacks = args[:5]
        engine = engine_of(callbacks[0]) if len(callbacks) == 1 else None
        value = as_value(engine) if engine else None
        if engine is None or value is None:
            return compile_or_load(*args)
        text = program.operation.get_asm(enable_debug_info=False)
        key = (hashlib.sha256(text.encode()).digest(), options.SerializeAsString(), value)
        compiled, first = kept.pop(key, (None, engine))
        if compiled is None or as_value(first) != value:  # a test has changed the model since
            first, compiled = engine, compile_or_load(*args)
        first["pools"].clear()
        kept[key] = compiled, first
        if len(kept) > KEPT_PROGRAMS:
            del kept[next(iter(kept))]
        return compiled

    compiler.compile_or_get_cached = compile_or_find


compile_once()


NEW_OBJECTS = 50_000
"""So many of them after a test, and the garbage collector leaves out what is left of them."""
FILES_PER_COLLECTION = 8
"""Test files of a process until what was left out is looked through again."""

files_run = 0


def leave_out_the_present(everything: bool) -> None:
    """Python's garbage collector leaves out what is there now: modules, collected tests, what JAX
    keeps of programs. Every session of a run collects twice, and tracing allocates so much that
    the collector, left to itself, takes a quarter of its time."""
    if everything:
        gc.unfreeze()
    gc.collect()
    gc.freeze()
    gc.set_threshold(100_000, 20, 100)


def pytest_collection_finish() -> None:
    leave_out_the_present(everything=True)


@pytest.hookimpl(trylast=True)  # after the test's own fixtures
def pytest_runtest_teardown(item: pytest.Item, nextitem: pytest.Item | None) -> None:
    global files_run
    files_run += nextitem is None or nextitem.path != item.path
    if files_run == FILES_PER_COLLECTION:
        files_run = 0
        leave_out_the_present(everything=True)
    elif len(gc.get_objects()) > NEW_OBJECTS:  # beside those left out
        leave_out_the_present(everything=False)


class Compiled(NamedTuple):
    """A task and its engine, whose step is vmapped and jitted once for all tests."""

    task: Task
    physics: Physics
    step: Any  # (params, state, ctrl), every leaf [N, ...]; each N compiles again
    starts: Any  # (keys [N]) -> Start: N episodes, each with its own masses, frictions and pose


@pytest.fixture(scope="module")
def fully_optimized() -> Iterator[None]:
    """XLA optimizes as usual: what the module's tests compile runs for many seconds."""
    jax.config.update("jax_disable_most_optimizations", False)
    yield
    jax.config.update("jax_disable_most_optimizations", True)


@pytest.fixture(scope="session")
def compiled() -> Callable[[str, str], Compiled]:
    """compiled(robot, engine), built on first use."""

    @functools.cache
    def make(robot: str, engine: str) -> Compiled:
        # targets as they are: ctrl has the model's width
        settings = JoystickConfig(action_delay=(0.0, 0.0))
        task, physics = make_task(Config(robot=robot, physics=engine, joystick=settings))
        starts = jax.vmap(lambda key: task.reset(task.params, key))
        return Compiled(task, physics, jax.jit(jax.vmap(physics.step)), jax.jit(starts))

    return make


def train(robot: str, folder: Path, **changes: Any) -> Run:
    """The smallest run: two iterations, 16 environments, a policy that has learned nothing."""
    base = preset_config(robot)
    config = replace(
        base,
        num_envs=16,
        iterations=2,
        run_dir=str(folder),
        tensorboard=False,
        net=NetConfig(policy=(16,), value=(16,)),
        ppo=replace(base.ppo, unroll=8, epochs=1, minibatch_size=128, symmetry="none"),
    )
    return fit(replace(config, **changes), console=Console(io.StringIO()))


@pytest.fixture(scope="session")
def cartpole_run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    return train("cartpole", tmp_path_factory.mktemp("cartpole") / "run")


@pytest.fixture(scope="session")
def walking_run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    return train("g1_12dof", tmp_path_factory.mktemp("g1_12dof") / "run")


@pytest.fixture(scope="session")
def train_run() -> Callable[..., Run]:
    """train_run(robot, folder, **changes of the config): the smallest run."""
    return train


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A disk of 2 MB."""
    folder = tmp_path / "small"
    folder.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", "size=2m", "tmpfs", str(folder)]
    if os.geteuid() != 0 or shutil.which("mount") is None:
        pytest.skip("only root can mount a small disk")
    if subprocess.run(command, capture_output=True, check=False).returncode != 0:
        pytest.skip("mounting is not allowed here")
    yield folder
    subprocess.run(["umount", str(folder)], check=True)


def untrained_run(
    folder: Path,
    returns: Mapping[int, float | None] | None = None,
    goal: int = 40,
    rows: int = 20,
) -> Path:
    """A run folder made by hand, of one session; `returns`: episode_return of its checkpoints."""
    returns = {10: 3.5, 20: 2.5} if returns is None else returns
    run = RunDir(folder)
    run.prepare()
    config = preset_config("cartpole")
    config = replace(
        config, num_envs=16, iterations=goal, run_dir="/old/machine/runs/x", mirror="/old/drive"
    )
    run.write_config(validation.to_dict(sized(config, 16)))
    run.write_plan({"num_envs": 16})
    lines = ({"iteration": i, "episode_return": float(i)} for i in range(1, rows + 1))
    run.metrics_jsonl.write_text("".join(json.dumps(line) + "\n" for line in lines))
    for iteration, value in returns.items():
        save = run.checkpoints / str(iteration)
        for name in ("meta", "state/d"):
            (save / name).mkdir(parents=True)
        meta = {"iteration": iteration, "episode_return": value, "leaves": {}}
        (save / "meta/metadata").write_text(json.dumps(meta))
        noise = np.random.default_rng(iteration).bytes(5000)
        (save / "state/d/arrays").write_bytes(noise)
    run.append_session(
        {
            "started": "2026-01-02T03:04:05+0000",
            "hardware": "Tesla T4",
            "platform": "gpu",
            "physics": "mjx",
            "num_envs": 16,
            "first_iteration": 1,
            "last_iteration": rows,
            "seconds": 125.0,
            "ended": "time limit",
        }
    )
    return folder


@pytest.fixture(scope="session")
def new_run() -> Callable[..., Path]:
    """new_run(folder, returns, goal, rows): a run's folder."""
    return untrained_run


@pytest.fixture
def run(tmp_path: Path) -> Path:
    """A run made by hand with a newest checkpoint, 20, and a best one, 10."""
    return untrained_run(tmp_path / "runs" / "walker")
