"""Print what a run would do and use, without training: python -m jaxrl_hw.plan --robot g1"""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence

from jaxrl_hw.commands import DONE, run_command
from jaxrl_hw.flags import parse
from jaxrl_hw.planning import make_plan
from jaxrl_hw.telemetry.console import Console


def main(argv: Sequence[str] | None = None) -> int:
    """Takes the flags of `jaxrl_hw.train`, and --json to print the plan as data."""

    def body() -> int:
        words = list(sys.argv[1:] if argv is None else argv)
        as_data = "--json" in words
        prog = "python -m jaxrl_hw.plan"
        plan = make_plan(parse([word for word in words if word != "--json"], prog))
        if as_data:
            print(json.dumps(plan.to_dict(), indent=2))
        else:
            with Console() as console:
                console.plan(plan.rows(), plan.warnings)
        return DONE

    return run_command(body)


if __name__ == "__main__":
    sys.exit(main())
