"""Check this installation.

    python -m jaxrl_hw.doctor

The checks cover devices, versions, memory, environment variables, both physics engines, a short
training, rendering and the disk. Each prints what it measured and what to do. All of them take
less than a minute on two cores and leave nothing behind.

pass    works
warn    training works, but slowly, or something beside it does not work
fail    training does not work, or its results would be wrong
"""

from __future__ import annotations

import sys
from collections.abc import Sequence

from jaxrl_hw.cli.command import run_command
from jaxrl_hw.cli.doctor.command import doctor


def main(argv: Sequence[str] | None = None) -> int:
    """Exit code 0: nothing failed; 1: something did; 2: bad arguments."""

    def body() -> int:
        return doctor(sys.argv[1:] if argv is None else argv, str(__doc__))

    return run_command(body)


if __name__ == "__main__":
    sys.exit(main())
