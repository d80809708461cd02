"""What is freed goes back to the system at once, unless the user has settled it otherwise."""

from __future__ import annotations

import os
import platform
import subprocess
import sys

import pytest

from jaxrl_hw.hardware.memory import map_large

LEFT_BEHIND = """
import sys
import numpy as np
from jaxrl_hw.hardware.memory import MemoryWatch, map_large

if sys.argv[1] == "mapped":
    assert map_large()
watch = MemoryWatch("cpu")
np.ones(3_500_000)  # 28 MB, freed: glibc keeps pieces of up to this size from here on
before = watch.read().in_use
pieces = [(np.ones(500_000), np.ones(1_000)) for _ in range(30)]  # 4 MB and 8 kB, 30 times
pieces = [small for large, small in pieces]
print(watch.read().in_use - before)
"""


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="tells glibc's malloc alone")
def test_large_arrays_between_small_ones_leave_nothing_behind():
    unset = {k: v for k, v in os.environ.items() if not k.startswith(("MALLOC_", "GLIBC_"))}
    left = {
        kind: int(
            subprocess.run(
                [sys.executable, "-c", LEFT_BEHIND, kind],
                capture_output=True,
                text=True,
                check=True,
                env=unset,
            ).stdout
        )
        for kind in ("mapped", "kept")
    }
    assert left["mapped"] < left["kept"] / 3


@pytest.mark.parametrize(
    ("name", "value"),
    [("MALLOC_MMAP_THRESHOLD_", "65536"), ("GLIBC_TUNABLES", "glibc.malloc.trim_threshold=1")],
)
def test_what_the_user_has_set_stays(name: str, value: str):
    assert not map_large({name: value})
