"""Several seeds of a run in one program.

Each seed is a run of its own, in RUN_DIR/seed-N, which `fit` trains in a thread of its own. The
threads take turns: one goes on until it comes to its train step, and the step of all is one
computation once all have come. So a seed does what it does alone, and no two threads run at once.
"""

from __future__ import annotations

import contextlib
import os
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from jaxrl_hw.checkpointing.run_dir import RunDir
from jaxrl_hw.config import validation
from jaxrl_hw.config.resolve import of_seed, seed_folders
from jaxrl_hw.config.schema import Config
from jaxrl_hw.config.units import parse_duration
from jaxrl_hw.errors import RunError, UserError
from jaxrl_hw.loggers.console import Console
from jaxrl_hw.training.parts import SharedParts, of_any_seed
from jaxrl_hw.training.stopping import StopRequest
from jaxrl_hw.training.trainer import fit

if TYPE_CHECKING:
    from jaxrl_hw.envs.vector import Env
    from jaxrl_hw.planning.plan import Plan
    from jaxrl_hw.training.build import Built
    from jaxrl_hw.training.run import Run
    from jaxrl_hw.training.side_by_side import SideBySide
    from jaxrl_hw.training.train_step import TrainStep
    from jaxrl_hw.types import Algorithm, Metrics, TrainState

SeedCallback = Callable[[int, dict[str, Any]], bool | None]
_SAVING_S = 30.0
"""Kept free before the time limit, and for each further seed a tenth of it: for the last saves."""
_FAILED = "another seed failed"
"""`ended` of the seeds that stop because one has failed."""
_GIVE_WAY_S = 0.001


def fit_seeds(
    config: Config,
    seeds: int | Sequence[int] | None = None,
    callback: SeedCallback | None = None,
    console: Console | None = None,
) -> list[Run]:
    """Train the same run with several seeds, in one program; continue those that are there.

    Args:
      config: of each run, but for its seed and its folder: that is seed-N in `config.run_dir`, by
        default in runs/<robot>-<task>-<algo>-<first seed>-<last seed>.
      seeds: the seeds, or how many from `config.seed` on; None for `config.seeds`.
      callback: called with a seed and each row of its metrics.jsonl; True stops that seed, saved.
      console: where the messages of the first seed go; stdout by default. Each seed's are in its
        folder's console.log.

    Returns:
      The runs, in the order of the seeds.

    Raises:
      UserError: as `fit` does; also for a seed that is given twice, and for settings that do not go
        with several seeds.
      RunError: as `fit` does. The other seeds stop, saved.
    """
    numbers = _numbers(config, config.seeds if seeds is None else seeds)
    config = validation.check(replace(config, seed=numbers[0], seeds=len(numbers)))
    folders = seed_folders(config, numbers)
    if RunDir(folders[0].parent).config_json.exists():
        raise UserError(f"{folders[0].parent} is a run itself: name another --run-dir for seeds")
    limit = parse_duration(config.time_limit) if config.time_limit else None
    saving = _SAVING_S * (1.0 + 0.1 * (len(numbers) - 1))
    runs: list[Run | None] = [None] * len(numbers)
    with StopRequest(limit, saving) as request, open(os.devnull, "w") as nowhere:
        together = _Together(len(numbers), request)

        def train(index: int) -> None:
            own = _own(config, index, numbers[index], folders[index])
            after = None if callback is None else partial(callback, numbers[index])
            shown = console if index == 0 else Console(nowhere)
            build = partial(together.build, index)
            with together.turn(index):
                for thread in threads if index == 0 else ():  # the first seed goes first
                    thread.start()
                runs[index] = fit(
                    own,
                    after,
                    shown,
                    build=build,
                    parts=together.parts,
                    stop=_Stop(together),
                )

        threads = [threading.Thread(target=train, args=(i,)) for i in range(1, len(numbers))]
        train(0)  # in this thread, in which signals arrive
        for thread in threads:
            thread.join()
    if together.failure is not None:
        raise together.failure
    return [run for run in runs if run is not None]


def _numbers(config: Config, seeds: int | Sequence[int]) -> list[int]:
    numbers = list(range(config.seed, config.seed + seeds) if isinstance(seeds, int) else seeds)
    if not numbers or len(set(numbers)) < len(numbers):
        raise UserError(f"seeds must be one or more different numbers, got {numbers}")
    return numbers


def _own(config: Config, index: int, seed: int, folder: Path) -> Config:
    """The config of one seed."""
    return replace(of_seed(config, seed, folder), profile=config.profile if index == 0 else 0)


