"""One checkpoint folder, written and read with Orbax: complete or absent.

Orbax writes into a temporary folder and renames it when everything is on disk. Importing Orbax
takes seconds, so it is imported on first use.
"""

from __future__ import annotations

import contextlib
import json
import logging
import shutil
import sys
import time
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from jaxrl_hw.checkpointing.arrays import Arrays, DamagedError
from jaxrl_hw.checkpointing.description import Meta, unseal

_STATE, _META = "state", "meta"


def load_orbax() -> Any:
    """The orbax.checkpoint module, with its reports of every step and every failure silenced.

    What fails is raised as well, and told by whoever called.
    """
    logger = logging.getLogger("absl")
    logger.addFilter(_is_no_echo)  # adding it again does nothing
    if logger.getEffectiveLevel() < logging.WARNING or logger.level == logging.NOTSET:
        logger.setLevel(logging.WARNING)
    # What is left undone when a file turns out to be damaged; the damage itself is told.
    warnings.filterwarnings("ignore", r"coroutine '\w*Handler\.\w+' was never awaited")
    logging.getLogger("asyncio").addFilter(_is_no_echo)
    import orbax.checkpoint as ocp

    return ocp


def _is_no_echo(record: logging.LogRecord) -> bool:
    """False for a failure in one of Orbax's threads, written to a log with its trace."""
    text = record.getMessage()
    echo = "was never retrieved" in text and "tensorstore" in text
    return not echo and "_SignalingThread.run() raised" not in text


def write(folder: Path, arrays: Arrays, meta: Meta) -> None:
    """Write a new checkpoint; on failure nothing of it is left. Raises whatever Orbax raises.

    meta: the description as `formats.seal` made it.
    """
    ocp = load_orbax()
    # Orbax refuses arrays without elements; the description in `meta` is enough to rebuild them.
    filled = {name: array for name, array in arrays.items() if array.size > 0}
    filled = filled or {"empty": np.zeros(1, np.uint8)}
    items = ocp.args.Composite(
        **{_STATE: ocp.args.StandardSave(filled), _META: ocp.args.JsonSave(meta)}
    )
    try:
        with _checkpointer(ocp) as checkpointer:
            checkpointer.save(folder.absolute(), args=items)
    except BaseException:
        # Half a checkpoint on a full disk would keep the next, smaller write from succeeding.
        for left in folder.parent.glob(f"{folder.name}.orbax-checkpoint-tmp*"):
            shutil.rmtree(left, ignore_errors=True)
        raise


def read_arrays(folder: Path) -> dict[str, Any]:
    """All arrays of a checkpoint by name. Raises whatever Orbax raises on damaged files."""
    ocp = load_orbax()
    items = ocp.args.Composite(**{_STATE: ocp.args.StandardRestore()})
    with _checkpointer(ocp) as checkpointer:
        return dict(checkpointer.restore(folder.absolute(), args=items)[_STATE])


@contextlib.contextmanager
def _checkpointer(ocp: Any) -> Iterator[Any]:
    """An Orbax checkpointer whose failures are told once, by their exception.

    Many files are in work at once; when one fails the others still report to an event loop that is
    closed by then, and Python would print a traceback for each.
    """
    usual = sys.unraisablehook

    def hook(args: Any) -> None:
        if "Event loop is closed" not in str(args.exc_value):
            usual(args)

    sys.unraisablehook = hook
    try:
        with contextlib.closing(ocp.Checkpointer(ocp.CompositeCheckpointHandler())) as checkpointer:
            yield checkpointer
    except BaseException:
        time.sleep(0.1)  # the late ones
        raise
    finally:
        sys.unraisablehook = usual


def read_meta(folder: Path) -> Meta:
    """The checkpoint's description, in the format it was written in; read without Orbax.

    Raises OSError, DamagedError, or UserError where a newer version wrote it.
    """
    try:
        text = (folder / _META / "metadata").read_text(encoding="utf-8")
        value = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise DamagedError("its description is not JSON") from error
    return unseal(value)


def is_checkpoint(folder: Path) -> bool:
    """Whether the folder looks like one checkpoint, whatever its name."""
    return (folder / _META).is_dir() and (folder / _STATE).is_dir()
