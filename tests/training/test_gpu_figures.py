"""The program as XLA's compiler for GPUs sees it: no GPU is needed, but its wheels are."""

from __future__ import annotations

import re
from dataclasses import replace

import jax
import pytest

from jaxrl_hw import Config, make_plan, preset_config
from jaxrl_hw.errors import UserError
from jaxrl_hw.hardware import gpu_compiler
from jaxrl_hw.hardware.detect import Hardware
from jaxrl_hw.plan import main
from jaxrl_hw.planning.memory_model import COMPILED, footprint
from jaxrl_hw.training.gpu_figures import measured
from jaxrl_hw.training.run import environments
from jaxrl_hw.training.train_step import make_train_step, state_form

CARD = Hardware("gpu", "T4", 1, 2, 16 * 10**9, 16 * 10**9, "the data sheet of t4")


def missing() -> str:
    try:
        gpu_compiler.check_installed()
    except UserError as error:
        return str(error)
    return ""


needs_compiler = pytest.mark.skipif(bool(missing()), reason=missing() or "it is there")


def on_a_gpu(robot: str, num_envs: int = 64) -> Config:
    return replace(preset_config(robot), physics="mjx", num_envs=num_envs)


@pytest.mark.slow
@needs_compiler
def test_the_compilers_figures_are_kept_for_plans_of_that_card(
    tmp_path, monkeypatch, capsys
) -> None:
    compiler = gpu_compiler.site()
    monkeypatch.setenv("JAXRL_HW_CACHE", str(tmp_path))
    monkeypatch.setenv("JAXRL_HW_GPU_COMPILER", str(compiler))
    monkeypatch.chdir(tmp_path)
    config = make_plan(on_a_gpu("cartpole", 1024), CARD).config
    assert footprint(config, CARD).source != COMPILED
    found = measured(config, CARD, "t4")
    known = footprint(config, CARD)
    assert known.source == COMPILED
    assert known.covers_all_sizes
    for number, items in found["points"].items():
        expected = {**items, "driver": known.items(number)["driver"]}
        assert known.items(number) == pytest.approx(expected, rel=1e-3)
    few, many = found["points"].values()
    assert few["networks"] == many["networks"]
    assert 1.5 < many["temporaries"] / few["temporaries"] < 4.1
    assert found["launches"]["collect"][0] > 100
    # what is kept is not compiled again
    monkeypatch.delenv("JAXRL_HW_GPU_COMPILER")
    assert main(["--robot", "cartpole", "--gpu", "t4", "--num-envs", "1024", "--compile"]) == 0
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


def test_a_card_without_a_description_is_refused() -> None:
    with pytest.raises(UserError, match="v100"):
        measured(on_a_gpu("cartpole"), CARD, "v100")
