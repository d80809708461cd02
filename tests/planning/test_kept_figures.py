"""The GPU compiler's figures that ship with the package: what they hold for, and how they scale."""

from __future__ import annotations

import importlib.util
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from jaxrl_hw import Config, preset_config
from jaxrl_hw.config.resolve import algorithm_needs, sized
from jaxrl_hw.errors import RunError
from jaxrl_hw.hardware import gpu_compiler
from jaxrl_hw.hardware.detect import Hardware
from jaxrl_hw.plan import main
from jaxrl_hw.planning import kept_figures
from jaxrl_hw.planning.kept_figures import Kept, Point
from jaxrl_hw.planning.memory_model import ESTIMATED

T4 = Hardware("gpu", "T4", 1, 2, 15_360 << 20, 15_360 << 20, "the data sheet of t4")
L4 = replace(T4, name="L4", memory_total=23_034 << 20)
RTX4060 = replace(T4, name="RTX 4060 Laptop", memory_total=8_188 << 20)
V100 = replace(T4, name="V100", memory_total=16_384 << 20)
SCRIPT = Path(__file__).resolve().parents[2] / "scripts" / "compile_for_cards.py"


def on_a_card(num_envs: int = 4096, robot: str = "g1", **settings: Any) -> Config:
    config = replace(preset_config(robot), physics="mjx", num_envs=num_envs, **settings)
    return sized(config, num_envs)


def point(config: Config) -> Point:
    """A program whose memory is known: 9 kB of state an environment, 4 kB a sample, 50 kB of
    temporaries and 2 kB a step for the collection, 20 MB and 5 kB a sample for the update."""
    number, unroll = int(config.num_envs), algorithm_needs(config).unroll
    items = {"networks": 900_000, "environments": 8 + 9_000 * number}
    items["rollout"] = number * (1_500 + 4_000 * unroll)
    collect = number * (50_000 + 2_000 * unroll)
    return Point(number, unroll, items, collect, 20_000_000 + 5_000 * number * unroll)


def kept_for(config: Config, card: str = "t4") -> Kept:
    points = (point(on_a_card(1024)), point(on_a_card(8192)))
    versions, program = kept_figures.versions_here(), kept_figures.identity(config)
    return Kept(card, "optimized", versions, program, points)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "kept.json"
    kept_figures.save((kept_for(on_a_card()), kept_for(on_a_card(), "l4")), path)
    return path


def test_what_ships_predicts_what_the_compiler_counts_at_other_sizes() -> None:
    checked = 0
    for kept in kept_figures.load():
        usual = kept_figures.FURTHEST * max(one.samples for one in kept.points)
        for check in (one for one in kept.checks if one.samples <= usual):
            parts = kept_figures.scaled(kept, check.unroll, check.num_envs)
            predicted = sum(part.total(check.num_envs) for part in parts.values())
            counted = sum(check.items.values()) + max(check.collect, check.update)
            assert predicted == pytest.approx(counted, rel=0.03), (kept.card, kept.program["robot"])
            checked += 1
    assert checked > 0


@pytest.mark.parametrize(
    ("num_envs", "unroll"), [(512, 17), (512, 4), (1024, 30), (3000, 7), (7280, 5), (8192, 4)]
)
def test_figures_scale_with_environments_and_unroll(num_envs: int, unroll: int, file: Path) -> None:
    config = on_a_card(num_envs)
    config = replace(config, ppo=replace(config.ppo, unroll=unroll))
    found = kept_figures.find(config, T4, file)
    assert found is not None
    parts, source = found
    true = point(config)
    for name, size in true.items.items():
        assert parts[name].total(num_envs) == pytest.approx(size, rel=1e-3)
    larger = max(true.collect, true.update)
    assert parts["temporaries"].total(num_envs) == pytest.approx(larger, rel=1e-3)
    assert "T4" in source


def test_where_the_number_is_open_no_size_in_between_is_underestimated(file: Path) -> None:
    largest = on_a_card(8192)
    found = kept_figures.find(replace(largest, num_envs="auto"), T4, file)
    assert found is not None
    for number in (1024, 3000, 8192):
        true = point(replace(largest, num_envs=number))
        larger = max(true.collect, true.update)
        assert found[0]["temporaries"].total(number) >= 0.999 * larger


def test_figures_hold_for_the_program_that_was_compiled_and_for_no_other(file: Path) -> None:
    config = on_a_card()
    joystick, ppo, net = config.joystick, config.ppo, config.net
    for same in (
        replace(config, seed=5),
        replace(config, ppo=replace(ppo, epochs=9, clip=0.1, unroll=9)),
        replace(config, joystick=replace(joystick, push_speed=3.0)),
        on_a_card(512),
    ):
        assert kept_figures.find(same, T4, file) is not None
    for other in (
        on_a_card(robot="go1"),
        replace(config, physics="warp"),
        replace(config, timestep=0.002),
        replace(config, precision="bfloat16"),
        replace(config, devices=2),
        replace(config, net=replace(net, policy=(512, 256, 128))),
        replace(config, net=replace(net, activation="tanh")),
        replace(config, ppo=replace(ppo, minibatch_size=4096)),
        replace(config, ppo=replace(ppo, symmetry="none")),
        replace(config, joystick=replace(joystick, dry_friction=False)),
        replace(config, joystick=replace(joystick, foresight=False)),
        replace(config, curriculum=()),
        replace(config, ppo=replace(ppo, unroll=24)),  # a batch beyond what was compiled
    ):
        assert kept_figures.find(other, T4, file) is None
    assert kept_figures.find(config, L4, file) is not None
    assert kept_figures.find(config, V100, file) is None
    assert kept_figures.find(config, RTX4060, file) is None
    assert kept_figures.find(config, T4, file.with_name("missing.json")) is None


