"""The settings of a run that is on disk, in this version's terms."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from jaxrl_hw.checkpointing.run_dir import RunDir
from jaxrl_hw.config import migrations, validation
from jaxrl_hw.config.presets import preset_config
from jaxrl_hw.config.schema import Config
from jaxrl_hw.loggers.jsonl import last_rows, read_rows


def read_settings(run: RunDir) -> dict[str, Any] | None:
    """The settings in a run's config.json as this version has them, None in a new folder.

    Raises:
      UserError: the file is damaged or of a newer format.
    """
    saved = run.read_config()
    if saved is None:
        return None
    return migrations.as_now(saved, lambda iteration: env_steps_at(run, saved, iteration))


def config_from(settings: Mapping[str, Any], source: str) -> Config:
    """The config of settings in this version's terms, of a run or a policy.

    Raises:
      UserError: an unknown robot, or settings of another version; names `source`.
    """
    names = {name: str(settings[name]) for name in ("robot", "task", "algo") if name in settings}
    base = preset_config(**names)
    return validation.from_dict(settings, base, source)


def env_steps_at(run: RunDir, saved: dict[str, Any], iteration: int) -> int:
    """Env steps of a run by the end of an iteration.

    As its metrics.jsonl has them; beyond its rows every iteration takes num_envs * unroll. Reads
    the end of the file only, where that is enough.

    saved: the run's settings.
    Raises:
      UserError: metrics.jsonl is damaged.
    """
    known = _env_steps(last_rows(run.metrics_jsonl))
    if all(i > iteration for i in known):
        rows = read_rows(run.metrics_jsonl) if iteration and run.metrics_jsonl.exists() else []
        known = {0: 0} | _env_steps(rows)
    before = max(i for i in known if i <= iteration)
    return known[before] + migrations.by_size(saved)(iteration - before)


def _env_steps(rows: Iterable[Mapping[str, Any]]) -> dict[int, int]:
    """Env steps by iteration, of rows that have both."""
    pairs = [(row.get("iteration"), row.get("env_steps")) for row in rows]
    return {i: n for i, n in pairs if isinstance(i, int) and isinstance(n, int)}
