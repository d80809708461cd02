"""The environment variables that JAX, XLA and MuJoCo obey here, and who has set them."""

from __future__ import annotations

import contextlib
import ctypes.util
import os
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from jaxrl_hw.cli.doctor import open_jax
from jaxrl_hw.cli.doctor.check_versions import installed
from jaxrl_hw.cli.doctor.harmful_variables import harm
from jaxrl_hw.cli.doctor.results import FAIL, PASS, WARN, Finding
from jaxrl_hw.cli.doctor.run_in_subprocess import call
from jaxrl_hw.cli.doctor.runner import Visit
from jaxrl_hw.cli.doctor.tested_versions import PLUGINS
from jaxrl_hw.evaluation.opengl import LIBRARIES, PACKAGES
from jaxrl_hw.loggers import formats

LIMIT_S = 20.0
_CHECK = "environment"
_BY_USER, _BY_US = "set by you", "set by jaxrl_hw"
_OTHERS = (
    "CUDA_VISIBLE_DEVICES",
    "LIBTPU_INIT_ARGS",
    "MUJOCO_GL",
    "NVIDIA_TF32_OVERRIDE",
    "PYOPENGL_PLATFORM",
    "TF_CPP_MIN_LOG_LEVEL",
)
_CACHE = "JAX_COMPILATION_CACHE_DIR"


def check(visit: Visit) -> Iterator[Finding]:
    """A row for each variable in force, and one for the folder of compiled programs."""
    ours = call(settings, visit.platform or "cpu", limit_s=LIMIT_S)
    theirs = {name: value for name, value in os.environ.items() if _bears(name, value)}
    for name in sorted(theirs):
        yield judge(name, os.environ, visit.blames(name))
    for name, value, origin in ours:
        if origin != "user":
            text = f"{name}={_home(value)}"
            figures = {"name": name, "value": value, "origin": "jaxrl_hw"}
            yield Finding(_CHECK, _BY_US, PASS, text, figures=figures)
    folder = next((value for name, value, _ in ours if name == _CACHE), "")
    if folder and "://" not in folder:  # JAX takes addresses of cloud storage too
        yield _cache_row(folder, call(cache_folder, folder, limit_s=LIMIT_S))


def judge(name: str, environ: Mapping[str, str], blamed: bool = False) -> Finding:
    """The row of a variable that the user has set.

    blamed: whether JAX has named it when it could not start.
    """
    value = environ[name]
    figures = {"name": name, "value": value, "origin": "user"}
    if blamed:
        text = f"{name}={value}: JAX does not start with it"
        return Finding(_CHECK, _BY_USER, FAIL, text, f"unset {name}", figures)
    why = harm(name, environ) or _missing_library(name, value)
    if not why:
        return Finding(_CHECK, _BY_USER, PASS, f"{name}={_home(value)}", figures=figures)
    return Finding(_CHECK, _BY_USER, WARN, f"{name}={value}: {why}", f"unset {name}", figures)


def _missing_library(name: str, value: str) -> str:
    library = LIBRARIES.get(value.strip().lower()) if name == "MUJOCO_GL" else None
    if library is None or ctypes.util.find_library(library) is not None:
        return ""
    return f"lib{library} is not installed, and MuJoCo cannot be imported then; {PACKAGES}"


def settings(platform: str) -> list[tuple[str, str, str]]:
    """Name, value and origin of what a run sets before it imports jax."""
    return [(s.name, s.value, s.origin) for s in open_jax.configure(platform)]


def cache_folder(path: str) -> dict[str, Any]:
    """Whether files can be made in a folder, or where it is to be made; nothing is left behind."""
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
        with contextlib.suppress(OSError):  # another process may be tidying up
            if entry.is_file():
                yield entry.stat().st_size


def _cache_row(folder: str, seen: dict[str, Any]) -> Finding:
    figures = {"folder": folder, **seen}
    if seen["problem"]:
        text = f"{_home(seen['place'])} cannot be written ({seen['problem']}): every start compiles"
        advice = f"set {_CACHE} to a folder of yours"
        return Finding(
            _CHECK, "compilation cache", WARN, f"{text} everything anew", advice, figures
        )
    held = f"{seen['files']} files, {formats.size(seen['bytes'])}" if seen["files"] else "empty"
    text = f"{_home(folder)}: can be written, {held}"
    return Finding(_CHECK, "compilation cache", PASS, text, figures=figures)


def _bears(name: str, value: str) -> bool:
    """Whether a variable bears on JAX, XLA or MuJoCo."""
    if name == "LD_LIBRARY_PATH":
        return "cuda" in value.lower() and any(map(installed, PLUGINS))
    return name.startswith(("JAX_", "XLA_", "JAXRL_HW_")) or name in _OTHERS


def _home(text: str) -> str:
    """A path as people write it."""
    home = str(Path.home())
    return text.replace(home, "~", 1) if len(home) > 1 else text
