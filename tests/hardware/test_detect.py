"""What a machine has is found through drivers that hang, lie or are not there."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from jaxrl_hw.hardware.detect import Hardware, detect, refine, usable_cores

T4 = "0, GPU-aaaa-1, Tesla T4, 15360, 14930"
A100 = "1, GPU-bbbb-2, NVIDIA A100-SXM4-40GB, 40960, 40000"
MIB = 1 << 20


@pytest.fixture
def smi(tmp_path, monkeypatch):
    """Put a script named nvidia-smi on a PATH of its own, and take NVML away."""
    monkeypatch.setitem(sys.modules, "pynvml", None)

    def make(script: str, **environ: str) -> dict[str, str]:
        program = tmp_path / "nvidia-smi"
        program.write_text(f"#!/bin/sh\n{script}\n")
        program.chmod(0o755)
        return {"PATH": f"{tmp_path}:/usr/bin:/bin", **environ}

    return make


@pytest.fixture
def cuda(tmp_path, monkeypatch):
    """An installed CUDA plugin, as far as anybody who does not import it can tell."""
    (tmp_path / "site" / "jax_cuda12_plugin").mkdir(parents=True)
    (tmp_path / "site" / "jax_cuda12_plugin" / "__init__.py").write_text("")
    monkeypatch.syspath_prepend(str(tmp_path / "site"))


def says(*rows: str) -> str:
    return "\n".join(f'echo "{row}"' for row in rows)


def test_the_machine_at_hand_is_described_without_jax():
    code = (
        "import sys; from jaxrl_hw.hardware.detect import detect; h = detect();"
        "assert 'jax' not in sys.modules; print(h.platform, h.cores, h.memory_free)"
    )
    env = {**os.environ, "JAX_PLATFORMS": "cpu"}
    done = subprocess.run(
        [sys.executable, "-c", code], env=env, capture_output=True, text=True, check=True
    )
    platform, cores, free = done.stdout.split()
    assert platform == "cpu"
    assert int(cores) >= 1
    assert int(free) > 0


def test_a_gpu_with_the_plugin_is_used(smi, cuda):
    found = detect(smi(says(T4, A100)))
    assert (found.platform, found.name, found.count) == ("gpu", "Tesla T4", 2)
    assert (found.memory_total, found.memory_free) == (15360 * MIB, 14930 * MIB)
    assert (found.memory_source, found.notes) == ("nvidia-smi", ())


def test_a_gpu_without_the_plugin_is_a_note(smi):
    found = detect(smi(says(T4)), plugins=("not_a_module",))
    assert found.platform == "cpu"
    (note,) = found.notes
    assert "NVIDIA Tesla T4" in note
    assert 'pip install "jax[cuda12]==' in note


@pytest.mark.parametrize(
    ("visible", "names"),
    [
        ("1", ["NVIDIA A100-SXM4-40GB"]),
        ("1,0", ["NVIDIA A100-SXM4-40GB", "Tesla T4"]),
        ("GPU-bbbb", ["NVIDIA A100-SXM4-40GB"]),
        ("0,7,1", ["Tesla T4"]),
        ("-1", []),
        ("", []),
    ],
)
def test_cuda_visible_devices_is_respected(smi, cuda, visible, names):
    found = detect(smi(says(T4, A100), CUDA_VISIBLE_DEVICES=visible))
    assert found.platform == ("gpu" if names else "cpu")
    if names:
        assert (found.name, found.count) == (names[0], len(names))


def test_jax_platforms_decides(smi, cuda):
    assert detect(smi(says(T4), JAX_PLATFORMS="cpu")).platform == "cpu"
    assert detect(smi(says(T4), JAX_PLATFORMS="cuda,cpu")).platform == "gpu"
    found = detect(smi("exit 9", JAX_PLATFORMS="cuda"))
    assert found.platform == "cpu"
    assert "JAX_PLATFORMS" in found.notes[-1]


@pytest.mark.parametrize(
    "script",
    [
        "echo rubbish",
        says("0, GPU-a, Tesla T4, 15360"),
        "head -c 1000 /dev/urandom",
        "echo; exit 0",
        "echo broken >&2; exit 9",
    ],
)
def test_rubbish_from_nvidia_smi_is_a_note(smi, cuda, script):
    found = detect(smi(script))
    assert found.platform == "cpu"
    assert "nvidia-smi" in found.notes[0]


@pytest.mark.parametrize("memory", ["[N/A], [N/A]", "0, 0", "100, 200"])
def test_memory_that_cannot_be_is_unknown(smi, cuda, memory):
    found = detect(smi(says(f"0, GPU-a, NVIDIA GB10, {memory}")))
    assert (found.platform, found.memory_free, found.memory_source) == ("gpu", None, "unknown")
    assert "NVIDIA GB10" in found.notes[0]


def test_a_hanging_nvidia_smi_costs_its_time_limit_only(smi, cuda, tmp_path):
    found = detect(smi('(sleep 100; touch "$0.slept")'), smi_timeout_s=0.3)
    assert not (tmp_path / "nvidia-smi.slept").exists()
    assert found.platform == "cpu"
    assert "0.3 s" in found.notes[0]


class FakeNvml:
    """NVML's functions as nvidia-ml-py spells them, over one T4 and a slice of it."""

    class NVMLError(Exception):
        pass

    class _Memory:
        total, free = 16_000, 15_000

    def nvmlInit(self):
        return None

    nvmlShutdown = nvmlInit

    def nvmlDeviceGetCount(self):
        return 1

    def nvmlDeviceGetHandleByIndex(self, index):
        return "card"

    def nvmlDeviceGetHandleByUUID(self, uuid):
        return "slice"

    def nvmlDeviceGetMemoryInfo(self, handle):
        if handle == "card":
            return self._Memory
        raise self.NVMLError("not supported")

    def nvmlDeviceGetName(self, handle):
        return "Tesla T4" if handle == "card" else "Tesla T4 MIG 1g.5gb"

    def nvmlDeviceGetUUID(self, handle):
        return "GPU-aaaa"


