"""Devices, environment variables and memory: what is wrong or broken becomes a row."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path

import pytest

from jaxrl_hw.cli.doctor.check_memory import device_row, driver_row
from jaxrl_hw.cli.doctor.check_variables import judge
from jaxrl_hw.cli.doctor.results import CheckResult
from jaxrl_hw.hardware.nvidia import read_nvml

Rows = Callable[..., list[CheckResult]]
T4 = 'echo "0, GPU-aaaa-1, Tesla T4, 15360, 14930"'


def by_name(findings: list[CheckResult]) -> dict[str, CheckResult]:
    return {found.name: found for found in findings}


def test_the_processor_is_opened(rows: Rows) -> None:
    (found,) = rows("devices")
    assert (found.status, found.figures["platform"]) == ("pass", "cpu")
    assert found.figures["devices"] == [{"platform": "cpu", "kind": "cpu", "id": 0}]


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("XLA_FLAGS", "--no_such_flag=1"),
        ("JAX_PLATFORMS", "gpuu"),
        ("JAX_ENABLE_X64", "maybe"),
    ],
)
def test_a_variable_that_keeps_jax_from_starting_is_named(
    rows: Rows, monkeypatch: pytest.MonkeyPatch, name: str, value: str
) -> None:
    monkeypatch.setenv(name, value)
    found = rows("devices", "environment", "matmul", "training")
    assert (found[0].name, found[0].status, found[0].advice) == ("devices", "fail", f"unset {name}")
    assert value in found[0].value
    named = [row for row in found if row.figures.get("name") == name]
    assert [(row.status, row.advice) for row in named] == [("fail", f"unset {name}")]
    untried = [(row.check, row.status, row.advice) for row in found[-2:]]
    assert untried == [("matmul", "warn", 'see "devices"'), ("training", "warn", 'see "devices"')]


def test_variables_in_force_and_who_set_them(rows: Rows, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XLA_CLIENT_MEM_FRACTION", "0.5")
    monkeypatch.setenv("XLA_PYTHON_CLIENT_MEM_FRACTION", "0.4")
    monkeypatch.setenv("JAX_ENABLE_X64", "1")
    monkeypatch.setenv("JAX_DISABLE_JIT", "true")
    monkeypatch.setenv("JAX_DEBUG_NANS", "0")
    found = {row.figures.get("name"): row for row in rows("environment")}
    who = {name: (row.figures["origin"], row.status) for name, row in found.items() if name}
    assert who["XLA_PYTHON_CLIENT_MEM_FRACTION"] == ("user", "warn")
    assert who["XLA_CLIENT_MEM_FRACTION"] == ("user", "pass")
    assert who["JAX_ENABLE_X64"] == who["JAX_DISABLE_JIT"] == ("user", "warn")
    assert who["JAX_PLATFORMS"] == who["JAX_DEBUG_NANS"] == ("user", "pass")
    assert who["JAX_COMPILATION_CACHE_DIR"] == ("jaxrl_hw", "pass")
    assert "XLA_CLIENT_MEM_FRACTION" in found["XLA_PYTHON_CLIENT_MEM_FRACTION"].value


@pytest.mark.parametrize(
    ("name", "value", "status"),
    [
        ("XLA_FLAGS", "--xla_dump_to=/tmp/x --a=1", "warn"),
        ("XLA_FLAGS", "--a=1 --xla_force_host_platform_device_count=2", "warn"),
        ("XLA_FLAGS", "", "pass"),
        ("XLA_PYTHON_CLIENT_MEM_FRACTION", "0.4", "warn"),
        ("XLA_PYTHON_CLIENT_ALLOCATOR", "Platform", "warn"),
        ("XLA_PYTHON_CLIENT_ALLOCATOR", "bfc", "pass"),
        ("JAX_ENABLE_COMPILATION_CACHE", "False", "warn"),
        ("JAX_ENABLE_COMPILATION_CACHE", "1", "pass"),
        ("JAX_TRANSFER_GUARD", "disallow_explicit", "warn"),
        ("JAX_TRANSFER_GUARD", "allow", "pass"),
        ("JAX_CPU_ENABLE_ASYNC_DISPATCH", "true", "warn"),
        ("JAX_CPU_ENABLE_ASYNC_DISPATCH", "false", "pass"),
        ("JAX_DEFAULT_MATMUL_PRECISION", "tensorfloat32", "warn"),
        ("JAX_DEFAULT_MATMUL_PRECISION", "highest", "pass"),
        ("MUJOCO_GL", "vulkan", "warn"),
        ("MUJOCO_GL", "off", "warn"),
        ("MUJOCO_GL", "glfw", "pass"),
    ],
)
def test_a_harmful_value_is_a_warning_with_what_to_do(name: str, value: str, status: str) -> None:
    found = judge(name, {name: value})
    assert (found.status, found.advice) == (status, f"unset {name}" * (status == "warn"))
    assert found.value.startswith(f"{name}={value}")
    assert found.figures == {"name": name, "value": value, "origin": "user"}


def test_a_cache_folder_that_cannot_be_written_is_a_warning(
    rows: Rows, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("JAX_COMPILATION_CACHE_DIR", str(tmp_path / "new" / "cache"))
    assert by_name(rows("environment"))["environment: compilation cache"].status == "pass"
    assert not (tmp_path / "new").exists()
    monkeypatch.setenv("JAX_COMPILATION_CACHE_DIR", "/proc/none")
    found = by_name(rows("environment"))["environment: compilation cache"]
    assert found.status == "warn"
    assert "JAX_COMPILATION_CACHE_DIR" in found.advice


def test_every_route_to_memory_has_its_row(rows: Rows) -> None:
    found = by_name(rows("devices", "memory"))
    routes = ("memory_stats", "NVML", "nvidia-smi", "psutil", "cgroup", "process")
    assert [name for name in found if name.startswith("memory")] == [f"memory: {r}" for r in routes]
    assert {found[f"memory: {route}"].status for route in routes} == {"pass"}
    main = found["memory: psutil"].figures
    assert 0 < main["available"] <= main["total"]
    assert 50e6 < found["memory: process"].figures["resident"] < 2e9


@pytest.mark.parametrize(
    "script",
    [
        "echo rubbish",
        "exit 9",
        pytest.param('(sleep 100; touch "$0.slept")', marks=pytest.mark.slow),
    ],
)
def test_a_broken_nvidia_smi_is_a_row(
    rows: Rows, fake_smi: Callable[[str], None], tmp_path: Path, script: str
) -> None:
    fake_smi(script)
    found = by_name(rows("memory"))["memory: nvidia-smi"]
    assert list(tmp_path.rglob("*.slept")) == []
    assert (found.status, bool(found.advice)) == ("warn", True)


@pytest.mark.slow
def test_a_card_that_is_hidden_is_a_warning_and_one_that_jax_leaves_unused_a_failure(
    rows: Rows, fake_smi: Callable[[str], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    fake_smi(T4)
    found = rows("devices", "memory")
    hidden = found[1]
    assert (hidden.name, hidden.status) == ("devices", "warn")
    assert "NVIDIA Tesla T4" in hidden.value
    assert "JAX_PLATFORMS=cpu" in hidden.value
    (card,) = by_name(found)["memory: nvidia-smi"].figures["gpus"]
    assert (card["name"], card["memory_free"]) == ("Tesla T4", 14930 << 20)
    assert by_name(found)["memory: NVML"].status == "warn"  # a card, but no answer from NVML
    monkeypatch.delenv("JAX_PLATFORMS")
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    (_, hidden) = rows("devices")
    assert "CUDA_VISIBLE_DEVICES=" in hidden.value
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES")
    (_, missing) = rows("devices")
    jaxlib = version("jaxlib")
    assert (missing.status, missing.advice) == ("fail", f'pip install "jax[cuda12]=={jaxlib}"')
    assert "NVIDIA Tesla T4" in missing.value


@pytest.mark.slow
def test_a_half_upgraded_jax_fails_with_the_line_that_mends_it(
    rows: Rows, fake_smi: Callable[[str], None], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """pip replaced jax and jaxlib, and left the CUDA plugin of before behind."""
    for name in ("jax_cuda12_plugin", "jax_cuda12_pjrt"):
        info = tmp_path / "site" / f"{name}-0.7.2.dist-info"
        info.mkdir(parents=True)
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 0.7.2\n")
    (tmp_path / "site" / "jax_cuda12_plugin.py").write_text("")
    monkeypatch.setenv("PYTHONPATH", f"{tmp_path / 'site'}:{os.environ.get('PYTHONPATH', '')}")
    monkeypatch.delenv("JAX_PLATFORMS")
    fake_smi(T4)
    found = rows("devices")
    jaxlib = version("jaxlib")
    (failed,) = [row for row in found if row.status == "fail"]
    assert failed.advice == f'pip install "jax[cuda12]=={jaxlib}"'
    assert "0.7.2" in failed.value
    assert jaxlib in failed.value


@pytest.mark.slow
def test_a_gpu_that_jax_cannot_open_fails_with_jaxs_own_reason(
    rows: Rows, fake_smi: Callable[[str], None], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "site").mkdir()
    (tmp_path / "site" / "jax_cuda12_plugin.py").write_text("")  # it fits, as far as anybody knows
    monkeypatch.setenv("PYTHONPATH", f"{tmp_path / 'site'}:{os.environ.get('PYTHONPATH', '')}")
    monkeypatch.delenv("JAX_PLATFORMS")
    fake_smi(T4)
    (failed,) = [row for row in rows("devices") if row.status == "fail"]
    assert "cuda" in failed.value
    assert f"jax[cuda12]=={version('jaxlib')}" in failed.advice


def test_memory_is_a_warning_where_it_is_unknown() -> None:
    stats = {"bytes_limit": 14_000_000_000, "bytes_in_use": 2_000_000}
    found = device_row({"platform": "gpu", "memory_stats": stats})
    assert (found.status, found.figures) == ("pass", stats)
    assert device_row({"platform": "gpu", "memory_stats": None}).status == "warn"
    assert device_row(None).status == "warn"
    card = {"name": "NVIDIA GB10", "memory_free": None, "memory_total": None}
    found = driver_row("NVML", {"gpus": [card], "notes": [], "there": True}, "")
    assert (found.status, "NVIDIA GB10" in found.value) == ("warn", True)


def test_nvml_without_a_driver_says_why(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pynvml", None)
    reading = read_nvml({})
    assert (reading.gpus, reading.source) == ((), "unknown")
    assert "pynvml" in reading.notes[0]
