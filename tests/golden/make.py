"""Make the small run that every later version must be able to continue: a golden checkpoint.

    python tests/golden/make.py

Trains the smallest cartpole run for two iterations and puts it into `tests/golden/format-<F>`, F
being the checkpoint format of this version. Done once when the format's number is raised, and the
folder is never made again: what is tested is that files written long ago can be read.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import sys
import tempfile
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
KEPT = ("config.json", "metrics.jsonl", "checkpoints")
"""What is kept of the run: the other files hold the name of the machine."""
COMMAND = [
    *("--robot", "cartpole", "--physics", "native", "--num-envs", "4", "--no-tensorboard"),
    *("--ppo.unroll", "4", "--ppo.epochs", "1", "--ppo.minibatch-size", "16"),
    *("--net.policy", "8", "--net.value", "8", "--cartpole.episode-s", "1"),
    *("--iterations", "2", "--save-every", "2", "--run-dir", "golden"),
]


def digest(state: Any) -> str:
    """SHA-256 over names, types, shapes and bytes of all leaves of a state."""
    from jaxrl_hw.checkpointing.leaves import to_arrays

    whole = hashlib.sha256()
    arrays, _ = to_arrays(state)
    for name in sorted(arrays):
        array = arrays[name]
        whole.update(f"{name} {array.dtype} {array.shape}\n".encode())
        whole.update(array.tobytes())
    return whole.hexdigest()


def main() -> int:
    from jaxrl_hw import fit
    from jaxrl_hw.checkpointing.description import FORMAT
    from jaxrl_hw.cli.flags import parse

    target = HERE / f"format-{FORMAT}"
    if target.exists():
        print(f"{target} is there already and is kept as it was made", file=sys.stderr)
        return 2
    with tempfile.TemporaryDirectory() as scratch:
        os.chdir(scratch)  # so that the folder in its config is "golden", wherever it is made
        run = fit(parse(COMMAND))
        target.mkdir()
        for name in KEPT:
            source = run.folder / name
            (shutil.copytree if source.is_dir() else shutil.copyfile)(source, target / name)
        record = {"iteration": run.iteration, "sha256": digest(run.state)}
        (target / "expected.json").write_text(json.dumps(record) + "\n")
        os.chdir(HERE)
    return 0


if __name__ == "__main__":
    sys.exit(main())
