"""The plan of a run as a value: what it will do and use, for people and for plan.json."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from jaxrl_hw.checkpointing.run_dir import RunDir
from jaxrl_hw.config import validation
from jaxrl_hw.config.goal import goal_text
from jaxrl_hw.config.origins import Origin
from jaxrl_hw.config.presets import suiting
from jaxrl_hw.config.resolve import (
    algorithm_needs,
    algorithm_why,
    robot_spec,
    task_name,
    usual_unroll,
)
from jaxrl_hw.config.schema import Config
from jaxrl_hw.config.units import parse_memory
from jaxrl_hw.hardware import profiles
from jaxrl_hw.hardware.detect import Hardware
from jaxrl_hw.hardware.sizing import UNDER_LIMIT, Sizing
from jaxrl_hw.hardware.xla import Setting
from jaxrl_hw.loggers import formats
from jaxrl_hw.planning.by_part import by_part
from jaxrl_hw.planning.compiling import at_once
from jaxrl_hw.planning.continuation import RESUME_WORDS
from jaxrl_hw.planning.devices import device_count, is_sharded, of_each_seed, shards_of
from jaxrl_hw.planning.disk_space import Storage, mirror_of, storage_text
from jaxrl_hw.planning.duration import Duration, duration
from jaxrl_hw.planning.halving import Halving
from jaxrl_hw.planning.ladder import ladder_text, rungs
from jaxrl_hw.planning.memory_model import (
    FIRST_ITERATIONS,
    LATER_EVALUATIONS,
    Footprint,
    evaluates,
)
from jaxrl_hw.planning.replay import learner_text, replay_of, replay_text, resumes_exactly
from jaxrl_hw.types import Needs


@dataclass(frozen=True)
class Plan:
    """What a run will do and use."""

    config: Config
    """The config with every "auto" settled."""
    hardware: Hardware
    folder: Path
    sizing: Sizing
    memory: dict[str, int]
    """Expected bytes, item by item; their sum is `sizing.expected_bytes`."""
    footprint: Footprint
    """Where they are from, and what other numbers of environments would take."""
    xla: tuple[Setting, ...]
    iterations_done: int
    """Of the run that is continued; 0 for a new one."""
    warnings: tuple[str, ...]
    storage: Storage
    source: Path
    """Where the run that is continued is: its folder, or the mirror that it is copied back from."""
    halvings: tuple[Halving, ...] = ()
    """Of the learning rate, in the run so far."""
    origins: Mapping[str, Origin] = field(default_factory=dict)
    """Of the settings that are not at their defaults, where the command knows them."""

    def rows(self) -> list[tuple[str, str]]:
        """The plan as names and values, for people."""
        c, h = self.config, self.hardware
        free = formats.size(h.memory_free) if h.memory_free else "unknown"
        task = task_name(c)
        limit = f", stopping after {c.time_limit}" if c.time_limit else ""
        # those that bear on memory or speed
        shown = (s for s in self.xla if not s.name.startswith(("TF_", "JAX_PERSISTENT")))
        home = str(Path.home())
        xla = (f"{s.name}={s.value.replace(home, '~', 1)} ({s.origin})" for s in shown)
        return [
            ("robot", f"{c.robot}, {task} task, {c.algo}, preset {self._preset()}, seed {c.seed}"),
            ("hardware", f"{h.name}, {h.cores} cores, {free} free ({h.memory_source})"),
            ("physics", self._physics()),
            ("environments", f"{c.num_envs:,}: {'; '.join(self.sizing.reasons)}"),
            *([("devices", self._devices())] if is_sharded(c) else []),
            *([("seeds", f"{c.seeds} in one program, each with these")] if c.seeds > 1 else []),
            ("batch", self._batch()),
            *self._updates(),
            ("networks", self._networks()),
            *self._replay(),
            ("memory", self._memory()),
            ("out of memory", ladder_text(c)),
            ("speed", self._speed()),
            ("duration", str(self.duration or "unknown, as its speed is")),
            ("XLA", ", ".join(xla)),
            ("run folder", self._folder()),
            ("checkpoints", storage_text(c, self.storage)),
            *([("mirror", str(mirror.path))] if (mirror := self.mirror) else []),
            ("start", self._start()),
            ("goal", f"{goal_text(c)}{limit}"),
        ]

    def _folder(self) -> str:
        more = self.config.seeds - 1
        beside = "another" if more == 1 else f"{more} others"
        return f"{self.folder}, and {beside} beside it" if more else str(self.folder)

    def resized(self, config: Config) -> Plan:
        """The same plan with another number of environments, or of minibatches."""
        number = int(config.num_envs)
        items = self.footprint.items(number)
        size = self.sizing._replace(num_envs=number, expected_bytes=sum(items.values()))
        return replace(self, config=config, sizing=size, memory=items)

    def with_resident(self, held: int) -> Plan:
        """The same plan with what the process really holds.

        What compiling leaves behind differs by tens of megabytes, most of all where the program
        came from the compilation cache.

        held: bytes, of a process on a CPU that has compiled the program and has the first state.
        """
        # of the learner, which counts twice, one copy is there
        learner = sum(self.memory[name] for name in ("networks", "optimizer", "normalizer")) // 2
        arrays = learner + self.memory["replay"] + self.memory["environments"]
        later = FIRST_ITERATIONS + (LATER_EVALUATIONS if evaluates(self.config) else 0)
        memory = {**self.memory, "libraries": max(0, held - arrays) + later}
        size = self.sizing._replace(expected_bytes=sum(memory.values()))
        return replace(self, memory=memory, sizing=size)

    @property
    def by_part(self) -> dict[str, int]:
        """The memory by the learner's parts; empty for an algorithm that names none."""
        return by_part(self.memory, algorithm_needs(self.config), self.config.seeds)

    @property
    def of_each_seed(self) -> dict[str, int]:
        """The memory that each of several seeds has for itself; empty for one."""
        return of_each_seed(self.memory, self.config)

    @property
    def most_bytes(self) -> int | None:
        """The most that the run may use: the user's limit, else what was free; None if unknown."""
        limit = parse_memory(self.config.memory_limit)
        known = [value for value in (limit, self.hardware.memory_free) if value]
        return min(known, default=None)

    @property
    def compiles_in_parallel(self) -> bool:
        """Whether both halves of the train step are compiled at once: sooner, where a second core
        is there, and where the memory is that both take."""
        most = UNDER_LIMIT * (self.most_bytes or math.inf)
        return self.hardware.cores > 1 and self.footprint.compiling + at_once(self.config) <= most

    @property
    def compiling_bytes(self) -> int:
        """Expected peak of the process while it compiles; 0 where it does not count."""
        least = self.footprint.compiling
        return least + (at_once(self.config) if least and self.compiles_in_parallel else 0)

    @property
    def mirror(self) -> RunDir | None:
        """The run's folder in the mirror, None without a mirror."""
        return mirror_of(self.config.mirror, self.folder)

    @property
    def duration(self) -> Duration | None:
        """Of what is left of the run; None where its speed is not known."""
        rate = self.footprint.rates.get(int(self.config.num_envs))
        done, compile_s = self.iterations_done, self.footprint.compile_s
        return duration(self.config, self.source, done, rate, compile_s)

    def _preset(self) -> str:
        suits = suiting(self.hardware)
        named = self.config.preset
        return named if named == suits else f"{named} (auto would take {suits})"

    def _physics(self) -> str:
        c, h, robot = self.config, self.hardware, robot_spec(self.config)
        if robot.mjcf is None:
            step = f"{1000 * robot.control_dt:g} ms per action"
            return f"the environment's own, on the {h.platform}, {step}"
        timestep = c.timestep or robot.timestep
        where = f"{'MuJoCo Warp' if c.physics == 'warp' else 'MJX'} on the {h.platform}"
        if c.physics == "native":
            where = f"MuJoCo's C engine on {c.threads or h.cores} CPU threads"
        steps = f"{round(robot.control_dt / timestep)} steps of {1000 * timestep:g} ms"
        return f"{c.physics}: {where}, {steps} per action"

    def _devices(self) -> str:
        number, devices = int(self.config.num_envs), device_count(self.config)
        parts = shards_of(number, devices)
        processes = self.hardware.processes
        of = f" of {processes} processes" if processes > 1 else ""
        return (
            f"{devices}{of}: {number // devices:,} envs on each; {parts} shards of "
            f"{number // parts:,}"
        )

    def _batch(self) -> str:
        count, needs = int(self.config.num_envs), algorithm_needs(self.config)
        samples = count * needs.unroll
        if needs.replay is not None:
            used = needs.epochs * needs.minibatch_size / samples
            return (
                f"{count:,} envs x {needs.unroll} steps = {samples:,} samples; {needs.epochs:,} "
                f"gradient steps on {needs.minibatch_size:,} of the replay, which uses each sample "
                f"{used:.3g} times"
            )
        minibatches = needs.minibatches(samples)
        return (
            f"{count:,} envs x {needs.unroll} steps = {samples:,} samples; {needs.epochs} epochs x "
            f"{minibatches} minibatches of {samples // minibatches:,} ({self._why_batch(needs)})"
        )

    def _why_batch(self, needs: Needs) -> str:
        usual, envs = usual_unroll(self.config), f"{self.config.num_envs:,} environments"
        if needs.unroll == usual:
            return f"{usual} steps suit {envs}: the batch grows with their square root"
        origin = "as in the run so far" if self.iterations_done else "as given"
        return f"{origin}; {usual} steps suit {envs}"

    def _networks(self) -> str:
        h = self.hardware
        precision: str = self.config.precision
        if precision == "float32" and profiles.of(h.platform, h.name, h.memory_total).tf32:
            precision = "float32 (matrix products of the networks in TF32, physics in full)"
        networks = algorithm_needs(self.config).networks
        shown = (f"{name} {'-'.join(map(str, widths))}" for name, widths in networks)
        return f"{', '.join(shown)}, {precision}"

    def _updates(self) -> list[tuple[str, str]]:
        if replay_of(self.config) is not None:
            return []
        why = algorithm_why(self.config, self.hardware.platform)
        return [("updates", why)] if why else []

    def _replay(self) -> list[tuple[str, str]]:
        if replay_of(self.config) is None:
            return []
        learner = learner_text(self.config, self.hardware.platform)
        return [("replay", replay_text(self.config)), ("learner", learner)]

    def _memory(self) -> str:
        parts = ", ".join(f"{k} {formats.size(v)}" for k, v in self.memory.items() if v)
        compiling = self.compiling_bytes
        before = f"; {formats.size(compiling)} while compiling" if compiling else ""
        total, each = formats.size(self.sizing.expected_bytes), self.of_each_seed
        seeds = f", {formats.size(sum(each.values()))} for each of the seeds" if each else ""
        return f"{total} expected ({self.footprint.source}){seeds}: {parts}{before}"

    def _speed(self) -> str:
        rate = self.footprint.rates.get(int(self.config.num_envs))
        if rate is None:
            return "unknown until a run has had this many environments; plan --probe measures it"
        return f"{rate:,.0f} env steps/s expected, as measured here before"

    def _start(self) -> str:
        if self.iterations_done:
            copied = f", copied back from {self.source}" if self.source != self.folder else ""
            return f"continues after iteration {self.iterations_done:,}{copied}"
        if self.config.resume not in RESUME_WORDS:
            return f"new run, from {self.config.resume}"
        if self.config.init_from:
            return f"new run, policy from {self.config.init_from}"
        if self.config.resume == "never" and RunDir(self.folder).newest_checkpoint():
            return f"new run; the one in {self.folder} is moved aside"
        return "new run"

    def to_dict(self) -> dict[str, Any]:
        """For plan.json."""
        return {
            "hardware": asdict(self.hardware),
            "config": validation.to_dict(self.config),
            "origins": {key: one._asdict() for key, one in self.origins.items()} or None,
            "num_envs": self.config.num_envs,
            "envs_per_device": int(self.config.num_envs) // device_count(self.config),
            "reasons": list(self.sizing.reasons),
            "budget_bytes": self.sizing.budget_bytes,
            "disk": self.storage.to_dict(),
            "exact_resume": resumes_exactly(self.config),
            "predicted_bytes": {**self.memory, "total": self.sizing.expected_bytes},
            "predicted_bytes_of_each_seed": self.of_each_seed or None,
            "predicted_by_part": self.by_part or None,
            "predicted_from": self.footprint.source,
            "predicted_compile_bytes": self.compiling_bytes or None,
            "expected_env_steps_per_s": self.footprint.rates.get(int(self.config.num_envs)),
            "expected_seconds": None if (left := self.duration) is None else left.total_s,
            "expected_sessions": None if left is None else left.sessions,
            "candidates": [candidate._asdict() for candidate in self.sizing.candidates],
            "after_out_of_memory": list(rungs(self.config)) if self.config.on_oom != "fail" else [],
            "xla": [setting._asdict() for setting in self.xla],
            "warnings": list(self.warnings),
        }
