"""List, show, pack and unpack runs.

    python -m jaxrl_hw.runs

    list [FOLDER]            every run in a folder (default: runs), and whether it can continue
    show DIR                 one run's sessions and checkpoints, and the command that continues it
    pack DIR [--out FILE]    one zip: newest and best checkpoint, policy, settings, history
    unpack ZIP [--out DIR]   that zip as a run again, on this machine or another

`list` may be left out. `list` and `show` take --json. A run of a robot of your own needs --robot.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence

from jaxrl_hw.cli.command import run_command
from jaxrl_hw.cli.runs import run


def main(argv: Sequence[str] | None = None) -> int:
    """Exit code 0: shown or written; 2: bad input, nothing changed; 1: the disk refuses."""
    return run_command(lambda: run(list(sys.argv[1:] if argv is None else argv), __doc__ or ""))


if __name__ == "__main__":
    sys.exit(main())
