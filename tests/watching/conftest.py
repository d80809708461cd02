"""Two runs of two iterations each, which all tests of watching share."""

from __future__ import annotations

import io
from dataclasses import replace

import pytest

from jaxrl_hw import Config, NetConfig, Run, fit, preset_config
from jaxrl_hw.telemetry.console import Console


def train(robot: str, folder) -> Run:
    """The smallest run there is: its policy is as good as none, but it is one."""
    base: Config = preset_config(robot)
    config = replace(
        base,
        num_envs=16,
        iterations=2,
        run_dir=str(folder),
        tensorboard=False,
        net=NetConfig(policy=(16,), value=(16,)),
        ppo=replace(base.ppo, unroll=8, epochs=1, minibatches=1, symmetry="none"),
    )
    return fit(config, console=Console(io.StringIO()))


@pytest.fixture(scope="session")
def cartpole_run(tmp_path_factory) -> Run:
    return train("cartpole", tmp_path_factory.mktemp("cartpole") / "run")


@pytest.fixture(scope="session")
def walking_run(tmp_path_factory) -> Run:
    return train("g1_12dof", tmp_path_factory.mktemp("g1_12dof") / "run")
