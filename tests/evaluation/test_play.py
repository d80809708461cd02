"""A film holds what was asked for; where nothing can draw, one line names what to install."""

from __future__ import annotations

import contextlib
import json
import re
import resource
import subprocess
import sys
import types

import imageio_ffmpeg
import mujoco
import numpy as np
import pytest

from jaxrl_hw import play
from jaxrl_hw.envs.tasks.joystick.settings import JoystickConfig
from jaxrl_hw.errors import RunError, UserError
from jaxrl_hw.evaluation import opengl
from jaxrl_hw.evaluation.film import recent_mean
from jaxrl_hw.evaluation.overlay import Caption, Dial, Row, draw
from jaxrl_hw.evaluation.schedule import describe, make_schedule
from jaxrl_hw.evaluation.video import write_film
from jaxrl_hw.evaluation.viewer import view_run

SMALL = ["--width", "320", "--height", "180", "--seconds", "0.4"]
UP, LEFT, INSERT, LETTER = 265, 263, 260, 65  # GLFW's key codes
SHORT = [*SMALL, "--seconds", "0.2"]


@pytest.fixture(scope="module")
def gl():
    try:
        return opengl.choose_backend()
    except RunError as error:
        pytest.skip(str(error))


def read(path, width, height):
    """ffmpeg's description of a film, and its frames [n, height, width, 3]."""
    command = [imageio_ffmpeg.get_ffmpeg_exe(), "-i", str(path)]
    done = subprocess.run(
        [*command, "-f", "rawvideo", "-pix_fmt", "rgb24", "-"], capture_output=True, check=True
    )
    frames = np.frombuffer(done.stdout, np.uint8).reshape(-1, height, width, 3)
    return done.stderr.decode(), frames


@pytest.mark.slow
def test_an_mp4_that_browsers_play(gl, walking_run, capsys):
    assert play.main(["--run-dir", str(walking_run.folder), *SMALL]) == 0
    path = walking_run.folder / "videos" / "2.mp4"
    description, frames = read(path, 320, 180)
    for feature in ("h264", "yuv420p", "25 fps"):
        assert feature in description
    assert len(frames) == 10
    assert frames.std() > 20, "a robot, a floor and a sky, not one colour"
    printed = capsys.readouterr().out
    assert str(path) in printed
    assert "320 x 180" in printed
    assert [p.name for p in path.parent.iterdir()] == ["2.mp4"], "nothing half-written is left"


@pytest.mark.slow
def test_a_gif_of_the_cartpole(gl, cartpole_run, tmp_path):
    path = tmp_path / "new folder" / "film.gif"
    assert play.main(["--run-dir", str(cartpole_run.folder), "--out", str(path), *SHORT]) == 0
    assert path.read_bytes()[:6] == b"GIF89a"


@pytest.mark.slow
def test_a_page_that_replays_the_episode_needs_no_opengl(cartpole_run, tmp_path):
    def backend():
        raise RunError("no OpenGL here")

    path = tmp_path / "walk.html"
    other = tmp_path / "again.html"
    flags = ["--run-dir", str(cartpole_run.folder), "--seconds", "0.2"]
    assert play.main([*flags, "--out", str(path), "--out", str(other)], backend) == 0
    assert path.read_bytes() == other.read_bytes()
    page = path.read_text()
    data = re.search(r'id="replay-data">(.*?)</script>', page, re.DOTALL)
    replay = json.loads(data[1])
    assert (replay["frames"], replay["bodies"]) == (5, 3)
    assert "getContext" in page
    assert not re.search(r"https?://(?!www.w3.org)", page), "it works without a network"


