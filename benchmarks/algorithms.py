"""How soon an algorithm reaches a return: its env steps and CPU time, without what compiling takes.

    python benchmarks/algorithms.py --reach 391 --robot cartpole_discrete --algo dqn --num-envs 32

All flags but --reach are those of the command train. CPU time counts all threads of the process, so
another program on the same machine changes it little; wall time is printed beside it.
"""

from __future__ import annotations

import argparse
import json
import sys
import time

from jaxrl_hw import init_train_state, make_algorithm, make_env, make_plan, make_train_step
from jaxrl_hw.cli.flags import parse
from jaxrl_hw.config.goal import goal_iteration


def main(argv: list[str]) -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0], allow_abbrev=False)
    parser.add_argument("--reach", type=float, default=391.0, help="mean return to reach")
    asked, words = parser.parse_known_args(argv)
    config = make_plan(parse([*words, "--resume", "never"])).config
    env = make_env(config)
    algorithm = make_algorithm(config, env)
    step, state = make_train_step(env, algorithm), init_train_state(env, algorithm, config.seed)
    samples, found = env.num_envs * algorithm.unroll, {"num_envs": env.num_envs, "best": None}
    returns: list[float] = []
    for iteration in range(1, goal_iteration(config) + 1):
        state, metrics = step(state)
        value = float(metrics["episode_return"])
        if iteration == 1:
            cpu, wall = time.process_time(), time.monotonic()
        if value == value:
            returns.append(value)
        spent = {
            "env_steps": iteration * samples,
            "cpu_s": round(time.process_time() - cpu, 1),
            "wall_s": round(time.monotonic() - wall, 1),
        }
        if value >= asked.reach and "reached" not in found:
            found["reached"] = {"return": round(value, 1), **spent}
    found |= {"best": round(max(returns), 1), "last": round(returns[-1], 1), **spent}
    print(json.dumps({"flags": " ".join(words), **found}))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
