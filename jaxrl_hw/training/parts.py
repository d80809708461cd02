"""What a run is made of: environments, an algorithm and a first state; shared by several seeds.

jax is loaded at the first use, for a run that is refused before it needs any.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from jaxrl_hw.config.schema import Config

if TYPE_CHECKING:
    from jaxrl_hw.envs.vector import Env
    from jaxrl_hw.training.train_step import FirstStates
    from jaxrl_hw.training.warm_start import Source
    from jaxrl_hw.types import Algorithm, TrainState


class Parts:
    """Makes the parts of one run, each anew."""

    def environments(self, config: Config) -> tuple[Env, Algorithm]:
        """Raises UserError as `make_env` does."""
        from jaxrl_hw.training.run import environments

        return environments(config)

    def first_state(
        self, env: Env, algorithm: Algorithm, seed: int, source: Source | None
    ) -> TrainState:
        """As `init_train_state`."""
        from jaxrl_hw.training.train_step import init_train_state

        return init_train_state(env, algorithm, seed, source)


class SharedParts(Parts):
    """Makes the parts of several seeds' runs: environments, and the programs of first states, once
    for configs that differ in nothing but what a seed has of its own."""

    def __init__(self) -> None:
        self._made: tuple[Config, tuple[Env, Algorithm]] | None = None
        self._first: FirstStates | None = None

    def environments(self, config: Config) -> tuple[Env, Algorithm]:
        config = of_any_seed(config)
        if self._made is None or self._made[0] != config:
            self._made = config, super().environments(config)
        return self._made[1]

    def first_state(
        self, env: Env, algorithm: Algorithm, seed: int, source: Source | None
    ) -> TrainState:
        from jaxrl_hw.training.train_step import FirstStates

        if self._first is None or self._first.env is not env:
            self._first = FirstStates(env, algorithm)
        return self._first(seed, source)

    def all_started(self) -> None:
        """No other seed will start: let the programs go."""
        self._first = None


def of_any_seed(config: Config) -> Config:
    """The config without what a seed has of its own."""
    return replace(config, seed=0, run_dir="", mirror="", profile=0)
