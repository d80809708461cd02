"""The plan says what the checkpoints will take on disk, and it comes out so."""

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

pytestmark = pytest.mark.usefixtures("quick_compile")


def lived(tree: Any) -> Any:
    """The same, with bits as they are after a while: at the start much is zero."""
    noise = np.random.default_rng(0)

    def fill(leaf: jax.Array) -> Any:
        if leaf.ndim == 0 or leaf.dtype != np.float32:
            return leaf
        return noise.standard_normal(leaf.shape).astype("float32")

    return jax.tree.map(fill, tree)


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
    envs = envs._replace(physics=lived(envs.physics), task=lived(envs.task), obs=lived(envs.obs))
    state = state._replace(
        params=lived(state.params),
        opt_state=lived(state.opt_state),
        env_state=state.env_state._replace(envs=envs),
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


def test_the_plan_tells_the_disk_and_warns_where_it_does_not_do(tmp_path: Path) -> None:
    config = replace(preset_config("cartpole"), num_envs=64, run_dir=str(tmp_path / "run"))
    plan = make_plan(replace(config, iterations=1000, keep_every=100))
    row = dict(plan.rows())["checkpoints"]
    assert " kB each, up to 14 kept (the last 3, the best, one every 100 iterations): " in row
    assert row.endswith(" free")
    disk = plan.to_dict()["disk"]
    assert disk["kept"] == 14
    assert disk["total_bytes"] == 14 * disk["checkpoint_bytes"]
    assert disk["free_bytes"] > 0
    assert not any("checkpoints will need" in note for note in plan.warnings)
    plan = make_plan(replace(config, iterations=10**12, save_every=10, keep_every=10))
    (note,) = [note for note in plan.warnings if "checkpoints will need" in note]
    assert "use a lower --keep" in note


def test_a_mirror_that_cannot_be_is_refused_and_one_that_is_not_there_told(tmp_path: Path) -> None:
    config = replace(preset_config("cartpole"), num_envs=64, run_dir=str(tmp_path / "runs/a"))
    (tmp_path / "file").write_text("")
    with pytest.raises(UserError, match=r"--mirror must be a folder, but .* is a file"):
        make_plan(replace(config, mirror=str(tmp_path / "file")))
    with pytest.raises(UserError, match="onto itself"):
        make_plan(replace(config, mirror=str(tmp_path / "runs")))
    with pytest.raises(UserError, match="--keep-every must be at least 0, got -1"):
        make_plan(replace(config, keep_every=-1))
    plan = make_plan(replace(config, mirror=str(tmp_path / "none/drive")))
    assert dict(plan.rows())["mirror"] == str(tmp_path / "none/drive/a")
    assert any("(is the drive mounted?)" in note for note in plan.warnings)
    plan = make_plan(replace(config, mirror=str(tmp_path / "drive")))  # made when it is needed
    assert not any("mounted" in note for note in plan.warnings)
