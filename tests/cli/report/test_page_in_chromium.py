"""A headless Chromium shows every figure of a report, without the network and without an error.

Chromium is driven over its debugging pipe, which takes no further package.
"""

from __future__ import annotations

import base64
import fcntl
import itertools
import json
import os
import select
import shutil
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest

NAMES = ("chromium", "chromium-browser", "google-chrome")
_FLAGS = (
    *("--headless=new", "--no-sandbox", "--remote-debugging-pipe", "--enable-unsafe-swiftshader"),
    *("--disable-background-networking", "--disable-component-update", "--no-first-run"),
    *("--disable-dev-shm-usage", "--hide-scrollbars"),
)


def find_chromium() -> str | None:
    """The path of a Chromium; None where none is installed."""
    return next((path for name in NAMES if (path := shutil.which(name))), None)


class Browser:
    """One page in a Chromium. Use it as a context manager."""

    def __init__(self, path: str, profile: Path) -> None:
        ends, self._write = os.pipe()
        self._read, others = os.pipe()
        theirs = [fcntl.fcntl(end, fcntl.F_DUPFD, 10) for end in (ends, others)]
        # the protocol's pipes are the descriptors 3 and 4
        place = f'exec "$@" 3<&{theirs[0]} 4>&{theirs[1]}'
        command = [path, *_FLAGS, f"--user-data-dir={profile}", "about:blank"]
        self._process = subprocess.Popen(
            ["bash", "-c", place, "bash", *command],
            pass_fds=theirs,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        for end in (ends, others, *theirs):
            os.close(end)
        self.events: list[dict[str, Any]] = []
        self._numbers, self._buffer = itertools.count(1), b""
        targets = self.call("Target.getTargets", at_top=True)["targetInfos"]
        page = next(target for target in targets if target["type"] == "page")
        attach = {"targetId": page["targetId"], "flatten": True}
        self._session = self.call("Target.attachToTarget", attach, at_top=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(f"{domain}.enable")

    def __enter__(self) -> Browser:
        return self

    def __exit__(self, *exc_info: object) -> None:
        os.close(self._write)  # it ends without its pipe
        try:
            self._process.wait(20)
        except subprocess.TimeoutExpired:
            self._process.kill()
        os.close(self._read)

    def call(
        self, method: str, params: dict[str, Any] | None = None, at_top: bool = False
    ) -> dict[str, Any]:
        """A command of the protocol, and its result."""
        number = next(self._numbers)
        message = {"id": number, "method": method, "params": params or {}}
        message |= {} if at_top else {"sessionId": self._session}
        os.write(self._write, json.dumps(message).encode() + b"\0")
        while True:
            found = self._next(120.0)
            if found.get("id") == number:
                assert "error" not in found, found
                return dict(found["result"])
            self.events.append(found)

    def open(self, page: Path, width: int, height: int = 900) -> None:
        """Show a file in a window of that size, and wait until it is loaded."""
        size = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 600}
        self.call("Emulation.setDeviceMetricsOverride", size)
        seen = len(self.events)
        self.call("Page.navigate", {"url": page.resolve().as_uri()})
        while not any(e.get("method") == "Page.loadEventFired" for e in self.events[seen:]):
            self.events.append(self._next(120.0))

    def evaluate(self, script: str) -> Any:
        """The value of a JavaScript expression in the page; waits for a promise."""
        options = {"expression": script, "returnByValue": True, "awaitPromise": True}
        found = self.call("Runtime.evaluate", options)
        assert "exceptionDetails" not in found, found
        return found["result"].get("value")

    def screenshot(self) -> bytes:
        """A PNG of the whole page."""
        shot = self.call("Page.captureScreenshot", {"captureBeyondViewport": True})
        return base64.b64decode(shot["data"])

    def errors(self) -> list[dict[str, Any]]:
        """What the page has logged as an error, and what it has thrown."""
        bad = {"error", "assert"}
        found = []
        for event in self.events:
            what = event.get("params", {})
            kind = event.get("method")
            if (
                kind == "Runtime.exceptionThrown"
                or (kind == "Runtime.consoleAPICalled" and what["type"] in bad)
                or (kind == "Log.entryAdded" and what["entry"]["level"] in bad)
            ):
                found.append(what)
        return found

    def requests(self) -> list[str]:
        """Addresses that the page has asked for, but for files and data in the page itself."""
        sent = [e["params"]["request"]["url"] for e in self.events if _is_request(e)]
        return [url for url in sent if not url.startswith(("data:", "blob:"))]

    def _next(self, patience_s: float) -> dict[str, Any]:
        """The next message. Raises TimeoutError."""
        end = time.monotonic() + patience_s
        while b"\0" not in self._buffer:
            ready, _, _ = select.select([self._read], [], [], max(0.0, end - time.monotonic()))
            if not ready:
                raise TimeoutError("Chromium does not answer")
            data = os.read(self._read, 1 << 20)
            if not data:
                raise TimeoutError("Chromium has ended")
            self._buffer += data
        message, self._buffer = self._buffer.split(b"\0", 1)
        return dict(json.loads(message))


def _is_request(event: dict[str, Any]) -> bool:
    return event.get("method") == "Network.requestWillBeSent"


@pytest.fixture(scope="module")
def browser(tmp_path_factory):
    path = find_chromium()
    if path is None:
        pytest.skip("no Chromium here; on Debian, Ubuntu: apt-get install chromium")
    with Browser(path, tmp_path_factory.mktemp("profile")) as running:
        yield running


LOADED = """Promise.all([...document.querySelectorAll("main video")].map((film) =>
  new Promise((done, fail) => {
    film.onloadeddata = () => done([film.duration, film.videoWidth]);
    film.onerror = () => fail(new Error(film.error.message));
    film.load();
  })))"""
IN_VIEW = """[...document.querySelectorAll("main img, main canvas, main video")].map((one) => {
  const box = one.getBoundingClientRect();
  const widths = {IMG: one.complete && one.naturalWidth, VIDEO: one.videoWidth};
  const drawn = widths[one.tagName] ?? one.width;
  return [one.alt || one.tagName, drawn > 0 && box.width > 200 && box.height > 80
          && box.left >= 0 && box.right <= innerWidth && one.checkVisibility()];
})"""
PIXELS = """new Promise((done) => requestAnimationFrame(() => {
  const canvas = document.querySelector("#replay canvas");
  const copy = document.createElement("canvas");
  [copy.width, copy.height] = [canvas.width, canvas.height];
  document.querySelector("#replay input").dispatchEvent(new Event("input")); // draws
  const flat = copy.getContext("2d");
  flat.drawImage(canvas, 0, 0);
  const data = flat.getImageData(0, 0, copy.width, copy.height).data;
  done(new Set(new Uint32Array(data.buffer)).size);
}))"""


@pytest.mark.slow
@pytest.mark.parametrize("width", [1280, 400])
def test_every_figure_is_in_view_offline_and_without_an_error(reported, browser, width):
    browser.events.clear()
    page = reported.out / "report.html"
    browser.open(page, width)
    films = list((reported.out / "videos").glob("*.mp4"))  # none where nothing can draw
    loaded = browser.evaluate(LOADED)
    assert [seconds for seconds, _ in loaded] == pytest.approx([0.4] * len(films), abs=0.05)
    seen = browser.evaluate(IN_VIEW)
    figures = list((reported.out / "figures").glob("*.png"))
    compared = {path.stem for path in figures if path.stem.startswith("compare-")}
    assert {"compare-return", "compare-final-return", "compare-env-steps-per-s"} <= compared
    assert len(seen) == len(figures) + len(films) + 1, "and the replay"
    assert [name for name, fine in seen if not fine] == []
    assert browser.evaluate("document.documentElement.scrollWidth") <= width
    assert browser.evaluate(PIXELS) > 50, "a robot on a floor"
    assert browser.errors() == []
    assert set(browser.requests()) == {page.resolve().as_uri()}


@pytest.mark.slow
def test_the_replay_follows_its_slider(reported, browser):
    browser.open(reported.out / "report.html", 1280)
    clock = """(frame) => {
      const slider = document.querySelector("#replay input");
      slider.value = frame;
      slider.dispatchEvent(new Event("input"));
      return [parseFloat(document.querySelector("#replay output").textContent), +slider.max];
    }"""
    (first, last), (end, _) = (browser.evaluate(f"({clock})({frame})") for frame in (0, 9))
    # 0.4 s are 10 frames
    assert (first, last, end) == (0.0, 9, pytest.approx(0.36, abs=0.05))
