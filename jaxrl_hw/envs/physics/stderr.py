"""What libraries written in C print on the process's stderr, without the lines that say nothing."""

from __future__ import annotations

import contextlib
import os
import sys
import tempfile
from collections.abc import Iterator

_STDERR = 2


@contextlib.contextmanager
def without_lines(text: bytes) -> Iterator[None]:
    """Leave out the lines with a text of all that is written to stderr in the meantime.

    The rest follows at the end, also where an error is raised. Python's sys.stderr cannot be used
    for this: C code writes to the file descriptor.
    """
    try:
        before = os.dup(_STDERR)
    except OSError:  # closed
        yield
        return
    with tempfile.TemporaryFile() as written:
        if sys.stderr is not None:
            sys.stderr.flush()
        os.dup2(written.fileno(), _STDERR)
        try:
            yield
        finally:
            os.dup2(before, _STDERR)
            os.close(before)
            written.seek(0)
            for line in written:
                if text not in line:
                    os.write(_STDERR, line)
