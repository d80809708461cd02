"""A trainer of another library, for versus_peers.py: runs in the peer's own Python.

    peer-python benchmarks/peer_side.py brax-sac --settings JSON --out FILE

Needs brax, or rejax with a gymnax older than 1.0, and nothing of this library. Writes a line of
JSON to --out after each chunk of iterations: {"env_steps", "wall_s"}, and in `brax-ppo` after each
iteration {"env_steps", "wall_s", "return"}, the mean of the last 100 episodes that ended. The clock
reads when the chunk's results are there. Nothing is evaluated: that is no part of the comparison.
"""

from __future__ import annotations

import argparse
import functools
import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
from brax import envs
from brax_on_jax import complete_jax
from flax import linen

Write = Callable[..., None]
BEGAN = time.perf_counter()


def brax_sac(s: dict[str, Any], write: Write) -> None:
    """Brax's SAC."""
    from brax.training import acting
    from brax.training.agents.sac import networks
    from brax.training.agents.sac import train as sac

    class NoEvaluation:
        def __init__(self, *args: Any, **named: Any) -> None:
            pass

        def run_evaluation(self, params: Any, training_metrics: Any) -> Any:
            return training_metrics

    acting.Evaluator = NoEvaluation

    def progress(env_steps: int, metrics: dict[str, Any]) -> None:
        if env_steps:
            write(env_steps=env_steps)

    filled = -(-s["learning_starts"] // s["num_envs"]) * s["num_envs"]
    sac.train(
        envs.get_environment(s["env"], backend=s["backend"]),
        num_timesteps=filled + s["chunks"] * s["chunk"] * s["num_envs"],
        num_evals=s["chunks"] + 1,
        progress_fn=progress,
        num_envs=s["num_envs"],
        episode_length=1000,
        batch_size=s["batch_size"],
        grad_updates_per_step=s["updates"],
        min_replay_size=s["learning_starts"],
        max_replay_size=s["replay"],
        learning_rate=s["learning_rate"],
        discounting=s["gamma"],
        tau=s["tau"],
        normalize_observations=True,
        network_factory=functools.partial(
            networks.make_sac_networks, hidden_layer_sizes=tuple(s["net"])
        ),
        seed=s["seed"],
    )


def brax_ppo(s: dict[str, Any], write: Write) -> None:
    """Brax's PPO, until it is ended from outside. The clocks of its episodes start anywhere along
    the time limit, as this library's do: else all of them would end at once."""
    from brax.training.agents.ppo import networks
    from brax.training.agents.ppo import train as ppo
    from brax.training.logger import EpisodeMetricsLogger

    assert EpisodeMetricsLogger.__init__.__defaults__[0] == 100  # episodes of the mean

    class Staggered(envs.Wrapper):
        def reset(self, rng: jax.Array) -> Any:
            state = self.env.reset(rng)
            key = jax.random.fold_in(rng.reshape(-1, 2)[0], 1)
            steps = jax.random.randint(key, state.reward.shape, 0, 1000)
            state.info["steps"] = steps.astype(state.info["steps"].dtype)
            return state

    def wrapped(env: Any, **named: Any) -> Any:
        return Staggered(envs.training.wrap(env, **named))

    def progress(env_steps: int, metrics: dict[str, Any]) -> None:
        if "episode/sum_reward" in metrics:
            write(env_steps=env_steps, **{"return": float(metrics["episode/sum_reward"])})

    samples = s["num_envs"] * s["unroll"]
    reports = 1000
    ppo.train(
        envs.get_environment(s["env"], backend=s["backend"]),
        num_timesteps=reports * s["chunk"] * samples,
        num_evals=reports + 1,
        run_evals=False,
        log_training_metrics=True,
        progress_fn=progress,
        wrap_env_fn=wrapped,
        num_envs=s["num_envs"],
        episode_length=1000,
        unroll_length=s["unroll"],
        batch_size=s["num_envs"] // s["minibatches"],
        num_minibatches=s["minibatches"],
        num_updates_per_batch=s["epochs"],
        learning_rate=s["learning_rate"],
        discounting=s["gamma"],
        gae_lambda=0.95,
        entropy_cost=s["entropy"],
        clipping_epsilon=s["clip"],
        max_grad_norm=1.0,
        reward_scaling=s["reward_scale"],
        normalize_observations=True,
        network_factory=functools.partial(
            networks.make_ppo_networks,
            policy_hidden_layer_sizes=tuple(s["net"]),
            value_hidden_layer_sizes=tuple(s["value_net"]),
        ),
        seed=s["seed"],
    )


def rejax_off_policy(s: dict[str, Any], write: Write, algo: str) -> None:
    """rejax's SAC or DQN on an environment of Brax; DQN's has a set of evenly spaced actions."""
    import rejax
    from gymnax.environments import spaces
    from rejax.compat.brax2gymnax import Brax2GymnaxEnv
    from rejax.networks import DiscreteQNetwork, EpsilonGreedyPolicy

    count = s["actions"]

    class Discrete(Brax2GymnaxEnv):
        def step_env(self, key: Any, state: Any, action: jax.Array, params: Any) -> Any:
            force = jnp.linspace(-1.0, 1.0, count)[action]
            return super().step_env(key, state, force[None], params)

        def action_space(self, params: Any) -> Any:
            return spaces.Discrete(count)

    made = envs.create(s["env"], backend=s["backend"], episode_length=1000)
    env = (Discrete if count else Brax2GymnaxEnv)(made)
    trainer = rejax.get_algo(algo).create(
        env=env,
        env_params=env.default_params,
        total_timesteps=(s["chunks"] + s["filling"]) * s["chunk"] * s["num_envs"],
        eval_freq=s["chunk"] * s["num_envs"],
        skip_initial_evaluation=True,
        num_envs=s["num_envs"],
        buffer_size=s["replay"],
        fill_buffer=s["learning_starts"],
        batch_size=s["batch_size"],
        num_epochs=s["updates"],
        learning_rate=s["learning_rate"],
        gamma=s["gamma"],
        polyak=1.0 - s["tau"],
        normalize_observations=True,
        agent_kwargs={"activation": "relu"},
    )
    if algo == "dqn":
        q = EpsilonGreedyPolicy(DiscreteQNetwork)
        agent = q(hidden_layer_sizes=tuple(s["net"]), action_dim=count, activation=linen.relu)
        trainer = trainer.replace(agent=agent)
    else:
        wide = {"hidden_layer_sizes": tuple(s["net"])}
        trainer = trainer.replace(
            actor=trainer.actor.clone(**wide), critic=trainer.critic.clone(**wide)
        )

    def report(trainer: Any, state: Any, key: Any) -> tuple[()]:
        networks = [x for name, x in vars(state).items() if name.endswith("_ts")]
        learned = sum(leaf.sum() for leaf in jax.tree.leaves([n.params for n in networks]))
        jax.experimental.io_callback(
            lambda steps, _: write(env_steps=int(steps)),
            None,
            state.global_step,
            learned,
            ordered=True,
        )
        return ()

    trainer = trainer.replace(eval_callback=report)
    jax.block_until_ready(jax.jit(trainer.train)(jax.random.PRNGKey(s["seed"])))


TRAINERS: dict[str, Callable[[dict[str, Any], Write], None]] = {
    "brax-sac": brax_sac,
    "brax-ppo": brax_ppo,
    "rejax-sac": functools.partial(rejax_off_policy, algo="sac"),
    "rejax-dqn": functools.partial(rejax_off_policy, algo="dqn"),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("trainer", choices=TRAINERS)
    parser.add_argument("--settings", type=json.loads, required=True)
    parser.add_argument("--out", type=Path, required=True)
    args = parser.parse_args()
    complete_jax()

    def write(**row: Any) -> None:
        row["wall_s"] = time.perf_counter() - BEGAN
        with args.out.open("a", encoding="utf-8") as file:
            file.write(json.dumps(row) + "\n")

    TRAINERS[args.trainer](args.settings, write)


if __name__ == "__main__":
    main()
