"""An environment of another library as a task with physics of its own.

Its state is the physics' state, and its step the physics' step: so `episode` resets it freshly at
random, keeps the true final observation and cuts it at the time limit, as it does any other.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import Array, lax

from jaxrl_hw.envs.physics.api import Physics
from jaxrl_hw.envs.tasks import Facts
from jaxrl_hw.envs.tasks.api import Outcome, Start, Task
from jaxrl_hw.errors import UserError
from jaxrl_hw.types import Observation


class Loaded(NamedTuple):
    """An environment with `reset(rng)`, `step(state, action)` and `action_size`, whose states have
    `obs`, `reward`, `done` and `metrics`."""

    name: str
    env: Any
    control_dt: float  # s
    episode_steps: int  # time limit, control steps
    model: Any  # mujoco.MjModel, to draw
    pose: Callable[[Any], tuple[Array, Array]]
    """state -> qpos [nq], qvel [nv] of the model"""


class OutsideState(NamedTuple):
    """One environment's state as the engine's; takes the place of `PhysState`."""

    qpos: Array
    qvel: Array
    state: Any


def facts_of(loaded: Loaded) -> Facts:
    """The sizes of an environment, without a step of it."""
    return _facts(loaded, jax.eval_shape(loaded.env.reset, _key()))


def _facts(loaded: Loaded, form: Any) -> Facts:
    """The same of its first state's form."""
    obs = jax.eval_shape(observation, form.obs)
    numbers = sum(leaf.size for leaf in jax.tree.leaves(form))
    sizes = obs.policy.shape[-1], obs.critic.shape[-1], int(loaded.env.action_size)
    return Facts(*sizes, numbers, loaded.control_dt)


def world(task: str, loaded: Loaded) -> tuple[Task, Physics]:
    """The task of an environment, and its physics: actions are clipped to [-1, 1], the reward is
    the environment's own, `done` terminates, its metrics are diagnostics."""
    env, first = loaded.env, jax.eval_shape(loaded.env.reset, _key())
    facts = _facts(loaded, first)
    # a first state and a later one may differ in their leaves' types: all get those of a later one
    form = jax.eval_shape(env.step, first, jax.ShapeDtypeStruct((facts.action,), jnp.float32))

    def packed(state: Any) -> OutsideState:
        state = jax.tree.map(lambda x, to: lax.convert_element_type(x, to.dtype), state, form)
        qpos, qvel = loaded.pose(state)
        return OutsideState(qpos, qvel, state)

    def step(params: Any, state: OutsideState, ctrl: Array) -> tuple[OutsideState, Array]:
        return packed(env.step(state.state, ctrl)), jnp.zeros(0)

    def reset(params: Any, key: Array) -> Start:
        physics: Any = packed(env.reset(_plain(key)))
        return Start(physics, {}, (), observation(physics.state.obs))

    def outcome(
        params: Any, own: Any, model: Any, physics: Any, sensed: Array, action: Array, key: Array
    ) -> Outcome:
        state = physics.state
        return Outcome(
            physics,
            own,
            observation(state.obs),
            {"environment": state.reward.astype(jnp.float32)},
            state.done.astype(bool),
            {f"metric/{k}": v.astype(jnp.float32) for k, v in state.metrics.items()},
        )

    made = Task(
        name=task,
        obs_size=facts.obs,
        critic_size=facts.critic,
        action_size=facts.action,
        episode_steps=loaded.episode_steps,
        fields=(),
        symmetry=None,
        reset=reset,
        control=lambda params, state, action: jnp.clip(action, -1.0, 1.0),
        outcome=outcome,
        stagger=True,
    )
    return made, Physics("mjx", _timed(loaded), 1, (), step)  # type: ignore[arg-type]


def observation(obs: Any) -> Observation:
    """An environment's observation: of several by name the policy sees "state", the critic also
    "privileged_state". Raises UserError for images and other shapes."""
    if not isinstance(obs, Mapping):
        obs = {"state": obs}
    seen = obs.get("state")
    if seen is None or seen.ndim != 1:
        raise UserError(
            "the environment's observations must be vectors, or have one named state; "
            f"it gives {', '.join(sorted(obs))}"
        )
    seen = seen.astype(jnp.float32)
    more = obs.get("privileged_state")
    critic = seen if more is None else jnp.concatenate([seen, more.astype(jnp.float32)])
    return Observation(seen, critic)


def _timed(loaded: Loaded) -> Any:
    """A copy of its model whose timestep is a control step: its physics takes them in one."""
    model = copy.deepcopy(loaded.model)
    model.opt.timestep = loaded.control_dt
    return model


def _key() -> Array:
    return jax.random.PRNGKey(0)


def _plain(key: Array) -> Array:
    """A key as other libraries take it: two words of the threefry kind. Consumes key."""
    return jax.random.bits(key, (2,), jnp.uint32)
