"""Policies that the tests of policies share."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from jaxrl_hw import Run
from jaxrl_hw.policies.from_state import portable
from jaxrl_hw.policies.io import save_policy
from jaxrl_hw.policies.portable import PortablePolicy
from jaxrl_hw.policies.sources import open_policy


@pytest.fixture(scope="session")
def walker() -> PortablePolicy:
    """A trained network that sees one observation: the zoo's walker without its memory."""
    policy = open_policy("zoo:g1_12dof")
    first, *others = policy.kernels
    alone = replace(policy, kernels=(first[-policy.obs_size :], *others), gru=())
    return replace(alone, meta=policy.meta | {"memory": {"kind": "none"}})


@pytest.fixture(scope="session")
def trained(walking_run: Run) -> PortablePolicy:
    """The policy of `walking_run`."""
    return portable(walking_run.config, walking_run.state)


@pytest.fixture(scope="session")
def walker_npz(walker: PortablePolicy, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("files") / "walker.npz"
    save_policy(walker, path)
    return path


@pytest.fixture(scope="session")
def half_run(
    train_run: Callable[..., Run],
    tmp_path_factory: pytest.TempPathFactory,
) -> Run:
    """A run whose networks compute in bfloat16."""
    folder = tmp_path_factory.mktemp("half") / "run"
    return train_run("cartpole", folder, precision="bfloat16", num_envs=8)


@pytest.fixture
def own_zoo(walker: PortablePolicy, tmp_path: Path) -> Path:
    """The root of a zoo of one policy, "walker"."""
    root = tmp_path / "zoo"
    (root / "walker").mkdir(parents=True)
    save_policy(walker, root / "walker" / "policy.npz")
    return root
