"""A GPU's memory as its driver sees it, and a process that takes it away."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from jaxrl_hw.hardware import nvidia


@contextmanager
def driver_memory() -> Iterator[list[int]]:
    """Bytes in use on the GPU by its driver: before, and the most since; empty without a driver."""
    found: list[int] = []
    over = threading.Event()
    if (now := nvidia.memory_in_use(os.environ)) is not None:
        found += [now[0], now[0]]

    def watch() -> None:
        while found and not over.wait(0.5):
            if (now := nvidia.memory_in_use(os.environ)) is not None:
                found[1] = max(found[1], now[0])

    thread = threading.Thread(target=watch)
    thread.start()
    try:
        yield found
    finally:
        over.set()
        thread.join()


_HOG = """
import os, sys
os.environ.update(XLA_CLIENT_MEM_FRACTION="0.97", XLA_PYTHON_CLIENT_PREALLOCATE="false")
import jax
gpu = jax.devices()[0]
free = gpu.memory_stats()["bytes_limit"]
held = jax.device_put(jax.numpy.zeros(max(0, free - int(sys.argv[1])) // 4), gpu)
held.block_until_ready()
print("held", flush=True)
sys.stdin.read()
"""


@contextmanager
def hog(left: int) -> Iterator[None]:
    """A process that takes the GPU's free memory but for so many bytes."""
    command = [sys.executable, "-c", _HOG, str(left)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        try:
            if not process.stdout.readline():
                raise RuntimeError("the process that takes the memory did not start")
            yield
        finally:
            process.kill()


def wait_for(condition: Callable[[], bool], seconds: float, what: str) -> None:
    """Wait until a condition holds; raises TimeoutError, which names what was waited for."""
    end = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > end:
            raise TimeoutError(f"{what} was not there after {seconds:.0f} s")
        time.sleep(0.2)
