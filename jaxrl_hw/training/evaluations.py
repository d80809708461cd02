"""`--eval-every`: short tests of the policy during a run; the best checkpoint goes by them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import jax
import numpy as np
from jax import Array

from jaxrl_hw.checkpointing.description import EVALUATION
from jaxrl_hw.config.goal import goal_iteration
from jaxrl_hw.config.resolve import robot_spec, task_name
from jaxrl_hw.config.schema import Config
from jaxrl_hw.envs.vector import Env
from jaxrl_hw.errors import UserError
from jaxrl_hw.evaluation.scoring import commands_for
from jaxrl_hw.evaluation.short_test import compile_short_test, short_test
from jaxrl_hw.hardware.memory import trim
from jaxrl_hw.loggers.console import Console
from jaxrl_hw.planning.disk_space import is_saved, last_saved
from jaxrl_hw.planning.memory_model import EVALUATING
from jaxrl_hw.training.layout import local
from jaxrl_hw.training.train_step import total_steps
from jaxrl_hw.types import Algorithm, Learner, Policy, TrainState

_T = TypeVar("_T")


def is_due(config: Config, iteration: int, env_steps: int, samples: int) -> bool:
    """Whether an iteration is evaluated: it is saved, and since the saved one before it a multiple
    of `eval_every` env steps has been passed. Where sessions began or ended does not matter.

    Args:
      iteration, env_steps: done by its end.
      samples: env steps of an iteration.
    """
    if not config.eval_every or not is_saved(config, iteration):
        return False
    passed = env_steps - (iteration - last_saved(config, iteration - 1)) * samples
    return env_steps // config.eval_every > passed // config.eval_every


class Evaluations:
    """The evaluations of a run.

    They run on the CPU whatever the training's device, with random numbers of their own: training
    goes on as if there were none. Where the policy cannot be driven, a warning says so and there
    are none.

    whole: gives the state behind what the train step gives.
    """

    def __init__(
        self,
        config: Config,
        env: Env,
        algorithm: Algorithm,
        console: Console,
        whole: Callable[[TrainState], TrainState],
    ) -> None:
        self._config, self._console, self._whole = config, console, whole
        self._samples = env.num_envs * algorithm.unroll

        def act(learner: Learner, env_steps: Array, obs: Array, memory: Any) -> tuple[Array, Any]:
            mask = env.phase_mask(env.params_at(env_steps))
            return algorithm.policy(learner, obs, mask, memory)

        self._act, self._start = jax.jit(act), algorithm.start
        self._enabled = task_name(config) == "joystick" and config.eval_every > 0
        self.resident_bytes = 0
        """What they keep of a CPU's memory; 0 before `compile`, or where none will be due."""

    def compile(self, state: TrainState) -> None:
        """Compile now what an evaluation runs, where there will be one before the run's goal: the
        memory that compiling takes is free again when training begins.

        state: to begin with.
        """
        if self._enabled and self._will_be_due(int(state.iteration), total_steps(state.env_steps)):
            with self._console.compiling("compiling evaluation"):
                self.resident_bytes = EVALUATING
                trim()  # of the train step's compilation
                self._guarded(lambda: compile_short_test(self._config, self._policy_of(state)))

    def _will_be_due(self, iteration: int, env_steps: int) -> bool:
        config, goal = self._config, goal_iteration(self._config, iteration, env_steps)
        passed, last = (
            (env_steps + (last_saved(config, i) - iteration) * self._samples) // config.eval_every
            for i in (iteration, goal)
        )
        return last > passed

    def _is_due(self, iteration: int, env_steps: int) -> bool:
        return is_due(self._config, iteration, env_steps, self._samples)

    def row(self, state: TrainState, iteration: int, env_steps: int) -> dict[str, Any]:
        """What the evaluation of an iteration adds to its row of metrics.jsonl; mostly nothing.

        state: as the step gives it.
        """
        if not self._enabled or not self._is_due(iteration, env_steps):
            return {}
        seed, state = _seed_of(self._config.seed, iteration), self._whole(state)
        figures = self._guarded(lambda: short_test(self._config, self._policy_of(state), seed))
        if figures is None:
            return {}
        robots = len(commands_for(robot_spec(self._config)))
        self._console.message(_text(figures, iteration, robots))
        return {f"{EVALUATION}{name}": value for name, value in figures.items()}

    def _policy_of(self, state: TrainState) -> Policy:
        """The policy as evaluation and export have it, on the CPU."""
        acting = state.learner._replace(replay=())
        learner, env_steps = jax.device_put(local((acting, state.env_steps)), _cpu())
        # NumPy: the driver would compile anew for an array that is bound to a device
        return Policy(
            self._start,
            lambda obs, memory: jax.tree.map(
                np.asarray, self._act(learner, env_steps, obs, memory)
            ),
        )

    def _guarded(self, action: Callable[[], _T]) -> _T | None:
        """What an action on the CPU returns; None, and no more evaluations, where it cannot."""
        try:
            with jax.default_device(_cpu()):
                return action()
        except UserError as error:
            self._enabled = False
            self._console.warning(f"no evaluations, so the best return decides: {error}")
            return None


def _cpu() -> jax.Device:
    try:
        return jax.local_devices(backend="cpu")[0]
    except RuntimeError as error:
        raise UserError("JAX has no CPU device here; add cpu to JAX_PLATFORMS") from error


def _seed_of(seed: int, iteration: int) -> int:
    """A seed for one iteration's evaluation, below 2**31."""
    return int(np.random.SeedSequence([seed, iteration]).generate_state(1)[0]) >> 1


def _text(figures: dict[str, float], iteration: int, robots: int) -> str:
    return (
        f"evaluation at iteration {iteration:,}: {figures['falls']} of {robots} robots fell, "
        f"{figures['pushed_falls']} of {robots} when pushed; error "
        f"{figures['velocity_error']:.3f} m/s and {figures['yaw_error']:.3f} rad/s, pushed "
        f"{figures['pushed_velocity_error']:.3f} m/s; {figures['power']:.0f} W"
    )
