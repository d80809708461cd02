"""Devices, environment variables and memory: what is set wrong or broken becomes a row."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

import pytest

from jaxrl_hw.cli.doctor.check_memory import device_row, driver_row
from jaxrl_hw.cli.doctor.results import Finding
from jaxrl_hw.hardware.nvidia import read_nvml

Made = Callable[..., list[Finding]]
T4 = 'echo "0, GPU-aaaa-1, Tesla T4, 15360, 14930"'


def by_name(findings: list[Finding]) -> dict[str, Finding]:
    return {found.name: found for found in findings}


def test_the_processor_is_opened(made: Made) -> None:
    (found,) = made("devices")
    assert (found.status, found.figures["platform"]) == ("pass", "cpu")
    assert found.figures["devices"] == [{"platform": "cpu", "kind": "cpu", "id": 0}]
    assert found.value.startswith("cpu: ")


@pytest.mark.parametrize(
    ("name", "value", "why"),
    [
        ("XLA_FLAGS", "--no_such_flag=1", "Unknown flag in XLA_FLAGS: --no_such_flag=1"),
        ("JAX_PLATFORMS", "gpuu", "'gpuu' is not in the list of known backends"),
        ("JAX_ENABLE_X64", "maybe", "invalid truth value 'maybe'"),
    ],
)
def test_a_variable_that_keeps_jax_from_starting_is_named(
    made: Made, monkeypatch: pytest.MonkeyPatch, name: str, value: str, why: str
) -> None:
    monkeypatch.setenv(name, value)
    found = made("devices", "environment", "matmul", "training")
    assert (found[0].name, found[0].status, found[0].advice) == ("devices", "fail", f"unset {name}")
    assert why in found[0].value
    named = [row for row in found if row.figures.get("name") == name]
    assert [(row.status, row.advice) for row in named] == [("fail", f"unset {name}")]
    untried = [(row.check, row.status) for row in found if "not tried" in row.value]
    assert untried == [("matmul", "warn"), ("training", "warn")]


def test_variables_in_force_and_who_set_them(made: Made, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XLA_CLIENT_MEM_FRACTION", "0.5")
    monkeypatch.setenv("XLA_PYTHON_CLIENT_MEM_FRACTION", "0.4")
    monkeypatch.setenv("JAX_ENABLE_X64", "1")
    monkeypatch.setenv("JAX_DISABLE_JIT", "true")
    monkeypatch.setenv("JAX_DEBUG_NANS", "0")
    found = {row.figures.get("name"): row for row in made("environment")}
    who = {name: (row.figures["origin"], row.status) for name, row in found.items() if name}
    assert who["XLA_PYTHON_CLIENT_MEM_FRACTION"] == ("user", "warn")
    assert who["XLA_CLIENT_MEM_FRACTION"] == ("user", "pass")
    assert who["JAX_ENABLE_X64"] == who["JAX_DISABLE_JIT"] == ("user", "warn")
    assert who["JAX_PLATFORMS"] == who["JAX_DEBUG_NANS"] == ("user", "pass")
    assert who["JAX_COMPILATION_CACHE_DIR"] == ("jaxrl_hw", "pass")
    text = found["XLA_PYTHON_CLIENT_MEM_FRACTION"].value
    assert text.endswith(
        "XLA_CLIENT_MEM_FRACTION is set too: with both, jaxlib refuses to open a GPU"
    )


@pytest.mark.parametrize(
    ("name", "value", "why"),
    [
        ("XLA_FLAGS", "--xla_dump_to=/tmp/x --a=1", "files that nobody removes"),
        ("XLA_PYTHON_CLIENT_MEM_FRACTION", "0.4", "deprecated; use XLA_CLIENT_MEM_FRACTION"),
        ("JAX_DEFAULT_MATMUL_PRECISION", "tensorfloat32", "networks multiply in this precision"),
        ("JAX_DEFAULT_MATMUL_PRECISION", "highest", ""),
        ("MUJOCO_GL", "vulkan", "MuJoCo cannot be imported"),
        ("MUJOCO_GL", "off", "no films"),
        ("MUJOCO_GL", "glfw", ""),
    ],
)
def test_a_harmful_value_is_a_warning_that_says_why(
    made: Made, monkeypatch: pytest.MonkeyPatch, name: str, value: str, why: str
) -> None:
    monkeypatch.setenv(name, value)
    (found,) = (row for row in made("environment") if row.figures.get("name") == name)
    assert found.status == ("warn" if why else "pass")
    assert found.value.startswith(f"{name}={value}")
    assert why in found.value


def test_a_cache_folder_that_cannot_be_written_is_a_warning(
    made: Made, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("JAX_COMPILATION_CACHE_DIR", str(tmp_path / "new" / "cache"))
    assert by_name(made("environment"))["environment: compilation cache"].status == "pass"
    assert not (tmp_path / "new").exists()
    monkeypatch.setenv("JAX_COMPILATION_CACHE_DIR", "/proc/none")
    found = by_name(made("environment"))["environment: compilation cache"]
    assert (found.status, found.advice[:29]) == ("warn", "set JAX_COMPILATION_CACHE_DIR")


def test_every_route_to_memory_has_its_row(made: Made) -> None:
    found = by_name(made("devices", "memory"))
    routes = ("memory_stats", "NVML", "nvidia-smi", "psutil", "cgroup", "process")
    assert [name for name in found if name.startswith("memory")] == [f"memory: {r}" for r in routes]
    assert {found[f"memory: {route}"].status for route in routes} == {"pass"}
    main = found["memory: psutil"].figures
    assert 0 < main["available"] <= main["total"]
    assert 50e6 < found["memory: process"].figures["resident"] < 2e9
    assert "a cpu keeps none" in found["memory: memory_stats"].value


@pytest.mark.parametrize(
    ("script", "why"),
    [
        ("echo rubbish", "gave an answer that could not be read"),
        ("exit 9", "failed with exit code 9"),
        pytest.param("sleep 60", "gave no answer within 5 s", marks=pytest.mark.slow),
    ],
)
def test_a_broken_nvidia_smi_is_a_row(
    made: Made, fake_smi: Callable[[str], None], script: str, why: str
) -> None:
    fake_smi(script)
    began = time.monotonic()
    found = by_name(made("memory"))["memory: nvidia-smi"]
    assert time.monotonic() - began < 20
    assert (found.status, why in found.value) == ("warn", True)
    assert found.advice


@pytest.mark.slow
def test_a_card_that_jax_does_not_use_is_told(
    made: Made, fake_smi: Callable[[str], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    fake_smi(T4)
    found = made("devices", "memory")
    hidden = found[1]
    assert (hidden.name, hidden.status) == ("devices", "warn")
    assert hidden.value == "an NVIDIA Tesla T4 is there but JAX_PLATFORMS=cpu hides it"
    rows = by_name(found)
    assert rows["memory: nvidia-smi"].value == "Tesla T4: 15.7 GB free of 16.1 GB"
    assert rows["memory: NVML"].status == "warn"  # it could have been asked, and says nothing
    monkeypatch.delenv("JAX_PLATFORMS")
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    (_, hidden) = made("devices")
    assert hidden.value == "an NVIDIA Tesla T4 is there but CUDA_VISIBLE_DEVICES= hides it"
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES")
    (_, missing) = made("devices")
    assert (missing.status, missing.advice) == ("warn", 'pip install "jaxrl_hw[cuda12]"')
    assert missing.value == "an NVIDIA Tesla T4 is there but jax was installed without CUDA"


def test_what_a_device_and_its_driver_say_is_shown() -> None:
    stats = {"bytes_limit": 14_000_000_000, "bytes_in_use": 2_000_000}
    found = device_row({"platform": "gpu", "memory_stats": stats})
    assert (found.status, found.value) == ("pass", "14.0 GB may be used, 2 MB is")
    assert device_row({"platform": "gpu", "memory_stats": None}).status == "warn"
    assert device_row(None).status == "warn"
    card = {"name": "NVIDIA GB10", "memory_free": None, "memory_total": None}
    found = driver_row("NVML", {"gpus": [card], "notes": [], "there": True}, "")
    assert (found.status, found.value) == ("warn", "NVIDIA GB10: its memory is not told")


def test_nvml_without_a_driver_says_why(monkeypatch: pytest.MonkeyPatch) -> None:
    import sys

    monkeypatch.setitem(sys.modules, "pynvml", None)
    reading = read_nvml({})
    assert (reading.gpus, reading.source) == ((), "unknown")
    assert "pynvml" in reading.notes[0]
