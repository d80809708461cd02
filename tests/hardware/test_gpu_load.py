"""The GPU's load becomes metrics, and an idle card one warning; the driver is a fake one."""

from __future__ import annotations

import threading

import pytest

from jaxrl_hw.hardware.gpu_load import PERIOD_S, GpuWatch, Load, read_load


def warnings_of(*utilization: float | None) -> list[str]:
    """What is warned of where the card is so busy, asked every 10 s."""
    now, warned = [0.0], list[str]()
    loads = iter(utilization)
    watch = GpuWatch(lambda: Load(next(loads), 60.0, 200.0), warned.append, lambda: now[0])
    for _ in utilization:
        watch.ask()
        now[0] += PERIOD_S
    return warned


def test_what_the_driver_says_becomes_metrics() -> None:
    loads = iter([Load(87.0, 63.0, 301.5), Load(None, 64.0, None), None])
    watch = GpuWatch(lambda: next(loads), lambda text: None)
    assert watch.figures() == {}
    watch.ask()
    assert watch.figures() == {
        "gpu/utilization": 87.0,
        "gpu/temperature": 63.0,
        "gpu/power": 301.5,
    }
    watch.ask()
    assert watch.figures() == {"gpu/temperature": 64.0}, "a card may lack some"
    watch.ask()
    assert watch.figures() == {}


@pytest.mark.parametrize(
    ("utilization", "count"),
    [
        ([40.0] * 6, 0),  # not yet a minute
        ([40.0] * 7, 1),
        ([40.0] * 30, 1),
        ([60.0] * 30, 0),
        ([0.0] * 3 + [90.0] * 10, 0),
        ([90.0] * 10 + [10.0] * 10, 1),
        ([None] * 30, 0),
    ],
)
def test_a_card_that_idles_for_a_minute_is_one_warning(
    utilization: list[float], count: int
) -> None:
    warned = warnings_of(*utilization)
    assert len(warned) == count
    assert all("plan --probe" in text for text in warned)


@pytest.mark.parametrize("hangs", [True, False])
def test_a_driver_that_hangs_or_raises_holds_up_nobody(hangs: bool) -> None:
    asked, free = threading.Event(), threading.Event()

    def read() -> Load | None:
        asked.set()
        if hangs:
            free.wait(60.0)
        raise OSError("no driver")

    watch = GpuWatch(read, lambda text: None)
    watch.start()
    assert asked.wait(60.0)
    assert watch.figures() == {}
    watch.close()
    free.set()


def test_without_a_card_there_is_no_load() -> None:
    assert read_load({"CUDA_VISIBLE_DEVICES": ""}) is None
