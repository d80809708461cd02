"""Write a report of a run, or compare runs: python -m jaxrl_hw.report --run-dir runs/NAME

`--help` lists the flags; the command's body is `cli.report.command`.
"""

from __future__ import annotations

import sys

from jaxrl_hw.cli.report.command import main

__all__ = ["main"]

if __name__ == "__main__":
    sys.exit(main())
