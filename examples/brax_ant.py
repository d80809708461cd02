"""Brax's ant, with this library's trainer: pip install "jaxrl_hw[brax]"

    python examples/brax_ant.py --num-envs 256 --timesteps 3000000

The same run from the command line: python -m jaxrl_hw.train --env brax:ant --brax.backend spring
"""

from __future__ import annotations

import argparse
from dataclasses import replace

import jaxrl_hw


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--num-envs", type=int, default=256)
    parser.add_argument("--timesteps", type=int, default=3_000_000)
    parser.add_argument("--run-dir", default="runs/brax-ant")
    args = parser.parse_args()

    config = jaxrl_hw.preset_config(env="brax:ant")
    config = replace(
        config,
        num_envs=args.num_envs,
        timesteps=args.timesteps,
        run_dir=args.run_dir,
        brax=replace(config.brax, backend="spring"),
    )
    run = jaxrl_hw.fit(config)
    print(f"return {run.metrics['episode_return'][-1]} after {run.iteration} iterations")


if __name__ == "__main__":
    main()
