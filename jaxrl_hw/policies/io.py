"""policy.npz: a portable policy on disk, read back only if it is complete and consistent."""

from __future__ import annotations

import io
import json
import zipfile
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from jaxrl_hw.checkpointing.files import write_bytes
from jaxrl_hw.errors import UserError, first_line, suggest
from jaxrl_hw.policies.portable import FORMAT, GRU, HEAD, PortablePolicy
from jaxrl_hw.policies.run_policy import ACTIVATIONS, HEADS, MEMORIES, memory_of
from jaxrl_hw.types import PhaseMask, no_phase_mask

_ARRAYS = ("motion", "clock", "mean", "scale", "clip", "seen", "log_std", "kernel0", "bias0")
_META = {
    "robot": str,
    "task": str,
    "algo": str,
    "iteration": int,
    "activation": str,
    "config": dict,
    "versions": dict,
}


def save_policy(policy: PortablePolicy, path: Path) -> None:
    """Write policy.npz, complete or not at all. Raises RunError where the disk fails."""
    buffer = io.BytesIO()
    # no pickle anywhere: the description is a JSON string
    np.savez(buffer, meta=np.array(json.dumps(policy.meta)), **policy.arrays())  # type: ignore[arg-type]
    write_bytes(path, buffer.getvalue())


def load_policy(path: Path) -> PortablePolicy:
    """Read a policy file of this or an earlier format.

    Raises:
      UserError: no such file, a damaged one, one of another program, or of a newer format.
    """
    path = path.expanduser()
    if not path.is_file():
        state = "is a folder" if path.is_dir() else "does not exist"
        others = [p.name for p in path.parent.glob("*.npz")] if path.parent.is_dir() else []
        hint = suggest(path.name, others) or "; a policy is a file that ends in .npz"
        raise UserError(f"no policy in {path}: it {state}{hint}")
    arrays = _read(path)
    meta = _meta(arrays, path)
    if meta["format"] == 1 and "mean" in arrays:
        arrays |= no_phase_mask(arrays["mean"].size)._asdict()
    if meta["format"] == 2 and "calm" in arrays:
        arrays["motion"] = np.diagflat(arrays.pop("calm"))
    meta["format"] = FORMAT  # that of the arrays as they are now
    meta.setdefault("memory", {"kind": "none"})
    meta.setdefault(HEAD, "linear")
    kinds = ("kernel", "bias")
    layers = range(max(sum(name.startswith(kind) for name in arrays) for kind in kinds))
    gru = GRU if meta["memory"].get("kind") == "gru" else ()
    head = () if meta[HEAD] == "linear" else (HEAD,)
    wanted = [*_ARRAYS, *gru, *head, *(f"{kind}{i}" for i in layers for kind in kinds)]
    missing = [name for name in dict.fromkeys(wanted) if name not in arrays]
    missing += [f"meta.{key}" for key, kind in _META.items() if not isinstance(meta.get(key), kind)]
    if missing:
        raise _foreign(path, f"it lacks {', '.join(missing[:4])}")
    _check(arrays, len(layers), meta, path)
    return PortablePolicy(
        PhaseMask(arrays["motion"], arrays["clock"]),
        arrays["mean"],
        arrays["scale"],
        float(arrays["clip"]),
        float(arrays["seen"]),
        tuple(arrays[f"kernel{i}"] for i in layers),
        tuple(arrays[f"bias{i}"] for i in layers),
        arrays["log_std"],
        tuple(arrays[name] for name in gru),
        meta,
        tuple(arrays[name] for name in head),
    )


def _read(path: Path) -> dict[str, np.ndarray]:
    try:
        if not zipfile.is_zipfile(path):
            raise ValueError("not an .npz archive")
        with np.load(path, allow_pickle=False) as file:
            return {name: file[name] for name in file.files}
    except Exception as error:  # a damaged archive can fail in any way
        what = f"{path} is damaged or no policy file ({first_line(error)})"
        raise UserError(f"{what}; make it again with python -m jaxrl_hw.export") from error


def _meta(arrays: dict[str, np.ndarray], path: Path) -> dict[str, Any]:
    """Take the description out of the arrays, if this version can read its format."""
    if "meta" not in arrays:
        raise _foreign(path, "it lacks meta")
    try:
        meta = json.loads(str(arrays.pop("meta")))
        number = int(meta["format"])
    except (ValueError, KeyError, TypeError) as error:
        raise _foreign(path, "its description has no format number") from error
    if not 1 <= number <= FORMAT:
        raise UserError(
            f"{path} has format {number}, this version reads formats 1 to {FORMAT}: "
            "use the version of jaxrl_hw that wrote it, or a newer one"
        )
    return dict(meta)


def _check(arrays: dict[str, np.ndarray], layers: int, meta: dict[str, Any], path: Path) -> None:
    """Raises UserError for sizes that do not fit together, and for invalid numbers."""
    if meta["activation"] not in ACTIVATIONS:
        raise _foreign(path, f'its activation is "{meta["activation"]}"')
    kind, size = memory_of(meta)
    if kind not in MEMORIES or (kind != "none" and size < 1):
        raise _foreign(path, f"its memory is {meta['memory']}")
    if meta[HEAD] not in HEADS:
        raise _foreign(path, f"its head is {meta[HEAD]}")
    if not all(np.issubdtype(array.dtype, np.floating) for array in arrays.values()):
        raise _foreign(path, "its arrays are not floating-point numbers")
    obs = arrays["mean"].size
    inputs = {"none": obs, "history": size * obs, "gru": size + obs}[kind]
    sizes = [inputs, *(arrays[f"bias{i}"].size for i in range(layers))]
    actions = arrays[HEAD].shape[-1:] if meta[HEAD] != "linear" else (sizes[-1],)
    shapes: dict[str, tuple[int, ...]] = {"clip": (), "seen": (), "log_std": actions}
    if meta[HEAD] != "linear":
        shapes[HEAD] = (sizes[-1], *actions) if meta[HEAD] == "argmax" else (sizes[-1],)
    shapes |= dict.fromkeys(("clock", "mean", "scale"), (obs,))
    shapes |= {"motion": (obs, max((1, *arrays["motion"].shape[1:])))}
    if kind == "gru":
        wide = 3 * size
        shapes |= zip(GRU, ((obs, wide), (size, wide), (wide,), (size,)), strict=True)
    for i, (size_in, size_out) in enumerate(pairwise(sizes)):
        shapes |= {f"kernel{i}": (size_in, size_out), f"bias{i}": (size_out,)}
    for name, shape in shapes.items():
        if arrays[name].shape != shape:
            raise _foreign(path, f"{name} is {arrays[name].shape} where {shape} would fit")
    if not all(np.isfinite(array).all() for array in arrays.values()):
        raise UserError(f"{path} holds numbers that are not finite; export it again")
    if not (arrays["scale"] > 0).all():
        raise UserError(f"{path} holds scales that are not above 0; export it again")


def _foreign(path: Path, reason: str) -> UserError:
    return UserError(
        f"{path} is not a policy of this library: {reason}; python -m jaxrl_hw.export makes one"
    )
