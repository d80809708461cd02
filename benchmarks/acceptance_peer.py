"""The step of gpu_acceptance.py that runs another library beside this one."""

from __future__ import annotations

import json
import sys
import tempfile
from pathlib import Path
from typing import Any

from acceptance_runs import Deadline, Sizes, run


def peer(sizes: Sizes, deadline: Deadline) -> dict[str, Any]:
    """Brax PPO on Playground's G1 and this library's, feet colliding, one run each."""
    with tempfile.TemporaryDirectory() as place:
        out = Path(place) / "result.json"
        script = Path(__file__).with_name("versus_brax.py")
        command = [sys.executable, str(script), "--only", "brax,feet", "--repeats", "1"]
        run([*command, *sizes.beside, "--out", str(out)], deadline)
        record = json.loads(out.read_text())
    brax, ours = record["rows"]
    return {
        "summary": (
            f"{ours['env_steps_per_s']:,.0f} env steps/s beside {brax['env_steps_per_s']:,.0f}: "
            f"{ours['times_brax']:.2f} times Brax"
        ),
        **{name: record[name] for name in ("sizes", "peer", "rows")},
    }
