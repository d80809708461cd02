"""A notebook's cell shows one block that is drawn anew; a run elsewhere can be followed."""

from __future__ import annotations

import base64
import io
import json
import re
from typing import Any

import pytest
from PIL import Image

from jaxrl_hw.loggers.console import Console
from jaxrl_hw.loggers.follow import follow
from jaxrl_hw.loggers.notebook import NotebookScreen


class Cell:
    """Takes IPython's place: the blocks of a cell's output, and how often each was drawn."""

    def __init__(self) -> None:
        self.blocks: list[dict[str, str]] = []
        self.drawn: list[int] = []
        self.now = 100.0

    def display(self, block: dict[str, str], raw: bool, display_id: bool) -> Any:
        assert raw
        assert display_id
        self.blocks.append(block)
        self.drawn.append(1)
        return Handle(self, len(self.blocks) - 1)

    def clock(self) -> float:
        return self.now

    @property
    def html(self) -> str:
        return self.blocks[-1]["text/html"]

    def pictures(self) -> list[Image.Image]:
        found = re.findall(r"base64,([\w+/=]+)", self.html)
        return [Image.open(io.BytesIO(base64.b64decode(data))) for data in found]


class Handle:
    def __init__(self, cell: Cell, place: int) -> None:
        self.cell, self.place = cell, place

    def update(self, block: dict[str, str], raw: bool) -> None:
        assert raw
        self.cell.blocks[self.place] = block
        self.cell.drawn[self.place] += 1


@pytest.fixture
def cell() -> Cell:
    return Cell()


def row(iteration: int, **more: Any) -> dict[str, Any]:
    values = {"goal": 200, "env_steps": 64 * iteration, "episode_return": 0.1 * iteration}
    return {"iteration": iteration, **values, "tracking_error": 1.0 / iteration, **more}


def test_iterations_are_drawn_in_place_about_once_a_second_with_their_curves(cell: Cell) -> None:
    screen = NotebookScreen(cell.display, cell.clock)
    screen.plan([("robot", "g1 <29 joints>")])
    for iteration in range(1, 101):
        cell.now += 0.1
        screen.progress(row(iteration))
    screen.close()
    assert len(cell.blocks) == 2  # the plan, and one block for all of the run
    assert "g1 &lt;29 joints&gt;" in cell.blocks[0]["text/html"]
    assert 5 <= cell.drawn[1] <= 15
    assert "iteration 100/200" in cell.blocks[1]["text/plain"]
    assert 'value="0.5000"' in cell.html
    (picture,) = cell.pictures()
    assert picture.width > 2 * picture.height


def test_a_curve_has_gaps_where_a_figure_is_missing_and_a_long_run_stays_small(cell: Cell) -> None:
    screen = NotebookScreen(cell.display, cell.clock)
    for iteration in range(1, 5001):
        missing = {"episode_return": None, "tracking_error": float("nan")}
        screen.progress(row(iteration, **missing if iteration < 50 else {}))
    screen.close()
    assert len(cell.pictures()) == 1
    assert len(cell.html) < 100_000


def test_messages_stand_above_the_progress_and_old_ones_leave(cell: Cell) -> None:
    screen = NotebookScreen(cell.display, cell.clock)
    for i in range(40):
        screen.message(f"line-{i};")
    with screen.compiling("compiling the step"):
        assert "compiling the step ..." in cell.html
        cell.now += 3.0
    screen.warning("a <b> is late")
    screen.finish("done")
    assert "line-0;" not in cell.html
    assert "line-39;" in cell.html
    assert "compiling the step: 3.0 s" in cell.html
    assert "compiling the step ..." not in cell.html
    assert "a &lt;b&gt; is late" in cell.html
    assert len(cell.blocks) == 1


def test_a_process_that_prints_json_is_followed(cell: Cell) -> None:
    stream = io.StringIO()
    with Console(stream, form="json") as console:
        console.plan([("robot", "cartpole")], ["little memory"])
        with console.compiling("loading jax"):
            pass
        console.progress(row(1))
        console.progress(row(2))
        console.message("saved")
        console.finish("the goal is reached")
    lines = [*stream.getvalue().splitlines(), "Traceback of a library", json.dumps([1]), ""]
    follow(lines, NotebookScreen(cell.display, cell.clock))
    assert "cartpole" in cell.blocks[0]["text/plain"]
    for text in ("little memory", "loading jax", "saved", "the goal is reached", "Traceback"):
        assert text in cell.html
    assert "iteration 2/200" in cell.html
    assert len(cell.pictures()) == 1
