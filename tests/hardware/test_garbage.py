"""The garbage collector while programs are built."""

from __future__ import annotations

import gc

import pytest

from jaxrl_hw.hardware import garbage


@pytest.mark.parametrize("thresholds", [(700, 10, 10), (0, 10, 10)])
def test_thresholds_are_the_users_again_after_it(thresholds: tuple[int, int, int]) -> None:
    before = gc.get_threshold()
    gc.set_threshold(*thresholds)
    try:
        with garbage.seldom():
            assert (gc.get_threshold()[0] > 700) == (thresholds[0] > 0)
        assert gc.get_threshold() == thresholds
    finally:
        gc.set_threshold(*before)
