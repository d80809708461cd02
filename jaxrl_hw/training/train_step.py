"""The train step: collect, then update. The only one there is."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from jaxrl_hw.envs.vector import Env, make_key
from jaxrl_hw.hardware import cpu_compiler, host_programs
from jaxrl_hw.training.finite_updates import guarded
from jaxrl_hw.training.layout import Layout
from jaxrl_hw.training.rollout import collect, init_rollout
from jaxrl_hw.training.stacked import Stacked
from jaxrl_hw.training.warm_start import Source, motion_clone, warm_start
from jaxrl_hw.types import (
    MILLION,
    WHOLE,
    Algorithm,
    Batch,
    Learner,
    Metrics,
    Shards,
    TrainState,
)

TrainStep = Callable[[TrainState], tuple[TrainState, Metrics]]
Arrangement = Layout | Stacked | None
"""Where what a step computes with lies: on several devices, or of several seeds side by side."""


def init_train_state(
    env: Env, algorithm: Algorithm, seed: int, source: Source | None = None
) -> TrainState:
    """A run's first state: fresh environments, nothing done, and a policy that knows the source, or
    else the task's motion (`warm_start`)."""
    return FirstStates(env, algorithm)(seed, source)


class FirstStates:
    """First states of several runs, whose programs are compiled once and kept as long as this
    is."""

    def __init__(self, env: Env, algorithm: Algorithm) -> None:
        self.env, self._algorithm = env, algorithm
        self._init = jax.jit(algorithm.init)
        self._clone = motion_clone(env, algorithm)
        self._reset: Any = None  # compiled

    def __call__(self, seed: int, source: Source | None = None) -> TrainState:
        """As `init_train_state`."""
        env, algorithm = self.env, self._algorithm
        fresh = _first(self._init, self._envs, lambda: algorithm.replay(env.num_envs), seed)
        batch = env.num_envs * algorithm.unroll
        return warm_start(fresh, self._clone, _keys(seed)[1], source, batch)

    def _envs(self, key: Array) -> Any:
        if self._reset is None:
            self._reset = _quickly_compiled(partial(init_rollout, self.env, self._algorithm), key)
        return self._reset(key)


def state_form(env: Env, algorithm: Algorithm) -> TrainState:
    """The shapes and dtypes of a train state, without making one."""
    form: TrainState = jax.eval_shape(
        lambda: _first(
            algorithm.init,
            lambda key: init_rollout(env, algorithm, key),
            lambda: algorithm.replay(env.num_envs),
            0,
        )
    )
    return form


def _first(
    init: Callable[[Array], Learner],
    reset: Callable[[Array], Any],
    replay: Callable[[], Any],
    seed: int,
) -> TrainState:
    key, key_learner, key_envs = _keys(seed)
    learner = init(key_learner)
    return TrainState(
        learner.params,
        learner.opt_state,
        learner.obs_stats,
        env_state=reset(key_envs),
        key=key,
        iteration=jax.device_put(np.int32(0)),
        env_steps=jax.device_put(np.zeros(2, np.uint32)),
        replay=replay(),
    )


def _keys(seed: int) -> tuple[Array, Array, Array]:
    """Of the run, of its learner's start and of its first environments."""
    return _three(make_key(seed))


def _split(key: Array) -> tuple[Array, Array, Array]:
    first, second, third = jax.random.split(key, 3)
    return first, second, third


_three = cpu_compiler.quick_jit(_split)


def with_fresh_envs(state: TrainState, env: Env, algorithm: Algorithm, seed: int) -> TrainState:
    """The same learner, counters and key with fresh environments, perhaps of another number, and an
    empty replay: what it held would not go on with what follows.

    seed: of the run; every iteration of it gets other environments.
    """
    key = jax.random.fold_in(make_key(seed), state.iteration)

    def reset(key: Array, env_steps: Array) -> Any:
        return init_rollout(env, algorithm, key, env.params_at(env_steps))

    envs = _quickly_compiled(reset, key, state.env_steps)(key, state.env_steps)
    return state._replace(env_state=envs, replay=algorithm.replay(env.num_envs))


def _quickly_compiled(function: Callable[..., Any], *args: Any) -> Any:
    """A function that runs once or a few times, compiled for arguments like these."""
    return jax.jit(function).lower(*args).compile(cpu_compiler.unoptimized())


def make_train_step(env: Env, algorithm: Algorithm, layout: Arrangement = None) -> TrainStep:
    """One iteration as a pure function: TrainState -> (TrainState, Metrics).

    Collection and update are jitted separately. The collection donates the environments' memory and
    the update the replay's, so the argument must not be used again, except the rest of its learner:
    a run continues from that where a step fails. `jax.jit` around the step makes one computation of
    both.

    layout: of the state on several devices (`Layout.place`).
    """
    return _compose(env, algorithm, *_halves(env, algorithm, layout), layout)


class CompiledStep(NamedTuple):
    """A compiled train step, and its halves, whose memory the compiler knows."""

    step: TrainStep
    collect: Any  # jax.stages.Compiled
    update: Any  # jax.stages.Compiled
    batch: Batch  # what goes from one to the other, as jax.ShapeDtypeStructs
    lowered: str  # hash of both halves as StableHLO, before the compiler has them


