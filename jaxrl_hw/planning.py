"""The plan of a run: settled before anything heavy, and printed first."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from jaxrl_hw import footprint, settings
from jaxrl_hw.config import Config
from jaxrl_hw.flags import run_folder
from jaxrl_hw.hardware import sizing, xla
from jaxrl_hw.hardware.detect import Hardware, detect, refine
from jaxrl_hw.hardware.xla import Setting
from jaxrl_hw.origins import RESUME_WORDS, continued
from jaxrl_hw.robots import get_robot
from jaxrl_hw.sessions.run_dir import RunDir
from jaxrl_hw.storage import Storage, mirror_of, storage
from jaxrl_hw.telemetry import formats

BOUNDS = {"cpu": (64, 4096), "gpu": (512, 4096), "tpu": (512, 4096)}
"""Environments tried by `auto`, least and most, by platform."""


@dataclass(frozen=True)
class Plan:
    """What a run will do and use."""

    config: Config
    """The config with every "auto" settled."""
    hardware: Hardware
    folder: Path
    sizing: sizing.Sizing
    memory: dict[str, int]
    """Expected bytes, item by item; their sum is `sizing.expected_bytes`."""
    xla: tuple[Setting, ...]
    iterations_done: int
    """Of the run that is continued; 0 for a new one."""
    warnings: tuple[str, ...]
    storage: Storage
    source: Path
    """Where the run that is continued is: its folder, or the mirror that it is copied back from."""

    def rows(self) -> list[tuple[str, str]]:
        """The plan as names and values, for people."""
        c, h = self.config, self.hardware
        samples = int(c.num_envs) * c.ppo.unroll
        free = formats.size(h.memory_free) if h.memory_free else "unknown"
        kept = ", ".join(f"{k} {formats.size(v)}" for k, v in self.memory.items())
        task = get_robot(c.robot).task if c.task == "auto" else c.task
        goal = f"iteration {c.iterations:,}"
        limit = f", stopping after {c.time_limit}" if c.time_limit else ""
        return [
            ("robot", f"{c.robot}, {task} task, {c.algo}, preset {c.preset}, seed {c.seed}"),
            ("hardware", f"{h.name}, {h.cores} cores, {free} free ({h.memory_source})"),
            ("physics", _engine_note(c, h)),
            ("environments", f"{c.num_envs:,}: {'; '.join(self.sizing.reasons)}"),
            (
                "batch",
                f"{c.num_envs:,} envs x {c.ppo.unroll} steps = {samples:,} samples; "
                f"{c.ppo.epochs} epochs x {c.ppo.minibatches} minibatches of "
                f"{samples // c.ppo.minibatches:,}",
            ),
            (
                "networks",
                f"policy {'-'.join(map(str, c.net.policy))}, "
                f"value {'-'.join(map(str, c.net.value))}, {c.precision}",
            ),
            ("memory", f"{formats.size(self.sizing.expected_bytes)} expected: {kept}"),
            ("XLA", ", ".join(f"{s.name}={_home(s.value)} ({s.origin})" for s in self._told())),
            ("run folder", str(self.folder)),
            ("checkpoints", self._kept()),
            *([("mirror", str(mirror.path))] if (mirror := self.mirror) else []),
            ("start", self._start()),
            ("goal", goal + limit),
        ]

    @property
    def mirror(self) -> RunDir | None:
        """The run's folder in the mirror, None without a mirror."""
        return mirror_of(self.config.mirror, self.folder)

    def _kept(self) -> str:
        c, s = self.config, self.storage
        every = f", one every {c.keep_every:,} iterations" if c.keep_every else ""
        free = f"; {formats.size(s.free_bytes)} free" if s.free_bytes is not None else ""
        return (
            f"{formats.size(s.checkpoint_bytes)} each, up to {s.kept:,} kept (the last {c.keep}, "
            f"the best{every}): {formats.size(s.total_bytes)}{free}"
        )

    def _told(self) -> list[Setting]:
        """The settings that bear on memory and speed."""
        return [s for s in self.xla if not s.name.startswith(("TF_", "JAX_PERSISTENT"))]

    def _start(self) -> str:
        if self.iterations_done:
            copied = f", copied back from {self.source}" if self.source != self.folder else ""
            return f"continues after iteration {self.iterations_done:,}{copied}"
        if self.config.resume not in RESUME_WORDS:
            return f"new run, from {self.config.resume}"
        if self.config.init_from:
            return f"new run, its policy from {self.config.init_from}"
        if self.config.resume == "never" and RunDir(self.folder).newest_checkpoint():
            return f"new run; the one in {self.folder} is moved aside"
        return "new run"

    def to_dict(self) -> dict[str, Any]:
        """For plan.json."""
        h = self.hardware
        return {
            "hardware": {name: getattr(h, name) for name in h.__dataclass_fields__},
            "config": settings.to_dict(self.config),
            "num_envs": self.config.num_envs,
            "reasons": list(self.sizing.reasons),
            "budget_bytes": self.sizing.budget_bytes,
            "disk": self.storage.to_dict(),
            "predicted_bytes": {**self.memory, "total": self.sizing.expected_bytes},
            "candidates": [candidate._asdict() for candidate in self.sizing.candidates],
            "xla": [setting._asdict() for setting in self.xla],
            "warnings": list(self.warnings),
        }


