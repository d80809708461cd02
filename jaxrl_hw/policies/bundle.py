"""A folder of policy files, each verified before it is put in its place."""

from __future__ import annotations

import contextlib
import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from jaxrl_hw.checkpointing.files import disk_errors, write_bytes
from jaxrl_hw.config.resolve import robot_spec
from jaxrl_hw.errors import RunError, UserError
from jaxrl_hw.policies import run_policy, verification
from jaxrl_hw.policies.deployment import SCRIPT, deployment, is_deployable
from jaxrl_hw.policies.io import save_policy
from jaxrl_hw.policies.onnx import to_onnx
from jaxrl_hw.policies.portable import PortablePolicy
from jaxrl_hw.policies.sources import config_of
from jaxrl_hw.policies.torchscript import to_torchscript


class ExportedFile(NamedTuple):
    """One file of an export."""

    path: Path
    size: int  # bytes
    difference: float  # largest difference of an action's entry from the JAX policy's
    by: str  # what ran it


class Exported(NamedTuple):
    """The result of an export."""

    files: list[ExportedFile]
    driven: list[Path]
    """What drives the policy in MuJoCo, the YAML first; see `deployment.deployment`."""
    left_out: list[str]
    """A sentence for each file that needs a package which is not installed."""


def export_policy(policy: PortablePolicy, reference: Any, out: Path) -> Exported:
    """Write policy.onnx, policy.npz, run_policy.py and, where torch is installed, policy.pt; where
    the task says how to drive it also the files of `deployment.deployment`.

    Every file of the policy is written beside its place, run on `verification.COUNT` random
    observations, and put there only when all agree with the reference.

    reference: the same policy by JAX: a `Policy`, or a function [N, O] -> [N, A].
    out: folder, made where it is missing.

    Raises:
      UserError: out is a file, or not writable; or the policy's robot is not known here.
      RunError: the disk fails, or a file disagrees with the reference; then nothing is replaced.
    """
    with _staging(out) as stage:
        left_out = _write(policy, stage, out)
        files = _verified(policy, reference, stage, out)
        driven: list[str] = []
        if is_deployable(policy):
            newest = "policy.pt" if (stage / "policy.pt").exists() else "policy.npz"
            robot = robot_spec(config_of(policy, str(out)))
            driven = _write_deployment(deployment(policy, robot, newest), stage)
        else:
            left_out.append(
                f"{SCRIPT} is left out: it drives the joystick task, and this policy's task is "
                f"{policy.meta['task']}"
            )
        for name in [*(file.path.name for file in files), *driven]:
            with disk_errors(f"write {out / name}"):
                (out / name).parent.mkdir(exist_ok=True)
                os.replace(stage / name, out / name)
    return Exported(files, [out / name for name in driven], left_out)


def _verified(policy: PortablePolicy, reference: Any, stage: Path, out: Path) -> list[ExportedFile]:
    """The files in `stage`, all of which act as the reference; see `export_policy`."""
    observations = verification.sample_observations(policy)
    episodes = verification.episodes_of(policy, observations)
    expected = verification.drive(reference, episodes)
    counted = verification.decided(policy, episodes)
    files, agree = [], True
    for path in sorted(stage.iterdir()):
        runner = verification.open_file(path)
        off, within = verification.compare(runner, episodes, expected, counted)
        files.append(ExportedFile(out / path.name, path.stat().st_size, off, runner.by))
        agree = agree and within
    if not agree:
        differences = ", ".join(f"{f.path.name} by {f.difference:.1e} ({f.by})" for f in files)
        raise RunError(
            f"the files differ from the JAX policy by more than {verification.TOLERANCE:.0e} "
            f"on {verification.COUNT} observations: {differences}; nothing was written to {out}"
        )
    return files


def _write_deployment(files: dict[str, bytes], folder: Path) -> list[str]:
    for name, data in files.items():
        (folder / name).parent.mkdir(exist_ok=True)
        write_bytes(folder / name, data)
    return list(files)


def _write(policy: PortablePolicy, folder: Path, out: Path) -> list[str]:
    """Write every file that can be made here; the sentences for the others."""
    save_policy(policy, folder / "policy.npz")
    write_bytes(folder / "run_policy.py", Path(run_policy.__file__).read_bytes())
    left_out = []
    for name, package, convert in (
        ("policy.onnx", "onnx", to_onnx),
        ("policy.pt", "torch", to_torchscript),
    ):
        try:
            write_bytes(folder / name, convert(policy))
        except ImportError as error:
            if error.name != package:
                raise
            how = f"pip install {package}, then run this again"
            old = f" (the {name} in {out} is of an earlier export)" if (out / name).exists() else ""
            left_out.append(f"{name} is left out: {package} is not installed; {how}{old}")
    return left_out


@contextlib.contextmanager
def _staging(out: Path) -> Iterator[Path]:
    """A temporary folder inside `out`. Where the export fails, `out` is as it was."""
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
