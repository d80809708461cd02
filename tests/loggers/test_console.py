"""What is printed: a sane number of lines in a pipe, a live line on a terminal."""

from __future__ import annotations

import io
import json
import os
import pty
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from jaxrl_hw.loggers import formats
from jaxrl_hw.loggers.console import Console
from jaxrl_hw.loggers.terminal import can_redraw


class Clock:
    now = 100.0

    def __call__(self) -> float:
        return self.now


def run(count: int, seconds: float, goal: int | None = None) -> list[str]:
    stream, clock = io.StringIO(), Clock()
    with Console(stream, clock=clock) as console:
        for iteration in range(1, count + 1):
            clock.now += seconds
            console.progress({"iteration": iteration, "goal": goal, "episode_return": iteration})
    return stream.getvalue().splitlines()


@pytest.mark.parametrize(
    ("format_value", "value", "text"),
    [
        (formats.count, 1234567.2, "1,234,567"),
        (formats.count, None, "-"),
        (formats.figure, 12.3456, "12.35"),
        (formats.figure, -0.1234, "-0.123"),
        (formats.figure, 0.0001234, "1.23e-04"),
        (formats.figure, 4321.9, "4,322"),
        (formats.figure, 0, "0.000"),
        (formats.figure, float("nan"), "-"),
        (formats.size, 1.23e9, "1.2 GB"),
        (formats.size, 950e6, "950 MB"),
        (formats.size, 999.9e6, "1.0 GB"),
        (formats.size, 0, "0 B"),
        (formats.duration, 0.42, "0.4 s"),
        (formats.duration, 12.4, "12 s"),
        (formats.duration, 200, "3m 20s"),
        (formats.duration, 3900, "1h 05m"),
        (formats.duration, 183600, "2d 03h"),
        (formats.duration, 59.7, "1m 00s"),
    ],
)
def test_numbers_as_people_read_them(format_value, value, text):
    assert format_value(value) == text


def test_in_a_pipe_the_first_three_then_one_every_five_seconds_and_the_last():
    lines = run(count=21, seconds=1.0, goal=21)
    shown = [int(line.split()[1].split("/")[0]) for line in lines]
    assert shown == [1, 2, 3, 8, 13, 18, 21]
    assert run(count=6, seconds=0.1)[-1].startswith("iteration 6 ")  # stopped before its goal
    assert len(run(count=4, seconds=60.0)) == 4


def test_a_line_says_it_all_in_one_line():
    stream, clock = io.StringIO(), Clock()
    console = Console(stream, clock=clock)
    row = {
        "iteration": 1000,
        "goal": 5000,
        "episode_return": None,
        "episode_length": 843.2,
        "tracking_error": 0.2134,
        "env_steps_per_s": 123456.7,
        "iterations_per_min": 60.0,
        "memory_bytes": 12.3e9,
    }
    clock.now += 200
    console.progress(row)
    assert stream.getvalue() == (
        "iteration 1,000/5,000  return -  length 843.2  error 0.213  123,457 steps/s  "
        "60.00 it/min  12.3 GB  after 3m 20s, 1h 06m left\n"
    )


def test_the_remaining_time_follows_the_recent_pace():
    stream, clock = io.StringIO(), Clock()
    console = Console(stream, clock=clock)
    for iteration in range(1, 61):
        clock.now += 100.0 if iteration <= 30 else 2.0
        console.progress({"iteration": iteration, "goal": 160})
    console.close()
    assert stream.getvalue().splitlines()[-1].endswith(", 3m 20s left")


def test_compiling_is_shown_at_its_start_and_its_end():
    stream, clock = io.StringIO(), Clock()
    console = Console(stream, clock=clock)
    with console.compiling("compiling train step"):
        assert stream.getvalue() == "compiling train step ...\n"
        clock.now += 12.3
    assert stream.getvalue().splitlines()[1] == "compiling train step: 12 s"


def test_plan_and_messages_are_printed_as_they_are():
    stream = io.StringIO()
    console = Console(stream, width=60)
    console.plan([("memory", "[bold] " + "x" * 70), ("cores", "2")], ["[1, 2] is odd"])
    console.message("saved [red]")
    console.finish("goal reached")
    text = stream.getvalue()
    assert "[bold]" in text
    assert "warning: [1, 2] is odd\n" in text
    assert "saved [red]\n" in text
    assert "goal reached\n" in text
    assert max(len(line) for line in text.splitlines()) <= 60


