"""Text and figures on a frame: what the robot was commanded, and what it did."""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

import numpy as np
from PIL import Image, ImageDraw, ImageFont

COMMAND_COLOUR = (88, 196, 255)
MEASURED_COLOUR = (255, 178, 64)
_TEXT, _FAINT, _ALARM = (240, 243, 247), (176, 186, 198), (255, 104, 92)
_PANEL = (14, 18, 24, 168)
_DIAL = 132
_REFERENCE_HEIGHT = 540
"""Sizes below are in pixels of a frame this high, and grow with it."""


class Row(NamedTuple):
    """A line of the panel: a quantity as commanded (where it is) and as measured, with its unit."""

    name: str
    command: float | None
    measured: float
    unit: str


Motion = tuple[float, float, float]
"""Over ground in the robot's frame: forward and leftward velocity, m/s, and yaw rate, rad/s."""


class Dial(NamedTuple):
    """Two motions as arrows, seen from above: up is forward."""

    command: Motion
    measured: Motion
    rim: float  # m/s: the speed of an arrow that reaches the rim


class Caption(NamedTuple):
    """All that is written on one frame."""

    title: str
    subtitle: str
    headline: str
    rows: tuple[Row, ...]
    clock: str
    falls: int | None
    """None where a robot cannot fall."""
    dial: Dial | None = None
    alarm: str = ""
    """A line in red, for a while after a fall."""


def draw(frame: np.ndarray, caption: Caption) -> np.ndarray:
    """The frame [H, W, 3] uint8 with the caption on it."""
    image = Image.fromarray(frame).convert("RGBA")
    sheet = Image.new("RGBA", image.size, (0, 0, 0, 0))
    pen = _Pen(ImageDraw.Draw(sheet), image.width, image.height / _REFERENCE_HEIGHT)
    _draw_panel(pen, caption)
    _draw_corner(pen, caption)
    if caption.dial is not None:
        dial = _draw_dial(caption.dial, round(_DIAL * pen.scale))
        left, top = pen.width - _DIAL - 20, _REFERENCE_HEIGHT - _DIAL - 20
        place = max(0, round(left * pen.scale)), max(0, round(top * pen.scale))
        sheet.alpha_composite(dial, place)
    return np.asarray(Image.alpha_composite(image, sheet).convert("RGB"))


class _Pen:
    """Draws in reference pixels."""

    def __init__(self, sheet: ImageDraw.ImageDraw, width: int, scale: float) -> None:
        self.sheet, self.scale = sheet, scale
        self.width = width / scale

    def box(self, x: float, y: float, width: float, height: float) -> None:
        s = self.scale
        corners = (x * s, y * s, (x + width) * s, (y + height) * s)
        self.sheet.rounded_rectangle(corners, radius=10 * s, fill=_PANEL)

    def text(
        self,
        x: float,
        y: float,
        text: str,
        size: float,
        colour: tuple[int, int, int] = _TEXT,
        anchor: str = "ls",
    ) -> None:
        font = _font(max(8, round(size * self.scale)))
        self.sheet.text((x * self.scale, y * self.scale), text, colour, font, anchor)


@lru_cache(maxsize=16)
def _font(size: int) -> ImageFont.ImageFont | ImageFont.FreeTypeFont:
    return ImageFont.load_default(size)


def _draw_panel(pen: _Pen, caption: Caption) -> None:
    """Top left: the robot, the command in words, and the table of figures."""
    left, top, line = 16, 16, 24
    commanded = any(row.command is not None for row in caption.rows)
    pen.box(left, top, 318, (116 if commanded else 92) + line * len(caption.rows))
    pen.text(left + 16, top + 30, caption.title, 19)
    pen.text(left + 302, top + 30, caption.subtitle, 15, _FAINT, "rs")
    pen.text(left + 16, top + 64, caption.headline, 21)
    y = top + 92
    if commanded:
        pen.text(left + 172, y, "command", 15, COMMAND_COLOUR, "rs")
        pen.text(left + 250, y, "actual", 15, MEASURED_COLOUR, "rs")
        y += line
    for row in caption.rows:
        pen.text(left + 16, y, row.name, 17, _FAINT)
        if row.command is not None:
            pen.text(left + 172, y, _signed(row.command), 18, COMMAND_COLOUR, "rs")
        pen.text(left + 250, y, _signed(row.measured), 18, MEASURED_COLOUR, "rs")
        pen.text(left + 260, y, row.unit, 15, _FAINT)
        y += line


def _draw_corner(pen: _Pen, caption: Caption) -> None:
    """Top right: the time and the falls."""
    width, height = 150, 40 + 22 * (caption.falls is not None) + 26 * bool(caption.alarm)
    left = pen.width - width - 16
    pen.box(left, 16, width, height)
    pen.text(left + width - 14, 44, caption.clock, 21, anchor="rs")
    if caption.falls is None:
        return
    falls = f"{caption.falls} fall{'' if caption.falls == 1 else 's'}"
    pen.text(left + width - 14, 67, falls, 16, _ALARM if caption.falls else _FAINT, "rs")
    if caption.alarm:
        pen.text(left + width - 14, 93, caption.alarm, 16, _ALARM, "rs")


def _signed(value: float) -> str:
    """0.50, -0.50; never -0.00."""
    return f"{value if abs(value) >= 0.005 else 0.0:.2f}"


def _draw_dial(dial: Dial, size: int) -> Image.Image:
    """The dial, size x size pixels, drawn four times as large and shrunk: Pillow's lines have hard
    edges."""
    large = 4 * size
    sheet = Image.new("RGBA", (large, large), (0, 0, 0, 0))
    pen = ImageDraw.Draw(sheet)
    pen.ellipse((0, 0, large - 1, large - 1), fill=_PANEL)
    low, high = 0.14 * large, 0.86 * large
    pen.ellipse((low, low, high, high), outline=(*_FAINT, 90), width=max(1, large // 160))
    _draw_motion(pen, dial.command, dial.rim, large, COMMAND_COLOUR, 0.040, 0.46)
    _draw_motion(pen, dial.measured, dial.rim, large, MEASURED_COLOUR, 0.020, 0.415)
    return sheet.resize((size, size), Image.Resampling.LANCZOS)


def _draw_motion(
    pen: ImageDraw.ImageDraw,
    motion: Motion,
    rim: float,
    large: int,
    colour: tuple[int, int, int],
    width: float,
    ring: float,
) -> None:
    """An arrow for the velocity, and along the rim an arc for the yaw rate: 60 degrees a rad/s.

    width (of the arrow's shaft) and ring (radius of the arc) are fractions of the dial's size.
    """
    middle, (forward, left, yaw_rate) = np.full(2, large / 2), motion
    arrow = np.array([-left, -forward]) * 0.36 * large / rim
    length = float(np.linalg.norm(arrow))
    if length > 0.02 * large:
        along = arrow / length
        across, half = np.array([-along[1], along[0]]), width * large
        head = min(2.8 * half, length)
        neck, tip = middle + along * (length - head), middle + arrow
        shaft, barb = across * half / 2, across * 1.4 * half
        corners = (middle + shaft, neck + shaft, neck + barb, tip, neck - barb, neck - shaft)
        pen.polygon([tuple(p) for p in (*corners, middle - shaft)], fill=colour)
    turn = float(np.clip(60.0 * yaw_rate, -170.0, 170.0))
    if abs(turn) > 1.5:
        radius = ring * large
        box = (*(middle - radius), *(middle + radius))
        start, end = sorted((-90.0, -90.0 - turn))
        pen.arc(box, start, end, fill=colour, width=round(0.035 * large))
