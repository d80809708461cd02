"""Every setting of a run, each with one default: frozen dataclasses, no logic.

Presets (`jaxrl_hw.config.presets`) start from these and change what a robot or an algorithm needs.
Every field is a flag of `python -m jaxrl_hw.train`; nested ones are dotted (`--ppo.gamma 0.99`).
"""

from __future__ import annotations

from dataclasses import dataclass, field

from jaxrl_hw.algos.networks.settings import NetConfig
from jaxrl_hw.algos.ppo_settings import PPOConfig
from jaxrl_hw.envs.tasks.cartpole.settings import CartpoleConfig
from jaxrl_hw.envs.tasks.joystick.settings import JoystickConfig


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
