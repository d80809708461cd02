"""A run that holds nearly all the memory that it may use says so once."""

from __future__ import annotations

from jaxrl_hw.training.crowding import Crowding


def test_a_run_close_to_its_limit_is_told_once() -> None:
    said: list[str] = []
    watch = Crowding(1_000, said.append)
    for used in (None, 900, 960, 990):
        watch.feed({"memory_bytes": used})
    assert len(said) == 1


def test_a_run_without_a_limit_is_told_nothing() -> None:
    said: list[str] = []
    Crowding(None, said.append).feed({"memory_bytes": 10**12})
    assert said == []
