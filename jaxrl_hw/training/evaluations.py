"""`--eval-every`: short tests of the policy during a run; the best checkpoint goes by them."""

from __future__ import annotations

from typing import Any

import jax
import numpy as np

from jaxrl_hw.checkpointing.description import EVALUATION
from jaxrl_hw.config.resolve import robot_spec, task_name
from jaxrl_hw.config.schema import Config
from jaxrl_hw.envs.vector import Env
from jaxrl_hw.errors import UserError, first_line
from jaxrl_hw.evaluation.scoring import commands_for
from jaxrl_hw.evaluation.short_test import short_test
from jaxrl_hw.loggers.console import Console
from jaxrl_hw.planning.disk_space import is_saved
from jaxrl_hw.types import Algorithm, TrainState


def is_due(config: Config, iteration: int, env_steps: int, samples: int) -> bool:
    """Whether an iteration is evaluated: it is saved, and since the saved one before it a multiple
    of `eval_every` env steps has been passed. Where sessions began or ended does not matter.

    Args:
      iteration, env_steps: done by its end.
      samples: env steps of an iteration.
    """
    if not config.eval_every or not is_saved(config, iteration):
        return False
    before = next((i for i in range(iteration - 1, 0, -1) if is_saved(config, i)), 0)
    passed = env_steps - (iteration - before) * samples
    return env_steps // config.eval_every > passed // config.eval_every


class Evaluations:
    """The evaluations of one session.

    They run on the CPU whatever the training's device, with random numbers of their own: training
    goes on as if there were none.
    """

    def __init__(self, config: Config, env: Env, algorithm: Algorithm, console: Console) -> None:
        self._config, self._env, self._console = config, env, console
        self._samples = env.num_envs * algorithm.unroll
        self._act = jax.jit(algorithm.policy)
        self._enabled = task_name(config) == "joystick"

    def row(self, state: TrainState, iteration: int, env_steps: int) -> dict[str, Any]:
        """What the evaluation of an iteration adds to its row of metrics.jsonl; mostly nothing.

        Where the policy cannot be driven, one warning says so and the session goes on without.
        """
        if not self._enabled or not is_due(self._config, iteration, env_steps, self._samples):
            return {}
        try:
            figures = self._measure(state, _seed_of(self._config.seed, iteration))
        except UserError as error:
            self._enabled = False
            self._console.warning(f"the policy is not evaluated: {first_line(error)}")
            return {}
        robots = len(commands_for(robot_spec(self._config)))
        self._console.message(_text(figures, iteration, robots))
        return {f"{EVALUATION}{name}": value for name, value in figures.items()}

    def _measure(self, state: TrainState, seed: int) -> dict[str, float]:
        try:
            cpu = jax.local_devices(backend="cpu")[0]
        except RuntimeError as error:  # JAX_PLATFORMS leaves it out
            raise UserError("JAX has no CPU device here; add cpu to JAX_PLATFORMS") from error
        with jax.default_device(cpu):
            learner, done = jax.device_put((state.learner, state.env_steps), cpu)
            mask = self._env.phase_mask(self._env.params_at(done))
            return short_test(self._config, lambda obs: self._act(learner, obs, mask), seed)


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
