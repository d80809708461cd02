"""Where a run ends: at an iteration, at an env step, or at whichever comes first."""

from __future__ import annotations

from jaxrl_hw.config.resolve import algorithm_needs, sized
from jaxrl_hw.config.schema import Config
from jaxrl_hw.config.units import format_count


def goal_iteration(config: Config, iteration: int = 0, env_steps: int = 0) -> int:
    """The iteration after which a run ends.

    Args:
      config: with its number of environments settled.
      iteration, env_steps: that the run has done; from here on every iteration is of one size.
    """
    num_envs = int(config.num_envs)
    samples = num_envs * algorithm_needs(sized(config, num_envs)).unroll
    ends = [config.iterations] if config.iterations else []
    if config.timesteps:
        ends.append(iteration - (env_steps - config.timesteps) // samples)
    return min(ends)


def goal_text(config: Config) -> str:
    """A run's goal in words."""
    by_iterations = f"iteration {config.iterations:,}"
    by_steps = f"{format_count(config.timesteps)} env steps (iteration {goal_iteration(config):,})"
    if not config.timesteps:
        return by_iterations
    return f"{by_steps} or {by_iterations}" if config.iterations else by_steps
