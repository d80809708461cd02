"""The build phase: compile a train step and check its memory before anything is allocated."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

from jaxrl_hw.envs.vector import Env
from jaxrl_hw.errors import UserError
from jaxrl_hw.hardware.measurement_cache import store
from jaxrl_hw.hardware.memory import MemoryWatch, trim
from jaxrl_hw.loggers import formats
from jaxrl_hw.loggers.console import Console
from jaxrl_hw.planning import memory_model
from jaxrl_hw.planning.devices import dividing
from jaxrl_hw.planning.plan import Plan
from jaxrl_hw.training import measure
from jaxrl_hw.training.run import environments
from jaxrl_hw.training.stacked import arrangement_of
from jaxrl_hw.training.train_step import TrainStep, compile_train_step, state_form
from jaxrl_hw.types import Algorithm, TrainState

if TYPE_CHECKING:  # evaluation is no part of the program that a plan measures
    from jaxrl_hw.training.evaluations import Evaluations

_ENOUGH_GAIN = 1.15
"""How many times more environments must fit by the compiler's figures to compile again."""
_ATTEMPTS = 4
"""Each halves what is left to gain; usually the first is the last."""
_ENOUGH_ITERATIONS = 4
"""Sessions with fewer are not remembered: the first iterations still warm up."""


def _as_it_is(state: TrainState) -> TrainState:
    return state


class Built(NamedTuple):
    """What a session iterates with."""

    plan: Plan
    env: Env
    algorithm: Algorithm
    step: TrainStep
    items: dict[str, int] | None
    """Bytes by item as the compiler counts them; None where it does not count."""
    programs: tuple[Any, ...] = ()
    """The step's halves as `jax.stages.Compiled`."""
    evaluations: Evaluations | None = None
    place: Callable[[TrainState], TrainState] = _as_it_is
    """Takes the first state over, and gives what the step takes: here the state itself."""
    whole: Callable[[TrainState], TrainState] = _as_it_is
    """The state behind what the step gives."""


Build = Callable[..., Built]
"""A function with the signature of `build_step`."""


def build_step(
    plan: Plan, env: Env, algorithm: Algorithm, *, may_resize: bool, console: Console
) -> Built:
    """Compile the train step and compare what it will allocate with the memory budget.

    may_resize: whether the number of environments may change: down where it would not fit, up
        where an estimate has left a part of the memory unused.

    Raises:
      UserError: the number is the user's and does not fit.
    """
    left = _ATTEMPTS
    while True:
        built, left = _compiled(plan, env, algorithm), left - 1
        plan = built.plan
        trim()  # gives this compilation's memory back before the first state takes as much
        wanted = env.num_envs if built.items is None else _wanted(plan, may_resize and left > 0)
        if wanted == env.num_envs:
            return built
        console.message(
            f"compiled for {env.num_envs:,} environments it would use "
            f"{formats.size(plan.sizing.expected_bytes)}: {wanted:,} instead"
        )
        plan = plan.resized(replace(plan.config, num_envs=wanted))
        del built
        trim()  # gives the dropped program's memory back before the next one is compiled
        env, algorithm = environments(plan.config)


def _compiled(plan: Plan, env: Env, algorithm: Algorithm) -> Built:
    form, layout = state_form(env, algorithm), arrangement_of(plan.config)
    form = form if layout is None else layout.place(form)
    compiled = compile_train_step(
        env, algorithm, form, layout=layout, in_parallel=plan.compiles_in_parallel
    )
    collect, update = (measure.program_memory(c) for c in (compiled.collect, compiled.update))
    items = None
    if collect and update:
        items = measure.items_of(env, form, compiled.batch, collect, update)
        # the compiler's figures take the place of the expected ones
        key = memory_model.program_key(plan.config, plan.hardware)
        store(key, points={env.num_envs: items}, lowered={env.num_envs: compiled.lowered})
        memory = memory_model.footprint(plan.config, plan.hardware)
        plan = replace(plan, footprint=memory).resized(plan.config)
    programs = (compiled.collect, compiled.update)
    return Built(plan, env, algorithm, compiled.step, items, programs)


def _wanted(plan: Plan, may_resize: bool) -> int:
    """The number of environments that the compiler's figures allow.

    Raises UserError where the present one does not fit and may not change.
    """
    budget, need = plan.sizing.budget_bytes, plan.footprint.total
    now = int(plan.config.num_envs)
    if budget is None:
        return now
    fitting = max(0, budget - need.fixed) // max(1, need.per_env)
    if need.total(now) <= budget:
        room = may_resize and fitting > _ENOUGH_GAIN * now and plan.sizing.bound_by_memory
        return dividing(plan.config, min(fitting, plan.sizing.most)) if room else now
    fewer = dividing(plan.config, min(fitting, now - 1))
    if may_resize and fitting and fewer < now:
        return fewer
    advice = f"use --num-envs {fitting}" if fitting else "use smaller networks or a shorter unroll"
    raise UserError(
        f"by the compiler's count {now:,} environments need {formats.size(need.total(now))}, but "
        f"{formats.size(budget)} can be used; {advice}"
    )


def remember_session(
    built: Built,
    memory: MemoryWatch,
    rates: list[float],
    *,
    compile_s: float,
    fresh_process: bool,
) -> None:
    """Add a session's speed and memory to the measurement cache, for later plans.

    rates: control steps per second of its iterations.
    compile_s: seconds that it took to compile.
    fresh_process: whether the process's memory is the session's alone.
    """
    if len(rates) < _ENOUGH_ITERATIONS:
        return
    plan, settled = built.plan, sorted(rates[1:])
    number, peak = int(plan.config.num_envs), memory.read().peak
    resident = None
    if fresh_process and built.items and peak and plan.hardware.platform == "cpu":
        evaluating = built.evaluations.resident_bytes if built.evaluations else 0
        items = sum(built.items.values()) + plan.memory.get(memory_model.SAVING, 0)
        resident = max(0, peak - items - evaluating)
    store(
        memory_model.program_key(plan.config, plan.hardware),
        rates={number: settled[len(settled) // 2]},
        resident=resident,
        compiling=memory.compiling if fresh_process and not plan.compiles_in_parallel else None,
        compile_s=round(compile_s, 1),
    )
