"""Write a trained policy as files that leave this computer: python -m jaxrl_hw.export --run-dir DIR

    policy.onnx     float32, normalization inside: obs [batch, O] -> action [batch, A]
    policy.npz      the same as NumPy arrays; play, evaluate and train --init-from read it
    run_policy.py   runs policy.npz with NumPy alone
    policy.pt       the same as TorchScript, where torch is installed

Every file is run on 1000 random observations and must agree with the JAX policy to 1e-5.
"""

from __future__ import annotations

import sys
from argparse import Namespace
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from jaxrl_hw.checkpointing.run_dir import RunDir
from jaxrl_hw.cli.arguments import OneLineParser, add_source_arguments, check_source
from jaxrl_hw.cli.command import DONE, run_command
from jaxrl_hw.cli.trained_policy import open_run, use_cpu
from jaxrl_hw.errors import UserError
from jaxrl_hw.loggers import formats
from jaxrl_hw.policies.portable import PortablePolicy
from jaxrl_hw.policies.sources import name_of, open_policy

if TYPE_CHECKING:
    from jaxrl_hw.policies.bundle import Written


def main(argv: Sequence[str] | None = None) -> int:
    """Exit code 0: written and checked; 2: bad input; 1: a file differs, or the disk refuses."""

    def body() -> int:
        asked = _parse(sys.argv[1:] if argv is None else argv)
        print(f"loading {check_source(asked)}", flush=True)
        policy, reference, out = _open(asked)
        from jaxrl_hw.policies.bundle import export_policy

        made = export_policy(policy, reference, out)
        _show(policy, made.files)
        for line in (*made.left_out, f"written to {out}"):
            print(line)
        return DONE

    return run_command(body)


def _parse(argv: Sequence[str]) -> Namespace:
    parser = OneLineParser(prog="python -m jaxrl_hw.export", description=__doc__)
    add_source_arguments(parser)
    parser.add_argument(
        "--out",
        metavar="DIR",
        help="folder (default: policy/ in the run's folder; for --policy policy-<name>/ here)",
    )
    asked = parser.parse(argv)
    check_source(asked)
    if asked.out is not None and Path(asked.out).expanduser().is_file():
        raise UserError(f"--out must be a folder, but {asked.out} is a file; choose another")
    return asked


def _open(asked: Namespace) -> tuple[PortablePolicy, Callable[[Any], Any], Path]:
    """The policy, the same by JAX in float32, and the folder to write into."""
    if asked.policy is not None:
        policy = open_policy(asked.policy)
        use_cpu()
        from jaxrl_hw.policies.from_state import as_function

        out = Path(asked.out or f"policy-{name_of(asked.policy)}").expanduser()
        return policy, as_function(policy), out
    run = open_run(asked.run_dir, asked.iteration)
    from jaxrl_hw.policies.from_state import portable

    reference = run.policy
    if run.config.precision != "float32":
        from jaxrl_hw.config.factory import make_algorithm, make_env
        from jaxrl_hw.training.run import make_policy

        print(f"trained in {run.config.precision}; exported and compared in float32")
        config = replace(run.config, precision="float32")
        env = make_env(config)
        reference = make_policy(env, make_algorithm(config, env), run.state)
    out = Path(asked.out).expanduser() if asked.out else RunDir(run.folder).policy
    return portable(run.config, run.state), reference, out


def _show(policy: PortablePolicy, files: list[Written]) -> None:
    from rich.table import Table

    from jaxrl_hw.loggers.terminal import can_redraw, make_console
    from jaxrl_hw.policies.verification import COUNT

    meta = policy.meta
    title = (
        f"{meta['robot']}, iteration {meta['iteration']:,}: "
        f"{policy.obs_size} observations, {policy.action_size} actions, "
        f"layers {'-'.join(map(str, policy.widths))} {policy.activation}"
    )
    table = Table(title=title, title_justify="left", title_style="bold")
    table.add_column("file", no_wrap=True)
    table.add_column("size", justify="right", no_wrap=True)
    table.add_column(f"largest difference on {COUNT}", justify="right", no_wrap=True)
    table.add_column("by")
    for file in files:
        table.add_row(file.path.name, formats.size(file.size), f"{file.difference:.1e}", file.by)
    make_console(sys.stdout, can_redraw(sys.stdout), None).print(table)


if __name__ == "__main__":
    sys.exit(main())
