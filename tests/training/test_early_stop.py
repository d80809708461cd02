"""Early stopping: what counts as better, and that sessions in a row decide as one does."""

from __future__ import annotations

import random

import pytest

from jaxrl_hw.config.units import parse_early_stop
from jaxrl_hw.errors import UserError
from jaxrl_hw.training.stopping import WINDOW, EarlyStop


def stops_after(stop: EarlyStop, returns: list[float | None]) -> int | None:
    """The number of iterations after which it stops, None if it does not."""
    for i, value in enumerate(returns, start=1):
        if stop.feed(value):
            return i
    return None


def test_a_return_that_grows_never_stops_and_one_that_stays_does() -> None:
    assert stops_after(EarlyStop(5), [float(i) for i in range(500)]) is None
    assert stops_after(EarlyStop(5), [1.0] * 500) == WINDOW + 5


def test_growth_below_min_delta_is_no_growth() -> None:
    slow = [0.01 * i for i in range(2000)]
    assert stops_after(EarlyStop(20, 0.1), slow) is None, "0.2 in 20 iterations"
    assert stops_after(EarlyStop(20, 0.3), slow) == WINDOW + 20


def test_iterations_before_the_first_episode_ends_do_not_count() -> None:
    assert stops_after(EarlyStop(5), [None] * 100 + [1.0] * 100) == 100 + WINDOW + 5
    late = [1.0] * WINDOW + [None] * 100
    assert stops_after(EarlyStop(5), late) == WINDOW + 5, "afterwards they do"


def test_one_lucky_iteration_does_not_count_as_growth() -> None:
    returns = [10.0 + (1.0 if i == 30 else 0.0) for i in range(200)]
    assert stops_after(EarlyStop(25, 0.5), returns) == WINDOW + 25


def test_where_what_is_rewarded_changes_it_begins_anew() -> None:
    returns = [100.0] * 60 + [10.0] * 200
    assert stops_after(EarlyStop(50), returns) == WINDOW + 50
    assert stops_after(EarlyStop(50, turns=(61,)), returns) == 60 + WINDOW + 50
    assert stops_after(EarlyStop(50, turns=(30, 41)), returns) == 40 + WINDOW + 50


def test_it_waits_for_the_last_thing_that_is_asked_for() -> None:
    returns = [1.0] * 400
    assert stops_after(EarlyStop(20, turns=(101, 201)), returns) == 200 + WINDOW + 20


def test_fed_with_the_past_it_goes_on_as_if_there_had_been_no_break() -> None:
    rng = random.Random(0)
    returns = [min(i, 60) * 0.1 + rng.gauss(0.0, 0.2) for i in range(400)]
    whole = stops_after(EarlyStop(30, 0.05), returns)
    assert whole is not None
    for cut in (1, WINDOW, 40, whole - 1):
        again = EarlyStop(30, 0.05)
        assert stops_after(again, returns[:cut]) is None
        assert stops_after(again, returns[cut:]) == whole - cut


def test_its_words_are_read_and_what_is_none_is_refused() -> None:
    assert parse_early_stop("") is None
    stop = parse_early_stop("patience=300, min_delta=0.5")
    assert stop is not None
    assert (stop.patience, stop.min_delta) == (300, 0.5)
    for text in ("300", "patience", "patience=x", "min-delta=1", "patience=1,other=2"):
        with pytest.raises(UserError, match="--early-stop takes"):
            parse_early_stop(text)
    for text in (
        "patience=0",
        "patience=-3",
        "patience=3,min-delta=-1",
        "patience=3,min-delta=inf",
    ):
        with pytest.raises(UserError, match="at least"):
            parse_early_stop(text)
