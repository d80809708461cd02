"""Which OpenGL can draw here without a screen. Nothing here imports MuJoCo.

A library that is installed can still fail to draw: a container may have libEGL and no driver, or a
driver without the extensions. So each backend draws once in a process of its own, where a crash
costs nothing. This process can load OpenGL in one way only.
"""

from __future__ import annotations

import ctypes.util
import os
import subprocess
import sys
from collections.abc import Callable

from jaxrl_hw.errors import RunError, unknown

LIBRARIES = {"egl": "EGL", "osmesa": "OSMesa"}
PACKAGES = "sudo apt-get install libegl1 (or libosmesa6)"
_CHOICES = ("egl", "osmesa", "glfw", "cgl")

_PROBE = """
import mujoco
from mujoco.{backend} import GLContext
context = GLContext(64, 64)
context.make_current()
mujoco.MjrContext(mujoco.MjModel.from_xml_string("<mujoco/>"), 100)
print("drawn", flush=True)
"""


def failure_of(backend: str) -> str:
    """Why a backend cannot draw here, "" where it can."""
    library = LIBRARIES.get(backend)
    if library is not None and ctypes.util.find_library(library) is None:
        return f"lib{library} is not installed"
    environment = {**os.environ, "MUJOCO_GL": backend}
    environment.pop("PYOPENGL_PLATFORM", None)
    try:
        done = subprocess.run(
            [sys.executable, "-c", _PROBE.format(backend=backend)],
            env=environment,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return type(error).__name__
    if "drawn" in done.stdout:  # some drivers crash at exit, after drawing
        return ""
    lines = [line for line in done.stderr.splitlines() if line.strip() and line[0] != " "]
    return lines[-1].strip()[:160] if lines else f"the probe ended with {done.returncode}"


def choose_backend(failure: Callable[[str], str] = failure_of) -> str:
    """The name of a working backend: egl, osmesa, glfw or cgl; also put into MUJOCO_GL.

    Call it before MuJoCo is imported. Where the user has set MUJOCO_GL, it tries that backend only.

    failure: says why a backend cannot draw, "" where it can.

    Raises:
      UserError: MUJOCO_GL is none of them.
      RunError: none works; says what to install.
    """
    asked = os.environ.get("MUJOCO_GL", "").strip().lower()
    if asked and asked not in _CHOICES:
        raise unknown("MUJOCO_GL", asked, _CHOICES)
    tried = []
    for backend in (asked,) if asked else _candidates():
        reason = failure(backend)
        if not reason:
            os.environ["MUJOCO_GL"] = backend
            if "OpenGL" not in sys.modules and backend in LIBRARIES:
                os.environ["PYOPENGL_PLATFORM"] = backend
            return backend
        tried.append(f"{backend}: {reason}")
    reasons = ("MUJOCO_GL asks for " if asked else "") + "; ".join(tried)
    raise RunError(f"nothing can draw without a screen ({reasons}); on Debian, Ubuntu: {PACKAGES}")


def _candidates() -> tuple[str, ...]:
    if sys.platform == "darwin":
        return ("cgl",)
    if sys.platform == "win32":
        return ("glfw",)
    screen = os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY")
    return ("egl", "osmesa", "glfw") if screen else ("egl", "osmesa")
