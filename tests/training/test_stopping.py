"""Signals, the clock and a return that no longer grows stop a run; a second Ctrl-C insists."""

from __future__ import annotations

import random
import signal
import subprocess
import sys
import threading
import time

import pytest

from jaxrl_hw.config.units import parse_duration, parse_early_stop
from jaxrl_hw.errors import UserError
from jaxrl_hw.training.stopping import WINDOW, EarlyStop, StopRequest, process_start


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("85m", 5100), ("2h", 7200), ("300s", 300), ("1h30m", 5400), ("90", 90), ("1.5H", 5400),
     ("1h2m3s", 3723)],
)  # fmt: skip
def test_durations(text, seconds):
    assert parse_duration(text) == seconds


@pytest.mark.parametrize("text", ["", "0", "0m", "-5m", "abc", "5d", "1m1h", "m", "1 h x", "nan"])
def test_bad_durations_are_refused_with_the_flag_and_the_value(text):
    with pytest.raises(UserError, match="--time-limit") as refusal:
        parse_duration(text)
    assert text in str(refusal.value)


LOOP = """
import signal, sys, time
from jaxrl_hw.training.stopping import StopRequest
assert "jax" not in sys.modules
# whoever runs the tests may have these ignored: a job in the background, nohup
signal.signal(signal.SIGINT, signal.default_int_handler)
signal.signal(signal.SIGHUP, signal.SIG_IGN if "--nohup" in sys.argv else signal.SIG_DFL)
if "--background" in sys.argv:
    signal.signal(signal.SIGINT, signal.SIG_IGN)
before = signal.getsignal(signal.SIGTERM), signal.getsignal(signal.SIGINT)
try:
    with StopRequest() as stop:
        print("ready", flush=True)
        end = time.monotonic() + 20
        while time.monotonic() < end and (stop.requested is None or "--stubborn" in sys.argv):
            time.sleep(0.01)
        print("stopped by", stop.requested, flush=True)
except KeyboardInterrupt:
    print("interrupted", flush=True)
assert (signal.getsignal(signal.SIGTERM), signal.getsignal(signal.SIGINT)) == before
"""


