"""From a plan to a compiled train step that fits, and the state to go on from."""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

from jaxrl_hw.config.factory import make_algorithm, make_env
from jaxrl_hw.config.schema import Config
from jaxrl_hw.envs.vector import Env
from jaxrl_hw.errors import UserError
from jaxrl_hw.hardware.malloc import trim
from jaxrl_hw.hardware.measurement_cache import store
from jaxrl_hw.hardware.memory import MemoryWatch
from jaxrl_hw.hardware.sizing import MemoryNeed, granularity_of
from jaxrl_hw.loggers import formats
from jaxrl_hw.loggers.console import Console
from jaxrl_hw.planning import memory_model
from jaxrl_hw.planning.plan import Plan
from jaxrl_hw.training import measure
from jaxrl_hw.training.train_step import TrainStep, compile_train_step, state_form
from jaxrl_hw.types import Algorithm

_MORE = 1.15
"""How much more environments have to fit by the compiler's figures to be compiled for again."""


class Built(NamedTuple):
    """What an iteration runs on."""

    plan: Plan
    env: Env
    algorithm: Algorithm
    step: TrainStep
    items: dict[str, int] | None
    """Bytes by item as the compiler counts them; None where it does not tell."""


def environments(config: Config) -> tuple[Env, Algorithm]:
    """Environments and algorithm of a config. Raises UserError, see `factory`."""
    env = make_env(config)
    return env, make_algorithm(config, env)


def build(
    plan: Plan, env: Env, algorithm: Algorithm, *, may_resize: bool, console: Console
) -> Built:
    """Compile the train step, and compare what it will allocate with the budget before it does.

    Args:
      plan: as made; its footprint may be an estimate.
      env, algorithm: of the plan's config.
      may_resize: the number of environments is ours to choose: it is lowered where it would not
        fit, and raised where an estimate has left a part of the memory unused.
      console: where a change is told.

    Raises:
      UserError: the number is the user's and does not fit.
    """
    left = _ATTEMPTS
    while True:
        built, left = _built(plan, env, algorithm), left - 1
        plan = built.plan
        wanted = env.num_envs if built.items is None else _wanted(plan, may_resize and left > 0)
        if wanted == env.num_envs:
            return built
        console.message(
            f"compiled for {env.num_envs:,} environments it would use "
            f"{formats.size(plan.sizing.expected_bytes)}: {wanted:,} instead"
        )
        plan = plan.resized(replace(plan.config, num_envs=wanted))
        del built
        trim()  # what this compilation held, before the next one holds as much
        env, algorithm = environments(plan.config)


def _built(plan: Plan, env: Env, algorithm: Algorithm) -> Built:
    """Compiled, the plan with the compiler's figures."""
    form = state_form(env, algorithm)
    compiled = compile_train_step(env, algorithm, form)
    collect, update = (measure.program_memory(c) for c in (compiled.collect, compiled.update))
    items = None
    if collect and update:
        items = measure.items_of(env, form, compiled.batch, collect, update)
        plan = _verified(plan, items, compiled.lowered)
    return Built(plan, env, algorithm, compiled.step, items)


_ATTEMPTS = 4
"""Each halves what is left to gain; the first is the last in the usual case."""


def _verified(plan: Plan, items: dict[str, int], lowered: str) -> Plan:
    """The plan with the compiler's figures in place of the expected ones."""
    number = int(plan.config.num_envs)
    key = memory_model.program_key(plan.config, plan.hardware)
    store(key, points={number: items}, lowered={number: lowered})
    memory = memory_model.footprint(plan.config, plan.hardware)
    return replace(plan, footprint=memory).resized(plan.config)


def _wanted(plan: Plan, may_resize: bool) -> int:
    """The number of environments that the compiler's figures allow.

    Raises UserError where the present one does not fit and is not ours to change.
    """
    config, budget, need = plan.config, plan.sizing.budget_bytes, plan.footprint.total
    now = int(config.num_envs)
    step = granularity_of(config.ppo.unroll, config.ppo.minibatches)
    if budget is None:
        return now
    fitting = max(0, budget - need.fixed) // max(1, need.per_env) // step * step
    if need.total(now) <= budget:
        room = may_resize and fitting > _MORE * now and plan.sizing.bound_by_memory
        return min(fitting, plan.sizing.most) if room else now
    if may_resize and fitting >= step:
        return min(fitting, now - step)
    raise UserError(_refusal(need, now, budget, fitting))


def _refusal(need: MemoryNeed, now: int, budget: int, fitting: int) -> str:
    advice = f"use --num-envs {fitting}" if fitting else "use smaller networks or a shorter unroll"
    return (
        f"by the compiler's count {now:,} environments need {formats.size(need.total(now))}, but "
        f"{formats.size(budget)} can be used; {advice}"
    )


def learned(built: Built, memory: MemoryWatch, rates: list[float], fresh: bool) -> None:
    """Remember what a session has shown: its speed, and what it held beside the items.

    Args:
      built: what it ran on.
      memory: watched since it began.
      rates: control steps per second of its iterations.
      fresh: the process held nothing of the user's before.
    """
    if len(rates) < _ENOUGH:
        return
    plan, settled = built.plan, sorted(rates[1:])
    number, peak = int(plan.config.num_envs), memory.read().peak
    resident = None
    if fresh and built.items and peak and plan.hardware.platform == "cpu":
        resident = max(0, peak - sum(built.items.values()))
    store(
        memory_model.program_key(plan.config, plan.hardware),
        rates={number: settled[len(settled) // 2]},
        resident=resident,
        compiling=memory.compiling if fresh else None,
    )


_ENOUGH = 4
"""Iterations that tell something: the first ones still warm up."""
