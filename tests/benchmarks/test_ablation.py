"""The recipe with one thing changed: which runs are made, measured, kept and compared."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from jaxrl_hw import Run


@pytest.fixture(scope="module")
def ablation(script: Any) -> Iterator[Any]:
    with script("ablation") as module:
        yield module


@pytest.fixture(scope="module")
def runs(script: Any) -> Iterator[Any]:
    with script("learning_runs") as module:
        yield module


def _point(steps: int, error: float, falls: int) -> dict[str, Any]:
    point = {"env_steps": steps, "wall_s": steps / 1000, "velocity_error": error, "falls": falls}
    return point | {"yaw_error": 0.1, "power": 50.0}


def _row(name: str, seed: int, steps: int | None, error: float) -> dict[str, Any]:
    minutes = None if steps is None else steps / 60_000
    end = _point(300_000, error, 0)
    row = {"name": name, "seed": seed, "steps_to_good": steps, "minutes_to_good": minutes}
    return row | {"end": end}


def test_a_policy_is_good_when_it_is_exact_and_does_not_fall(runs: Any) -> None:
    curve = [_point(1, 0.3, 0), _point(2, 0.1, 1), _point(3, 0.12, 0), _point(4, 0.1, 0)]
    assert runs.first_good(curve, 0.15)["env_steps"] == 3
    assert runs.first_good(curve, 0.05) == {}


def test_seeds_stand_side_by_side_with_a_mean_where_all_have_a_figure(ablation: Any) -> None:
    rows = [_row("recipe", 1, 2_000_000, 0.2), _row("recipe", 0, 1_000_000, 0.1)]
    rows += [_row("no_gait", 0, None, 0.4), _row("no_gait", 1, 3_000_000, 0.3)]
    cells = [line.split("|") for line in ablation.table(rows).splitlines()[2:]]
    assert [cell[3].strip() for cell in cells] == ["1.0, 2.0; mean 1.5", "-, 3.0"]
    assert [cell[5].strip() for cell in cells] == [
        "0.100, 0.200; mean 0.150",
        "0.400, 0.300; mean 0.350",
    ]


def test_what_a_variant_changes_is_a_setting_of_the_robot(ablation: Any) -> None:
    from jaxrl_hw.cli.flags import parse

    recipe = parse(["--robot", "g1_12dof"])
    for name, variant in ablation.VARIANTS.items():
        changed = parse(["--robot", "g1_12dof", *variant.flags])
        assert (changed != recipe) == (name != "recipe"), name


@pytest.mark.parametrize(
    "words",
    [
        ["--variants", "no_gravity"],
        ["--robot", "g9"],
        ["--robot", "cartpole"],
        ["--seeds", "one"],
        ["--timesteps", "many"],
    ],
)
def test_bad_input_exits_with_2(ablation: Any, words: list[str]) -> None:
    with pytest.raises(SystemExit) as error:
        ablation.main(words)
    assert error.value.code == 2


def test_runs_of_other_settings_are_not_added_to(ablation: Any, tmp_path: Path) -> None:
    out = tmp_path / "found.json"
    out.write_text(json.dumps({"robot": "g1_12dof", "timesteps": 1000, "rows": []}))
    with pytest.raises(SystemExit) as error:
        ablation.main(["--timesteps", "2000", "--add", "--out", str(out)])
    assert error.value.code == 2


@pytest.mark.slow
def test_so_many_checkpoints_of_a_run_are_kept(runs: Any, tmp_path: Path) -> None:
    flags = ["--robot", "cartpole", "--num-envs", "16", "--ppo.unroll", "8", "--physics", "native"]
    runs.train(flags, tmp_path / "run", timesteps=512, checks=2)
    saved = {p.name for p in (tmp_path / "run" / "checkpoints").iterdir() if p.name.isdigit()}
    assert saved == {"2", "4"}


@pytest.mark.slow
def test_every_checkpoint_of_a_run_is_measured(runs: Any, walking_run: Run) -> None:
    (point,) = runs.measured(walking_run.folder)
    assert (point["iteration"], point["env_steps"]) == (2, 256)
    assert 0 <= point["falls"] <= 10
    assert all(math.isfinite(point[name]) for name in ("wall_s", "velocity_error", "power"))
