"""Frames and films: MuJoCo renders off screen, imageio-ffmpeg encodes."""

from __future__ import annotations

import contextlib
import importlib
import os
import shutil
import subprocess
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import imageio_ffmpeg
import mujoco
import numpy as np

from jaxrl_hw.errors import RunError, first_line
from jaxrl_hw.loggers import formats

_H264 = ["-crf", "20", "-movflags", "+faststart"]
_COLOURS = (  # one palette for all frames
    "[a] palettegen=max_colors=128 [p]; [b][p] paletteuse=dither=bayer:bayer_scale=4"
)
_PALETTE = f"[0:v] fps=12.5,split [a][b]; {_COLOURS}"  # a tenth of the size
_MP4: dict[str, Any] = {"codec": "libx264", "quality": None, "output_params": _H264}
_GIF: dict[str, Any] = {
    "codec": "gif",
    "quality": None,
    "pix_fmt_out": "pal8",
    "output_params": ["-filter_complex", _PALETTE],
}


class Renderer:
    """Renders poses of one model off screen. Use it as a context manager.

    mujoco.Renderer takes the OpenGL that was chosen when mujoco was imported; this one takes any.

    model: with the geoms that are to be seen.
    size: width and height, pixels.
    backend: from `opengl.choose_backend`.
    camera: name of a camera of the model; where it has none of that name, all of it is seen.
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
        fixed = mujoco.mj_name2id(model, mujoco.mjtObj.mjOBJ_CAMERA, camera)
        if fixed < 0:  # another library's model: all of it
            mujoco.mjv_defaultFreeCamera(model, self._camera)
        else:
            self._camera.type = mujoco.mjtCamera.mjCAMERA_FIXED
            self._camera.fixedcamid = fixed

    def __enter__(self) -> Renderer:
        return self

    def __exit__(self, *exc_info: object) -> None:
        self._context.free()
        self._gl.free()

    def frame(self, qpos: np.ndarray) -> np.ndarray:
        """The picture [height, width, 3] uint8 of a pose [nq]."""
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
    frames: Iterable[np.ndarray],
    size: tuple[int, int],
    fps: float,
    on_frame: Callable[[int], None] = lambda count: None,
) -> None:
    """Encode frames as an H.264 MP4 that browsers play, or as a GIF, by the path's suffix.

    Args:
      path: .mp4 or .gif; replaced in one step when the film is complete.
      frames: [height, width, 3] uint8 each.
      size: width and height; even numbers for an MP4.
      on_frame: called with the number of frames after each.

    Raises:
      RunError: ffmpeg or the disk fails.
    """
    partial = path.with_name(f".{path.stem}.{os.getpid()}{path.suffix}")
    # By default ffmpeg is started through fork(), which can deadlock under JAX's threads.
    os.environ.setdefault("IMAGEIO_FFMPEG_NO_PREVENT_SIGINT", "1")
    options = _GIF if path.suffix == ".gif" else _MP4
    # A block of 1: by default ffmpeg would resize to multiples of 16.
    writer = imageio_ffmpeg.write_frames(
        str(partial), size, fps=fps, macro_block_size=1, ffmpeg_log_level="quiet", **options
    )
    try:
        with contextlib.closing(writer):
            writer.send(None)
            for count, frame in enumerate(frames, 1):
                writer.send(np.ascontiguousarray(frame))
                on_frame(count)
        _check_complete(partial, count / fps)
        os.replace(partial, path)
    except OSError as error:
        reason = error.strerror or first_line(error)
        free = formats.size(shutil.disk_usage(path.parent).free)
        raise RunError(f"cannot write {path}: {reason} ({free} free on its disk)") from error
    finally:
        partial.unlink(missing_ok=True)


def small_gif(path: Path, width: int = 320, fps: float = 10.0) -> bytes:
    """A film as a small GIF, 100 kB for each second or so.

    Raises:
      RunError: ffmpeg cannot read the film.
    """
    filters = f"[0:v] fps={fps:g},scale={width}:-2 [s]; [s] split [a][b]; {_COLOURS}"
    command = [imageio_ffmpeg.get_ffmpeg_exe(), "-v", "error", "-i", str(path)]
    command += ["-filter_complex", filters, "-f", "gif", "-"]
    done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, check=False)
    if done.returncode or not done.stdout:
        raise RunError(
            f"cannot read the film {path}: {done.stderr.decode(errors='replace').strip()[:200]}"
        )
    return done.stdout


def _check_complete(path: Path, seconds: float) -> None:
    """Read the film back: `write_frames` does not say whether ffmpeg has succeeded.

    Raises OSError where the film is damaged or shorter.
    """
    with contextlib.suppress(RuntimeError):
        _, found = imageio_ffmpeg.count_frames_and_secs(path)
        cut = path.suffix == ".gif" and not path.read_bytes().endswith(b";")
        if found >= seconds - 0.1 and not cut:
            return
    raise OSError("ffmpeg has not written all of it")
