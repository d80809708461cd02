"""Train many runs and report on all: python -m jaxrl_hw.experiment examples/mini.yaml

The file names robots, algorithms, seeds and settings; the same command, run again, continues.
`--help` lists the flags; the command's body is `cli.experiment.command`.
"""

from __future__ import annotations

import sys

from jaxrl_hw.cli.experiment.command import main

__all__ = ["main"]

if __name__ == "__main__":
    sys.exit(main())
