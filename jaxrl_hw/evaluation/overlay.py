"""Words and figures on a picture: what the robot was told, and what it did."""

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
"""Sizes below are in pixels of a picture this high, and grow with it."""


class Row(NamedTuple):
    """A line of the panel: a quantity as commanded and as measured, with its unit."""

    name: str
    command: float | None
    measured: float
    unit: str


class Motion(NamedTuple):
    """Over ground, in the robot's frame."""

    forward: float  # m/s
    left: float  # m/s
    yaw_rate: float  # rad/s


class Dial(NamedTuple):
    """Two motions as arrows, seen from above: up is forward."""

    command: Motion
    measured: Motion
    full: float  # m/s: the speed of an arrow that reaches the rim


class Caption(NamedTuple):
    """All that is written on one picture."""

    title: str
    subtitle: str
    headline: str
    rows: tuple[Row, ...]
    clock: str
    falls: int | None
    """None where a robot cannot fall."""
    dial: Dial | None = None
    alarm: str = ""
    """A line in red, for the moment after a fall."""


def draw(picture: np.ndarray, caption: Caption) -> np.ndarray:
    """The picture [H, W, 3] uint8 with the caption on it."""
    image = Image.fromarray(picture).convert("RGBA")
    sheet = Image.new("RGBA", image.size, (0, 0, 0, 0))
    pen = _Pen(ImageDraw.Draw(sheet), image.width, image.height / _REFERENCE_HEIGHT)
    _panel(pen, caption)
    _corner(pen, caption)
    if caption.dial is not None:
        dial = _draw_dial(caption.dial, round(_DIAL * pen.scale))
        left, top = (pen.width - _DIAL - 20) * pen.scale, (540 - _DIAL - 20) * pen.scale
        sheet.alpha_composite(dial, (max(0, round(left)), max(0, round(top))))
    return np.asarray(Image.alpha_composite(image, sheet).convert("RGB"))


class _Pen:
    """Draws in reference pixels."""

    def __init__(self, sheet: ImageDraw.ImageDraw, width: int, scale: float) -> None:
        self.sheet, self.scale = sheet, scale
        self.width = width / scale

    def box(self, x: float, y: float, wide: float, high: float) -> None:
        s = self.scale
        corners = (x * s, y * s, (x + wide) * s, (y + high) * s)
        self.sheet.rounded_rectangle(corners, radius=10 * s, fill=_PANEL)

    def text(
        self,
        x: float,
        y: float,
        words: str,
        size: float,
        colour: tuple[int, int, int] = _TEXT,
        anchor: str = "ls",
    ) -> None:
        font = _font(max(8, round(size * self.scale)))
        self.sheet.text((x * self.scale, y * self.scale), words, colour, font, anchor)


@lru_cache(maxsize=16)
def _font(size: int) -> ImageFont.ImageFont | ImageFont.FreeTypeFont:
    return ImageFont.load_default(size)


def _panel(pen: _Pen, caption: Caption) -> None:
    """Top left: what is driven, the command in words, and the table of figures."""
    left, top, line = 16, 16, 24
    table = 116 if any(row.command is not None for row in caption.rows) else 92
    pen.box(left, top, 318, table + line * len(caption.rows))
    pen.text(left + 16, top + 30, caption.title, 19)
    pen.text(left + 302, top + 30, caption.subtitle, 15, _FAINT, "rs")
    pen.text(left + 16, top + 64, caption.headline, 21)
    y = top + 92
    if any(row.command is not None for row in caption.rows):
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


def _corner(pen: _Pen, caption: Caption) -> None:
    """Top right: the time and the falls."""
    wide, high = 150, 40 + (22 if caption.falls is not None else 0) + (26 if caption.alarm else 0)
    left = pen.width - wide - 16
    pen.box(left, 16, wide, high)
    pen.text(left + wide - 14, 44, caption.clock, 21, anchor="rs")
    if caption.falls is None:
        return
    fallen = f"{caption.falls} fall{'' if caption.falls == 1 else 's'}"
    pen.text(left + wide - 14, 67, fallen, 16, _ALARM if caption.falls else _FAINT, "rs")
    if caption.alarm:
        pen.text(left + wide - 14, 93, caption.alarm, 16, _ALARM, "rs")


def _signed(value: float) -> str:
    """0.50, -0.50; never -0.00."""
    return f"{value + 0.0 if abs(value) >= 0.005 else 0.0:.2f}"


def _draw_dial(dial: Dial, size: int) -> Image.Image:
    """A picture of size x size pixels, drawn four times as large and shrunk: Pillow's lines have
    hard edges."""
    large = 4 * size
    sheet = Image.new("RGBA", (large, large), (0, 0, 0, 0))
    pen = ImageDraw.Draw(sheet)
    pen.ellipse((0, 0, large - 1, large - 1), fill=_PANEL)
    rim = 0.36 * large
    box = (large / 2 - rim, large / 2 - rim, large / 2 + rim, large / 2 + rim)
    pen.ellipse(box, outline=(*_FAINT, 90), width=max(1, large // 160))
    _motion(pen, dial.command, dial.full, large, COMMAND_COLOUR, 0.040, 0.46)
    _motion(pen, dial.measured, dial.full, large, MEASURED_COLOUR, 0.020, 0.415)
    return sheet.resize((size, size), Image.Resampling.LANCZOS)


def _motion(
    pen: ImageDraw.ImageDraw,
    motion: Motion,
    full: float,
    large: int,
    colour: tuple[int, int, int],
    width: float,
    ring: float,
) -> None:
    """An arrow for the velocity, and along the rim an arc for the yaw rate: 60 degrees a rad/s.

    width and ring are shares of the dial's size: of the arrow's shaft, and the arc's radius.
    """
    middle, reach = np.full(2, large / 2), 0.36 * large / full
    way = np.array([-motion.left, -motion.forward]) * reach
    length = float(np.linalg.norm(way))
    if length > 0.02 * large:
        along = way / length
        across, half = np.array([-along[1], along[0]]), width * large
        head = min(2.8 * half, length)
        neck, tip = middle + along * (length - head), middle + along * length
        shaft = [middle + across * half / 2, neck + across * half / 2]
        back = [neck - across * half / 2, middle - across * half / 2]
        point = [neck + across * 1.4 * half, tip, neck - across * 1.4 * half]
        pen.polygon([tuple(p) for p in (*shaft, *point, *back)], fill=colour)
    turn = float(np.clip(60.0 * motion.yaw_rate, -170.0, 170.0))
    if abs(turn) > 1.5:
        radius = ring * large
        box = (*(middle - radius), *(middle + radius))
        start, end = sorted((-90.0, -90.0 - turn))
        pen.arc(box, start, end, fill=colour, width=round(0.035 * large))