class _Together:
    """The turns of the seeds' threads, and the step of all of them.

    A thread holds the lock while it runs. At the step it waits, which lets the others run.
    """

    def __init__(self, number: int, request: StopRequest) -> None:
        self.failure: BaseException | None = None
        """The first one."""
        self.parts = SharedParts()
        self._condition = threading.Condition(threading.Lock())
        self._number, self._request = number, request
        self._active = set(range(number))  # seeds that take part in the step
        self._ready: set[int] = set()  # those that have planned and restored
        self._built: Built | None = None
        self._broken = False  # the step itself has failed
        self._came: set[int] = set()
        self._gone: dict[int, tuple[TrainState, Metrics]] = {}
        self._states: SideBySide | None = None  # from the step's compilation on

    @contextlib.contextmanager
    def turn(self, index: int) -> Iterator[None]:
        """All that a seed's thread does. Where one fails, the others stop after their next step."""
        with self._condition:
            try:
                yield
            except BaseException as error:
                self.failure = self.failure or error
            try:
                self._leave(index)
            except Exception as error:  # of the step, which the others hear of
                self.failure = self.failure or error

    def check_stop(self, expected_iteration_s: float) -> str | None:
        """As `StopRequest.check`, of any seed."""
        return _FAILED if self.failure else self._request.check(expected_iteration_s)

    def build(self, index: int, plan: Plan, env: Env, algorithm: Algorithm, **rest: Any) -> Built:
        """The step of all seeds, compiled once; has the signature of `build_step`."""
        from jaxrl_hw.training.build import build_step
        from jaxrl_hw.training.side_by_side import SideBySide

        self._ready.add(index)
        self._condition.notify_all()
        # all plan and restore before the first one takes memory
        self._condition.wait_for(
            lambda: (
                self._built is not None
                or self.failure
                or (self._ready >= self._active and index == min(self._active))
            )
        )
        if self.failure is not None:
            raise RunError(_FAILED)
        if self._built is None:
            self._built = build_step(plan, env, algorithm, **rest)
            self._states = SideBySide(self._number)
            self._condition.notify_all()
        built, config = self._built, plan.config
        if _program(config) != _program(built.plan.config):
            self._leave(index)
            alone = build_step(plan.resized(replace(config, seeds=1)), env, algorithm, **rest)
            return alone._replace(step=partial(self._step_alone, alone.step))
        plan = replace(plan, footprint=built.plan.footprint)
        plan = plan.resized(replace(config, num_envs=built.env.num_envs))
        if env.num_envs == built.env.num_envs:
            built = built._replace(env=env, algorithm=algorithm)
        states, saved = self._states, config.save_replay != "no"
        assert states is not None
        return built._replace(
            plan=plan,
            step=partial(self._step, index),
            place=partial(states.put, index),
            # a replay that checkpoints leave out may be too large for a copy
            whole=lambda _: states.copy(index, with_replay=saved),
        )

    def _step_alone(self, step: TrainStep, state: TrainState) -> tuple[TrainState, Metrics]:
        """The step of a seed that has other settings than the rest: its learning rate was
        halved."""
        self._condition.wait(_GIVE_WAY_S)
        return step(state)

    def _step(self, index: int, _: TrainState) -> tuple[TrainState, Metrics]:
        """One seed's part in the step of all."""
        self._came.add(index)
        self._step_if_all_came()
        self._condition.wait_for(lambda: index in self._gone or self._broken)
        if index not in self._gone:
            raise RunError(_FAILED)
        return self._gone.pop(index)

    def _leave(self, index: int) -> None:
        """A seed takes part no more."""
        self._active.discard(index)
        self._came.discard(index)
        self._condition.notify_all()
        self._step_if_all_came()

    def _step_if_all_came(self) -> None:
        """Take the step once every seed that takes part is there."""
        if not self._came or not self._came >= self._active or self._broken:
            return
        assert self._built is not None
        assert self._states is not None
        self.parts.all_started()
        came, self._came, self._broken = self._came, set(), True
        self._condition.notify_all()
        each = self._states.step(self._built.step)
        self._broken = False
        self._gone = {index: each[index] for index in came}


class _Stop(StopRequest):
    """One seed's view of what asks all to stop, whose signals are handled elsewhere."""

    def __init__(self, together: _Together) -> None:
        super().__init__()
        self._together = together

    def check(self, expected_iteration_s: float) -> str | None:
        return self._together.check_stop(expected_iteration_s)

    def __enter__(self) -> _Stop:
        return self

    def __exit__(self, *_: object) -> None:
        pass


def _program(config: Config) -> Config:
    """The config but for what may differ between seeds that share a step."""
    return replace(of_any_seed(config), num_envs=1)
