"""PPO's settings."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class PPOConfig:
    """Proximal policy optimization (Schulman et al. 2017, arXiv:1707.06347)."""

    unroll: int = 24
    """Control steps collected from every environment per iteration (T)."""
    epochs: int = 4
    """Passes over the batch per iteration."""
    minibatches: int = 6
    """Minibatches per pass; must divide num_envs * unroll."""
    gamma: float = 0.97
    """Discount per control step."""
    gae_lambda: float = 0.95
    """Lambda of generalized advantage estimation (Schulman et al. 2016, arXiv:1506.02438)."""
    clip: float = 0.2
    """Probability-ratio clip range."""
    value_clip: float = 0.0
    """Clip range of the value's change per iteration; 0 leaves it unclipped."""
    value_coef: float = 1.0
    """Weight of the value loss."""
    entropy_coef: float = 0.002
    """Weight of the entropy bonus."""
    learning_rate: float = 1e-3
    """Adam's step size at the start."""
    lr_schedule: str = "adaptive"
    """adaptive (follows the KL divergence) or fixed."""
    desired_kl: float = 0.03
    """adaptive: the rate falls where the last epoch's KL passes twice this, rises under half."""
    lr_min: float = 1e-5
    """adaptive: lower bound of the rate."""
    lr_max: float = 1e-3
    """adaptive: upper bound of the rate."""
    anneal: int = 0
    """Iterations over which the rate's upper bound falls along a line to a tenth and exploration
    noise to end_std; 0: never. Counted from the run's start, not from its goal, so that a longer
    goal does not change what was."""
    end_std: float = 0.15
    """Upper bound of the policy's standard deviation at the end of the annealing."""
    weight_averaging: float = 0.0
    """Part of the run so far over which the weights of the policy that is evaluated and exported
    are averaged; 0: they are the last ones."""
    critic_warmup: int = 0
    """Iterations at the start in which only the value network learns, at lr_max; the policy then
    starts at learning_rate. `--init-from` a policy alone sets 120: with a value network that is new
    a trained policy would first lose what it can."""
    motion_prior: bool = True
    """Start the policy from the task's open-loop motion (stepping in place), if it has one."""
    max_grad_norm: float = 1.0
    """Gradients are scaled down to this global norm."""
    symmetry: str = "loss"
    """loss (mirror loss on the policy mean), augment (mirrored copies of the batch) or none."""
    symmetry_coef: float = 1.0
    """Weight of the mirror loss."""
