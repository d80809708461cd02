"""Checkpoints come back to the last bit, survive damage, and are kept by age and by score."""

from __future__ import annotations

import logging
import resource
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxrl_hw.checkpointing.checkpoint import Checkpoints
from jaxrl_hw.checkpointing.description import score
from jaxrl_hw.checkpointing.restore import AllDamagedError, restore_from
from jaxrl_hw.checkpointing.store import best_checkpoint
from jaxrl_hw.errors import UserError


class State(NamedTuple):
    params: dict[str, Any]
    empty: jax.Array
    key: jax.Array
    iteration: jax.Array
    flag: jax.Array
    nothing: None = None


def make_state(seed: int = 0) -> State:
    key = jax.random.key(seed)
    w = jax.random.normal(key, (33, 7))
    # NaN with a payload and a negative zero: equal only to the last bit.
    odd = jax.lax.bitcast_convert_type(jnp.array([0x7FC12345, 0x80000000], jnp.uint32), jnp.float32)
    params = {
        "w": w,
        "half": w.astype(jnp.bfloat16),
        "odd": odd,
        "n": jnp.arange(3, dtype="uint32"),
    }
    return State(
        params,
        jnp.zeros((5, 0)),
        jax.random.split(key, 4),
        jnp.int32(seed),
        jnp.array(True),
    )


def bits(leaf: Any) -> tuple[str, tuple[int, ...], bytes]:
    raw = jax.random.key_data(leaf) if jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key) else leaf
    return str(leaf.dtype), leaf.shape, np.asarray(raw).tobytes()


def assert_identical(a: Any, b: Any) -> None:
    assert str(jax.tree.structure(a)) == str(jax.tree.structure(b))
    assert [bits(x) for x in jax.tree.leaves(a)] == [bits(x) for x in jax.tree.leaves(b)]