def compile_train_step(
    env: Env,
    algorithm: Algorithm,
    state: TrainState,
    options: dict[str, Any] | None = None,
    layout: Arrangement = None,
    in_parallel: bool = True,
) -> CompiledStep:
    """The same step, compiled now for states of this form.

    state: a state or its jax.ShapeDtypeStructs.
    options: XLA's compiler options for both halves; None takes those that suit each half.
    layout: that the state is placed by.
    in_parallel: compile both halves at once; one after the other takes less memory.
    """
    for_collecting = cpu_compiler.for_collecting() if options is None else options
    collect_half, update_half = _halves(env, algorithm, layout)
    batch = _batch_form(collect_half, state, layout)  # traced here, once: `lower` finds it
    with host_programs.kept(), ThreadPoolExecutor(2 if in_parallel else 1) as threads:
        updating = threads.submit(
            lambda: _compile(update_half.lower(*_updated_from(state, batch, state.key)), options)
        )
        collecting = threads.submit(
            lambda: _compile(collect_half.lower(*_collected_from(state, state.key)), for_collecting)
        )
        (collect, collect_hash), (update, update_hash) = collecting.result(), updating.result()
    step = _compose(env, algorithm, collect, update, layout)
    return CompiledStep(step, collect, update, batch, collect_hash + update_hash)


_FLOATS = re.compile(r"dense<[^>]*>(?= : tensor<[^>]*f\d+>)")
"""Floating-point constants in StableHLO. Reward weights and ranges are such: other values take the
same memory and time."""


def _compile(lowered: Any, options: dict[str, Any] | None) -> tuple[Any, str]:
    """The compiled program, and the hash of its source but for floating-point constants."""
    text = _FLOATS.sub("", lowered.as_text())
    return lowered.compile(options), hashlib.sha256(text.encode()).hexdigest()[:16]


def compile_update(
    env: Env,
    algorithm: Algorithm,
    state: TrainState,
    options: dict[str, Any] | None = None,
    layout: Arrangement = None,
) -> tuple[Any, Batch, str]:
    """The compiled update alone, the form of its batch, and the hash of its source."""
    collect_half, update_half = _halves(env, algorithm, layout)
    batch = _batch_form(collect_half, state, layout)
    lowering = update_half.lower(*_updated_from(state, batch, state.key))
    update, lowered = _compile(lowering, options)
    return update, batch, lowered


def _batch_form(collect_half: Any, state: TrainState, layout: Arrangement) -> Batch:
    """What goes from one half of the step to the other, as jax.ShapeDtypeStructs."""
    batch: Batch
    _, batch, _ = jax.eval_shape(collect_half, *_collected_from(state, state.key))
    return batch if layout is None else layout.place_batch(batch)


def _halves(env: Env, algorithm: Algorithm, layout: Arrangement) -> tuple[Any, Any]:
    def collecting(
        learner: Learner, envs: Any, key: Array, env_steps: Array, shards: Shards = WHOLE
    ) -> Any:
        params = env.params_at(env_steps)
        envs, batch, seen = collect(env, algorithm, learner, envs, key, params, shards)
        return envs, batch._replace(env_steps=env_steps), seen

    finite = guarded(algorithm.update)

    def update(  # `--profile` knows the program by its name
        learner: Learner, replay: Any, batch: Batch, key: Array, shards: Shards = WHOLE
    ) -> Any:
        return finite(learner._replace(replay=replay), batch, key, shards)

    if layout is not None:
        return layout.jit(collecting, update)
    # a replay is written where it lies: a copy could take as much memory as all the rest
    return jax.jit(collecting, donate_argnums=1), jax.jit(update, donate_argnums=1)


def _collected_from(state: TrainState, key: Array) -> tuple[Learner, Any, Array, Array]:
    """The collection's arguments."""
    return state.learner._replace(replay=()), state.env_state, key, state.env_steps


def _updated_from(state: TrainState, batch: Batch, key: Array) -> tuple[Learner, Any, Batch, Array]:
    """The update's arguments."""
    return state.learner._replace(replay=()), state.replay, batch, key


def _compose(
    env: Env, algorithm: Algorithm, collect_half: Any, update_half: Any, arrangement: Arrangement
) -> TrainStep:
    count = env.num_envs * algorithm.unroll

    def counted(env_steps: Array, iteration: Array) -> tuple[Array, Array]:
        return add_steps(env_steps, count), iteration + 1

    if arrangement is None:
        keys, counters = _three, cpu_compiler.quick_jit(counted)
    else:
        keys, counters = (
            cpu_compiler.quick_jit(arrangement.each(one)) for one in (_split, counted)
        )

    def train_step(state: TrainState) -> tuple[TrainState, Metrics]:
        key, key_collect, key_update = keys(state.key)
        steps, iteration = counters(state.env_steps, state.iteration)
        envs, batch, seen = collect_half(*_collected_from(state, key_collect))
        learner: Learner
        learner, learned = update_half(*_updated_from(state, batch, key_update))
        after = TrainState(*learner[:3], envs, key, iteration, steps, learner.replay)
        return after, {**seen, **learned}

    return train_step


def add_steps(env_steps: Array, count: int) -> Array:
    """Add to a step counter [2] of whole millions and the rest, exact past 2**32."""
    rest = env_steps[1] + jnp.uint32(count)
    return jnp.stack([env_steps[0] + rest // MILLION, rest % MILLION]).astype(jnp.uint32)


def total_steps(env_steps: Array) -> int:
    """The counter as a Python int."""
    millions, rest = np.asarray(env_steps).tolist()
    return int(millions) * MILLION + int(rest)
