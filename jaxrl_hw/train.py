"""Train a robot, or continue its run: python -m jaxrl_hw.train --robot g1 --num-envs auto"""

from __future__ import annotations

import sys
from collections.abc import Sequence

from jaxrl_hw.cli.command import DONE, STOPPED, run_command
from jaxrl_hw.cli.flags import parse
from jaxrl_hw.cli.process_flags import check_seeds, taken_processes
from jaxrl_hw.cli.smoke import SMOKE, smoke
from jaxrl_hw.training.seeds import fit_seeds
from jaxrl_hw.training.star import leave
from jaxrl_hw.training.stopping import FINISHED
from jaxrl_hw.training.trainer import fit


def main(argv: Sequence[str] | None = None) -> int:
    """Exit code 0: the goal is reached, or --early-stop ended the run; 75: stopped before, saved;
    2: bad input; 1: failure."""
    words = list(sys.argv[1:] if argv is None else argv)

    def body() -> int:
        if SMOKE in words and "--help" not in words:
            return smoke(words)
        processes, flags = taken_processes(words)
        config = parse(flags)
        check_seeds(config, processes)
        several = config.seeds > 1
        runs = fit_seeds(config) if several else [fit(config, processes=processes)]
        return DONE if all(run.ended in FINISHED for run in runs) else STOPPED

    return leave(run_command(body))


if __name__ == "__main__":
    sys.exit(main())
