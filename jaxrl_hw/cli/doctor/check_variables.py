"""The environment variables that JAX, XLA and MuJoCo read here, and who has set them.

`_HARMS` lists the values that keep a training from starting, or make it slow or wrong. Each was
seen with jax 0.10 on a CPU, or is what jaxlib's own code says.
"""

from __future__ import annotations

import contextlib
import ctypes.util
import os
import re
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from jaxrl_hw.cli.doctor import check_devices
from jaxrl_hw.cli.doctor.results import FAIL, CheckResult, Context
from jaxrl_hw.cli.doctor.run_in_subprocess import run_in_subprocess
from jaxrl_hw.evaluation.opengl import LIBRARIES, PACKAGES
from jaxrl_hw.hardware.cuda_plugin import installed_parts
from jaxrl_hw.loggers import formats

_CACHE = "JAX_COMPILATION_CACHE_DIR"
_RELEVANT = re.compile(
    "JAX_|XLA_|JAXRL_HW_|MUJOCO_GL|PYOPENGL_PLATFORM|TF_CPP_MIN_LOG_LEVEL|LIBTPU_INIT_ARGS|"
    "CUDA_VISIBLE_DEVICES|NVIDIA_TF32_OVERRIDE"
)
_ON, _OFF = "y|yes|t|true|on|1", "n|no|f|false|off|0"  # as JAX reads them
_GL, _GL_SWITCH = "|egl|osmesa|glfw|glx|cgl|wgl", "enabled?|on|true|1|disabled?|off|false|0"
_NOT = "(?!({})$).*"  # any value but these
_NO_START = "training does not start"
_MUCH_SLOWER = "training is many times slower"
_NETWORKS_ONLY = "networks multiply in this precision (physics in its own, the highest)"
_SPLIT = "it splits the processor, and a run uses the first part only"
_SLOW_ARRAYS = "the driver allocates every array, which is many times slower on a GPU"
_NO_MUJOCO = "MuJoCo cannot be imported; known are egl, osmesa and glfw"

_HARMS = (
    ("JAX_ENABLE_X64", _ON, "training does not start with 64-bit numbers"),
    ("JAX_DISABLE_JIT", _ON, "training cannot be compiled, and does not start"),
    ("JAX_DEBUG_NANS", _ON, "training stops at the NaN that means: no episode has ended yet"),
    ("JAX_DEBUG_KEY_REUSE", _ON, _NO_START),
    ("JAX_NUMPY_DTYPE_PROMOTION", "strict", _NO_START),
    ("JAX_NUMPY_RANK_PROMOTION", "raise", _NO_START),
    ("JAX_TRANSFER_GUARD", "disallow(_explicit)?", _NO_START),
    ("JAX_CHECK_TRACER_LEAKS", _ON, _MUCH_SLOWER),
    ("JAX_DISABLE_MOST_OPTIMIZATIONS", _ON, _MUCH_SLOWER),
    ("JAX_ENABLE_CHECKS", _ON, "training is slower"),
    ("JAX_ENABLE_COMPILATION_CACHE", _OFF, "every start compiles everything again"),
    ("JAX_CPU_ENABLE_ASYNC_DISPATCH", _NOT.format("|0|false|no|off"), "the C engine may deadlock"),
    ("JAX_DEFAULT_MATMUL_PRECISION", _NOT.format("|highest|float32"), _NETWORKS_ONLY),
    ("XLA_FLAGS", ".*--xla_dump_to.*", "every compilation writes files that nobody removes"),
    ("XLA_FLAGS", ".*--xla_force_host_platform_device_count.*", _SPLIT),
    ("XLA_PYTHON_CLIENT_ALLOCATOR", "platform", _SLOW_ARRAYS),
    ("MUJOCO_GL", _NOT.format(f"{_GL}|{_GL_SWITCH}"), _NO_MUJOCO),
    ("MUJOCO_GL", _GL_SWITCH, "no films: they need egl, osmesa or glfw"),
)
"""Name of a variable, pattern of its harmful values (in lower case), and the harm."""

_NEW_SHARE, _OLD_SHARE = "XLA_CLIENT_MEM_FRACTION", "XLA_PYTHON_CLIENT_MEM_FRACTION"


