"""JAX uses a card through a plugin of jaxlib's own version alone; anything else has a fix."""

from __future__ import annotations

import sys

import pytest

from jaxrl_hw.hardware.cuda_plugin import find_fault
from jaxrl_hw.hardware.nvidia import driver_cuda


def parts(kind: str, plugin: str, pjrt: str | None = None) -> dict[str, str]:
    return {f"jax-{kind}-plugin": plugin, f"jax-{kind}-pjrt": pjrt or plugin}


@pytest.mark.parametrize(
    ("found", "driver"),
    [
        (parts("cuda12", "0.10.2"), 12),
        (parts("cuda12", "0.10.2"), 13),
        (parts("cuda12", "0.10.2"), None),
        (parts("cuda13", "0.10.2+local"), 13),
        (parts("cuda12", "0.9.0") | parts("cuda13", "0.10.2"), 13),
    ],
)
def test_a_plugin_of_jaxlibs_version_that_the_driver_can_run_is_no_fault(found, driver):
    assert find_fault(found, "0.10.2", driver) is None


@pytest.mark.parametrize(
    ("found", "driver", "named", "fix"),
    [
        ({}, 12, "without CUDA", 'pip install "jax[cuda12]==0.10.2"'),
        ({}, 13, "without CUDA", 'pip install "jax[cuda13]==0.10.2"'),
        ({}, None, "without CUDA", 'pip install "jax[cuda12]==0.10.2"'),
        (parts("cuda12", "0.7.2"), 12, "0.7.2", 'pip install "jax[cuda12]==0.10.2"'),
        # the driver could run CUDA 13, but CUDA 12 is there already
        (parts("cuda12", "0.7.2"), 13, "0.7.2", 'pip install "jax[cuda12]==0.10.2"'),
        (parts("cuda12", "0.10.2", "0.9.0"), 12, "pjrt 0.9.0", 'pip install "jax[cuda12]==0.10.2"'),
        ({"jax-cuda12-plugin": "0.10.2"}, 12, "pjrt", 'pip install "jax[cuda12]==0.10.2"'),
        (
            parts("cuda13", "0.10.2"),
            12,
            "CUDA 13",
            "pip uninstall -y jax-cuda13-plugin jax-cuda13-pjrt && "
            'pip install "jax[cuda12]==0.10.2"',
        ),
    ],
)
def test_a_fault_names_its_reason_and_the_command_that_mends_it(found, driver, named, fix):
    fault = find_fault(found, "0.10.2", driver)
    assert fault is not None
    assert named in fault.reason
    assert fault.fix == fix


@pytest.mark.parametrize(
    ("script", "version"),
    [
        ('echo "| NVIDIA-SMI 550.54.15   Driver Version: 550.54.15   CUDA Version: 12.4 |"', 12),
        ('echo "| NVIDIA-SMI 590.1  KMD Version: 590.1  CUDA UMD Version: 13.1 |"', 13),
        ('echo "CUDA Version: N/A"', None),
        ("exit 9", None),
    ],
)
def test_the_drivers_cuda_is_read_from_nvidia_smi_where_nvml_is_missing(
    script, version, tmp_path, monkeypatch
):
    monkeypatch.setitem(sys.modules, "pynvml", None)
    program = tmp_path / "nvidia-smi"
    program.write_text(f"#!/bin/sh\n{script}\n")
    program.chmod(0o755)
    assert driver_cuda({"PATH": f"{tmp_path}:/usr/bin:/bin"}) == version


def test_without_a_driver_its_cuda_is_unknown(monkeypatch):
    monkeypatch.setitem(sys.modules, "pynvml", None)
    assert driver_cuda({"PATH": ""}) is None
