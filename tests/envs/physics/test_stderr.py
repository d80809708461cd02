"""Lines that say nothing are left out of stderr, and no others."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from jaxrl_hw.envs.physics.stderr import without_lines


def test_all_other_lines_follow_even_where_an_error_is_raised(
    capfd: pytest.CaptureFixture[str],
) -> None:
    def failing() -> None:
        with without_lines(b"idle"):
            os.write(2, b"first\nan idle line\nWarp error: out of memory\nno end")
            raise RuntimeError

    with pytest.raises(RuntimeError):
        failing()
    os.write(2, b", later idle\n")
    assert capfd.readouterr().err == "first\nWarp error: out of memory\nno end, later idle\n"


def test_a_closed_stderr_is_left_alone() -> None:
    program = (
        "import os; from jaxrl_hw.envs.physics.stderr import without_lines; os.close(2)\n"
        "with without_lines(b'idle'): print('went on')"
    )
    seen = subprocess.run([sys.executable, "-c", program], capture_output=True, check=True)
    assert seen.stdout == b"went on\n"


@pytest.mark.slow  # imports jax and Warp anew
def test_the_warp_engine_is_made_without_a_word_on_a_computer_without_a_gpu() -> None:
    pytest.importorskip("warp", reason='needs pip install "jaxrl_hw[warp]"')
    program = (
        "from jaxrl_hw import Config; from jaxrl_hw.config.factory import make_task;"
        "make_task(Config(robot='cartpole', physics='warp'))"
    )
    environ = {**os.environ, "JAX_PLATFORMS": "cpu"}
    seen = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, check=True, env=environ
    )
    assert seen.stdout + seen.stderr == b""