def damage(folder: Path) -> None:
    """Cut every data file in half; a single one may hold nothing that is still referred to."""
    for file in folder.rglob("d/*"):
        file.write_bytes(file.read_bytes()[: file.stat().st_size // 2])


def save_all(directory: Path, returns: dict[int, float | None], **options: Any) -> Checkpoints:
    checkpoints = Checkpoints(directory, **options)
    for iteration, value in returns.items():
        checkpoints.save(iteration, make_state(iteration), {"episode_return": value})
        checkpoints.wait()
    return checkpoints


def test_restored_state_is_bit_identical_and_plain(tmp_path):
    state = make_state(3)
    with Checkpoints(tmp_path / "c") as checkpoints:
        assert checkpoints.restore(state) is None
        assert checkpoints.save(3, state, {})
        restored, iteration = checkpoints.restore(jax.eval_shape(lambda: make_state(0)))
    assert iteration == 3
    assert_identical(state, restored)
    for leaf in jax.tree.leaves(restored):
        assert not leaf.aval.weak_type
        assert not leaf.committed


def test_a_restored_state_does_not_compile_again(tmp_path):
    @jax.jit
    def step(state: State) -> State:
        return state._replace(iteration=state.iteration + 1)

    state = step(step(make_state()))
    with Checkpoints(tmp_path) as checkpoints:
        checkpoints.save(2, state, {})
        restored, _ = checkpoints.restore(state)
    before = step._cache_size()
    step(restored)
    assert step._cache_size() == before


def test_the_state_may_be_donated_as_soon_as_save_returns(tmp_path):
    step = jax.jit(lambda x: x + 1.0, donate_argnums=0)
    x = jnp.zeros((1000, 1000))
    with Checkpoints(tmp_path) as checkpoints:
        checkpoints.save(1, {"x": x}, {})
        template = {"x": jax.ShapeDtypeStruct(x.shape, x.dtype)}
        for _ in range(5):
            x = step(x)
        restored, _ = checkpoints.restore(template)
    assert not np.asarray(restored["x"]).any()


def test_a_damaged_checkpoint_is_passed_over_and_left(tmp_path):
    warnings: list[str] = []
    save_all(tmp_path, {1: 0.0, 2: 0.0, 3: 0.0}).close()
    damage(tmp_path / "3")
    (tmp_path / "2/meta/metadata").unlink()
    with Checkpoints(tmp_path, warn=warnings.append) as checkpoints:
        state, iteration = checkpoints.restore(make_state())
        assert iteration == 1
        assert_identical(state, make_state(1))
        assert len(warnings) == 2
        assert str(tmp_path / "3") in warnings[0]
        assert checkpoints.iterations() == [1, 2, 3]
        # The run comes by iteration 2 again: the damaged one is replaced.
        assert checkpoints.save(2, make_state(2), {})
        assert checkpoints.restore(make_state(), 2) is not None


def test_a_flipped_bit_is_noticed(tmp_path):
    checkpoints = save_all(tmp_path, {1: None})
    checkpoints.close()
    meta = tmp_path / "1/meta/metadata"
    text = meta.read_text()
    crc = text.split('"crc": ')[1].split("}")[0].split(",")[0]
    meta.write_text(text.replace(crc, str(int(crc) ^ 1)))
    with pytest.raises(AllDamagedError):
        restore_from(tmp_path, make_state())


def test_all_damaged_is_an_error_that_names_them(tmp_path):
    save_all(tmp_path, {1: 0.0, 2: 0.0}).close()
    damage(tmp_path / "1")
    damage(tmp_path / "2")
    with Checkpoints(tmp_path, warn=lambda _: None) as checkpoints:
        with pytest.raises(AllDamagedError) as caught:
            checkpoints.restore(make_state())
        assert str(tmp_path / "1") in str(caught.value)
        assert str(tmp_path / "2") in str(caught.value)
        assert checkpoints.iterations() == [1, 2]


def test_another_form_is_the_users_error(tmp_path):
    save_all(tmp_path, {1: 0.0}).close()
    other = make_state()._replace(iteration=jnp.float32(0), flag=jnp.zeros(3, bool))
    with pytest.raises(UserError) as caught:
        restore_from(tmp_path, other)
    for part in ("iteration", "int32[]", "float32[]", "flag"):
        assert part in str(caught.value)


def test_the_latest_and_the_best_are_kept(tmp_path):
    returns = {1: 1.0, 2: 9.0, 3: float("nan"), 4: 2.0, 5: None, 6: 3.0}
    with save_all(tmp_path, returns, keep=2) as checkpoints:
        assert checkpoints.iterations() == [2, 5, 6]
        assert best_checkpoint(checkpoints.store.sound()).iteration == 2
    assert sorted(p.name for p in tmp_path.iterdir()) == ["2", "5", "6"]


def test_a_return_of_an_earlier_stage_is_not_the_best(tmp_path):
    with Checkpoints(tmp_path, keep=1) as checkpoints:
        saves = ((1, 8.0, 0), (2, 9.0, 0), (3, 7.0, 1), (4, 6.0, 1), (5, 1.0, 2))
        kept = []
        for iteration, value, stage in saves:
            metrics = {"episode_return": value}
            checkpoints.save(iteration, make_state(iteration), metrics, stage=stage)
            checkpoints.wait()
            best = best_checkpoint(checkpoints.store.sound())
            kept.append((best.iteration, checkpoints.iterations()))
    assert kept == [(1, [1]), (2, [2]), (3, [3]), (3, [3, 4]), (5, [5])]


def test_the_settings_of_an_old_checkpoint_tell_its_stage():
    joystick = {"later": {"iteration": 2}, "last": {"iteration": 4}, "finish": {"iteration": 0}}
    meta = {"episode_return": 1.0, "config": {"joystick": joystick}}
    stages = [score({**meta, "iteration": iteration}).stage for iteration in (1, 2, 3, 4, 5)]
    assert stages == [0, 0, 1, 1, 2]
    assert score({**meta, "iteration": 5, "stage": 1}).stage == 1


def test_one_iteration_is_written_once_per_session_unless_forced(tmp_path):
    checkpoints = save_all(tmp_path, {1: 0.0})
    assert not checkpoints.save(1, make_state(1), {})
    assert checkpoints.save(1, make_state(7), {}, force=True)
    state, _ = checkpoints.restore(make_state())
    assert_identical(state, make_state(7))
    checkpoints.close()


def test_leftovers_of_a_killed_writer_are_not_checkpoints(tmp_path):
    for name in ("7.orbax-checkpoint-tmp-1", "8.new", "9.orbax-checkpoint-tmp", "notes"):
        (tmp_path / name).mkdir()
    with Checkpoints(tmp_path) as checkpoints:
        assert checkpoints.iterations() == []
        checkpoints.save(9, make_state(), {})
        checkpoints.wait()
        assert sorted(p.name for p in tmp_path.iterdir()) == ["9", "notes"]


def test_a_failed_write_is_a_warning_and_leaves_nothing(tmp_path):
    warnings: list[str] = []
    with Checkpoints(tmp_path, warn=warnings.append) as checkpoints:
        checkpoints.save(1, make_state(1), {})
        checkpoints.wait()
        soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
        resource.setrlimit(resource.RLIMIT_FSIZE, (256, hard))  # no file may grow longer
        try:
            checkpoints.save(2, make_state(2), {})
            checkpoints.wait()
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
        assert len(warnings) == 1
        assert "2" in warnings[0]
        assert "\n" not in warnings[0]
        assert [p.name for p in tmp_path.iterdir()] == ["1"]
        assert checkpoints.save(2, make_state(2), {})  # tried again, not taken as done
        checkpoints.wait()
        assert checkpoints.iterations() == [1, 2]


@pytest.mark.parametrize("where", [".", "checkpoints", "checkpoints/4"])
def test_restore_from_takes_a_run_a_folder_or_one_checkpoint(tmp_path, where):
    save_all(tmp_path / "checkpoints", {4: 0.0}).close()
    state, iteration = restore_from(tmp_path / where, make_state())
    assert iteration == 4
    assert_identical(state, make_state(4))


def test_restore_from_says_what_is_missing(tmp_path):
    (tmp_path / "file").write_text("")
    for path in (tmp_path, tmp_path / "none", tmp_path / "file"):
        with pytest.raises(UserError, match=path.name):
            restore_from(path, make_state())
    with Checkpoints(tmp_path) as checkpoints, pytest.raises(UserError, match="iteration 5"):
        checkpoints.restore(make_state(), 5)
    with pytest.raises(UserError, match=r"--keep .* 0"):
        Checkpoints(tmp_path, keep=0)


def test_saving_is_silent(tmp_path, caplog):
    with caplog.at_level(logging.INFO):
        save_all(tmp_path, {1: 0.0}).close()
    assert [r.message for r in caplog.records if r.name == "absl"] == []
