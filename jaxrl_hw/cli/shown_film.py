"""A run's films in its TensorBoard files."""

from __future__ import annotations

import sys
from pathlib import Path

from jaxrl_hw.checkpointing.run_dir import RunDir
from jaxrl_hw.errors import RunError, first_line
from jaxrl_hw.loggers.tensorboard import write_film


def show_in_tensorboard(run: RunDir, iteration: int, film: Path) -> None:
    """Write a film of the run's own `videos/` into its TensorBoard files, where it has some.

    Where that fails, a note says so: the film itself is there.
    """
    if not run.tensorboard.is_dir() or film.parent.resolve() != run.videos.resolve():
        return
    from jaxrl_hw.evaluation.video import small_gif

    try:
        write_film(run.tensorboard, iteration, small_gif(film))
    except (OSError, RunError) as error:
        print(f"note: TensorBoard does not have the film: {first_line(error)}", file=sys.stderr)
