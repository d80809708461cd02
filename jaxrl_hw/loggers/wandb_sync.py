"""The command that sends a run's offline sessions to Weights & Biases as one curve."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

_RESUMES = (0, 30)
"""From this version on `wandb sync` goes on where the run of that id ends, and knows no --append.
Before it, a folder without --append takes the place of those that were sent before."""


def sync_command(folder: Path, identity: str, version: str, is_sent: bool) -> str:
    """What to type to send all that W&B has not of a run; "" where it has everything.

    folder: where the package keeps this session; those of earlier ones lie beside it.
    identity: the run's id, which ends the folders' names.
    version: of the package; its `wandb sync` sends several folders of a run in the order of time.
    is_sent: whether this session went to the server as it ran.
    """
    pattern = f"offline-run-*-{identity}"
    offline = sorted(folder.parent.glob(pattern))
    # the package leaves the mark: sent once more by an older one, rows would count twice
    unsent = [path for path in offline if not any(path.glob("*.wandb.synced"))]
    online = [folder] if folder not in offline and not is_sent else []
    if not unsent and not online:
        return ""
    paths = [shlex.quote(str(path)) for path in (*unsent, *online)]
    if len(unsent) > 1 and unsent == offline:
        paths[: len(unsent)] = [f"{shlex.quote(str(folder.parent))}/{pattern}"]
    options = ["--append"] if _numbers(version) < _RESUMES else []
    options += ["--include-online"] if online else []
    return " ".join(["wandb sync", *options, *paths])


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(number) for number in re.findall(r"\d+", version)[:2])
