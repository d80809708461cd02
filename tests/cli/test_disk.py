"""The plan predicts what the checkpoints take on disk."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import jax
import numpy as np
import pytest

from jaxrl_hw import (
    Config,
    UserError,
    init_train_state,
    make_algorithm,
    make_env,
    make_plan,
    preset_config,
)
from jaxrl_hw.checkpointing.checkpoint import Checkpoints
from jaxrl_hw.config.validation import to_dict
from jaxrl_hw.planning.disk_space import storage


def trained(tree: Any) -> Any:
    """The same tree with bits as after training: at the start many are zero."""
    noise = np.random.default_rng(0)

    def fill(leaf: jax.Array) -> Any:
        if leaf.ndim == 0 or leaf.dtype != np.float32:
            return leaf
        return noise.standard_normal(leaf.shape).astype("float32")

    return jax.tree.map(fill, tree)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("robot", "num_envs"), [("cartpole", 64), ("cartpole", 1024), ("g1_12dof", 256), ("g1", 1024)]
)
def test_a_checkpoint_takes_what_was_expected(robot: str, num_envs: int, tmp_path: Path) -> None:
    preset = preset_config(robot)
    config = replace(
        preset, num_envs=num_envs, physics="native", ppo=replace(preset.ppo, motion_prior=False)
    )
    env = make_env(config)
    state = init_train_state(env, make_algorithm(config, env), 0)
    envs = state.env_state.envs
    changing = {name: trained(getattr(envs, name)) for name in ("physics", "task", "obs")}
    envs = envs._replace(**changing)
    state = state._replace(
        params=trained(state.params),
        opt_state=trained(state.opt_state),
        env_state=state.env_state._replace(envs=envs, memory=trained(state.env_state.memory)),
    )
    with Checkpoints(tmp_path, config=to_dict(config)) as checkpoints:
        checkpoints.save(1, state, {})
    size = sum(path.stat().st_size for path in tmp_path.rglob("*") if path.is_file())
    expected = storage(config, num_envs, tmp_path).checkpoint_bytes
    assert expected == pytest.approx(size, rel=0.2)
    assert size < 30e6


@pytest.mark.parametrize(
    ("changes", "kept"),
    [
        ({"iterations": 1000}, 4),  # the latest three and the best
        ({"iterations": 100}, 2),
        ({"iterations": 120}, 3),  # the goal's own
        ({"iterations": 1}, 1),
        ({"iterations": 1000, "keep": 1, "keep_every": 100}, 12),
        ({"iterations": 1000, "keep": 1, "keep_every": 75}, 15),  # not all of them multiples of 50
        ({"iterations": 100, "keep": 9, "keep_every": 50}, 2),
    ],
)
def test_the_number_of_checkpoints_is_counted(changes: dict[str, int], kept: int) -> None:
    config = replace(Config(), **changes)
    assert storage(config, 8, Path(".")).kept == kept


def test_the_plan_shows_the_disk_and_warns_where_it_is_too_small(tmp_path: Path) -> None:
    config = replace(preset_config("cartpole"), num_envs=64, run_dir=str(tmp_path / "run"))
    config = replace(config, timesteps=0)
    plan = make_plan(replace(config, iterations=1000, keep_every=100))
    assert "14" in dict(plan.rows())["checkpoints"]
    disk = plan.to_dict()["disk"]
    assert disk["kept"] == 14
    assert disk["total_bytes"] == 14 * disk["checkpoint_bytes"]
    assert disk["free_bytes"] > 0
    few = set(plan.warnings)
    plan = make_plan(replace(config, iterations=10**12, save_every=10, keep_every=10))
    (note,) = set(plan.warnings) - few
    assert "--keep" in note


def test_an_impossible_mirror_is_refused_and_a_missing_one_is_a_warning(tmp_path: Path) -> None:
    config = replace(preset_config("cartpole"), num_envs=64, run_dir=str(tmp_path / "runs/a"))
    (tmp_path / "file").write_text("")
    for place in (tmp_path / "file", tmp_path / "runs"):  # no folder; the run's own
        with pytest.raises(UserError, match="--mirror") as refusal:
            make_plan(replace(config, mirror=str(place)))
        assert str(place) in str(refusal.value)
    with pytest.raises(UserError, match="--keep-every") as refusal:
        make_plan(replace(config, keep_every=-1))
    assert "-1" in str(refusal.value)
    plan = make_plan(replace(config, mirror=str(tmp_path / "none/drive")))
    assert dict(plan.rows())["mirror"] == str(tmp_path / "none/drive/a")
    assert any(str(tmp_path / "none") in note for note in plan.warnings)
    plan = make_plan(replace(config, mirror=str(tmp_path / "drive")))  # made when it is needed
    assert not any(str(tmp_path / "drive") in note for note in plan.warnings)
