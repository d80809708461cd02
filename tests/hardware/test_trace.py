"""Where a trace says that the time of compiled programs went."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import jax
import jax.numpy as jnp
import pytest

from jaxrl_hw.hardware.trace import COPY, Operation, operation_names, read_trace, times
from jaxrl_hw.training.profiling import by_part, part_of


def event(name: str, start_ms: float, ms: float, module: str = "jit_step") -> Any:
    stats = {"hlo_op": name, "hlo_module": module} if module else {}
    span = {"start_ns": 1e6 * start_ms, "duration_ns": 1e6 * ms}
    return SimpleNamespace(name=name, stats=stats.items(), **span)


def plane(name: str, **lines: list[Any]) -> Any:
    made = [SimpleNamespace(name=line, events=events) for line, events in lines.items()]
    return SimpleNamespace(name=name, lines=made)


def test_an_operation_counts_without_those_that_ran_inside_of_it() -> None:
    loop = [event("while", 0, 10), event("dot", 1, 4), event("add", 5, 2), event("add", 12, 3)]
    trace = times([plane("/host:CPU", python=loop)])
    found = {op.name: 1e3 * seconds for op, seconds in trace.busy.items()}
    assert found == pytest.approx({"while": 4.0, "dot": 4.0, "add": 5.0})
    assert trace.covered == pytest.approx(0.013)
    assert trace.length == pytest.approx(0.015)


def test_threads_add_up_and_cover_the_same_time_once() -> None:
    threads = {"a": [event("dot", 0, 10)], "b": [event("dot", 5, 10), event("python", 30, 9, "")]}
    trace = times([plane("/host:CPU", **threads)])
    assert trace.busy == {Operation("jit_step", "dot"): pytest.approx(0.020)}
    assert trace.covered == pytest.approx(0.015)


def test_a_devices_streams_count_and_the_hosts_threads_do_not() -> None:
    streams = {"Stream #13": [event("dot", 0, 2)], "Stream #14": [event("MemcpyD2H", 1, 3, "")]}
    steps = {"Steps": [event("dot", 0, 50)]}
    trace = times(
        [
            plane("/host:CPU", python=[event("dot", 0, 100)]),
            plane("/device:GPU:0", **streams, **steps),
        ]
    )
    seconds = {Operation("jit_step", "dot"): 0.002, Operation("", COPY): 0.003}
    assert trace.busy == pytest.approx(seconds)
    assert trace.covered == pytest.approx(0.004)


@pytest.mark.parametrize(
    ("module", "path", "part"),
    [
        ("jit_collecting", "jit(collecting)/while/body/vmap(physics)/pure_callback", "physics"),
        ("jit_collecting", "jit(collecting)/while/body/policy/Dense_0/dot_general", "policy"),
        ("jit_collecting", "jit(collecting)/while/body/policy/jit(_normal)/mul", "randomness"),
        ("jit_collecting", "jit(collecting)/while/body/vmap()/add", "task"),
        ("jit_collecting", "", "task"),
        ("jit_update", "jit(update)/while/body/dot_general", "update"),
        ("jit_update", "jit(update)/while/body/jit(_shuffle)/sort", "randomness"),
    ],
)
def test_an_operation_belongs_to_a_part_by_its_names(module: str, path: str, part: str) -> None:
    assert part_of(Operation(module, "fusion.1"), path) == part


@pytest.mark.slow
def test_a_real_trace_names_what_a_program_did(tmp_path: Any) -> None:
    def update(x: jax.Array) -> jax.Array:
        with jax.named_scope("physics"):
            return jnp.sin(x) @ x

    x = jnp.ones((300, 300))
    compiled = jax.jit(update).lower(x).compile()
    compiled(x).block_until_ready()
    with jax.profiler.trace(str(tmp_path)):
        compiled(x).block_until_ready()
    names = operation_names(compiled.as_text())
    assert any("physics" in path for path in names.values())
    trace = read_trace(tmp_path)
    parts = by_part(trace, names)
    assert parts["update"] > 0.0
    assert parts["physics"] == parts["transfer"] == 0.0
    assert 0.0 < trace.covered <= sum(trace.busy.values()) + 1e-9


def test_a_folder_without_a_trace_is_told() -> None:
    with pytest.raises(FileNotFoundError):
        read_trace(Path("no-such-folder"))
