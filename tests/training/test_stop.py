"""Signals and the clock ask a run to stop; a second Ctrl-C insists."""

from __future__ import annotations

import signal
import subprocess
import sys
import threading
import time

import pytest

from jaxrl_hw.config.units import parse_duration
from jaxrl_hw.errors import UserError
from jaxrl_hw.training.stopping import StopRequest, process_start


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("85m", 5100), ("2h", 7200), ("300s", 300), ("1h30m", 5400), ("90", 90), ("1.5H", 5400),
     ("1h2m3s", 3723)],
)  # fmt: skip
def test_durations(text, seconds):
    assert parse_duration(text) == seconds


@pytest.mark.parametrize("text", ["", "0", "0m", "-5m", "abc", "5d", "1m1h", "m", "1 h x", "nan"])
def test_bad_durations_say_what_is_allowed(text):
    with pytest.raises(UserError, match="--time-limit must be like 85m"):
        parse_duration(text)


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
        out, err = process.communicate(timeout=20)
    assert process.returncode == 0, err
    return out.strip(), err


@pytest.mark.parametrize("name", ["SIGINT", "SIGTERM", "SIGHUP"])
def test_a_signal_is_a_request_and_handlers_come_back(name):
    out, err = run_with_signals(signal.Signals[name])
    assert out == f"stopped by {name}"
    assert "stopping after this iteration" in err


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
