"""The curves of `compare_algorithms.py`: a row of panels per task, over env steps and over time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
import numpy as np
from scipy import stats

from jaxrl_hw.cli.report.statistics import FEWEST_FOR_IQM, bootstrap_iqm

AXES = ("env steps", "training time (s)")
COLOURS = {"ppo": "#4269d0", "a2c": "#efb118", "sac": "#ff725c", "dqn": "#3ca951"}


def draw(path: Path, runs: Sequence[Mapping[str, Any]], measures: Mapping[str, str]) -> None:
    """Lines are interquartile means over seeds with 95 % bands; of few seeds, each is a line.

    measures: what a task's curves show, by task.
    """
    tasks = [name for name in measures if any(run["task"] == name for run in runs)]
    figure, panels = plt.subplots(
        len(tasks), 2, figsize=(9, 2.7 * len(tasks)), layout="constrained", squeeze=False
    )
    for row, name in zip(panels, tasks, strict=True):
        for column, (panel, label) in enumerate(zip(row, AXES, strict=True)):
            for algo, colour in COLOURS.items():
                curves = [
                    np.array(run["curve"], float)
                    for run in runs
                    if (run["task"], run["algo"]) == (name, algo) and run["curve"]
                ]
                _lines(panel, [(c[:, column], c[:, 2]) for c in curves], algo, colour)
            panel.set(title=name, xlabel=label, ylabel=measures[name])
            panel.grid(alpha=0.3)
            panel.spines[["top", "right"]].set_visible(False)
        row[0].legend(frameon=False)
    figure.savefig(path, dpi=110)
    plt.close(figure)


def _lines(
    panel: Any, curves: Sequence[tuple[np.ndarray, np.ndarray]], name: str, colour: str
) -> None:
    if len(curves) < FEWEST_FOR_IQM:
        for i, (x, y) in enumerate(curves):
            panel.plot(x, y, color=colour, label=name if i == 0 else None)
        return
    x = np.linspace(max(c[0][0] for c in curves), min(c[0][-1] for c in curves), 100)
    values = np.array([np.interp(x, *curve) for curve in curves])
    bands = np.array([bootstrap_iqm(column) for column in values.T])
    panel.plot(x, stats.trim_mean(values, 0.25, axis=0), color=colour, label=name)
    panel.fill_between(x, *bands.T, color=colour, alpha=0.2, linewidth=0)
