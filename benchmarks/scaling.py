"""What several devices cost, and what an env step costs by the number of environments.

    python benchmarks/scaling.py --robot go1 --each 64 --devices 1,2,4,8 --sizes 64,256,1024,8192

Everything is measured in one process on a CPU, whose devices are virtual (XLA's
xla_force_host_platform_device_count): they share this machine's cores. So the table of devices
shows what sharding adds, not what more devices would gain. Each device gets as many environments
(weak scaling). In each round the train steps that are compared run one after the other, and the
ratios are medians over the rounds: other programs on the machine then hardly matter.
Writes benchmarks/results/scaling-cpu.json and .png.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import scaling_plot

from jaxrl_hw import preset_config
from jaxrl_hw.cli.command import DONE, run_command
from jaxrl_hw.config.schema import Config
from jaxrl_hw.errors import UserError
from jaxrl_hw.hardware.detect import detect
from jaxrl_hw.planning.planner import make_plan

RESULTS = Path(__file__).parent / "results"
Step = Callable[[], float]
"""One iteration; seconds for each of its env steps."""


def main(argv: Sequence[str] | None = None) -> int:
    """Exit code 0: measured; 1: a train step failed; 2: bad input."""
    argv = list(sys.argv[1:] if argv is None else argv)
    return run_command(lambda: _run(_parsed(argv), argv))


def _parsed(argv: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--robot", default="go1")
    parser.add_argument("--each", type=int, default=64, help="environments of each device")
    parser.add_argument("--devices", type=_numbers, default=[1, 2, 4, 8], help="virtual devices")
    parser.add_argument(
        "--sizes",
        type=_numbers,
        default=[64 << k for k in range(8)],
        help="numbers of environments on one device; the first is compared with",
    )
    parser.add_argument("--rounds", type=int, default=3, help="iterations of each train step")
    parser.add_argument(
        "--net", type=_numbers, help="widths of both networks; default: the preset's"
    )
    parser.add_argument("--out", type=Path, default=RESULTS, help="folder of the results")
    parser.add_argument("--inside", action="store_true", help=argparse.SUPPRESS)
    return parser.parse_args(argv)


def _numbers(text: str) -> list[int]:
    numbers = [int(word) for word in text.split(",")]
    if not numbers or min(numbers) < 1:
        raise argparse.ArgumentTypeError(f"numbers of at least 1, such as 1,2,4, got {text}")
    return numbers


def _run(args: argparse.Namespace, argv: list[str]) -> int:
    if args.rounds < 1 or args.each < 1:
        raise UserError("--rounds and --each must be at least 1")
    if args.inside:
        print(json.dumps(_measured(args)))
        return DONE
    count = f"--xla_force_host_platform_device_count={max(args.devices)}"
    env = {**os.environ, "JAX_PLATFORMS": "cpu"}
    env["XLA_FLAGS"] = f"{env.get('XLA_FLAGS', '')} {count}".strip()
    command = [sys.executable, __file__, *argv, "--inside"]
    before = os.getloadavg()[0]
    done = subprocess.run(command, env=env, stdout=subprocess.PIPE, text=True, check=False)
    if done.returncode:
        return done.returncode
    hardware = detect()
    record = {
        "hardware": f"{hardware.name}, {hardware.cores} core{'s' * (hardware.cores > 1)}",
        "devices_are": "virtual devices of these cores",
        "load": [before, os.getloadavg()[0]],
        "command": _command(args),
        "robot": args.robot,
        "each": args.each,
        "rounds": args.rounds,
        **json.loads(done.stdout.splitlines()[-1]),
    }
    args.out.mkdir(parents=True, exist_ok=True)
    path = args.out / "scaling-cpu.json"
    path.write_text(json.dumps(record, indent=2) + "\n")
    show(record)
    try:
        scaling_plot.draw(record, path.with_suffix(".png"))
    except ImportError:
        print('no picture: pip install "jaxrl_hw[bench]"')
    print(f"written to {path}")
    return DONE


def _command(args: argparse.Namespace) -> str:
    """What measures the same again."""
    words = ["--robot", args.robot, "--each", str(args.each), "--rounds", str(args.rounds)]
    for name in ("devices", "sizes", "net"):
        if numbers := getattr(args, name):
            words += [f"--{name}", ",".join(map(str, numbers))]
    return f"python benchmarks/scaling.py {' '.join(words)}"


def _measured(args: argparse.Namespace) -> dict[str, Any]:
    with tempfile.TemporaryDirectory() as folder:
        base = replace(preset_config(args.robot), physics="native", run_dir=f"{folder}/run")
        if args.net:
            net = replace(base.net, policy=tuple(args.net), value=tuple(args.net))
            base = replace(base, net=net)
        wanted = [replace(base, num_envs=n) for n in args.sizes]
        wanted += [
            replace(base, num_envs=args.each * devices, devices=count)
            for devices in args.devices
            for count in (1, devices)
        ]
        # all are planned before jax is loaded: the most devices decide XLA's number of threads
        plans = [make_plan(config).config for config in sorted(wanted, key=_devices)]
    settled = {(int(c.num_envs), c.devices): c for c in plans}
    compiled = cache(lambda number, devices: _step(settled[number, devices]))
    rows = _by_devices(args, compiled)
    compiled.cache_clear()  # the memory of their states
    return {"by_devices": rows, "by_size": _by_size(args, settled, compiled)}


def _devices(config: Config) -> int:
    return int(config.devices or 1)


def _by_devices(args: argparse.Namespace, compiled: Callable[..., Step]) -> list[dict[str, Any]]:
    """Each number of devices beside one device with as many environments, and beside the first
    number with its environments."""
    first = args.devices[0]
    base = compiled(args.each * first, first)
    rows = []
    for devices in args.devices:
        number = args.each * devices
        alone, sharded = compiled(number, 1), compiled(number, devices)
        times = _alternating((base, alone, sharded), args.rounds)
        rows.append(
            {
                "devices": devices,
                "num_envs": number,
                "env_steps_per_s": 1.0 / statistics.median(times[2]),
                "of_one_device": _ratio(times[1], times[2]),
                "of_first": _ratio(times[0], times[2]),
            }
        )
    return rows


def _by_size(
    args: argparse.Namespace, settled: dict[Any, Config], compiled: Callable[..., Step]
) -> list[dict[str, Any]]:
    """Each number of environments on one device, beside the first."""
    base, rows = compiled(args.sizes[0], ""), []
    for number in args.sizes:
        times = _alternating((base, compiled(number, "")), args.rounds)
        rows.append(
            {
                "num_envs": number,
                "unroll": settled[number, ""].ppo.unroll,
                "us_per_env_step": 1e6 * statistics.median(times[1]),
                "of_first": _ratio(times[1], times[0]),
            }
        )
    return rows


def _step(config: Config) -> Step:
    """A compiled train step with a state of its own, after one iteration."""
    import jax

    from jaxrl_hw.hardware import xla
    from jaxrl_hw.training.layout import layout_of
    from jaxrl_hw.training.run import environments
    from jaxrl_hw.training.train_step import compile_train_step, init_train_state

    xla.apply_pending()
    env, algorithm = environments(config)
    state, layout = init_train_state(env, algorithm, config.seed), layout_of(config)
    state = state if layout is None else layout.place(state)
    step = compile_train_step(env, algorithm, state, layout=layout).step
    samples = env.num_envs * algorithm.unroll

    def run() -> float:
        nonlocal state
        began = time.monotonic()
        state, _ = jax.block_until_ready(step(state))
        return (time.monotonic() - began) / samples

    run()
    return run


def _alternating(steps: Sequence[Step], rounds: int) -> list[list[float]]:
    """Seconds per env step of each train step in each round; the same step runs once a round."""
    times: list[list[float]] = [[] for _ in steps]
    for _ in range(rounds):
        seen = {id(step): step() for step in dict.fromkeys(steps)}
        for step, own in zip(steps, times, strict=True):
            own.append(seen[id(step)])
    return times


def _ratio(over: Sequence[float], under: Sequence[float]) -> float:
    return statistics.median(a / b for a, b in zip(over, under, strict=True))


def show(record: dict[str, Any]) -> None:
    """Print both tables."""
    print(f"{record['hardware']}; load {record['load'][0]:.1f} to {record['load'][1]:.1f}")
    print(f"{'virtual devices':>15} {'envs':>6} {'steps/s':>9} {'of 1 device':>12} {'of first':>9}")
    for row in record["by_devices"]:
        print(
            f"{row['devices']:15} {row['num_envs']:6,} {row['env_steps_per_s']:9,.0f} "
            f"{row['of_one_device']:12.2f} {row['of_first']:9.2f}"
        )
    print(f"{'envs':>6} {'unroll':>6} {'us/env step':>12} {'of first':>9}")
    for row in record["by_size"]:
        print(
            f"{row['num_envs']:6,} {row['unroll']:6} {row['us_per_env_step']:12.1f} "
            f"{row['of_first']:9.2f}"
        )


if __name__ == "__main__":
    sys.exit(main())
