"""What versus_peers.py trains: the cases, their sizes, and this library's flags for them."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from typing import Any, NamedTuple

from jaxrl_hw.errors import UserError, unknown

OURS = "jaxrl_hw"
COMPILING = 2
"""Chunks of iterations that do not count: brax compiles in the first and again in the second."""


class Case(NamedTuple):
    """An algorithm on an environment."""

    sides: tuple[str, ...]
    sizes: dict[str, Any]


_PENDULUM = {
    "env": "inverted_pendulum",
    "backend": "spring",
    "learning_starts": 1024,  # env steps
    "replay": 16_384,
    "chunk": 4,  # iterations between two rows of a peer
    "chunks": 12,
    "learning_rate": 3e-4,
    "gamma": 0.97,
    "tau": 0.005,
}
CASES = {
    "sac": Case(
        (OURS, "brax-sac", "rejax-sac"),
        _PENDULUM
        | {"num_envs": 128, "updates": 32, "batch_size": 256, "net": [256, 256], "actions": 0},
    ),
    "dqn": Case(
        (OURS, "rejax-dqn"),
        _PENDULUM
        | {"num_envs": 32, "updates": 32, "batch_size": 128, "net": [128, 128], "actions": 5}
        | {"chunk": 16, "chunks": 20},
    ),
    "ant": Case(
        (OURS, "brax-ppo"),
        {
            "env": "ant",
            "backend": "positional",
            "num_envs": 128,
            "unroll": 20,
            "minibatches": 8,
            "epochs": 4,
            "learning_rate": 3e-4,
            "gamma": 0.97,
            "entropy": 0.01,
            "clip": 0.3,
            "init_std": 0.55,  # of actions: what Brax's squashed Gaussian starts with
            "reward_scale": 1.0,
            "net": [32, 32, 32, 32],
            "value_net": [256, 256, 256, 256, 256],
            "chunk": 10,
            "to_return": 200.0,
        },
    ),
}
"""`updates` are gradient steps after each control step of all environments. `ant` has the discount,
learning rate, entropy bonus, clip range, epochs and networks that Brax publishes for its PPO on it,
and fewer environments and smaller batches, as suits two cores."""


def sizes_of(name: str, args: argparse.Namespace) -> dict[str, Any]:
    """The sizes of a case with what --set and --to-return change.

    Raises:
      UserError: these do not go together.
    """
    sizes = CASES[name].sizes
    for size in args.sizes:
        if not isinstance(sizes.get(size), int):
            able = [key for key, value in sizes.items() if isinstance(value, int)]
            raise unknown(f"size of {name}", size, able)
    sizes = {**sizes, **args.sizes}
    if args.to_return is not None and "to_return" in sizes:
        sizes["to_return"] = args.to_return
    if "replay" in sizes:
        _check_replay(sizes)
    elif sizes["num_envs"] % sizes["minibatches"]:
        raise UserError(
            f"num_envs {sizes['num_envs']} must be a multiple of minibatches {sizes['minibatches']}"
        )
    return sizes


def _check_replay(sizes: Mapping[str, Any]) -> None:
    """rejax draws a batch without replacement: it must be there when learning starts."""
    order = ("batch_size", "learning_starts", "replay")
    if not sizes["batch_size"] <= sizes["learning_starts"] <= sizes["replay"]:
        got = ", ".join(f"{name} {sizes[name]}" for name in order)
        raise UserError(f"{' <= '.join(order)} must hold, got {got}")
    if sizes["chunks"] <= COMPILING:
        raise UserError(
            f"chunks must be more than the {COMPILING} that compile, got {sizes['chunks']}"
        )


def filled(sizes: Mapping[str, Any]) -> int:
    """Env steps before learning starts."""
    if "replay" not in sizes:
        return 0
    return int(-(-sizes["learning_starts"] // sizes["num_envs"]) * sizes["num_envs"])


def steps_after(sizes: Mapping[str, Any], chunks: int) -> int:
    """Env steps when so many chunks of iterations that learn are done."""
    per_iteration = sizes["num_envs"] * sizes.get("unroll", 1)
    return int(filled(sizes) + chunks * sizes["chunk"] * per_iteration)


def peer_settings(sizes: Mapping[str, Any]) -> dict[str, Any]:
    """The sizes as a peer takes them: with the chunks in which a replay fills within training."""
    per_chunk = sizes["chunk"] * sizes["num_envs"]
    return {**sizes, "filling": -(-filled(sizes) // per_chunk)}


def our_flags(sizes: Mapping[str, Any]) -> list[str]:
    """The flags of `train` for the same sizes."""
    words = ["--env", f"brax:{sizes['env']}", "--brax.backend", sizes["backend"]]
    words += ["--num-envs", str(sizes["num_envs"]), "--seed", str(sizes["seed"])]
    # the peers write no checkpoints
    words += ["--no-tensorboard", "--save-every", "1000000", "--eval-every", "0"]
    if "replay" not in sizes:
        return [*words, *_ppo_flags(sizes)]
    algo = "dqn" if sizes["actions"] else "sac"
    iterations = steps_after(sizes, sizes["chunks"]) // sizes["num_envs"]
    words += ["--algo", algo, "--timesteps", "0", "--iterations", str(iterations)]
    words += ["--save-replay", "no", "--net.activation", "relu"]
    settings = {
        "train-freq": 1,
        "gradient-steps": sizes["updates"],
        "batch-size": sizes["batch_size"],
        "buffer-size": sizes["replay"],
        "learning-starts": sizes["learning_starts"],
        "learning-rate": sizes["learning_rate"],
        "gamma": sizes["gamma"],
        "tau": sizes["tau"],
        "n-step": 1,
    }
    words += [word for key, x in settings.items() for word in (f"--{algo}.{key}", str(x))]
    net = list(map(str, sizes["net"]))
    if algo == "dqn":
        return [*words, "--discrete-actions", str(sizes["actions"]), "--dqn.widths", *net]
    words += ["--net.policy", *net, "--net.value", *net]
    return [*words, "--sac.policy-delay", "1", "--sac.no-layer-norm", "--sac.alpha-start", "1"]


def _ppo_flags(sizes: Mapping[str, Any]) -> list[str]:
    settings = {
        "unroll": sizes["unroll"],
        "minibatch-size": sizes["num_envs"] * sizes["unroll"] // sizes["minibatches"],
        "epochs": sizes["epochs"],
        "learning-rate": sizes["learning_rate"],
        "lr-schedule": "fixed",
        "gamma": sizes["gamma"],
        "entropy-coef": sizes["entropy"],
        "clip": sizes["clip"],
    }
    words = [word for key, x in settings.items() for word in (f"--ppo.{key}", str(x))]
    words += ["--algo", "ppo", "--timesteps", "1B", "--net.activation", "silu"]
    words += ["--net.init-std", str(sizes["init_std"]), "--net.policy", *map(str, sizes["net"])]
    return [*words, "--net.value", *map(str, sizes["value_net"])]