def _home(text: str) -> str:
    """A path as people write it."""
    return text.replace(str(Path.home()), "~", 1)


def _engine_note(config: Config, hardware: Hardware) -> str:
    robot = get_robot(config.robot)
    timestep = config.timestep or robot.timestep
    where = f"MJX on the {hardware.platform}"
    if config.physics == "native":
        where = f"MuJoCo's C engine on {config.threads or hardware.cores} CPU threads"
    steps = f"{round(robot.control_dt / timestep)} steps of {1000 * timestep:g} ms"
    return f"{config.physics}: {where}, {steps} per action"


def make_plan(config: Config, hardware: Hardware | None = None) -> Plan:
    """Settle a config for this machine. Does not import jax; sets XLA's variables before it is.

    Args:
      config: as asked for.
      hardware: what to plan for; None looks at this machine.

    Raises:
      UserError: a value that cannot be used, a number of environments that does not fit or divide,
        a run folder that cannot be continued.
    """
    config = settings.check(config)
    if hardware is None:
        # a device that is open already knows its own memory best; opening one here would be too
        # early, before XLA's variables are set
        hardware = refine(detect()) if xla.backend_running() else detect()
    notes = list(hardware.notes)
    config = replace(config, physics=_engine(config.physics, hardware.platform))
    notes += _platform_notes(config, hardware.platform)
    folder = run_folder(config)
    config, done, source, more = continued(config, folder)
    notes += more
    memory = footprint.need(config)
    chosen = _size(config, hardware, memory.total)
    config = replace(config, num_envs=chosen.num_envs)
    fraction = config.mem_fraction if isinstance(config.mem_fraction, float) else None
    applied = xla.configure(
        fraction=fraction,
        cache_dir=None,
        platform=hardware.platform,
        host_callback=config.physics == "native",
        deterministic=config.deterministic,
    )
    late = [s.name for s in applied if s.origin == "too late"]
    if late:
        notes.append(f"jax was already imported: {', '.join(late)} cannot be set any more")
    disk = storage(config, chosen.num_envs, folder)
    notes += _disk_notes(config, disk, folder)
    return Plan(
        config=config,
        hardware=hardware,
        folder=folder,
        sizing=chosen,
        memory=memory.items(chosen.num_envs),
        xla=tuple(applied),
        iterations_done=done,
        warnings=tuple(notes),
        storage=disk,
        source=source,
    )


def _engine(asked: str, platform: str) -> str:
    if asked != "auto":
        return asked
    return "native" if platform == "cpu" else "mjx"


def _platform_notes(config: Config, platform: str) -> list[str]:
    notes = []
    if config.physics == "mjx" and platform == "cpu":
        notes.append("MJX runs on the CPU here, many times slower than --physics native")
    if config.deterministic and platform == "cpu":
        notes.append("--deterministic: nothing to set, a run on a CPU repeats to the bit as it is")
    if config.deterministic and platform == "gpu":
        notes.append(
            "--deterministic: sums that are scattered over threads are done in one order, which is "
            "slower; by how much has not been measured on a GPU yet"
        )
    return notes


def _disk_notes(config: Config, disk: Storage, folder: Path) -> list[str]:
    notes = []
    if disk.is_tight:
        notes.append(
            f"the checkpoints will need {formats.size(disk.total_bytes)}, and "
            f"{formats.size(disk.free_bytes)} is free in {folder}; use a lower --keep"
        )
    mirror = Path(config.mirror).expanduser()
    if config.mirror and not mirror.is_dir() and not mirror.parent.is_dir():
        notes.append(f"--mirror {mirror}: {mirror.parent} is not there (is the drive mounted?)")
    return notes


def _size(config: Config, hardware: Hardware, need: sizing.MemoryNeed) -> sizing.Sizing:
    step = sizing.granularity_of(config.ppo.unroll, config.ppo.minibatches)
    if isinstance(config.num_envs, int):
        sizing.check_divisible(config.num_envs, config.ppo.unroll, config.ppo.minibatches)
        return sizing.check_num_envs(
            config.num_envs,
            hardware,
            need=need,
            granularity=step,
            fraction=config.mem_fraction,
        )
    return sizing.choose_num_envs(
        hardware,
        need=need,
        granularity=step,
        bounds=BOUNDS[hardware.platform],
        fraction=config.mem_fraction,
    )
