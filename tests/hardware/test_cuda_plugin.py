"""JAX uses a card through a plugin of jaxlib's own version alone; anything else has a fix."""

from __future__ import annotations

import sys

import pynvml
import pytest

from jaxrl_hw.hardware.cuda_plugin import find_fault
from jaxrl_hw.hardware.nvidia import newest_cuda


def parts(kind: str, plugin: str, pjrt: str | None = None) -> dict[str, str]:
    return {f"jax-{kind}-plugin": plugin, f"jax-{kind}-pjrt": pjrt or plugin}


@pytest.mark.parametrize(
    ("found", "newest"),
    [
        (parts("cuda12", "0.10.2"), 12),
        (parts("cuda12", "0.10.2"), 13),
        (parts("cuda12", "0.10.2"), None),
        (parts("cuda13", "0.10.2+local"), 13),
        (parts("cuda12", "0.9.0") | parts("cuda13", "0.10.2"), 13),
    ],
)
def test_a_plugin_of_jaxlibs_version_that_driver_and_card_can_run_is_no_fault(found, newest):
    assert find_fault(found, "0.10.2", newest) is None


@pytest.mark.parametrize(
    ("found", "newest", "named", "fix"),
    [
        ({}, 12, "without CUDA", 'pip install "jax[cuda12]==0.10.2"'),
        ({}, 13, "without CUDA", 'pip install "jax[cuda13]==0.10.2"'),
        ({}, None, "without CUDA", 'pip install "jax[cuda12]==0.10.2"'),
        (parts("cuda12", "0.7.2"), 12, "0.7.2", 'pip install "jax[cuda12]==0.10.2"'),
        # CUDA 13 would run, but CUDA 12 is there already
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
def test_a_fault_names_its_reason_and_the_command_that_mends_it(found, newest, named, fix):
    fault = find_fault(found, "0.10.2", newest)
    assert fault is not None
    assert named in fault.reason
    assert fault.fix == fix


@pytest.mark.parametrize(
    ("heading", "capability", "version"),
    [
        ("| NVIDIA-SMI 550.54.15   Driver Version: 550.54.15   CUDA Version: 12.4 |", "7.0", 12),
        ("| NVIDIA-SMI 590.1  KMD Version: 590.1  CUDA UMD Version: 13.1 |", "7.5", 13),
        ("CUDA Version: 13.0", "12.0", 13),
        ("CUDA Version: 13.0", "6.0", 12),  # P100
        ("CUDA Version: 13.0", "7.0", 12),  # V100
        ("CUDA Version: 13.0", "[N/A]", 13),
        ("CUDA Version: N/A", "7.5", None),
    ],
)
def test_nvidia_smi_tells_the_newest_cuda_of_driver_and_card_where_nvml_is_missing(
    heading, capability, version, tmp_path, monkeypatch
):
    monkeypatch.setitem(sys.modules, "pynvml", None)
    program = tmp_path / "nvidia-smi"
    program.write_text(
        f'#!/bin/sh\ncase "$*" in *compute_cap*--id=GPU-b) echo "{capability}";;'
        f' *compute_cap*) echo 9.0;; *) echo "{heading}";; esac\n'
    )
    program.chmod(0o755)
    assert newest_cuda({"PATH": f"{tmp_path}:/usr/bin:/bin"}, "GPU-b") == version


def test_an_nvidia_smi_that_fails_leaves_the_newest_cuda_unknown(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "pynvml", None)
    program = tmp_path / "nvidia-smi"
    program.write_text("#!/bin/sh\nexit 9\n")
    program.chmod(0o755)
    assert newest_cuda({"PATH": f"{tmp_path}:/usr/bin:/bin"}, "GPU-b") is None


@pytest.mark.parametrize(("capability", "newest"), [((7, 0), 12), ((8, 9), 13), (None, 13)])
def test_nvml_tells_the_newest_cuda_of_driver_and_card(capability, newest, monkeypatch):
    def card(handle):
        assert handle == "GPU-b"
        if capability is None:
            raise pynvml.NVMLError(pynvml.NVML_ERROR_NOT_SUPPORTED)
        return capability

    monkeypatch.setattr(pynvml, "nvmlInit", lambda: None)
    monkeypatch.setattr(pynvml, "nvmlShutdown", lambda: None)
    monkeypatch.setattr(pynvml, "nvmlSystemGetCudaDriverVersion_v2", lambda: 13000)
    monkeypatch.setattr(pynvml, "nvmlDeviceGetHandleByUUID", lambda uuid: uuid)
    monkeypatch.setattr(pynvml, "nvmlDeviceGetCudaComputeCapability", card)
    assert newest_cuda({}, "GPU-b") == newest


def test_without_a_driver_the_newest_cuda_is_unknown(monkeypatch):
    monkeypatch.setitem(sys.modules, "pynvml", None)
    assert newest_cuda({"PATH": ""}, "GPU-b") is None
