"""Measure a trained policy: python -m jaxrl_hw.evaluate --run-dir runs/g1-joystick-ppo-0

`--help` lists the flags; the command's body is `cli.evaluate`. `evaluate` is the function for it.
"""

from __future__ import annotations

import sys

from jaxrl_hw.cli.evaluate import main, suite_table, table
from jaxrl_hw.evaluation.evaluate import Evaluation, evaluate

__all__ = ["Evaluation", "evaluate", "main", "suite_table", "table"]

if __name__ == "__main__":
    sys.exit(main())
