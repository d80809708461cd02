"""What all commands share: how they end."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable

from jaxrl_hw.errors import RunError, UserError, one_line

DONE, FAILED, BAD_INPUT, STOPPED = 0, 1, 2, 75
"""Exit codes. STOPPED: ended early, saved; run the same command again."""


def run_command(main: Callable[[], int]) -> int:
    """Run a command's body; what it raises becomes one line on stderr and an exit code.

    JAXRL_HW_DEBUG=1 in the environment shows the whole traceback instead.
    """
    try:
        return main()
    except UserError as error:
        return _fail(error, BAD_INPUT)
    except RunError as error:
        return _fail(error, FAILED)
    except KeyboardInterrupt:
        print("interrupted; what was saved before can be continued", file=sys.stderr)
        return FAILED
    except BrokenPipeError:  # `... --help | head`: the reader has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return FAILED


def _fail(error: Exception, code: int) -> int:
    if os.environ.get("JAXRL_HW_DEBUG"):
        raise error
    print(f"error: {one_line(error)}", file=sys.stderr)
    return code
