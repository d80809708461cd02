"""Every setting of a run, each with one default: frozen dataclasses, no logic.

Presets (`jaxrl_hw.presets`) start from these and change what a robot or an algorithm needs. Every
field is a flag of `python -m jaxrl_hw.train`; nested ones are dotted (`--ppo.gamma 0.99`).
"""

from __future__ import annotations

from dataclasses import dataclass, field

from jaxrl_hw.joystick_config import (
    STRETCHES,
    JoystickConfig,
    JoystickFinish,
    JoystickLast,
    JoystickLater,
    JoystickReward,
)

__all__ = (
    "STRETCHES",
    "CartpoleConfig",
    "Config",
    "JoystickConfig",
    "JoystickFinish",
    "JoystickLast",
    "JoystickLater",
    "JoystickReward",
    "NetConfig",
    "PPOConfig",
)


@dataclass(frozen=True)
class NetConfig:
    """Policy and value networks: plain multilayer perceptrons."""

    policy: tuple[int, ...] = (512, 256, 128)
    """Widths of the policy's hidden layers."""
    value: tuple[int, ...] = (512, 256, 128)
    """Widths of the value network's hidden layers."""
    activation: str = "elu"
    """elu, relu, silu (swish) or tanh."""
    init_std: float = 0.8
    """Standard deviation of the Gaussian policy at the start, in units of action."""


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
    average: float = 0.0
    """Part of the run so far over which the weights of the policy that is evaluated and exported
    are averaged; 0: they are the last ones."""
    value_first: int = 0
    """Iterations at the start in which only the value network learns, at lr_max; the policy then
    starts at learning_rate. `--init-from` a policy alone sets 120: with a value network that is new
    a trained policy would first lose what it can."""
    guide: bool = True
    """Start the policy from the task's open-loop motion (stepping in place), if it has one."""
    max_grad_norm: float = 1.0
    """Gradients are scaled down to this global norm."""
    symmetry: str = "loss"
    """loss (mirror loss on the policy mean), augment (mirrored copies of the batch) or none."""
    symmetry_coef: float = 1.0
    """Weight of the mirror loss."""


@dataclass(frozen=True)
class CartpoleConfig:
    """Swing a pole up and balance it, from random starts."""

    episode_s: float = 10.0
    """Time limit of an episode, s (a truncation)."""
    start_angle: float = 0.3
    """Largest offset of the pole from hanging, rad."""
    randomize: bool = True
    """Randomize the pole's mass and the start state."""
    pole_mass: tuple[float, float] = (0.9, 1.1)
    """Factor on the pole's mass, uniform."""


@dataclass(frozen=True)
class Config:
    """A whole run. `"auto"` values are settled by `make_plan`."""

    robot: str = "g1"
    """Which robot: g1, g1_12dof, go1, cartpole, or one that was registered."""
    task: str = "auto"
    """Which task: joystick or cartpole; auto is the robot's own."""
    algo: str = "ppo"
    """Which algorithm: ppo."""
    preset: str = "optimized"
    """fast, optimized or best: networks, rollout, epochs and goal together."""
    num_envs: int | str = "auto"
    """Environments stepped side by side: auto (sized from free memory) or a number."""
    physics: str = "auto"
    """auto, mjx (on the device) or native (MuJoCo's C engine on CPU threads)."""
    timestep: float = 0.0
    """Physics time step, s; 0 is the robot's own. Must divide the control step."""
    iterations: int = 1000
    """Goal: iterations over all sessions of the run."""
    time_limit: str = ""
    """Stop cleanly, saved, within this long of the start: 85m, 2h, 300s. Empty: no limit."""
    run_dir: str = ""
    """Folder of the run; empty: runs/<robot>-<task>-<algo>-<seed>."""
    resume: str = "auto"
    """auto, never, required, or the path of a checkpoint or run to start from."""
    override_config: bool = False
    """Go on with a run although learning settings differ from those it began with."""
    early_stop: str = ""
    """Stop when the return no longer grows: patience=300,min-delta=0.5 is 300 iterations without a
    mean return more than 0.5 above the best. Empty: never."""
    deterministic: bool = False
    """On a GPU, use only operations whose results repeat to the bit; on a CPU all are."""
    save_every: int = 50
    """Iterations between checkpoints."""
    keep: int = 3
    """Latest checkpoints kept, besides the best."""
    keep_every: int = 0
    """Every K-th iteration's checkpoint stays for good; 0: none."""
    mirror: str = ""
    """Folder, on a drive say, in which a copy of the run's folder is kept up; empty: none."""
    seed: int = 0
    """Seed of every random number of the run."""
    mem_fraction: float | str = "auto"
    """Share of the accelerator's memory to use: auto (from what is free) or 0.05 to 0.95."""
    memory_limit: str = ""
    """Most memory that the run may use, on a CPU too: 900MB, 6GB, 2GiB. Empty: no limit of its
    own."""
    max_envs: int = 0
    """Most environments that auto may choose; 0 is the platform's usual most."""
    on_oom: str = "shrink"
    """Out of memory while training: shrink (go on with fewer environments) or fail."""
    precision: str = "float32"
    """float32 or bfloat16: the networks' arithmetic; physics is always float32."""
    threads: int = 0
    """CPU threads of the native engine; 0 is all of them. Results do not depend on it."""
    tensorboard: bool = True
    """Write TensorBoard files."""
    init_from: str = ""
    """zoo:NAME, a policy file (.npz) or a run's folder: whose policy a new run starts from. The
    command line also takes its networks and a gentler rate; in code: `inheriting.like_origin`."""
    net: NetConfig = field(default_factory=NetConfig)
    ppo: PPOConfig = field(default_factory=PPOConfig)
    joystick: JoystickConfig = field(default_factory=JoystickConfig)
    cartpole: CartpoleConfig = field(default_factory=CartpoleConfig)
