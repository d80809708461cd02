"""A report says what the files of a run say, whatever is wrong with them."""

from __future__ import annotations

import base64
import csv
import json
import re
import statistics
from collections.abc import Callable
from pathlib import Path
from urllib.parse import unquote

import imageio_ffmpeg
import pytest

from jaxrl_hw.cli.report.run_record import read_record
from jaxrl_hw.errors import RunError
from jaxrl_hw.evaluation import opengl
from jaxrl_hw.loggers import formats
from jaxrl_hw.report import main

pytestmark = pytest.mark.slow  # the fixture trains, and drawing takes its time
QUICK = ("--no-film", "--no-replay")


def times(folder: Path) -> dict[Path, int]:
    return {path: path.stat().st_mtime_ns for path in folder.rglob("*")}


def test_its_figures_are_those_of_the_rows(reported):
    found, rows = reported.summary, reported.rows
    assert (found["rows"], found["iterations"]) == (6, 6)
    assert found["env_steps"] == rows[-1]["env_steps"]
    assert found["training_s"] == pytest.approx(rows[-1]["wall_s"])
    returns = [row["episode_return"] for row in rows]
    assert found["return"]["last"] == pytest.approx(returns[-1])
    assert found["return"]["final"] == pytest.approx(returns[-1]), "the last tenth of 6 is 1"
    assert found["return"]["best"] == pytest.approx(max(returns))
    assert found["return"]["best_iteration"] == 1 + returns.index(max(returns))
    speeds = [row["env_steps_per_s"] for row in rows]
    assert found["throughput"]["env_steps_per_s"] == pytest.approx(statistics.median(speeds))
    assert found["memory"]["peak_bytes"] == max(row["memory_bytes"] for row in rows)
    plan = json.loads((reported.run / "plan.json").read_text())
    assert found["memory"]["predicted_bytes"] == plan["predicted_bytes"]
    terms = {k.removeprefix("reward/"): v for k, v in rows[-1].items() if k.startswith("reward/")}
    del terms["total"]
    assert found["reward_terms"] == pytest.approx(terms)
    assert list(found["reward_terms"]) == sorted(terms, key=lambda name: -abs(terms[name]))


def test_the_time_of_a_session_is_split_without_rest(reported):
    lines = (reported.run / "sessions.jsonl").read_text().splitlines()
    records, sessions = [json.loads(line) for line in lines], reported.summary["sessions"]
    assert [(s["first_iteration"], s["last_iteration"]) for s in sessions] == [(1, 2), (3, 6)]
    for record, session in zip(records, sessions, strict=True):
        first, last = record["first_iteration"], record["last_iteration"]
        here = [row for row in reported.rows if first <= row["iteration"] <= last]
        spent = sum(60 / row["iterations_per_min"] for row in here)
        assert session["iterations_s"] == pytest.approx(spent)
        assert session["compile_s"] == record["compile_s"]
        parts = sum(session[name] for name in ("iterations_s", "saving_s", "other_s"))
        assert parts == pytest.approx(record["seconds"], abs=0.01)
        assert session["other_s"] >= 0
    total = sum(record["compile_s"] for record in records)
    assert reported.summary["time"]["compile_s"] == pytest.approx(total)


def test_damaged_lines_are_left_out_and_counted(reported):
    assert reported.summary["damaged_lines"] == 4
    (note,) = reported.summary["notes"]
    assert "metrics.jsonl: 4 " in note
    assert reported.page.count(note) == 1
    table = list(csv.DictReader((reported.out / "metrics.csv").open()))
    assert [int(row["iteration"]) for row in table] == [1, 2, 3, 4, 5, 6]
    for row, cells in zip(reported.rows, table, strict=True):
        assert set(row) == set(cells)
        assert float(cells["loss/value"]) == pytest.approx(row["loss/value"])