def check(context: Context) -> Iterator[CheckResult]:
    """A row for each variable in force, and one for the folder of compiled programs."""
    settings = run_in_subprocess(run_settings, context.platform or "cpu", timeout_s=20)
    for name in sorted(name for name, value in os.environ.items() if _is_relevant(name, value)):
        yield judge(name, os.environ, context.blames(name))
    for name, value, origin in settings:
        if origin != "user":
            figures = {"name": name, "value": value, "origin": "jaxrl_hw"}
            yield CheckResult("set by jaxrl_hw", f"{name}={_home(value)}", figures=figures)
    folder = next((value for name, value, _ in settings if name == _CACHE), "")
    if folder and "://" not in folder:  # JAX accepts addresses of cloud storage too
        yield _cache_row(folder, run_in_subprocess(inspect_cache, folder, timeout_s=20))


def judge(name: str, environ: Mapping[str, str], blamed: bool = False) -> CheckResult:
    """The row of a variable that the user has set.

    blamed: whether JAX could not start and its error names the variable.
    """
    value = environ[name]
    figures = {"name": name, "value": value, "origin": "user"}
    harm = _harm(name, environ) or _missing_library(name, value)
    why = "JAX does not start with it" if blamed else harm
    text = f"{name}={value}: {why}" if why else f"{name}={_home(value)}"
    advice = f"unset {name}" if why else ""
    return CheckResult("set by you", text, advice, figures, FAIL if blamed else "")


def _harm(name: str, environ: Mapping[str, str]) -> str:
    """The harm that a variable's value does, "" where it does none."""
    if name == _OLD_SHARE and environ.get(_NEW_SHARE):
        return f"{_NEW_SHARE} is set too: with both, jaxlib refuses to open a GPU"
    if name == _OLD_SHARE:
        return f"deprecated; use {_NEW_SHARE}" if environ[name] else ""
    if name == "LD_LIBRARY_PATH":
        return "may replace the CUDA libraries that JAX brings along"
    value = environ[name].strip().lower()
    return "; ".join(why for of, bad, why in _HARMS if of == name and re.fullmatch(bad, value))


def _missing_library(name: str, value: str) -> str:
    library = LIBRARIES.get(value.strip().lower()) if name == "MUJOCO_GL" else None
    if library is None or ctypes.util.find_library(library) is not None:
        return ""
    return f"lib{library} is not installed, so MuJoCo cannot be imported; {PACKAGES}"


def run_settings(platform: str) -> list[tuple[str, str, str]]:
    """Name, value and origin of what a run sets before it imports jax."""
    return [(s.name, s.value, s.origin) for s in check_devices.configure(platform)]


def inspect_cache(path: str) -> dict[str, Any]:
    """Whether files can be made in a folder, or in the one it would be made in; leaves nothing."""
    folder = Path(path).expanduser()
    place = next((p for p in (folder, *folder.absolute().parents) if p.exists()), folder)
    problem = ""
    try:
        with tempfile.TemporaryFile(dir=place) as file:
            file.write(b"x")
            file.flush()
    except OSError as error:
        problem = error.strerror or type(error).__name__
    sizes = list(_sizes(folder)) if folder.is_dir() else []
    return {"problem": problem, "place": str(place), "files": len(sizes), "bytes": sum(sizes)}


def _sizes(folder: Path) -> Iterator[int]:
    for entry in folder.iterdir():
        with contextlib.suppress(OSError):  # another process may remove files
            if entry.is_file():
                yield entry.stat().st_size


def _cache_row(folder: str, seen: dict[str, Any]) -> CheckResult:
    files = f"{seen['files']} files, {formats.size(seen['bytes'])}" if seen["files"] else "empty"
    text, advice = f"{_home(folder)}: writable, {files}", ""
    if seen["problem"]:
        place = _home(seen["place"])
        text = f"{place} cannot be written ({seen['problem']}): every start compiles again"
        advice = f"set {_CACHE} to a folder of yours"
    return CheckResult("compilation cache", text, advice, {"folder": folder, **seen})


def _is_relevant(name: str, value: str) -> bool:
    """Whether JAX, XLA or MuJoCo reads a variable."""
    if name == "LD_LIBRARY_PATH":
        return "cuda" in value.lower() and bool(installed_parts())
    return _RELEVANT.match(name) is not None


def _home(text: str) -> str:
    """A path with ~ for the home folder."""
    home = str(Path.home())
    return text.replace(home, "~", 1) if len(home) > 1 else text
