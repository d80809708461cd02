"""A folder of policy files, each tried out before it is put in its place."""

from __future__ import annotations

import contextlib
import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np

from jaxrl_hw.checkpointing.atomic import write_bytes
from jaxrl_hw.errors import RunError, UserError
from jaxrl_hw.policies import run_policy, verification
from jaxrl_hw.policies.io import save_policy
from jaxrl_hw.policies.onnx import to_onnx
from jaxrl_hw.policies.portable import PortablePolicy
from jaxrl_hw.policies.torchscript import to_torchscript


class Written(NamedTuple):
    """One exported file."""

    path: Path
    size: int  # bytes
    difference: float  # largest difference of an action's entry from the JAX policy's
    by: str  # what ran it


class Exported(NamedTuple):
    """What an export has made."""

    files: list[Written]
    left_out: list[str]
    """A sentence for each file that could not be made, with what it takes."""


def export_policy(policy: PortablePolicy, reference: verification.Act, out: Path) -> Exported:
    """Write policy.onnx, policy.npz, run_policy.py and, where torch is there, policy.pt.

    Every file is written beside its place, run on `checking.COUNT` random observations, and put
    there only when all agree with the reference.

    Args:
      policy: to be exported.
      reference: the same policy by JAX, [N, O] -> [N, A].
      out: folder, made where it is missing.

    Raises:
      UserError: out is a file, or may not be written.
      RunError: the disk refuses, or a file disagrees with the reference; nothing is replaced then.
    """
    observations = verification.sample_observations(policy)
    expected = np.asarray(reference(observations))
    with _staging(out) as stage:
        left_out = _write(policy, stage, out)
        files, agree = [], True
        for path in sorted(stage.iterdir()):
            runner = verification.open_file(path)
            off, within = verification.compare(runner, observations, expected)
            files.append(Written(out / path.name, path.stat().st_size, off, runner.by))
            agree = agree and within
        if not agree:
            raise _differing(files, out)
        _put_in_place(stage, files)
    return Exported(files, left_out)


def _write(policy: PortablePolicy, folder: Path, out: Path) -> list[str]:
    """All files that can be made here; a sentence for each that cannot."""
    save_policy(policy, folder / "policy.npz")
    write_bytes(folder / "run_policy.py", Path(run_policy.__file__).read_bytes())
    left_out = []
    for name, package, convert in (
        ("policy.onnx", "onnx", to_onnx),
        ("policy.pt", "torch", to_torchscript),
    ):
        try:
            data = convert(policy)
        except ImportError as error:
            if error.name != package:
                raise
            how = f"pip install {package}, then run this again"
            old = f" (the {name} in {out} is of an earlier export)" if (out / name).exists() else ""
            left_out.append(f"{name} is left out: {package} is not installed; {how}{old}")
            continue
        write_bytes(folder / name, data)
    return left_out


def _differing(files: list[Written], out: Path) -> RunError:
    told = ", ".join(f"{file.path.name} by {file.difference:.1e} ({file.by})" for file in files)
    return RunError(
        f"the files differ from the JAX policy by more than {verification.TOLERANCE:.0e} on "
        f"{verification.COUNT} observations: {told}; nothing was written to {out}"
    )


def _put_in_place(stage: Path, files: list[Written]) -> None:
    for written in files:
        try:
            os.replace(stage / written.path.name, written.path)
        except OSError as error:
            raise RunError(f"cannot write {written.path}: {error.strerror or error}") from error


@contextlib.contextmanager
def _staging(out: Path) -> Iterator[Path]:
    """A passing folder inside `out`; where the export fails, `out` is left as it was."""
    existed = out.is_dir()
    try:
        out.mkdir(parents=True, exist_ok=True)
        stage = Path(tempfile.mkdtemp(prefix=".export-", dir=out))
    except OSError as error:
        reason = error.strerror or type(error).__name__
        if isinstance(error, FileExistsError | NotADirectoryError):
            reason = "it is a file, or lies in one"
        raise UserError(f"cannot export into {out}: {reason}; choose another --out") from error
    try:
        yield stage
    finally:
        shutil.rmtree(stage, ignore_errors=True)
        if not existed:
            with contextlib.suppress(OSError):  # not empty: the export has succeeded
                out.rmdir()