@pytest.mark.parametrize(("suffix", "fps"), [(".mp4", 25), (".gif", 12.5)])
def test_a_film_is_complete_or_absent(suffix, fps, tmp_path, capfd):
    """The size limit, which ffmpeg inherits, is as a disk that fills up."""
    path, size = tmp_path / f"film{suffix}", (64, 48)
    frames = np.random.default_rng(0).integers(0, 255, (50, 48, 64, 3), dtype=np.uint8)
    counts = []
    write_film(path, frames, size, 25.0, counts.append)
    assert counts == list(range(1, 51))
    assert len(read(path, *size)[1]) == 2 * fps
    before = path.read_bytes()
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (len(before) // 2, hard))
    try:
        with pytest.raises(RunError, match=path.name) as caught:
            write_film(path, frames, size, 25.0)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert "\n" not in str(caught.value)
    assert path.read_bytes() == before
    assert list(tmp_path.iterdir()) == [path]
    assert capfd.readouterr().err == ""


@pytest.mark.parametrize(
    ("flags", "offending"),
    [
        (["--wdith", "9"], "--wdith"),
        (["--run-dir", "{tmp}/nothing"], "{tmp}/nothing"),
        (["--run-dir", "{run}", "--out", "{tmp}/film.avi"], "{tmp}/film.avi"),
        (["--run-dir", "{run}", "--out", "{tmp}"], "{tmp}"),
        (["--run-dir", "{run}", "--out", "{run}/config.json/film.mp4"], "{run}/config.json"),
        (["--run-dir", "{run}", "--width", "321"], "321"),
        (["--run-dir", "{run}", "--height", "9999"], "9999"),
        (["--run-dir", "{run}", "--command", "fast"], "fast"),
        (["--run-dir", "{run}", "--command", "1 2 nan"], "nan"),
        (["--run-dir", "{run}", "--command", "99 0 0"], "99 0 0"),
        (["--run-dir", "{run}", "--seconds", "0"], "--seconds"),
        (["--run-dir", "{run}", "--push", "9"], "--push"),
        (["--run-dir", "{run}", "--viewer", "--out", "{tmp}/film.mp4"], "--viewer"),
    ],
)
def test_bad_input_is_one_line(flags, offending, tmp_path, capsys):
    run = tmp_path / "run"
    run.mkdir()
    (run / "config.json").write_text("{}")
    places = {"tmp": tmp_path, "run": run}
    assert play.main([word.format(**places) for word in flags]) == 2
    error = capsys.readouterr().err
    assert offending.format(**places) in error
    assert error.count("\n") == 1


def test_without_opengl_one_line_names_the_packages(monkeypatch, capsys):
    monkeypatch.setenv("MUJOCO_GL", "")
    monkeypatch.setattr(sys, "platform", "linux")
    monkeypatch.setattr("ctypes.util.find_library", lambda name: None)
    monkeypatch.delenv("DISPLAY", raising=False)
    assert play.main(["--policy", "zoo:g1"]) == 1
    error = capsys.readouterr().err
    assert "libegl1" in error
    assert "libosmesa6" in error
    assert error.count("\n") == 1


def test_a_library_that_cannot_draw_gives_way_to_the_next(monkeypatch):
    monkeypatch.setenv("MUJOCO_GL", "")
    monkeypatch.setenv("PYOPENGL_PLATFORM", "egl")
    monkeypatch.setattr(sys, "platform", "linux")
    assert opengl.choose_backend(lambda b: "no driver" if b == "egl" else "") == "osmesa"


def test_the_users_choice_is_the_only_one_tried(monkeypatch):
    tried = []

    def failure(backend):
        tried.append(backend)
        return "no driver"

    monkeypatch.setenv("MUJOCO_GL", "osmesa")
    with pytest.raises(RunError, match=r"osmesa.*no driver"):
        opengl.choose_backend(failure)
    assert tried == ["osmesa"]
    monkeypatch.setenv("MUJOCO_GL", "elg")
    with pytest.raises(UserError, match="elg"):
        opengl.choose_backend(failure)


def test_a_schedule_fills_the_time_and_stays_within_what_was_trained():
    trained = JoystickConfig(vx=(0.0, 0.5))
    table, _ = make_schedule([], trained, seconds=12.0, control_dt=0.02)
    assert table.shape == (600, 1, 3)
    assert table[..., 0].min() == 0.0
    assert table[..., 0].max() == 0.5
    given = make_schedule([(1.0, 0, 0), (0, 0, -1.0)], trained, 0.1, 0.02)
    assert given.commands[:, 0].tolist() == [[1.0, 0.0, 0.0]] * 2 + [[0.0, 0.0, -1.0]] * 3
    assert given.texts == ["walk forward"] * 2 + ["turn right"] * 3


def test_commands_in_words():
    assert describe((0.5, 0.0, 0.0)) == "walk forward"
    assert describe((-0.5, 0.2, -0.4)) == "walk backward and left, turn right"
    assert describe((0.0, 0.0, 0.0)) == "stand"


def test_means_do_not_reach_back_past_a_fall():
    values = np.array([[1.0], [2.0], [3.0], [10.0], [20.0]])
    restart = np.array([False, False, False, True, False])
    assert recent_mean(values, restart, 2)[:, 0].tolist() == [1.0, 1.5, 2.5, 10.0, 15.0]


def test_the_overlay_leaves_the_middle_of_the_frame_alone():
    frame = np.full((540, 960, 3), 90, np.uint8)
    dial = Dial((0.5, 0.0, 0.8), (0.0, 0.0, 0.0), rim=1.0)
    rows = (Row("forward", 0.5, 0.43, "m/s"),)
    shown = draw(frame, Caption("g1", "iteration 9", "walk forward", rows, "1.0 s", 1, dial))
    assert shown.shape == frame.shape
    assert shown.dtype == np.uint8
    assert (shown[:, 350:780] == 90).all()
    assert (shown[16:150, 16:330] != 90).mean() > 0.9
    assert (shown[400:520, 810:940] != 90).any()


def test_the_viewer_needs_a_display(monkeypatch, capsys):
    monkeypatch.setattr(sys, "platform", "linux")
    for name in ("DISPLAY", "WAYLAND_DISPLAY"):
        monkeypatch.delenv(name, raising=False)
    assert play.main(["--policy", "zoo:g1", "--viewer"]) == 1
    assert "DISPLAY" in capsys.readouterr().err


class Window:
    """MuJoCo's, in which a user presses keys at some of the steps."""

    lock = contextlib.nullcontext

    def __init__(self, keys=()):
        self.cam, self.poses, self.texts = types.SimpleNamespace(), [], []
        self.keys = dict(keys)

    @contextlib.contextmanager
    def launch(self, model, data, press):
        assert isinstance(model, mujoco.MjModel)
        self.data, self.press = data, press
        yield self

    def is_running(self):
        for key in self.keys.get(len(self.poses), ()):
            self.press(key)
        return len(self.poses) < 7

    def set_texts(self, texts):
        self.texts.append(texts[0][2])

    def sync(self):
        self.poses.append(self.data.qpos.copy())


@pytest.mark.slow
def test_the_viewer_shows_every_control_step_until_it_is_closed(walking_run):
    window = Window()
    assert view_run(walking_run, seconds=0.1, launch=window.launch, read_pad=lambda: None) == 7
    assert len(np.unique(np.stack(window.poses), axis=0)) == 7
    assert window.cam.trackbodyid == 1


@pytest.mark.slow
def test_keys_steer_and_push_the_robot_in_the_viewer(walking_run):
    def show(keys):
        window = Window(keys)
        stand = [(0.0, 0.0, 0.0)]
        view_run(walking_run, stand, 0.1, launch=window.launch, read_pad=lambda: None)
        return window

    calm = show({})
    steered = show({3: [UP, UP, LEFT], 5: [LETTER]})
    pushed = show({3: [INSERT]})
    assert calm.texts == ["stand"] * 7
    assert steered.texts[:3] == ["stand"] * 3
    assert all("forward, turn left: 0.2 0.0 0.1" in text for text in steered.texts[3:])
    assert pushed.texts == calm.texts
    same = np.stack([np.allclose(a, b) for a, b in zip(pushed.poses, calm.poses, strict=True)])
    assert same.tolist() == [True] * 3 + [False] * 4
    moved = np.linalg.norm(pushed.poses[-1][:2] - calm.poses[-1][:2])
    assert 0.5 * 4 * 0.02 < moved < 1.5 * 4 * 0.02  # 1 m/s for four control steps of 20 ms
