"""The benchmark scripts as modules."""

from __future__ import annotations

import contextlib
import importlib.util
import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import pytest

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"


@pytest.fixture(scope="session")
def script() -> Callable[[str], AbstractContextManager[Any]]:
    """script(name): a context with that script's module, on a CPU; those beside it as it sees
    them, and forgotten at its end."""

    @contextlib.contextmanager
    def load(name: str) -> Iterator[Any]:
        with pytest.MonkeyPatch.context() as patch:
            patch.syspath_prepend(str(BENCHMARKS))
            patch.setenv("JAX_PLATFORMS", "cpu")
            spec = importlib.util.spec_from_file_location(name, BENCHMARKS / f"{name}.py")
            assert spec is not None
            assert spec.loader is not None
            module = importlib.util.module_from_spec(spec)
            spec.loader.exec_module(module)
            yield module
            for beside in BENCHMARKS.glob("*.py"):
                sys.modules.pop(beside.stem, None)

    return load
