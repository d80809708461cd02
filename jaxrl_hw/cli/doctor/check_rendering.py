"""One small picture, drawn off screen as films are."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

from jaxrl_hw.cli.doctor.results import FAIL, PASS, WARN, Finding
from jaxrl_hw.cli.doctor.run_in_subprocess import NoResult, call
from jaxrl_hw.cli.doctor.runner import Visit
from jaxrl_hw.evaluation.opengl import PACKAGES, choose_backend

LIMIT_S = 45.0
_CHECK = "rendering"
_SIZE = (160, 96)


def check(visit: Visit) -> Iterator[Finding]:
    """A row: which OpenGL draws, or what is to be installed for films; training needs none."""
    try:
        seen = call(draw, limit_s=LIMIT_S)
    except NoResult as error:
        why = str(error).partition("; on Debian")[0]
        asked = "unset MUJOCO_GL, or " if os.environ.get("MUJOCO_GL") else ""
        advice = "unset MUJOCO_GL" if why.startswith("unknown MUJOCO_GL") else f"{asked}{PACKAGES}"
        yield Finding(_CHECK, "", WARN, f"no films: {why}", advice)
        return
    yield judge(seen)


def judge(seen: dict[str, Any]) -> Finding:
    """The row of a picture that was drawn."""
    width, height = seen["size"]
    text = f"{width} x {height} pixels with {seen['backend'].upper()}, {seen['colours']} colours"
    if seen["colours"] > 1:
        return Finding(_CHECK, "", PASS, text, figures=seen)
    advice = "try another: MUJOCO_GL=egl or MUJOCO_GL=osmesa"
    return Finding(_CHECK, "", FAIL, f"{text}: films would be empty", advice, seen)


def draw() -> dict[str, Any]:
    """Draw a cartpole: {"backend": ..., "size": [width, height], "colours": how many differ}."""
    backend = choose_backend()
    import numpy as np

    from jaxrl_hw.envs.robots import get_robot
    from jaxrl_hw.evaluation.video import Renderer

    model = get_robot("cartpole").load()
    with Renderer(model, _SIZE, backend) as renderer:
        picture = renderer.frame(np.array([0.0, 0.5]))
    colours = len(np.unique(picture.reshape(-1, 3), axis=0))
    return {"backend": backend, "size": list(_SIZE), "colours": colours}