def test_every_figure_is_a_png_and_a_pdf_and_in_the_page(reported):
    figures = reported.out / "figures"
    names = {path.stem for path in figures.iterdir()}
    assert {"return-steps", "return-hours", "memory-steps", "time-sessions"} <= names
    assert {"reward-steps", "metric-loss-value", "metric-loss-policy"} <= names
    for name in names:
        assert (figures / f"{name}.png").read_bytes().startswith(b"\x89PNG")
        assert (figures / f"{name}.pdf").read_bytes().startswith(b"%PDF")
    assert reported.page.count("data:image/png;base64,") == len(names)
    shown = re.findall(r"!\[[^]]+\]\(([^)]+)\)", (reported.out / "report.md").read_text())
    assert {Path(link).stem for link in shown} == names
    assert all((reported.out / link).is_file() for link in shown)


def test_settings_versions_and_the_next_command_are_there(reported):
    changed = {one["key"]: one for one in reported.summary["changed_settings"]}
    assert changed["cartpole.episode_s"]["run"] == 0.1
    assert changed["num_envs"]["settled"] is True, "the preset leaves it to the plan"
    assert changed["ppo.epochs"]["settled"] is False
    assert {"robot", "run_dir", "seed", "ppo.gamma"}.isdisjoint(changed)
    assert reported.summary["versions"]["jax"] in reported.page
    assert reported.summary["command"] in reported.page


def test_a_run_that_has_just_begun_has_a_report(reported, tmp_path):
    folder = tmp_path / "young"
    folder.mkdir()
    for name in ("config.json", "plan.json"):
        (folder / name).write_bytes((reported.run / name).read_bytes())
    assert main(["--run-dir", str(folder), "--no-film"]) == 0
    found = json.loads((folder / "summary.json").read_text())
    assert (found["status"], found["rows"], found["return"]["last"]) == ("empty", 0, None)
    page = (folder / "report.html").read_text()
    assert 'id="just-begun"' in page
    assert "memory-items.png" in {path.name for path in (folder / "figures").iterdir()}
    assert "no checkpoint" in page, "so there is no replay"


BINARY = bytes(range(128, 256)) * 4 + b"\n"
DAMAGES: dict[str, Callable[[Path], object]] = {
    "config.json": lambda path: path.write_bytes(b'{"half'),
    "plan.json": lambda path: path.write_bytes(b"[1, 2]"),
    "evaluation.json": lambda path: path.write_bytes(b'{"rows": 3}'),
    "metrics.jsonl": lambda path: path.write_bytes(20 * BINARY),
    "sessions.jsonl": lambda path: path.write_bytes(BINARY),
}


def folder_instead(path: Path) -> None:
    path.unlink()
    path.mkdir()


def test_damaged_files_are_named_once_and_the_rest_is_shown(copy_of):
    folder = copy_of("torn", 0, [1.0, 2.0])
    (folder / "checkpoints/2").mkdir(parents=True)  # to be shown in motion
    for name in set(DAMAGES) - {"metrics.jsonl"}:
        DAMAGES[name](folder / name)
    words = ["--run-dir", str(folder)]
    assert main(words, choose_backend=refuse_to_draw) == 0
    found = json.loads((folder / "summary.json").read_text())
    assert (found["return"]["best"], found["sessions"]) == (2.0, [])
    for text in ((folder / "report.html").read_text(), (folder / "report.md").read_text()):
        for name in set(DAMAGES) - {"metrics.jsonl"}:
            assert len(re.findall(rf"\b{name}", text)) == 1, name
        assert "just begun" not in text


@pytest.mark.parametrize("damage", [DAMAGES["metrics.jsonl"], folder_instead, Path.unlink])
def test_a_run_whose_metrics_are_lost_has_not_just_begun(copy_of, damage):
    folder = copy_of("lost", 0, [1.0])
    damage(folder / "metrics.jsonl")
    assert main(["--run-dir", str(folder), *QUICK]) == 0
    found = json.loads((folder / "summary.json").read_text())
    assert (found["just_begun"], found["rows"]) == (False, 0)
    assert (found["iterations"], found["env_steps"]) == (6, None), "as the sessions have it"
    assert found["training_s"] == pytest.approx(sum(s["seconds"] for s in found["sessions"]))
    (note,) = found["notes"]
    assert "metrics.jsonl" in note
    page = (folder / "report.html").read_text()
    assert 'id="just-begun"' not in page
    assert page.count(note) == 1


