"""Limits of control groups are found in both versions, at every level, and may be absent."""

from __future__ import annotations

from pathlib import Path

from jaxrl_hw.hardware import cgroup


def write(root: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    return root


def test_cgroup_v2_limits_count_at_every_level(tmp_path):
    root = write(
        tmp_path,
        {
            "proc/self/cgroup": "0::/jobs/mine\n",
            "sys/fs/cgroup/jobs/memory.max": "8000000000\n",
            "sys/fs/cgroup/jobs/memory.current": "3000000000\n",
            "sys/fs/cgroup/jobs/memory.stat": "anon 5\ninactive_file 1000000000\n",
            "sys/fs/cgroup/jobs/mine/memory.max": "max\n",
            "sys/fs/cgroup/jobs/cpu.max": "max 100000\n",
            "sys/fs/cgroup/jobs/mine/cpu.max": "150000 100000\n",
        },
    )
    assert cgroup.memory_limit(root) == (8_000_000_000, 6_000_000_000)
    assert cgroup.cpu_quota(root) == 1.5


def test_cgroup_v1_limits(tmp_path):
    root = write(
        tmp_path,
        {
            "proc/self/cgroup": "4:memory:/docker/abc\n3:cpu,cpuacct:/docker/abc\n",
            "sys/fs/cgroup/memory/memory.limit_in_bytes": "2000000000\n",
            "sys/fs/cgroup/memory/memory.usage_in_bytes": "500000000\n",
            "sys/fs/cgroup/cpu,cpuacct/cpu.cfs_quota_us": "400000\n",
            "sys/fs/cgroup/cpu,cpuacct/cpu.cfs_period_us": "100000\n",
        },
    )
    assert cgroup.memory_limit(root) == (2_000_000_000, 1_500_000_000)
    assert cgroup.cpu_quota(root) == 4.0


def test_no_limits_are_none(tmp_path):
    unlimited = {
        "proc/self/cgroup": "4:memory:/\n3:cpu:/\nrubbish\n",
        "sys/fs/cgroup/memory/memory.limit_in_bytes": "9223372036854771712\n",
        "sys/fs/cgroup/cpu/cpu.cfs_quota_us": "-1\n",
        "sys/fs/cgroup/cpu/cpu.cfs_period_us": "100000\n",
    }
    assert cgroup.memory_limit(tmp_path) is None
    assert cgroup.cpu_quota(tmp_path) is None
    root = write(tmp_path, unlimited)
    assert cgroup.memory_limit(root) is None
    assert cgroup.cpu_quota(root) is None
