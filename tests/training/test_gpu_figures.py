"""The program as XLA's compilers for GPUs and TPUs see it: their wheels are needed, no device."""

from __future__ import annotations

import re
from dataclasses import replace

import jax
import pytest

from jaxrl_hw import Config, make_plan, preset_config
from jaxrl_hw.errors import UserError
from jaxrl_hw.hardware import compilers
from jaxrl_hw.hardware.detect import Hardware
from jaxrl_hw.plan import main
from jaxrl_hw.planning import kept_figures
from jaxrl_hw.planning.kept_figures import Point
from jaxrl_hw.planning.memory_model import COMPILED, footprint
from jaxrl_hw.training.gpu_figures import compiled_program, measured
from jaxrl_hw.training.run import environments
from jaxrl_hw.training.train_step import make_train_step, state_form

MOST_LAUNCHES = 3_000
"""Kernels of a control step of g1, at most: the compiler makes some 2,800. Each takes microseconds
to launch, so a change that needs more makes small batches slower."""
CARD = Hardware("gpu", "T4", 1, 2, 16 * 10**9, 16 * 10**9, "the data sheet of t4")
TPU = Hardware("tpu", "TPU v5 lite", 1, 2, 16 << 30, 16 << 30, "the data sheet of tpu-v5e")


def needs_compiler(card: str) -> pytest.MarkDecorator:
    """Skips a test, with the line that installs it, where a card's compiler is missing."""
    try:
        compilers.of(card).check_installed()
    except UserError as error:
        return pytest.mark.skip(reason=str(error))
    return pytest.mark.slow


def on_a_gpu(robot: str, num_envs: int = 64) -> Config:
    return replace(preset_config(robot), physics="mjx", num_envs=num_envs)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("card", "hardware"),
    [
        pytest.param("t4", CARD, marks=needs_compiler("t4")),
        pytest.param("tpu-v5e", TPU, marks=needs_compiler("tpu-v5e")),
    ],
)
def test_the_compilers_figures_are_kept_for_plans_of_that_card(
    card: str, hardware: Hardware, tmp_path, monkeypatch, capsys
) -> None:
    compiler = compilers.of(card).site()
    variable = f"JAXRL_HW_{hardware.platform.upper()}_COMPILER"
    monkeypatch.setenv("JAXRL_HW_CACHE", str(tmp_path))
    monkeypatch.setenv(variable, str(compiler))
    monkeypatch.chdir(tmp_path)
    config = make_plan(on_a_gpu("cartpole", 1024), hardware).config
    assert footprint(config, hardware).source != COMPILED
    found = measured(config, hardware, card)
    known = footprint(config, hardware)
    assert known.source == COMPILED
    assert known.covers_all_sizes
    for number, items in found["points"].items():
        expected = {**items, "driver": known.items(number)["driver"]}
        assert known.items(number) == pytest.approx(expected, rel=1e-3)
    few, many = found["points"].values()
    assert few["networks"] == many["networks"]
    assert 1.5 < many["temporaries"] / few["temporaries"] < 4.1
    assert found["work"]["collect"]["launches"] > 100
    # what is kept is not compiled again
    monkeypatch.delenv(variable)
    assert main(["--robot", "cartpole", "--gpu", card, "--num-envs", "1024", "--compile"]) == 0
    assert "compiler" in capsys.readouterr().out


@pytest.fixture(scope="module")
def traced():
    """The train step of g1 before it is lowered for any device; MJX takes seconds to trace."""
    env, algorithm = environments(on_a_gpu("g1"))
    return jax.jit(make_train_step(env, algorithm)).trace(state_form(env, algorithm))


@pytest.mark.slow
@pytest.mark.parametrize("platform", ["cuda", "tpu"])
def test_the_train_step_of_g1_lowers_for_an_accelerator(traced, platform) -> None:
    text = traced.lower(lowering_platforms=(platform,)).as_text()
    assert "f64" not in text
    assert "callback" not in text
    products = re.findall(r"stablehlo.dot_general.*", text)
    exact = [line for line in products if "HIGHEST" in line]
    learned = [line for line in products if any(f"x{n}xf32" in line for n in (128, 64, 32))]
    # the networks' layers, each an even and an odd half, are left to the card's default (32: of the
    # estimate), all others not
    assert len(exact) > 20
    assert [line for line in products if line not in exact and line not in learned] == []


@pytest.fixture(scope="module")
def on_the_card() -> tuple[Point, dict[str, str]]:
    """g1's program as XLA compiles it for a T4: two CPU minutes."""
    return compiled_program(on_a_gpu("g1", 1024), "t4")


@pytest.mark.slow
@needs_compiler("t4")
def test_g1s_program_on_a_gpu_stays_on_the_gpu_in_few_launches(on_the_card) -> None:
    point, texts = on_the_card
    for text in texts.values():
        assert re.search(r"f64\[", text) is None
        assert re.search(r"callback|outfeed\(|infeed\(|send\(|recv\(", text) is None
    collect = point.work["collect"]
    assert collect["waits"] == 0
    assert 0 < collect["launches"] / point.unroll <= MOST_LAUNCHES
    products = [
        line
        for line in texts["collect"].splitlines()
        if re.search(r" dot\(|gemm_backend_config|__cublas\$gemm|__triton_gemm", line)
    ]
    of_networks = [line for line in products if re.search(r'op_name="[^"]*MLP', line)]
    physics = [line for line in products if line not in of_networks]
    assert len(of_networks) > 3
    assert len(physics) > 10
    exact = r"operand_precision={highest,highest}|\[\"HIGHEST\",\"HIGHEST\"\]"
    assert [line for line in physics if not re.search(exact, line)] == []


@pytest.mark.slow
@needs_compiler("t4")
def test_what_ships_of_g1_is_what_the_compiler_counts_now(on_the_card) -> None:
    point, _ = on_the_card
    config = make_plan(on_a_gpu("g1", 1024), CARD).config
    kept = [
        one
        for one in kept_figures.load()
        if one.card == "t4" and one.program == kept_figures.identity(config)
    ]
    assert len(kept) == 1
    if kept[0].versions != kept_figures.versions_here():
        pytest.skip(f"the figures that ship are of {kept[0].versions}")
    shipped = next(one for one in kept[0].points if one.num_envs == point.num_envs)
    assert point.unroll == shipped.unroll
    assert point.items == shipped.items
    for name in ("collect", "update"):
        assert getattr(point, name) == pytest.approx(getattr(shipped, name), rel=0.03)
        assert point.work[name] == pytest.approx(shipped.work[name], rel=0.03)


def test_a_card_without_a_description_is_refused() -> None:
    with pytest.raises(UserError, match="v100"):
        measured(on_a_gpu("cartpole"), CARD, "v100")
