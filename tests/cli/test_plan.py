"""python -m jaxrl_hw.plan: what a run would use, here or elsewhere, without training."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from jaxrl_hw import train
from jaxrl_hw.plan import main
from jaxrl_hw.planning.memory_model import COMPILED, ITEMS

CARTPOLE = ["--robot", "cartpole", "--ppo.unroll", "8", "--net.policy", "32", "--net.value", "32"]
GROWING = {"environments", "rollout", "temporaries", "physics"}


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("JAXRL_HW_CACHE", str(tmp_path / "cache"))
    monkeypatch.delenv("JAXRL_HW_GPU_COMPILER", raising=False)
    monkeypatch.chdir(tmp_path)
    return tmp_path / "cache"


def planned(capsys: pytest.CaptureFixture[str], *argv: str) -> dict[str, Any]:
    assert main([*argv, "--json"]) == 0
    plan: dict[str, Any] = json.loads(capsys.readouterr().out)
    return plan


@pytest.mark.slow
def test_the_program_is_measured_once_and_its_figures_are_kept(cache: Path) -> None:
    command = [sys.executable, "-m", "jaxrl_hw.plan", *CARTPOLE]
    printed, written = [], []
    for _ in range(2):
        done = subprocess.run(command, capture_output=True, text=True, check=True)
        printed.append(done.stdout)
        (file,) = (cache / "measurements").iterdir()
        written.append(file.stat().st_mtime_ns)
    assert written[0] == written[1]
    assert all(COMPILED in " ".join(text.split()) for text in printed)
    assert not any("too late" in text for text in printed), "XLA's settings come before jax"
    assert not (cache.parent / "runs").exists(), "a plan makes no run"


@pytest.mark.slow
def test_figures_of_a_small_run_are_not_taken_for_all_sizes(
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    wanted = [*CARTPOLE, "--physics", "native", "--num-envs", "4096"]
    new = planned(capsys, *wanted)["predicted_bytes"]
    monkeypatch.setenv("JAXRL_HW_CACHE", str(tmp_path / "another"))
    small = ["--num-envs", "16", "--iterations", "1", "--no-tensorboard"]
    assert train.main([*CARTPOLE, *small, "--run-dir", str(tmp_path / "run")]) == 0
    capsys.readouterr()
    plan = planned(capsys, *wanted)
    assert plan["predicted_from"] == COMPILED
    for name in GROWING:
        assert plan["predicted_bytes"][name] == pytest.approx(new[name], rel=0.1), name


@pytest.mark.slow
def test_as_data_the_items_add_up_and_grow_with_the_environments(
    capsys: pytest.CaptureFixture[str],
) -> None:
    few, many = (planned(capsys, *CARTPOLE, "--num-envs", n) for n in ("64", "1024"))
    for plan in (few, many):
        items = plan["predicted_bytes"]
        assert items["total"] == sum(v for k, v in items.items() if k != "total")
        assert set(items) == {*ITEMS, "total"}
    growing = {k for k in ITEMS if many["predicted_bytes"][k] > few["predicted_bytes"][k]}
    assert growing == GROWING
    ratio = many["predicted_bytes"]["rollout"] / few["predicted_bytes"]["rollout"]
    assert ratio == pytest.approx(16, rel=0.01)
    assert [c["num_envs"] for c in many["candidates"]] == [256, 512, 1024, 2048, 4096]


def test_a_device_that_is_not_here_gets_an_estimate(capsys: pytest.CaptureFixture[str]) -> None:
    plans = {gpu: planned(capsys, "--robot", "g1", "--gpu", gpu) for gpu in ("t4", "a100-80")}
    for plan in plans.values():
        assert plan["config"]["physics"] == "mjx"
        assert plan["hardware"]["platform"] == "gpu"
        assert plan["warnings"]
        assert plan["predicted_bytes"]["driver"] > 0
    assert plans["t4"]["budget_bytes"] < plans["a100-80"]["budget_bytes"] / 4
    warnings = {}
    for gpu in plans:
        plan = planned(capsys, "--robot", "g1", "--gpu", gpu, "--precision", "bfloat16")
        warnings[gpu] = sum("bfloat16" in text for text in plan["warnings"])
    assert warnings == {"t4": 1, "a100-80": 0}


def test_cards_are_compared_side_by_side(capsys: pytest.CaptureFixture[str]) -> None:
    wide = ["--robot", "g1", "--net.policy", "8192", "4096", "--max-envs", "10000000"]
    cards = ["t4", "a100-40", "h200"]
    plans = planned(capsys, *wide, "--gpu", ",".join(cards))
    assert list(plans) == cards
    sizes = [plans[card]["num_envs"] for card in cards]
    assert sizes == sorted(set(sizes))
    assert {plan["expected_seconds"] for plan in plans.values()} == {None}, "nothing has run there"
    assert main([*wide, "--gpu", "T4, a100_40, h200"]) == 0
    out = capsys.readouterr().out
    assert all(len(line) <= 80 for line in out.splitlines())
    for card, size in zip(cards, sizes, strict=True):
        (line,) = (line for line in out.splitlines() if line.lstrip().startswith(f"{card} "))
        assert f"{size:,}" in line
        assert "unknown" in line


@pytest.mark.parametrize("preset", ["", "fast", "auto"])
def test_each_card_s_row_names_the_preset_and_goal_that_it_is_planned_with(
    capsys: pytest.CaptureFixture[str], preset: str
) -> None:
    flags = ["--robot", "g1", *(["--preset", preset] if preset else [])]
    plans = planned(capsys, *flags, "--gpu", "t4,a100-40")
    configs = {card: plan["config"] for card, plan in plans.items()}
    expected = {"": {"optimized"}, "fast": {"fast"}, "auto": {"optimized", "best"}}[preset]
    assert {config["preset"] for config in configs.values()} == expected
    assert main([*flags, "--gpu", "t4,a100-40"]) == 0
    lines = capsys.readouterr().out.splitlines()
    for card, config in configs.items():
        (line,) = (line for line in lines if line.lstrip().startswith(f"{card} "))
        assert config["preset"] in line.split()
        assert line.split()[-1] == f"{config['timesteps'] / 1e6:g}M"


def test_a_card_that_is_too_small_is_told_beside_the_others(
    capsys: pytest.CaptureFixture[str],
) -> None:
    large = ["--robot", "g1", "--num-envs", "300000"]
    plans = planned(capsys, *large, "--gpu", "rtx4060-laptop,h200")
    assert "300" in plans["rtx4060-laptop"]["problem"]
    assert plans["h200"]["num_envs"] == 300_000
    assert main([*large, "--gpu", "rtx4060-laptop,t4"]) == 2, "it fits none of them"
    assert capsys.readouterr().err.count("\n") == 1


def test_a_small_card_holds_fewer(capsys: pytest.CaptureFixture[str]) -> None:
    wide = ["--robot", "g1", "--net.policy", "8192", "4096", "--max-envs", "10000000"]
    sizes = [
        planned(capsys, *wide, "--gpu", gpu)["num_envs"] for gpu in ("rtx4060-laptop", "t4", "h100")
    ]
    assert sizes == sorted(set(sizes))


@pytest.mark.slow
def test_a_run_of_this_machine_does_not_size_another_device(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    small = ["--num-envs", "16", "--iterations", "1", "--no-tensorboard"]
    assert train.main([*CARTPOLE, *small]) == 0
    capsys.readouterr()
    (folder,) = (tmp_path / "runs").iterdir()
    assert planned(capsys, *CARTPOLE)["num_envs"] == 16, "here the run goes on"
    elsewhere = planned(capsys, *CARTPOLE, "--gpu", "t4")
    again = planned(capsys, *CARTPOLE, "--gpu", "t4", "--seed", "0")
    for plan in (elsewhere, again):
        plan["disk"].pop("free_bytes")  # other programs write too
    assert again["origins"].pop("seed")["origin"] == "command line"
    assert elsewhere == again
    assert elsewhere["num_envs"] >= 512
    assert elsewhere["config"]["resume"] == "auto"
    for continued in (["--run-dir", str(folder)], ["--resume", "required"]):
        assert planned(capsys, *CARTPOLE, "--gpu", "t4", *continued)["num_envs"] == 16
    assert main([*CARTPOLE, "--gpu", "t4"]) == 0
    assert "continues" not in capsys.readouterr().out


@pytest.mark.slow
def test_a_probe_measures_the_speed_of_each_size_and_train_finds_it(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    flags = [*CARTPOLE, "--max-envs", "128"]
    assert {c["steps_per_s"] for c in planned(capsys, *flags)["candidates"]} == {None}
    assert main([*flags, "--probe", "--json"]) == 0
    out, err = capsys.readouterr()
    speeds = {c["num_envs"]: c["steps_per_s"] for c in json.loads(out)["candidates"]}
    assert {n for n, speed in speeds.items() if speed} == {64, 128}
    assert json.loads(out)["expected_seconds"] > 0.0
    assert "64 environments" in err
    assert planned(capsys, *flags)["candidates"] == json.loads(out)["candidates"]
    assert not (tmp_path / "runs").exists(), "a probe leaves no run"


@pytest.mark.parametrize(
    ("flags", "value"),
    [
        (["--gpu", "t44"], "t44"),
        (["--gpu", "t4", "--physics", "native"], "--physics native"),
        (["--gpu", "t4", "--probe"], "--gpu t4"),
        (["--gpu", "t4,l4", "--probe"], "--gpu t4,l4"),
        (["--gpu", "t4,l44"], "l44"),
        (["--gpu"], "--gpu"),
        (["--compile"], "--gpu NAME"),
        (["--gpu", "v100", "--compile"], "t4"),
        (["--gpu", "tpu-v2-8", "--compile"], "tpu-v5e"),
        (["--gpu", "tpu-v5e", "--compile"], "libtpu"),
        (["--gpu", "t4", "--compile"], "pip install"),
        (["--memory-limit", "6"], "6GB"),
        (["--memory-limit", "99MB"], "--memory-limit"),
        (["--mem-fraction", "0"], "--mem-fraction"),
        (["--mem-fraction", "1.5"], "--mem-fraction"),
        (["--max-envs", "-1"], "--max-envs"),
        (["--on-oom", "shrinc"], "shrink"),
    ],
)
def test_a_value_that_cannot_be_used_is_refused_in_one_line(
    flags: list[str], value: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([*CARTPOLE, *flags]) == 2
    err = capsys.readouterr().err
    assert err.count("\n") == 1
    assert value in err


def test_the_plan_of_several_seeds_names_the_folders_that_they_train_in(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    words = ["--robot", "cartpole", "--num-envs", "4", "--physics", "native", "--seed", "2"]
    found = []
    for more in ([], ["--run-dir", "mine"]):
        assert main([*words, "--seeds", "3", *more, "--json"]) == 0
        found.append(json.loads(capsys.readouterr().out)["config"]["run_dir"])
    assert found == ["runs/cartpole-cartpole-ppo-2-4/seed-2", "mine/seed-2"]
