"""The settings of a run that is on disk, in this version's terms."""

from __future__ import annotations

from typing import Any

from jaxrl_hw.checkpointing.run_dir import RunDir
from jaxrl_hw.config import migrations


def read_settings(run: RunDir) -> dict[str, Any] | None:
    """The settings in a run's config.json as this version has them, None in a new folder.

    Raises:
      UserError: the file is damaged or of a newer format.
    """
    saved = run.read_config()
    return None if saved is None else migrations.as_now(saved)


def lost_settings(run: RunDir) -> list[tuple[str, Any]]:
    """Settings that a run was trained with and this version no longer has: (key, value).

    Raises:
      UserError: as for `read_settings`.
    """
    saved = run.read_config()
    return [] if saved is None else migrations.lost(saved)