@pytest.mark.parametrize("width", [40, 80, 120])
def test_on_a_terminal_no_line_is_too_wide(width):
    stream = io.StringIO()
    with Console(stream, redraw=True, width=width) as console:
        row = {"iteration": 123456, "goal": 1000000, "episode_return": 12.34, "memory_bytes": 1e9}
        row |= {"gpu/utilization": 87.0, "gpu/temperature": 63.0, "gpu/power": 301.4}
        console.progress({**row, "env_steps_per_s": 1e6, "iterations_per_min": 99.0})
    lines = re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", stream.getvalue()).replace("\r", "\n").split("\n")
    assert max(map(len, lines)) <= width
    assert any("iteration 123,456/1,000,000" in line for line in lines)
    assert all(any(fact in line for line in lines) for fact in ("GPU 87 %", "63 C", "301 W"))
    assert "\x1b[?25h" in stream.getvalue()  # the cursor is shown again


def test_a_notebooks_terminal_is_not_drawn_over():
    main, other = pty.openpty()
    with os.fdopen(other, "w") as stream:
        assert can_redraw(stream, {"TERM": "xterm"})
        assert not can_redraw(stream, {"TERM": "dumb"})
        for name in ("JPY_PARENT_PID", "COLAB_RELEASE_TAG", "KAGGLE_KERNEL_RUN_TYPE"):
            assert not can_redraw(stream, {"TERM": "xterm", name: "1"})
    os.close(main)
    assert not can_redraw(io.StringIO(), {"TERM": "xterm"})


def test_a_reader_that_goes_away_does_not_end_the_run(tmp_path: Path):
    code = (
        "import sys, pathlib\n"
        "from jaxrl_hw.loggers.console import Console\n"
        "with Console() as console:\n"
        "    for i in range(2000): console.message('x' * 100)\n"
        "pathlib.Path(sys.argv[1]).write_text('went on')\n"
    )
    command = [sys.executable, "-c", code, str(tmp_path / "end")]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert process.stdout is not None
    process.stdout.readline()
    process.stdout.close()
    assert process.wait(timeout=120) == 0
    assert process.stderr is not None
    assert process.stderr.read() == b""
    process.stderr.close()
    assert (tmp_path / "end").read_text() == "went on"


def test_characters_the_stream_cannot_show_do_not_fail():
    raw = io.BytesIO()
    stream = io.TextIOWrapper(raw, encoding="ascii", write_through=True)
    Console(stream).message("größe →")
    assert raw.getvalue() == b"gr??e ?\n"


def show_all(console: Console) -> None:
    with console:
        console.plan([("cores", "2")], ["little memory"])
        with console.compiling("compiling"):
            console.message("inside")
        for iteration in (1, 2, 3, 4, 5):
            console.progress({"iteration": iteration, "goal": 5, "kl": float("nan")})
        console.finish("the end")


def test_json_is_an_object_per_line() -> None:
    stream = io.StringIO()
    show_all(Console(stream, form="json"))
    found = [json.loads(line) for line in stream.getvalue().splitlines()]
    events = [line["event"] for line in found]
    assert events[:5] == ["plan", "warning", "begin", "message", "end"]
    assert events[5:] == ["progress"] * 4 + ["finish"]
    assert found[0]["rows"] == {"cores": "2"}
    shown = [line for line in found if line["event"] == "progress"]
    assert [line["iteration"] for line in shown] == [1, 2, 3, 5], "as in a pipe, and the last"
    assert shown[0]["kl"] is None


def test_plain_draws_over_nothing_even_on_a_terminal() -> None:
    stream, piped = io.StringIO(), io.StringIO()
    show_all(Console(stream, form="plain", redraw=True, clock=Clock()))
    show_all(Console(piped, clock=Clock()))
    assert "\x1b" not in stream.getvalue()
    assert stream.getvalue() == piped.getvalue()


@pytest.mark.parametrize("form", ["rich", "plain", "json"])
def test_quiet_shows_warnings_and_the_end(form: str) -> None:
    stream = io.StringIO()
    show_all(Console(stream, form=form, quiet=True))
    lines = stream.getvalue().splitlines()
    assert len(lines) == 2
    assert "little memory" in lines[0]
    assert "the end" in lines[1]


@pytest.mark.parametrize("options", [{"quiet": True}, {"form": "json"}, {"redraw": True}])
def test_the_log_has_everything_as_lines_and_is_appended_to(
    options: dict[str, Any], tmp_path: Path
) -> None:
    path, piped = tmp_path / "console.log", io.StringIO()
    show_all(Console(piped, width=100, clock=Clock()))
    for _ in range(2):
        console = Console(io.StringIO(), clock=Clock(), **options)
        console.message("before there is a folder")
        console.keep(path)
        show_all(console)
    assert path.read_text() == 2 * ("before there is a folder\n" + piped.getvalue())


def test_a_log_that_cannot_be_written_ends_nothing(tmp_path: Path) -> None:
    stream = io.StringIO()
    console = Console(stream)
    console.keep(tmp_path / "no" / "folder" / "console.log")
    show_all(console)
    assert "the end" in stream.getvalue()
