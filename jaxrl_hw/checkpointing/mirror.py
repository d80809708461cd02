"""A second copy of a run, on another disk, kept up beside the training."""

from __future__ import annotations

import threading
import time
from types import TracebackType

from jaxrl_hw.checkpointing import copying
from jaxrl_hw.checkpointing.restore import Warn, first_line
from jaxrl_hw.checkpointing.retention import Shelf
from jaxrl_hw.checkpointing.run_dir import RunDir

_SOON_S = 3.0


class Mirror:
    """A thread that makes the mirror what the run's folder is, each time it is asked to.

    run: the run's folder.
    mirror: its folder in the mirror.
    shelf: the run's checkpoints, as their writer sees them.
    warn: told of failures, from the thread; each is tried again at the next request.
    replace: whether another run's mirror of this name is moved aside, not refused.
    """

    def __init__(
        self, run: RunDir, mirror: RunDir, shelf: Shelf, warn: Warn, *, replace: bool = False
    ) -> None:
        self.run, self.mirror = run, mirror
        self.patience_s = 20.0
        """How long leaving waits for the last copy."""
        self._shelf, self._warn, self._replace = shelf, warn, replace
        self._changed = threading.Condition()
        self._asked = self._done = 0
        self._closed = False
        # A daemon: a drive that hangs must not keep the process from ending.
        self._thread = threading.Thread(target=self._work, name="mirror", daemon=True)
        self._thread.start()

    def __enter__(self) -> Mirror:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close(self.patience_s)

    def request(self) -> None:
        """Copy what is new, soon; returns at once. Requests that come meanwhile become one."""
        with self._changed:
            self._asked += 1
            self._changed.notify_all()

    def wait(self, timeout_s: float) -> bool:
        """Wait until what was asked for is done, well or not; False where it takes longer."""
        end = time.monotonic() + timeout_s
        with self._changed:
            wanted = self._asked
            while self._done < wanted and (left := end - time.monotonic()) > 0:
                self._changed.wait(left)
            return self._done >= wanted

    def close(self, timeout_s: float) -> None:
        """Copy once more, wait that long for it, and end. A warning where it takes longer."""
        if self._closed:
            return
        self.request()
        soon = min(_SOON_S, timeout_s)
        done = self.wait(soon)
        if not done and timeout_s > soon:
            self._warn(f"waiting up to {timeout_s:.0f} s for the mirror {self.mirror.path}")
            done = self.wait(timeout_s - soon)
        if not done:
            self._warn(
                f"the mirror {self.mirror.path} is not up to date: copying takes longer than "
                f"{timeout_s:.0f} s; run the same command again to bring it up to date"
            )
        with self._changed:
            self._closed = True
            self._changed.notify_all()

    def _work(self) -> None:
        while True:
            with self._changed:
                while self._done == self._asked and not self._closed:
                    self._changed.wait()
                if self._closed:
                    return
                wanted = self._asked
            try:
                copying.update_mirror(self.run, self.mirror, self._shelf, self._replace)
                self._replace = False  # from now on it is this run's own
            except Exception as error:  # whatever it is, the training goes on
                self._warn(
                    f"not mirrored: {first_line(error)}; the training goes on, and it is tried "
                    "again at the next save"
                )
            with self._changed:
                self._done = wanted
                self._changed.notify_all()