def run_with_signals(*signals: signal.Signals, options: tuple[str, ...] = ()) -> tuple[str, str]:
    pipe = subprocess.PIPE
    command = [sys.executable, "-c", LOOP, *options]
    with subprocess.Popen(command, stdout=pipe, stderr=pipe, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        for number in signals:
            process.send_signal(number)
            time.sleep(0.2)
        out, err = process.communicate(timeout=120)
    assert process.returncode == 0, err
    return out.strip(), err


@pytest.mark.slow
@pytest.mark.parametrize("name", ["SIGINT", "SIGTERM", "SIGHUP"])
def test_a_signal_is_a_request_and_handlers_come_back(name):
    out, err = run_with_signals(signal.Signals[name])
    assert out == f"stopped by {name}"
    assert name in err


def test_a_second_interrupt_is_at_once():
    out, _ = run_with_signals(signal.SIGINT, signal.SIGINT, options=("--stubborn",))
    assert out == "interrupted"


def test_a_second_sigterm_is_not():
    out, _ = run_with_signals(signal.SIGTERM, signal.SIGTERM)
    assert out == "stopped by SIGTERM"


def test_the_limit_counts_from_the_start_of_the_process():
    age = time.time() - process_start()
    with StopRequest(time_limit_s=age + 100, reserve_s=10) as stop:
        assert stop.check(60) is None
        assert 85 < stop.remaining() <= 90
        assert stop.check(95) == "time limit"
        assert stop.requested == "time limit"
    assert StopRequest(time_limit_s=age / 2).check(0) == "time limit"
    assert StopRequest().check(1e9) is None


def test_outside_the_main_thread_no_handler_is_touched():
    before = signal.getsignal(signal.SIGTERM)
    seen = []

    def work() -> None:
        with StopRequest() as stop:
            seen.append((stop.check(1.0), signal.getsignal(signal.SIGTERM)))

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert seen == [(None, before)]


def test_an_interrupt_sent_to_a_background_job_is_heard():
    out, _ = run_with_signals(signal.SIGINT, options=("--background",))
    assert out == "stopped by SIGINT"


def test_under_nohup_a_closed_terminal_stops_nothing():
    out, _ = run_with_signals(signal.SIGHUP, signal.SIGTERM, options=("--nohup",))
    assert out == "stopped by SIGTERM"


SIZE = 6_000  # env steps of an iteration
WIDTH = WINDOW // SIZE  # iterations whose returns are averaged


def stops_after(
    stop: EarlyStop, returns: list[float] | list[float | None], began: int = 0
) -> int | None:
    """The number of iterations after which it stops, None if it does not.

    Each is `SIZE` env steps; those of an earlier call count.
    """
    for i, value in enumerate(returns, start=1):
        if stop.feed(value, (began + i) * SIZE):
            return i
    return None


def test_a_return_that_grows_never_stops_and_one_that_stays_does() -> None:
    assert stops_after(EarlyStop(5 * SIZE), [float(i) for i in range(500)]) is None
    assert stops_after(EarlyStop(5 * SIZE), [1.0] * 500) == WIDTH + 5


def test_growth_below_min_delta_is_no_growth() -> None:
    slow = [0.01 * i for i in range(2000)]
    assert stops_after(EarlyStop(20 * SIZE, 0.1), slow) is None, "0.2 in 20 iterations"
    assert stops_after(EarlyStop(20 * SIZE, 0.3), slow) == WIDTH + 20


def test_iterations_before_the_first_episode_ends_do_not_count() -> None:
    assert stops_after(EarlyStop(5 * SIZE), [None] * 100 + [1.0] * 100) == 100 + WIDTH + 5
    late = [1.0] * WIDTH + [None] * 100
    assert stops_after(EarlyStop(5 * SIZE), late) == WIDTH + 5, "afterwards they do"


def test_one_lucky_iteration_does_not_count_as_growth() -> None:
    returns = [10.0 + (1.0 if i == 30 else 0.0) for i in range(200)]
    assert stops_after(EarlyStop(25 * SIZE, 0.5), returns) == WIDTH + 25


def feed_stages(stop: EarlyStop, returns: list[float], begins: list[int]) -> int | None:
    """As `stops_after`; each of `begins` is the first iteration of a curriculum stage."""
    for i, value in enumerate(returns, start=1):
        if stop.feed(value, i * SIZE, sum(begin <= i for begin in begins)):
            return i
    return None


def test_with_a_stage_of_the_curriculum_the_comparison_restarts() -> None:
    returns = [100.0] * 60 + [10.0] * 200
    assert stops_after(EarlyStop(50 * SIZE), returns) == WIDTH + 50
    assert feed_stages(EarlyStop(50 * SIZE, last_stage=1), returns, [61]) == 60 + WIDTH + 50
    assert feed_stages(EarlyStop(50 * SIZE, last_stage=2), returns, [30, 41]) == 40 + WIDTH + 50


def test_it_never_stops_before_the_last_stage_has_begun() -> None:
    returns = [1.0] * 400
    assert feed_stages(EarlyStop(20 * SIZE, last_stage=2), returns, [101, 201]) == 200 + WIDTH + 20


def test_fed_with_the_past_it_goes_on_as_if_there_had_been_no_break() -> None:
    rng = random.Random(0)
    returns = [min(i, 60) * 0.1 + rng.gauss(0.0, 0.2) for i in range(400)]
    whole = stops_after(EarlyStop(30 * SIZE, 0.05), returns)
    assert whole is not None
    for cut in (1, WIDTH, 40, whole - 1):
        again = EarlyStop(30 * SIZE, 0.05)
        assert stops_after(again, returns[:cut]) is None
        assert stops_after(again, returns[cut:], cut) == whole - cut


def test_it_stops_after_as_many_env_steps_whatever_the_size_of_an_iteration() -> None:
    ends = []
    for size in (32, 1_500, 6_144, 24_576):
        stop = EarlyStop(300_000)
        ends.append(next(n for n in range(size, 10**7, size) if stop.feed(1.0, n)))
        assert 0 <= ends[-1] - (WINDOW + 300_000) < 2 * size


def test_an_iteration_longer_than_the_window_is_a_mean_of_its_own() -> None:
    stop, size = EarlyStop(400_000), 2 * WINDOW
    values = [1.0, 2.0, 3.0, 2.5, 2.5, 2.5, 2.5, 2.5]
    fed = [stop.feed(value, size * i) for i, value in enumerate(values, start=1)]
    assert fed.index(True) == 6, "the first with 400,000 env steps after the third"


def test_an_early_stop_is_read_from_its_flag_and_bad_ones_are_refused() -> None:
    assert parse_early_stop("") is None
    stop = parse_early_stop("patience=2.5M, min_delta=0.5")
    assert stop is not None
    assert (stop.patience, stop.min_delta) == (2_500_000, 0.5)
    malformed = ("2M", "patience", "patience=x", "min-delta=1", "patience=2M,other=2")
    too_small = ("patience=0", "patience=-3", "patience=300")
    too_small += ("patience=2M,min-delta=-1", "patience=2M,min-delta=inf")
    for text in (*malformed, *too_small):
        with pytest.raises(UserError, match="--early-stop"):
            parse_early_stop(text)
