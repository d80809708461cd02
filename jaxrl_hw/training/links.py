"""Connections between the processes of a run: made at its start, one message at a time."""

from __future__ import annotations

import contextlib
import json
import queue
import socket
import struct
import threading
import time
from typing import Any

from jaxrl_hw.errors import RunError, UserError
from jaxrl_hw.hardware.processes import Processes

SAID, FAILED, BYE = b"s", b"f", b"b"
"""Kinds of message: data, why the sender ends, and that it ends as it should."""

_HEAD = struct.Struct("!cQ")  # kind, bytes that follow
_STRANGER_S = 5.0
"""Whatever calls and is no process of a run says nothing for so long."""


class Link:
    """A connection to another process. Several threads may send; one receives.

    heard: what it has said and nobody has read yet; None where it is gone.
    """

    def __init__(self, sock: socket.socket, index: int = 0, host: str = "") -> None:
        self.sock, self.index, self.host = sock, index, host
        self.heard: queue.SimpleQueue[bytes | None] = queue.SimpleQueue()
        self._guard = threading.Lock()

    @property
    def name(self) -> str:
        return f"process {self.index} on {self.host}"

    def send(self, kind: bytes, data: bytes = b"") -> None:
        """Send a message; not where the connection has ended, which whoever receives notices."""
        with contextlib.suppress(OSError), self._guard:
            self.sock.sendall(_HEAD.pack(kind, len(data)) + data)

    def fail(self, text: str, bad_input: bool) -> None:
        """Say why this process ends, and whether the user gave something that cannot be used."""
        self.send(FAILED, json.dumps({"text": text, "bad_input": bad_input}).encode())

    def receive(self) -> tuple[bytes, bytes]:
        """(kind, data) of the next message. Raises OSError where the connection ends."""
        kind, size = _HEAD.unpack(self._exactly(_HEAD.size))
        return kind, self._exactly(size)

    def _exactly(self, size: int) -> bytes:
        data = bytearray()
        while len(data) < size:
            piece = self.sock.recv(min(size - len(data), 1 << 20))
            if not piece:
                raise ConnectionError("the connection has ended")
            data += piece
        return bytes(data)

    def close(self) -> None:
        """Send nothing more."""
        with contextlib.suppress(OSError):
            self.sock.shutdown(socket.SHUT_WR)


def error_of(text: str, bad_input: bool) -> UserError | RunError:
    """What another process's failure is here."""
    return UserError(text) if bad_input else RunError(text)


def listen(processes: Processes, hello: dict[str, Any]) -> tuple[list[Link], list[Any]]:
    """Wait for all others, as process 0; (their connections, what each process said).

    hello: what this process says; has its "index", "number" and "host".
    Raises UserError where one is missing after `timeout_s`, OSError where the port cannot be used.
    """
    until = time.monotonic() + processes.timeout_s
    found: dict[int, dict[str, Any]] = {0: hello}
    links: dict[int, Link] = {}
    family = socket.AF_INET6 if ":" in processes.host else socket.AF_INET
    with socket.create_server(("", processes.port), family=family) as server:
        while len(found) < processes.number:
            server.settimeout(max(0.01, until - time.monotonic()))
            try:
                sock, _ = server.accept()
            except TimeoutError:
                text = _missing(processes, found)
                for link in links.values():
                    link.fail(text, True)
                raise UserError(text) from None
            with contextlib.suppress(OSError, ValueError, KeyError, TypeError):
                if welcomed := _welcomed(sock, processes, found):
                    links[welcomed.index] = welcomed
    hellos = [found[i] for i in range(processes.number)]
    for link in links.values():
        link.send(SAID, json.dumps(hellos).encode())
    return [links[i] for i in sorted(links)], hellos


def call(processes: Processes, hello: dict[str, Any]) -> tuple[list[Link], list[Any]]:
    """Call process 0; as `listen`. Raises UserError where it does not answer or refuses."""
    until = time.monotonic() + processes.timeout_s
    while True:
        left = until - time.monotonic()
        try:
            address = (processes.host, processes.port)
            sock = socket.create_connection(address, timeout=max(0.1, left))
            break
        except OSError as error:
            if left <= 0:
                raise UserError(
                    f"no coordinator answers at {processes.coordinator} within "
                    f"{processes.timeout_s:g} s ({error.strerror or error}); start process 0 on "
                    "that host, or correct --coordinator"
                ) from error
            time.sleep(min(0.2, max(0.0, left)))
    _keep_alive(sock, processes.timeout_s)
    # it waits for the others for as long again, at most
    sock.settimeout(processes.timeout_s + _STRANGER_S)
    link = Link(sock)
    link.send(SAID, json.dumps(hello).encode())
    kind, data = link.receive()
    said = json.loads(data)
    if kind == FAILED:
        raise error_of(said["text"], said["bad_input"])
    sock.settimeout(None)
    link.host = said[0]["host"]
    return [link], said


def _welcomed(
    sock: socket.socket, processes: Processes, found: dict[int, dict[str, Any]]
) -> Link | None:
    """The link to a process that has called, which is added to `found`; None where it is refused.

    Raises OSError, ValueError, KeyError or TypeError where a stranger has called.
    """
    _keep_alive(sock, processes.timeout_s)
    sock.settimeout(_STRANGER_S)
    link = Link(sock)
    said = json.loads(link.receive()[1])
    link.index, link.host, number = int(said["index"]), str(said["host"]), int(said["number"])
    if number != processes.number:
        link.fail(f"--num-processes {number} here, {processes.number} at process 0", True)
        return None
    if link.index in found:
        taken = f"--process-id {link.index} is taken by a process on {found[link.index]['host']}"
        link.fail(f"{taken}: give each process its own, from 0 to {number - 1}", True)
        return None
    sock.settimeout(None)
    found[link.index] = said
    return link


def _missing(processes: Processes, found: dict[int, Any]) -> str:
    missing = ", ".join(str(i) for i in range(processes.number) if i not in found)
    return (
        f"{len(found)} of {processes.number} processes came to {processes.coordinator} within "
        f"{processes.timeout_s:g} s, missing: --process-id {missing}; start all of them, or give "
        "--connect-timeout more time"
    )


def _keep_alive(sock: socket.socket, timeout_s: float) -> None:
    """Let the connection fail where the other machine does not answer for so long."""
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    probe = max(1, int(timeout_s / 4))
    options = {
        "TCP_KEEPIDLE": probe,
        "TCP_KEEPINTVL": probe,
        "TCP_KEEPCNT": 3,
        "TCP_USER_TIMEOUT": int(1000 * timeout_s),
    }
    for name, value in options.items():
        if hasattr(socket, name):  # Linux has them all
            sock.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)