def test_a_damaged_line_of_the_sessions_is_counted_and_the_robot_still_known(copy_of):
    folder = copy_of("cut", 0, [1.0])
    with (folder / "sessions.jsonl").open("a") as file:
        file.write('{"started": "20')
    found = read_record(folder)
    assert len(found.sessions) == 2
    assert any("sessions.jsonl: 1 " in note for note in found.notes)
    DAMAGES["sessions.jsonl"](folder / "sessions.jsonl")
    found = read_record(folder)
    assert (found.summary.status, found.summary.robot) == ("damaged", "cartpole")
    assert "sessions.jsonl" in found.summary.why


def test_text_of_a_run_s_files_is_no_markup(copy_of):
    folder = copy_of("plain", 0, [1.0])
    text = (folder / "config.json").read_text().replace('"cartpole"', '"<img src=x>"')
    (folder / "config.json").write_text(text)
    assert main(["--run-dir", str(folder), *QUICK]) == 0
    page = (folder / "report.html").read_text()
    assert "<img src=x>" not in page
    assert "&lt;img src=x&gt;" in page


_STILL = ("--no-film", "--no-replay")


@pytest.mark.parametrize(
    ("flags", "named"),
    [
        (["--run-dir", "{nowhere}"], "nowhere"),
        (["--run-dir", "{empty}"], "empty"),
        (["--run-dir", "{run}", "--compare", "{nowhere}"], "nowhere"),
        (["--run-dir", "{run}", "--compare", "{run}"], "pole"),
        (["--run-dir", "{run}", "--out", "{file}"], "file"),
        (["--run-dir", "{run}", "--evaluate", "robots"], "robust"),
        (["--run-dir", "{run}", "--evaluate", "robust", "--out", "{out}"], "robust"),
        (["--run-dir", "{run}", "--seconds", "0"], "--seconds"),
        (["--run-dir", "{run}", "--iteration", "99", "--no-film", "--out", "{out}"], "99"),
        (["--run-dir", "{run}", *_STILL, "--iteration", "99", "--out", "{out}"], "99"),
        (["--run-dir", "{run}", "--robot", "g7"], "g7"),
        (["--rundir", "{run}"], "--run-dir"),
    ],
)
def test_bad_input_is_one_line_and_code_2(reported, tmp_path, capsys, flags, named):
    (tmp_path / "empty").mkdir()
    (tmp_path / "file").touch()
    places = {name: tmp_path / name for name in ("nowhere", "empty", "file", "out")}
    before = times(reported.run)
    assert main([flag.format(run=reported.run, **places) for flag in flags]) == 2
    error = capsys.readouterr().err
    assert error.count("\n") == 1
    assert named in error
    assert times(reported.run) == before
    assert not (tmp_path / "out" / "report.html").exists()


def can_draw() -> bool:
    try:
        return bool(opengl.choose_backend())
    except RunError:
        return False


def test_an_evaluation_and_a_film_that_are_made_now_are_in_the_page(reported, tmp_path):
    film = tmp_path / "out of it" / "videos" / "6.mp4"
    out = film.parents[1]
    flags = ["--out", str(out), "--evaluate", "--no-replay", "--seconds", "0.2"]
    assert main(["--run-dir", str(reported.run), *flags]) == 0
    found = json.loads((out / "evaluation.json").read_text())
    assert (found["iteration"], len(found["rows"])) == (6, 16)
    assert json.loads((out / "summary.json").read_text())["evaluation"] == found
    page, text = ((out / name).read_text() for name in ("report.html", "report.md"))
    for i, row in enumerate(found["rows"], 1):
        figures = [formats.figure(row[name]) for name in found["mean"]]
        assert f"| {i} | {' | '.join(figures)} |\n" in text
        assert all(f">{figure}<" in page for figure in figures)
    assert f"| **{formats.figure(found['mean']['return'])}** |" in text
    assert film.exists() == can_draw()
    if film.exists():
        frames, seconds = imageio_ffmpeg.count_frames_and_secs(film)
        assert (frames, seconds) == (5, pytest.approx(0.2))
        assert f"video/mp4;base64,{base64.b64encode(film.read_bytes()).decode()}" in page
        assert link_to("mp4", out) == film


