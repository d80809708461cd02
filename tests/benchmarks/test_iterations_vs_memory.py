"""The benchmark of memory: real runs once, what it makes of failures, and what it writes."""

from __future__ import annotations

import contextlib
import io
import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

from jaxrl_hw.planning.benchmark import Outcome

TOO_MANY = 99_999_992  # a cartpole needs some 35 kB


@pytest.fixture(scope="module")
def bench(script: Any) -> Iterator[Any]:
    with script("iterations_vs_memory") as module:
        yield module


@pytest.fixture(scope="module")
def results(bench: Any, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    """Two sizes that run and one that does not fit, beside what was there: folder, and stdout."""
    folder = tmp_path_factory.mktemp("results")
    other = series("g1", [row(64, 120.0, 600e6), row(128, 61.0, 680e6)])
    stale = series("cartpole", [row(4096, 9.0, 9e9)])
    earlier = {"g1/native": other, "cartpole/native": stale}
    path = folder / "iterations-vs-memory-cpu.json"
    path.write_text(json.dumps({"platform": "cpu", "series": earlier, "budgets": {"seed": 7}}))
    with pytest.MonkeyPatch.context() as patch:
        out = io.StringIO()
        patch.setenv("JAXRL_HW_CACHE", str(folder / "theirs"))
        asked = ["--robot", "cartpole", "--physics", "native", "--iterations", "5"]
        sizes = ["--num-envs", f"48,16,{TOO_MANY}", "--out", str(folder)]
        with contextlib.redirect_stdout(out):
            assert bench.main([*asked, *sizes]) == 0
        assert os.environ["JAXRL_HW_CACHE"] == str(folder / "theirs")
    assert not (folder / "theirs").exists()
    return folder, out.getvalue()


def row(num_envs: int, per_minute: float, used: float) -> dict[str, Any]:
    return {
        "num_envs": num_envs,
        "iterations_per_min": per_minute,
        "env_steps_per_s": 24 * num_envs * per_minute / 60,
        "predicted_bytes": {"libraries": 4e8, "total": 1.05 * used},
        "measured_bytes": used,
    }


def series(robot: str, rows: list[dict[str, Any]]) -> dict[str, Any]:
    return {"robot": robot, "physics": "native", "hardware": "two cores", "rows": rows}


def read(folder: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((folder / "iterations-vs-memory-cpu.json").read_text())
    return found


@pytest.mark.slow
def test_rows_are_those_of_real_runs_the_smallest_first(results: tuple[Path, str]) -> None:
    folder, text = results
    found = read(folder)["series"]["cartpole/native"]
    small, large, _ = found["rows"]
    assert [r["num_envs"] for r in found["rows"]] == [16, 48, TOO_MANY]
    for result in (small, large):
        rate = result["iterations_per_min"]
        assert result["env_steps_per_s"] == pytest.approx(
            rate / 60 * 48 * result["num_envs"], rel=0.01
        )
        assert result["minutes_per_1000_iterations"] == pytest.approx(1000 / rate, abs=0.01)
        assert min(result["measured_bytes"], result["compile_peak_bytes"]) > 100e6
        off = 100 * (result["predicted_bytes"]["total"] / result["measured_bytes"] - 1)
        assert result["error_percent"] == pytest.approx(off, abs=0.01)
        assert result["predicted_from"] == "the compiler's figures"
    # a new cache: only the first plan is made from sizes
    assert small["planned_from"] == "estimated from sizes"
    assert large["planned_from"] == "the compiler's figures for 16 environments"
    lines = text.splitlines()
    assert len(lines) >= 5
    assert found["versions"]["jax"]
    assert "--num-envs 16,48,99999992" in found["command"]
    assert str(folder) not in json.dumps(found)


@pytest.mark.slow
def test_a_row_that_fails_says_why_in_a_line_and_the_others_stay(
    results: tuple[Path, str],
) -> None:
    folder, text = results
    failed = read(folder)["series"]["cartpole/native"]["rows"][2]
    assert "exit code 2" in failed["failed"]
    assert str(TOO_MANY) in failed["failed"]
    (line,) = [line for line in text.splitlines() if line.startswith("99,999,992")]
    assert failed["failed"] in line
    assert "measured_bytes" not in failed


@pytest.mark.slow
def test_what_was_measured_of_others_is_kept_and_the_same_replaced(
    results: tuple[Path, str],
) -> None:
    found = read(results[0])
    assert found["budgets"] == {"seed": 7}
    assert [r["num_envs"] for r in found["series"]["g1/native"]["rows"]] == [64, 128]
    assert 4096 not in [r["num_envs"] for r in found["series"]["cartpole/native"]["rows"]]


@pytest.mark.slow
def test_the_growth_that_was_predicted_is_compared(bench: Any, results: tuple[Path, str]) -> None:
    result = read(results[0])["series"]["cartpole/native"]["growth"]
    assert (result["from_num_envs"], result["to_num_envs"]) == (16, 48)
    low, high = row(64, 1.0, 500e6), row(512, 1.0, 600e6)
    low["predicted_bytes"] = {"libraries": 470e6, "rollout": 20e6, "total": 490e6}
    high["predicted_bytes"] = {"libraries": 470e6, "rollout": 130e6, "total": 600e6}
    grown = bench.memory_runs.growth([high, low, {"num_envs": 4096, "failed": "no"}])
    assert (grown["predicted_bytes"], grown["measured_bytes"]) == (110e6, 100e6)
    assert grown["error_percent"] == pytest.approx(10.0)
    assert bench.memory_runs.growth([low]) is None


@pytest.mark.slow
def test_the_plot_shows_every_series_at_the_width_of_a_page(
    bench: Any, results: tuple[Path, str], tmp_path: Path
) -> None:
    with Image.open(results[0] / "iterations-vs-memory-cpu.png") as image:
        assert image.format == "PNG"
        assert 1000 <= image.width <= 1600
        assert 400 <= image.height < image.width
        colours = {colour for _, colour in image.convert("RGB").getcolors(1 << 20) or ()}
    series_drawn = [tuple(bytes.fromhex(c[1:])) for c in bench.memory_plot.COLOURS]
    assert set(series_drawn[:2]) <= colours
    assert not set(series_drawn[2:5]) & colours
    nothing = {"g1/native": series("g1", [{"num_envs": 64, "failed": "killed"}])}
    assert not bench.memory_plot.draw(nothing, tmp_path / "none.png")
    assert not (tmp_path / "none.png").exists()


@pytest.mark.parametrize(
    ("argv", "text"),
    [
        (["--robot", "g2"], '"g2"'),
        (["--num-envs", "64,many"], '"many"'),
        (["--num-envs", "64,auto"], "64,auto"),
        (["--num-envs", ","], "--num-envs"),
        (["--robot", "cartpole", "--ppo.minibatch-size", "7"], "--ppo.minibatch-size"),
        (["--iterations", "2"], "--iterations"),
        (["--iterations", "six"], "six"),
        (["--physics", "bullet"], "bullet"),
        (["--budgets", "0"], "--budgets"),
        (["--budgets", "2", "--num-envs", "64"], "--num-envs"),
        (["--out", __file__], __file__),
    ],
)
def test_bad_input_is_told_in_one_line_before_anything_runs(
    argv: list[str],
    text: str,
    bench: Any,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    if "--out" not in argv:
        argv = [*argv, "--out", str(tmp_path / "out")]
    assert bench.main(argv) == 2
    err = capsys.readouterr().err
    assert text in err
    assert err.count("\n") == 1
    assert not (tmp_path / "out").exists()


def test_sizes_are_measured_from_the_smallest_on(bench: Any) -> None:
    assert bench.parse_sizes("64,7, 32,64") == [7, 32, 64]


def test_a_file_that_is_not_ours_is_not_overwritten(
    bench: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / f"iterations-vs-memory-{bench.detect().platform}.json"
    path.write_text("[]")
    assert bench.main(["--robot", "cartpole", "--out", str(tmp_path)]) == 2
    assert path.name in capsys.readouterr().err
    assert path.read_text() == "[]"


@pytest.mark.slow
def test_limits_that_are_too_low_are_refused_and_count_as_kept(bench: Any, tmp_path: Path) -> None:
    flags = ["--budgets", "1", "--limits-mb", "20", "30", "--seed", "3", "--out", str(tmp_path)]
    assert bench.main(flags) == 0
    result = read(tmp_path)["budgets"]
    ended = dict.fromkeys(bench.memory_budgets.ENDED, 0)
    assert {name: result["summary"][name] for name in ended} == {**ended, "refused": 1}
    assert "--memory-limit" in result["rows"][0]["reason"]


def outcome(bench: Any, **changes: Any) -> Any:
    """How a run under a limit of 1000 MB ended."""
    used = {"peak": 900_000_000, "compile_peak": 950_000_000}
    plan = {
        "num_envs": changes.get("num_envs", 8000),
        "reasons": ["--memory-limit 1.0 GB, planned", "memory holds 8,000"],
        "measured_bytes": {**used, **{k: v for k, v in changes.items() if k in used}},
    }
    return Outcome(0, "", plan, [])


def test_a_limit_is_judged_by_the_peaks_of_the_run_and_of_the_compiler(bench: Any) -> None:
    budgets = bench.memory_budgets
    trial = budgets.Trial("cartpole", 1000, 32, (64,), (64,))
    cases = {
        "kept": outcome(bench),
        "exceeded": outcome(bench, peak=1_000_000_001, compile_peak=1_200_000_000),
        "exceeded while compiling": outcome(bench, compile_peak=1_000_000_001),
        "failed": Outcome(2, "exit code 2: use smaller networks", {}, []),
    }
    rows = [budgets.judged(trial, case) for case in cases.values()]
    assert [row["ended"] for row in rows] == list(cases)
    assert rows[0]["percent_of_limit"] == 90.0
    unbound = budgets.judged(trial, outcome(bench, num_envs=budgets.MOST_ENVS, peak=500_000_000))
    assert not unbound["bound_by_memory"]
    result = budgets.summary([*rows, unbound])
    assert (result["kept"], result["failed"]) == (2, 1)
    assert (result["bound_by_memory"], result["bound_and_well_used"]) == (3, 3)


def test_random_limits_are_the_same_for_the_same_seed(bench: Any) -> None:
    drawn = bench.memory_budgets.drawn
    assert drawn(30, 0) == drawn(40, 0)[:30] != drawn(30, 1)
    assert {trial.robot for trial in drawn(30, 0)} == set(bench.memory_budgets.ROBOTS)
