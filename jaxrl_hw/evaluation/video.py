"""A recording as a film: MuJoCo draws off screen, Pillow writes on it, ffmpeg packs it."""

from __future__ import annotations

import contextlib
import importlib
import os
import subprocess
import tempfile
from collections.abc import Callable, Iterable
from pathlib import Path
from types import TracebackType
from typing import Any

import imageio_ffmpeg
import mujoco
import numpy as np

from jaxrl_hw.errors import RunError


class Film:
    """Draws poses of one model, off screen. Use it as a context manager.

    model: with everything that is to be seen.
    size: width and height of the pictures, pixels.
    backend: from `opengl.choose_backend`.
    camera: name of a camera of the model.
    """

    def __init__(
        self, model: Any, size: tuple[int, int], backend: str, camera: str = "track"
    ) -> None:
        model.vis.global_.offwidth, model.vis.global_.offheight = size
        self.model, self.data, self.size = model, mujoco.MjData(model), size
        try:
            self._gl = importlib.import_module(f"mujoco.{backend}").GLContext(*size)
            self._gl.make_current()
            self._context = mujoco.MjrContext(model, mujoco.mjtFontScale.mjFONTSCALE_100.value)
        except Exception as error:  # every driver fails in its own way
            what = f"OpenGL ({backend}) cannot draw {size[0]} x {size[1]} pixels"
            raise RunError(f"{what}: {error}") from error
        mujoco.mjr_setBuffer(mujoco.mjtFramebuffer.mjFB_OFFSCREEN.value, self._context)
        self._scene = mujoco.MjvScene(model, maxgeom=model.ngeom + 1000)
        self._options = mujoco.MjvOption()
        self._camera = mujoco.MjvCamera()
        self._camera.type = mujoco.mjtCamera.mjCAMERA_FIXED
        self._camera.fixedcamid = model.camera(camera).id

    def __enter__(self) -> Film:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._context.free()
        self._gl.free()

    def frame(self, qpos: np.ndarray) -> np.ndarray:
        """One picture [height, width, 3] uint8 of a pose [nq]."""
        self.data.qpos[:] = qpos
        mujoco.mj_fwdPosition(self.model, self.data)
        everything = mujoco.mjtCatBit.mjCAT_ALL.value
        mujoco.mjv_updateScene(
            self.model, self.data, self._options, None, self._camera, everything, self._scene
        )
        view = mujoco.MjrRect(0, 0, *self.size)
        picture = np.empty((self.size[1], self.size[0], 3), np.uint8)
        mujoco.mjr_render(view, self._scene, self._context)
        mujoco.mjr_readPixels(picture, None, view, self._context)
        return picture[::-1]


def write_film(
    path: Path,
    pictures: Iterable[np.ndarray],
    size: tuple[int, int],
    fps: float,
    done: Callable[[int], None] = lambda count: None,
) -> None:
    """Pack pictures into an H.264 MP4 that browsers play, or a GIF, by the path's ending.

    Args:
      path: .mp4 or .gif; replaced in one step when the film is whole.
      pictures: [height, width, 3] uint8 each.
      size: width and height; even numbers for an MP4.
      fps: pictures per second.
      done: told the number of pictures after each.

    Raises:
      RunError: ffmpeg or the disk fails.
    """
    part = path.with_name(f".{path.stem}.{os.getpid()}{path.suffix}")
    try:
        _encode(part, pictures, size, fps, done)
        os.replace(part, path)
    except OSError as error:
        raise RunError(f"cannot write {path}: {error.strerror or error}") from error
    finally:
        part.unlink(missing_ok=True)


def _encode(
    path: Path,
    pictures: Iterable[np.ndarray],
    size: tuple[int, int],
    fps: float,
    done: Callable[[int], None],
) -> None:
    command = [imageio_ffmpeg.get_ffmpeg_exe(), "-y", "-v", "error", "-f", "rawvideo"]
    command += ["-pix_fmt", "rgb24", "-s", f"{size[0]}x{size[1]}", "-r", f"{fps:g}", "-i", "-"]
    command += [*(_GIF if path.suffix == ".gif" else _MP4), str(path)]
    with tempfile.TemporaryFile() as said:
        ffmpeg = subprocess.Popen(command, stdin=subprocess.PIPE, stderr=said)
        try:
            assert ffmpeg.stdin is not None  # it is a pipe
            with contextlib.suppress(BrokenPipeError):  # its own words, below, say more
                for count, picture in enumerate(pictures, 1):
                    ffmpeg.stdin.write(np.ascontiguousarray(picture).data)
                    done(count)
                ffmpeg.stdin.close()
            code = ffmpeg.wait()
        finally:
            ffmpeg.kill()
        if code:
            said.seek(0)
            lines = said.read().decode(errors="replace").strip().splitlines()
            raise RunError(f"ffmpeg could not write the film: {lines[-1] if lines else code}")


_MP4 = ["-c:v", "libx264", "-pix_fmt", "yuv420p", "-crf", "20", "-movflags", "+faststart"]
_GIF = [  # 12.5 pictures a second and one palette for all: a tenth of the size
    "-filter_complex",
    "[0:v] fps=12.5,split [a][b]; [a] palettegen=max_colors=128 [p]; "
    "[b][p] paletteuse=dither=bayer:bayer_scale=4",
]