def link_to(suffix: str, out: Path) -> Path:
    """The file with that ending to which the report's Markdown links."""
    (link,) = re.findall(rf"[^!]\[[^]]+\]\((\S+\.{suffix})\)", (out / "report.md").read_text())
    return (out / unquote(link)).resolve()


def test_the_command_that_evaluates_stands_where_no_evaluation_is(reported, copy_of):
    command = f"python -m jaxrl_hw.report --run-dir {reported.run} --evaluate"
    assert reported.summary["evaluate_command"] == command
    assert command in reported.page
    assert command in (reported.out / "report.md").read_text()
    folder = copy_of("unsaved", 0, [1.0])
    assert main(["--run-dir", str(folder), *QUICK]) == 0
    assert "--evaluate" not in (folder / "report.md").read_text(), "it has no checkpoint"


def refuse_to_draw() -> str:
    raise RunError("nothing can draw here")


def test_a_film_that_is_there_is_taken_as_it_is(copy_of):
    folder = copy_of("filmed", 0, [1.0])
    for place in ("videos", "checkpoints/6"):
        (folder / place).mkdir(parents=True)
    (folder / "videos" / "6.mp4").write_bytes(b"a film")
    words = ["--run-dir", str(folder), "--no-replay"]
    assert main(words, choose_backend=refuse_to_draw) == 0
    page = (folder / "report.html").read_text()
    assert base64.b64encode(b"a film").decode() in page
    assert "nothing can draw" not in page
    assert link_to("mp4", folder) == folder / "videos" / "6.mp4"


def test_without_opengl_a_note_takes_the_film_s_place(copy_of, tmp_path):
    folder, out = copy_of("dark", 0, [1.0]), tmp_path / "out"
    (folder / "checkpoints/6").mkdir(parents=True)
    before = times(folder)
    words = ["--run-dir", str(folder), "--out", str(out), "--no-replay"]
    assert main(words, choose_backend=refuse_to_draw) == 0
    page = (out / "report.html").read_text()
    assert "nothing can draw here" in page
    assert "<video" not in page
    assert times(folder) == before, "with --out the run stays as it is"


def test_markdown_has_the_interquartile_means(copy_of, tmp_path):
    first, *others = (copy_of(f"r{i}", i, [1.0 + 0.1 * i]) for i in range(4))
    words = ["--run-dir", str(first), "--compare", *map(str, others), "--out", str(tmp_path)]
    assert main([*words, *QUICK]) == 0
    (row,) = (x for x in (tmp_path / "report.md").read_text().split("\n") if "r0, r1" in x)
    assert row.split("|")[6].strip() == formats.figure(1.15), "of 1.0 to 1.3 the middle two"


def test_runs_of_other_robots_are_compared_in_what_they_share(
    copy_of: Callable[..., Path], walker: Path, tmp_path: Path
) -> None:
    pole = copy_of("pole", 0, [1.0, 2.0])
    out = tmp_path / "out"
    words = ["--run-dir", str(pole), "--compare", str(walker), "--out", str(out), *QUICK]
    assert main(words) == 0
    found = json.loads((out / "summary.json").read_text())["comparison"]
    assert [group["robot"] for group in found["groups"]] == ["cartpole", "go1"]
    assert {test["measure"] for test in found["tests"]} == {"env_steps_per_s", "memory_mb"}
    assert any("final return" in line for line in found["not_compared"])