def test_nvml_is_asked_first(monkeypatch, cuda):
    monkeypatch.setitem(sys.modules, "pynvml", FakeNvml())
    found = detect({})
    assert (found.platform, found.name, found.count) == ("gpu", "Tesla T4", 1)
    assert (found.memory_total, found.memory_free, found.memory_source) == (16_000, 15_000, "nvml")
    found = detect({"CUDA_VISIBLE_DEVICES": "MIG-1234"})
    assert (found.name, found.memory_free) == ("Tesla T4 MIG 1g.5gb", None)


def test_a_containers_limit_bounds_memory_and_cores(tmp_path):
    files = {
        "proc/self/cgroup": "0::/\n",
        "sys/fs/cgroup/memory.max": "800000000\n",
        "sys/fs/cgroup/memory.current": "300000000\n",
        "sys/fs/cgroup/cpu.max": "20000 100000\n",
    }
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    found = detect({"JAX_PLATFORMS": "cpu"}, root=tmp_path)
    assert found.memory_total == 800_000_000
    assert found.memory_free == 500_000_000
    assert "800 MB" in found.memory_source
    assert found.cores == usable_cores(tmp_path) == 1


class Device:
    platform = "gpu"
    device_kind = "NVIDIA T4"
    stats: dict[str, int] | None = None

    def memory_stats(self):
        return self.stats


@pytest.mark.parametrize(
    ("stats", "free", "source"),
    [
        (None, 7, "nvml"),
        ({}, 7, "nvml"),
        ({"bytes_limit": 0, "bytes_in_use": 0}, 7, "nvml"),
        ({"bytes_limit": 12_000, "bytes_in_use": 2_000}, 10_000, "memory_stats"),
    ],
)
def test_a_running_jax_knows_better_or_nothing(monkeypatch, smi, stats, free, source):
    device = Device()
    device.stats = stats
    monkeypatch.setattr("jax.local_devices", lambda: [device])
    before = Hardware("gpu", "Tesla T4", 1, 2, 16_000, 7, "nvml")
    after = refine(before)
    assert (after.memory_free, after.memory_source, after.memory_total) == (free, source, 16_000)


def test_what_other_programs_hold_is_not_free(monkeypatch, smi):
    device = Device()
    device.stats = {"bytes_limit": 14_000 * MIB, "bytes_in_use": 100 * MIB, "pool_bytes": 300 * MIB}
    monkeypatch.setattr("jax.local_devices", lambda: [device])
    environ = smi(says("0, GPU-a, Tesla T4, 15360, 4000"))
    monkeypatch.setenv("PATH", environ["PATH"])
    after = refine(Hardware("gpu", "Tesla T4", 1, 2, None, None, "unknown"))
    assert after.memory_free == 4200 * MIB


def test_on_a_cpu_jax_knows_no_more():
    hardware = detect({"JAX_PLATFORMS": "cpu"})
    assert refine(hardware) == hardware


def test_a_platform_that_jax_did_not_open_is_corrected():
    expected = Hardware("gpu", "Tesla T4", 1, 2, 16_000, 7, "nvml")
    found = refine(expected)
    assert found.platform == "cpu"
    assert "cpu" in found.notes[-1]
