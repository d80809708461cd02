"""Programs that call the host are compiled once for all processes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax._src import compiler

from jaxrl_hw.hardware import host_programs

pytestmark = pytest.mark.skipif(
    host_programs.jax_keeps_them(), reason="this JAX keeps programs with host callbacks itself"
)
SETTINGS = {
    "jax_persistent_cache_min_compile_time_secs": 0.0,
    "jax_persistent_cache_min_entry_size_bytes": -1,
}


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    """An empty folder that JAX keeps programs in."""
    before = {name: getattr(jax.config, name) for name in (*SETTINGS, "jax_compilation_cache_dir")}
    for name, value in {**SETTINGS, "jax_compilation_cache_dir": str(tmp_path)}.items():
        jax.config.update(name, value)
    compilation_cache = pytest.importorskip("jax._src.compilation_cache")
    compilation_cache.reset_cache()
    yield tmp_path
    for name, value in before.items():
        jax.config.update(name, value)
    compilation_cache.reset_cache()


@pytest.fixture
def compiled(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many callbacks each program has that JAX itself compiles."""
    counted: list[int] = []
    usual = compiler.compile_or_get_cached

    def counting(*args: Any, **more: Any) -> Any:
        counted.append(len(args[4]))
        return usual(*args, **more)

    monkeypatch.setattr(compiler, "compile_or_get_cached", counting)
    return counted


def times(factor: float) -> Callable[[jax.Array], jax.Array]:
    """A new program, which has the host multiply."""

    def host(x: Any) -> np.ndarray:
        return np.asarray(x) * np.float32(factor)

    @jax.jit
    def program(x: jax.Array) -> jax.Array:
        form = jax.ShapeDtypeStruct(x.shape, x.dtype)
        return jnp.sin(jax.pure_callback(host, form, x, vmap_method="broadcast_all"))

    return program


X = np.arange(3.0, dtype=np.float32)


def test_a_program_from_disk_calls_the_host_code_of_its_new_owner(
    folder: Path, compiled: list[int]
) -> None:
    for factor in (2.0, 3.0):
        with host_programs.kept():
            np.testing.assert_allclose(times(factor)(X), np.sin(factor * X), rtol=1e-6)
    assert compiled.count(1) == 1
    # without it JAX keeps its own way, and does not take what lies there
    np.testing.assert_allclose(times(4.0)(X), np.sin(4.0 * X), rtol=1e-6)
    assert compiled.count(1) == 2


def test_a_damaged_program_is_compiled_again(folder: Path, compiled: list[int]) -> None:
    with host_programs.kept():
        times(2.0)(X)
        (file,) = folder.glob("*-host-cache")
        file.write_bytes(file.read_bytes()[:100])
        with pytest.warns(UserWarning, match="read"):
            np.testing.assert_allclose(times(3.0)(X), np.sin(3.0 * X), rtol=1e-6)
    assert compiled.count(1) == 2


def test_a_program_that_compiles_in_no_time_is_not_kept(folder: Path, compiled: list[int]) -> None:
    jax.config.update("jax_persistent_cache_min_compile_time_secs", 1e6)
    with host_programs.kept():
        for factor in (2.0, 3.0):
            np.testing.assert_allclose(times(factor)(X), np.sin(factor * X), rtol=1e-6)
    assert compiled.count(1) == 2
    assert not list(folder.glob("*-host-cache"))


def test_jax_is_as_it_was_afterwards() -> None:
    before = compiler.compile_or_get_cached
    with host_programs.kept(), host_programs.kept():
        assert compiler.compile_or_get_cached is not before
    assert compiler.compile_or_get_cached is before
