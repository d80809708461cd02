"""Every setting of a run, each with one default: frozen dataclasses, no logic.

Presets (`jaxrl_hw.config.presets`) start from these and change what a robot or an algorithm needs.
Every field is a flag of `python -m jaxrl_hw.train`; nested ones are dotted (`--ppo.gamma 0.99`).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from jaxrl_hw.algos.networks.settings import NetConfig
from jaxrl_hw.algos.ppo_settings import PPOConfig
from jaxrl_hw.config.curriculum import Stage
from jaxrl_hw.envs.tasks.cartpole.settings import CartpoleConfig
from jaxrl_hw.envs.tasks.joystick.settings import JoystickConfig
from jaxrl_hw.types import setting

Engine = Literal["auto", "mjx", "native", "warp"]
MOST_ACTIONS = 1024
"""Of a discrete set: one output of the network for each."""


@dataclass(frozen=True)
class Config:
    """A whole run. `"auto"` values are settled by `make_plan`.

    A robot, task or algorithm with settings of its own has a subclass with one more group:
    `jaxrl_hw.config.presets`.
    """

    env: str = setting("")
    """An environment of another library in place of a robot: brax:NAME, such as brax:ant, or
    playground:NAME, such as playground:CartpoleBalance."""
    robot: str = setting("g1")
    """Which robot: one that comes with the package (g1, g1_12dof, h1, t1, go1, go2, cartpole), a
    module of your own (my_package.my_robot), or a name of the entry point group jaxrl_hw.robots.
    With env it is the environment's name."""
    task: str = setting("auto")
    """Which task: joystick or cartpole; auto is the robot's own."""
    algo: str = setting("ppo")
    """Which algorithm: ppo, a2c, sac, dqn, or a module of your own (my_package.my_algorithm)."""
    preset: Literal["fast", "optimized", "best", "auto"] = setting("optimized")
    """Networks, rollout, epochs and goal together. auto: the one that suits the device, which is
    settled when the run starts."""
    num_envs: int | str = setting("auto", resume=True)
    """Environments stepped side by side: auto (sized from free memory) or a number."""
    physics: Engine = setting("auto", resume=True)
    """mjx and warp run on the device, native is MuJoCo's C engine on CPU threads. auto: native on a
    CPU, warp on an NVIDIA GPU for which the doctor has checked it, else mjx."""
    devices: int | str = setting("", resume=True)
    """Train on several devices at once: all, or a number, over which num_envs is divided. Results
    do not depend on the number, but for rounding. Empty: on one, with other random numbers than
    --devices 1; on all where several processes train."""
    discrete_actions: int = setting(0, at_least=0, at_most=MOST_ACTIONS)
    """Values that each motor's action can take, evenly spaced from -1 to 1, for algorithms that
    choose from a set: N for one motor, N * N for two; at most 1024 in all. 0: continuous."""
    gains: str = setting("")
    """Gains of the motors: one of the robot's sets, such as stiff for g1. Empty: its model's."""
    timestep: float = setting(0.0, unit="s", at_least=0.0)
    """Physics time step; 0 is the robot's own. Must divide the control step."""
    timesteps: int = setting(11_000_000, unit="env steps", at_least=0, resume=True)
    """Goal: env steps over all sessions of the run, such as 30M; 0: none."""
    iterations: int = setting(0, at_least=0, resume=True)
    """Goal: iterations over all sessions of the run; 0: none. On the command line it is the goal
    alone, unless --timesteps is given too: then the first that is reached ends the run."""
    time_limit: str = setting("", resume=True)
    """Stop cleanly, saved, within this long of the start: 85m, 2h, 300s. Empty: no limit."""
    run_dir: str = setting("", resume=True)
    """Folder of the run; empty: runs/<robot>-<task>-<algo>-<seed>."""
    resume: str = setting("auto", resume=True)
    """auto, never, required, or the path of a checkpoint or run to start from."""
    override_config: bool = setting(False, resume=True)
    """Continue a run although its learning settings differ from those it began with."""
    early_stop: str = setting("", resume=True)
    """Stop when the return no longer grows: patience=2M,min-delta=0.5 is 2 million env steps
    without a mean return more than 0.5 above the best. Empty: never."""
    deterministic: bool = setting(False, resume=True)
    """On a GPU, use only operations whose results repeat to the bit; on a CPU all are."""
    save_every: int = setting(50, unit="iterations", at_least=1, resume=True)
    """Time between checkpoints."""
    keep: int = setting(3, at_least=1, resume=True)
    """Latest checkpoints kept, besides the best."""
    keep_every: int = setting(0, at_least=0, resume=True)
    """Every K-th iteration's checkpoint is never deleted; 0: none."""
    save_replay: Literal["auto", "yes", "no"] = setting("auto", resume=True)
    """Whether checkpoints hold the replay, without which a run does not continue to the bit; auto:
    where it is small (up to 200 MB)."""
    eval_every: int = setting(0, unit="env steps", at_least=0, resume=True)
    """Evaluate the policy at the next checkpoint after every so many env steps, such as 2M: ten
    commands of 5 s, and the same with a push; the best checkpoint goes by it. 0: never. For robots
    that follow commands."""
    mirror: str = setting("", resume=True)
    """Folder, on a drive for example, that receives a copy of the run's folder; empty: none."""
    seed: int = setting(0, at_least=0, at_most=2**31 - 1)
    """Seed of every random number of the run."""
    seeds: int = setting(1, at_least=1, at_most=1024, resume=True)
    """Learners trained in one program, with the seeds from `seed` on. Each is a run of its own in
    RUN_DIR/seed-N, and num_envs is of each."""
    mem_fraction: float | str = setting("auto", resume=True)
    """Share of the accelerator's memory to use: auto (from what is free) or 0.05 to 0.95."""
    memory_limit: str = setting("", resume=True)
    """Most memory that the run may use, on a CPU too: 900MB, 6GB, 2GiB. Empty: no limit."""
    max_envs: int = setting(0, at_least=0, resume=True)
    """Most environments that auto may choose; 0 is the platform's default."""
    on_oom: Literal["shrink", "fail"] = setting("shrink", resume=True)
    """When training runs out of memory: shrink continues with fewer environments."""
    on_nan: Literal["halve", "fail"] = setting("halve", resume=True)
    """A gradient or a loss that is not finite: halve skips the update, and after `nan_patience` of
    them goes back to the last checkpoint with half the learning rate and entropy bonus, three times
    at most; fail ends the run at the first one."""
    nan_patience: int = setting(5, unit="iterations", at_least=1, at_most=50, resume=True)
    """Updates skipped in a row before the run goes back."""
    precision: Literal["float32", "bfloat16"] = setting("float32", resume=True)
    """Arithmetic of the networks; physics is always float32."""
    threads: int = setting(0, at_least=0, resume=True)
    """CPU threads of the native engine; 0 is all of them. Results do not depend on it."""
    profile: int = setting(0, unit="iterations", at_least=0, at_most=100, resume=True)
    """Trace so many iterations, from a session's second one on, and print where their time goes."""
    quiet: bool = setting(False, resume=True)
    """Print warnings and the end alone; console.log in the run's folder has everything."""
    log_format: Literal["rich", "plain", "json"] = setting("rich", resume=True)
    """rich draws the progress in place on a terminal and prints lines elsewhere; plain always
    prints lines; json prints an object per line."""
    tensorboard: bool = setting(True, resume=True)
    """Write TensorBoard files."""
    wandb: Literal["off", "auto", "offline"] = setting("off", resume=True)
    """Send metrics to Weights & Biases: auto sends them where there is a login and a network, and
    else keeps them in the run's folder, as offline does."""
    init_from: str = setting("", resume=True)
    """zoo:NAME, a policy file (.npz) or a run's folder: the policy that a new run starts from. The
    command line also takes its networks and a tenth of the learning rate; in code use
    `jaxrl_hw.policies.sources.like_origin`."""
    net: NetConfig = setting(NetConfig)
    ppo: PPOConfig = setting(PPOConfig)
    joystick: JoystickConfig = setting(JoystickConfig)
    cartpole: CartpoleConfig = setting(CartpoleConfig)
    curriculum: tuple[Stage, ...] = setting(())
    """Stages, each an env step and the settings that change there, in rising order: "4.9M:
    joystick.zero-command=0.25 joystick.reward.fall=-5" is one stage; none for no curriculum."""

    def __post_init__(self) -> None:
        if self.env:  # all that asks for the robot finds the environment
            object.__setattr__(self, "robot", self.env)
