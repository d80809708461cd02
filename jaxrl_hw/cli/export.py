"""Write a trained policy as files for other computers.

    python -m jaxrl_hw.export --run-dir runs/g1-joystick-ppo-0

    policy.onnx       float32, normalization inside: obs [batch, O] -> action [batch, A]
    policy.npz        the same as NumPy arrays; play, evaluate and train --init-from read it
    run_policy.py     runs policy.npz with NumPy alone
    policy.pt         the same as TorchScript, where torch is installed
    deploy_mujoco.py  python deploy_mujoco.py NAME.yaml drives the policy in MuJoCo
    NAME.yaml         what it reads: unitree_rl_gym's keys (g1.yaml for g1_12dof)
    NAME.xml          the robot's MJCF in one file, with torque motors

Every file that holds a policy is run on 1000 random observations and must agree with the JAX
policy to 1e-5. The last three files come with the task joystick.
"""

from __future__ import annotations

import sys
from argparse import Namespace
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from jaxrl_hw.checkpointing.run_dir import RunDir
from jaxrl_hw.cli.arguments import OneLineParser, add_source_arguments, check_source
from jaxrl_hw.cli.command import DONE, run_command
from jaxrl_hw.cli.trained_policy import check_robot, open_run, print_note, use_cpu
from jaxrl_hw.config.migrations import since_trained
from jaxrl_hw.errors import UserError
from jaxrl_hw.loggers import formats
from jaxrl_hw.loggers.terminal import can_redraw, make_console, make_table
from jaxrl_hw.policies.portable import PortablePolicy
from jaxrl_hw.policies.sources import config_of, name_of, open_policy
from jaxrl_hw.types import Policy


def main(argv: Sequence[str] | None = None) -> int:
    """Exit code 0: written and verified; 2: bad input; 1: a file differs, or the disk fails."""
    return run_command(lambda: _export(_parse(sys.argv[1:] if argv is None else argv)))


def _export(args: Namespace) -> int:
    print(f"loading {check_source(args)}", flush=True)
    policy, reference, out, trained_with = _open(args)
    from jaxrl_hw.policies.bundle import export_policy
    from jaxrl_hw.policies.deployment import SCRIPT
    from jaxrl_hw.policies.verification import COUNT

    exported = export_policy(policy, reference, out)
    meta = policy.meta
    kind, size = policy.memory
    remembered = {"history": f", {size} observations", "gru": f", GRU of {size}"}.get(kind, "")
    title = (
        f"{meta['robot']}, iteration {meta['iteration']:,}: "
        f"{policy.obs_size} observations, {policy.action_size} actions, "
        f"layers {'-'.join(map(str, policy.widths))} {policy.activation}{remembered}"
    )
    table = make_table("file", ">size", f">largest difference on {COUNT}", "by", title=title)
    for file in exported.files:
        table.add_row(file.path.name, formats.size(file.size), f"{file.difference:.1e}", file.by)
    make_console(sys.stdout, can_redraw(sys.stdout), None).print(table)
    lines = [*exported.left_out, f"written to {out}"]
    if exported.driven:
        lines.append(f"drive it in MuJoCo: python {out / SCRIPT} {exported.driven[0]}")
    for line in lines:
        print(line)
    print_note(check_source(args), since_trained(trained_with, meta["task"]))
    return DONE


def _parse(argv: Sequence[str]) -> Namespace:
    parser = OneLineParser(prog="python -m jaxrl_hw.export", description=__doc__)
    add_source_arguments(parser)
    about = "folder (default: policy/ in the run's folder; with --policy policy-<name>/ here)"
    parser.add_argument_group("output").add_argument("--out", metavar="DIR", help=about)
    args = parser.parse(argv)
    check_source(args)
    if args.out is not None and Path(args.out).expanduser().is_file():
        raise UserError(f"--out must be a folder, but {args.out} is a file; choose another")
    return args


def _open(args: Namespace) -> tuple[PortablePolicy, Policy, Path, dict[str, Any]]:
    """The policy, its reference in JAX (float32), the folder to write into, and the settings that
    trained it, as they were saved."""
    if args.policy is not None:
        policy = open_policy(args.policy)
        check_robot(args, config_of(policy, args.policy))
        use_cpu()
        from jaxrl_hw.policies.from_state import as_policy

        out = Path(args.out or f"policy-{name_of(args.policy)}").expanduser()
        return policy, as_policy(policy), out, policy.meta["config"]
    run = open_run(args.run_dir, args.iteration)
    check_robot(args, run.config)
    from jaxrl_hw.policies.from_state import portable

    reference = run.policy
    if run.config.precision != "float32":
        from jaxrl_hw.config.factory import make_algorithm, make_env
        from jaxrl_hw.training.run import make_policy

        print(f"trained in {run.config.precision}; exported and compared in float32")
        config = replace(run.config, precision="float32")
        env = make_env(config)
        reference = make_policy(env, make_algorithm(config, env), run.state)
    out = Path(args.out).expanduser() if args.out else RunDir(run.folder).policy
    trained_with = RunDir(run.folder).read_config() or {}
    return portable(run.config, run.state), reference, out, trained_with
