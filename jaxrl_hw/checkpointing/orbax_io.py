"""One checkpoint folder, written and read with Orbax: complete or absent.

Orbax writes into a temporary folder and renames it when everything is on disk. Importing Orbax
takes seconds, so the first use imports it.
"""

from __future__ import annotations

import contextlib
import logging
import sys
import threading
import time
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from jaxrl_hw.checkpointing.description import META, Arrays, Meta

_STATE = "state"
_ONE_AT_A_TIME = threading.Lock()
"""Orbax numbers operations for the whole process: two that begin at once wait for each other."""


def load_orbax() -> Any:
    """The orbax.checkpoint module, without its log of every step and every failure.

    Whatever fails raises as well, and the caller reports it.
    """
    logger = logging.getLogger("absl")
    logger.addFilter(_is_no_echo)  # a second call changes nothing
    if logger.getEffectiveLevel() < logging.WARNING or logger.level == logging.NOTSET:
        logger.setLevel(logging.WARNING)
    # Orbax leaves coroutines behind where a file is damaged; the damage itself raises.
    warnings.filterwarnings("ignore", r"coroutine '\w*Handler\.\w+' was never awaited")
    logging.getLogger("asyncio").addFilter(_is_no_echo)
    import orbax.checkpoint as ocp

    return ocp


def _is_no_echo(record: logging.LogRecord) -> bool:
    """False for a failure in one of Orbax's threads, which raises as well."""
    text = record.getMessage()
    echo = "was never retrieved" in text and "tensorstore" in text
    return not echo and "_SignalingThread.run() raised" not in text


def write(folder: Path, arrays: Arrays, meta: Meta) -> None:
    """Write a new checkpoint. Raises what Orbax raises, and leaves its temporary folder then.

    meta: the description as `description.seal` made it.
    """
    ocp = load_orbax()
    # Orbax refuses arrays without elements; the description suffices to rebuild them.
    filled = {name: array for name, array in arrays.items() if array.size > 0}
    filled = filled or {"empty": np.zeros(1, np.uint8)}
    items = ocp.args.Composite(
        **{_STATE: ocp.args.StandardSave(filled), META: ocp.args.JsonSave(meta)}
    )
    with _checkpointer(ocp) as checkpointer:
        checkpointer.save(folder.absolute(), args=items)


def read_arrays(folder: Path) -> dict[str, Any]:
    """All arrays of a checkpoint by name. Raises whatever Orbax raises on damaged files."""
    ocp = load_orbax()
    items = ocp.args.Composite(**{_STATE: ocp.args.StandardRestore()})
    with _checkpointer(ocp) as checkpointer:
        return dict(checkpointer.restore(folder.absolute(), args=items)[_STATE])


def is_checkpoint(folder: Path) -> bool:
    """Whether the folder looks like one checkpoint, whatever its name."""
    return (folder / META).is_dir() and (folder / _STATE).is_dir()


@contextlib.contextmanager
def _checkpointer(ocp: Any) -> Iterator[Any]:
    """An Orbax checkpointer that reports a failure once, by its exception.

    Orbax works on many files at once. When one fails, the others still report to an event loop that
    is closed by then, and Python would print a traceback for each.
    """
    with _ONE_AT_A_TIME:
        yield from _reporting_once(ocp)


def _reporting_once(ocp: Any) -> Iterator[Any]:
    previous = sys.unraisablehook

    def hook(args: Any) -> None:
        if "Event loop is closed" not in str(args.exc_value):
            previous(args)

    sys.unraisablehook = hook
    try:
        with contextlib.closing(_for_this_process(ocp)) as checkpointer:
            yield checkpointer
    except BaseException:
        time.sleep(0.1)  # for the late reports
        raise
    finally:
        sys.unraisablehook = previous


def _for_this_process(ocp: Any) -> Any:
    """A checkpointer that one of several processes uses alone.

    Otherwise Orbax would wait for all of them, by collectives of its own. Those would run in the
    writing thread beside the train step's, in another order in each process.
    """
    import jax

    if jax.process_count() == 1:
        return ocp.Checkpointer(ocp.CompositeCheckpointHandler())
    index = jax.process_index()
    alone = ocp.options.MultiprocessingOptions(
        primary_host=index, active_processes={index}, barrier_sync_key_prefix=f"process{index}"
    )
    handler = ocp.CompositeCheckpointHandler(
        composite_options=ocp.CompositeOptions(multiprocessing_options=alone)
    )
    return ocp.Checkpointer(handler, multiprocessing_options=alone)
