"""Print what a run would do and use, without training: python -m jaxrl_hw.plan --robot g1"""

from __future__ import annotations

import sys
from collections.abc import Sequence

from jaxrl_hw.cli.command import run_command
from jaxrl_hw.cli.plan import print_plan


def main(argv: Sequence[str] | None = None) -> int:
    """Takes the flags of `jaxrl_hw.train`; also --json (the plan as data), --probe (measures the
    speed of each size first) and --gpu NAME (plans for a device that is not here).

    Exit code 0: printed; 2: bad input; 1: failure.
    """
    return run_command(lambda: print_plan(sys.argv[1:] if argv is None else argv))


if __name__ == "__main__":
    sys.exit(main())
