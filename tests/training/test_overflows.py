"""A run whose engine has too little room for contacts or constraints counts that, and says it."""

from __future__ import annotations

import io
import json
from dataclasses import replace
from pathlib import Path

import pytest

from jaxrl_hw import Config, NetConfig, fit, preset_config
from jaxrl_hw.config.factory import make_algorithm, make_env, make_task, task_stages
from jaxrl_hw.envs.physics.api import NACONMAX, NJMAX
from jaxrl_hw.envs.vector import Env, make_vector_env
from jaxrl_hw.loggers.console import Console
from jaxrl_hw.training.overflows import Overflows
from jaxrl_hw.training.parts import Parts
from jaxrl_hw.types import Algorithm


class LittleRoom(Parts):
    """Environments on Warp with room for one contact each, and for 15 constraints."""

    def environments(self, config: Config) -> tuple[Env, Algorithm]:
        from jaxrl_hw.envs.physics import warp

        task, physics = make_task(config)
        room = warp.Room(contacts=1, rows=15)
        small = warp.make(physics.model, physics.substeps, task.fields, task.late, room)
        stages = task_stages(config, task)
        env = make_vector_env(task, small, make_env(config).num_envs, stages)
        return env, make_algorithm(config, env)


@pytest.mark.slow  # Warp compiles its kernels on first use
def test_a_run_counts_overflows_in_its_metrics_and_names_each_limit_once(tmp_path: Path) -> None:
    pytest.importorskip("warp", reason='needs pip install "jaxrl_hw[warp]"')
    base = preset_config("g1_12dof")
    config = replace(
        base,
        physics="warp",
        num_envs=4,
        iterations=3,
        run_dir=str(tmp_path / "run"),
        tensorboard=False,
        net=NetConfig(policy=(16,), value=(16,)),
        ppo=replace(base.ppo, unroll=4, epochs=1, minibatch_size=16, symmetry="none"),
    )
    screen = io.StringIO()
    run = fit(config, console=Console(screen, form="json"), parts=LittleRoom())
    rows = zip(*(run.metrics[name] for name in (NJMAX, NACONMAX, "nonfinite_envs")), strict=True)
    for constraints, contacts, diverged in rows:
        assert 0 < constraints <= diverged <= 16
        assert contacts % 4 == 0  # all or none
        assert max(constraints, contacts) <= diverged <= constraints + contacts
    assert sum(run.metrics[NACONMAX]) > 0
    lines = [json.loads(line) for line in screen.getvalue().splitlines()]
    warnings = [line["text"] for line in lines if line["event"] == "warning"]
    for name in (NJMAX, NACONMAX):
        assert sum(name in text for text in warnings) == 1, lines


def test_a_limit_is_named_at_its_first_overflow_alone() -> None:
    said: list[str] = []
    watch = Overflows(said.append)
    watch.feed({"iteration": 1})  # an engine without limits
    watch.feed({"iteration": 2, NJMAX: 0, NACONMAX: 0})
    assert said == []
    watch.feed({"iteration": 3, NJMAX: 7, NACONMAX: 0})
    watch.feed({"iteration": 4, NJMAX: 9, NACONMAX: 4096})
    watch.feed({"iteration": 5, NJMAX: 1, NACONMAX: 8192})
    first, second = said
    assert "njmax" in first
    assert "naconmax" not in first
    assert "7" in first
    assert "naconmax" in second
    assert "4,096" in second