def test_figures_count_for_cards_alike_that_have_none_of_their_own(tmp_path: Path) -> None:
    config, path = on_a_card(), tmp_path / "kept.json"
    of_l4 = kept_for(config, "l4")._replace(stands_for=gpu_compiler.alike("l4"))
    own = kept_for(config, "rtx4060-laptop")
    more = own.points[1]._replace(items={**own.points[1].items, "networks": 950_000})
    assert "rtx4060-laptop" in of_l4.stands_for
    assert "t4" not in of_l4.stands_for
    for programs, networks in (
        ((of_l4,), 900_000),
        ((of_l4, own._replace(points=(own.points[0], more))), 950_000),
    ):
        kept_figures.save(programs, path)
        found = kept_figures.find(config, RTX4060, path)
        assert found is not None
        assert found[0]["networks"].fixed == networks
    assert kept_figures.find(config, T4, path) is None


def test_cards_alike_that_were_both_compiled_for_count_the_same() -> None:
    programs = kept_figures.load()
    pairs = [
        (point, again)
        for one in programs
        for other in programs
        if other.card in one.stands_for and other.program == one.program
        for point in one.points
        for again in other.points
        if point.num_envs == again.num_envs
    ]
    assert pairs
    for point, again in pairs:
        assert point.items == again.items
        # what is fused also depends on how many cores a card has
        assert point.collect == pytest.approx(again.collect, rel=0.15)
        assert point.update == pytest.approx(again.update, rel=0.15)
        totals = [sum(one.items.values()) + max(one.collect, one.update) for one in (point, again)]
        assert totals[0] == pytest.approx(totals[1], rel=0.03)


def test_figures_of_other_versions_say_so(file: Path) -> None:
    config = on_a_card()
    _, source = kept_figures.find(config, T4, file) or ({}, "")
    old = kept_for(config)._replace(versions={"jax": "0.9.9"})
    kept_figures.save((old,), file)
    _, said = kept_figures.find(config, T4, file) or ({}, "")
    assert said.startswith(source)
    assert "0.9.9" in said


def test_a_plan_for_a_card_takes_what_ships(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("JAXRL_HW_CACHE", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    complete = [kept for kept in kept_figures.load() if len(kept.points) == 2]
    kept = next(kept for kept in complete if kept.preset == "optimized")
    many = kept.points[1]
    words = ["--robot", kept.program["robot"], "--gpu", kept.card, "--json"]
    words += ["--precision", kept.program["precision"], "--num-envs", str(many.num_envs)]
    assert main(words) == 0
    plan = json.loads(capsys.readouterr().out)
    expected = {**many.items, "temporaries": max(many.collect, many.update)}
    found = {name: plan["predicted_bytes"][name] for name in expected}
    assert found == pytest.approx(expected, rel=1e-3, abs=many.num_envs)
    assert any(plan["predicted_from"] in warning for warning in plan["warnings"])
    # another network is another program: an estimate, as on a card that was not compiled for
    assert main([*words, "--net.policy", "48", "48"]) == 0
    other = json.loads(capsys.readouterr().out)
    assert other["predicted_from"] == ESTIMATED != plan["predicted_from"]


@pytest.fixture(scope="module")
def script() -> Any:
    spec = importlib.util.spec_from_file_location("compile_for_cards", SCRIPT)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_script_compiles_what_is_missing_and_keeps_each_at_once(
    script: Any, tmp_path: Path
) -> None:
    done: list[tuple[str, str, int]] = []

    def compiled(config: Config, card: str) -> Point:
        if len(done) == 3:
            raise RunError("the compiler failed")
        done.append((config.robot, card, int(config.num_envs)))
        return point(sized(config, int(config.num_envs)))

    out = tmp_path / "kept.json"
    words = ["--robot", "g1", "--card", "t4", "l4", "--precision", "float32", "--out", str(out)]
    assert script.main(words, compiled) == 1
    assert [len(kept.points) for kept in kept_figures.load(out)] == [1, 2]  # l4, t4
    done.clear()
    assert script.main(words, compiled) == 0
    assert done == [("g1", "l4", 8192)]
    done.clear()
    assert script.main([*words, "--check", "2048", "4096x24"], compiled) == 1  # the fourth fails
    assert done == [("g1", "t4", 2048), ("g1", "t4", 4096), ("g1", "l4", 2048)]
    t4 = kept_figures.load(out)[1]
    assert [(one.num_envs, one.unroll) for one in t4.checks] == [(2048, 8), (4096, 24)]
    # each is complete in itself: the plan takes it
    assert kept_figures.find(on_a_card(2048), T4, out) is not None
    assert script.main([*words, "--check", "many"], compiled) == 2
    assert script.main([*words, "--card", "v100"], compiled) == 2
