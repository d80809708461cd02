"""Every setting of a run, each with one default: frozen dataclasses, no logic.

Presets (`jaxrl_hw.presets`) start from these and change what a robot or an algorithm needs. Every
field is a flag of `python -m jaxrl_hw.train`; nested ones are dotted (`--ppo.gamma 0.99`).
"""

from __future__ import annotations

from dataclasses import dataclass, field


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
    guide: bool = True
    """Start the policy from the task's open-loop motion (stepping in place), if it has one."""
    max_grad_norm: float = 1.0
    """Gradients are scaled down to this global norm."""
    symmetry: str = "loss"
    """loss (mirror loss on the policy mean), augment (mirrored copies of the batch) or none."""
    symmetry_coef: float = 1.0
    """Weight of the mirror loss."""


@dataclass(frozen=True)
class JoystickReward:
    """Weights of the reward terms, per second of time in the term's own units.

    A term's reward per control step is weight * value * control_dt; `fall` is paid once.
    """

    velocity: float = 3.0
    """exp(-|v_xy - command|^2 / velocity_sigma), base frame."""
    velocity_fine: float = 0.0
    """exp(-|v_xy - command|^2 / velocity_fine_sigma): a narrow peak on the wide one, which leads
    there."""
    yaw_rate: float = 1.5
    """exp(-(yaw rate - command)^2 / yaw_sigma)."""
    foot_height: float = 8.0
    """exp(-sum over feet of e^2 / height_sigma): e is how far a swinging foot is below the swing
    curve, or a standing one above the floor."""
    foot_contact: float = 0.8
    """Per foot: 1 where contact agrees with the phase's stance or swing."""
    slip: float = -0.3
    """Squared horizontal speed of feet in contact, (m/s)^2."""
    landing: float = 0.0
    """Squared speed, (m/s)^2, at which feet within 3 cm of where they stand come down."""
    vertical_velocity: float = -1.0
    """Squared vertical velocity of the base, (m/s)^2."""
    roll_pitch_rate: float = -0.1
    """Squared roll and pitch rates, (rad/s)^2."""
    tilt: float = -2.0
    """Squared horizontal part of the gravity direction in the base frame."""
    base_height: float = -10.0
    """Squared deviation of the base's height from its target, m^2."""
    action_rate: float = -0.01
    """Squared change of the action between control steps."""
    velocity_error: float = -2.0
    """|v_xy - command|, m/s."""
    yaw_error: float = -1.0
    """|yaw rate - command|, rad/s."""
    power: float = -0.002
    """Mechanical power, W: the sum over joints of |torque * velocity|."""
    torque: float = 0.0
    """Squared motor torque as a fraction of its limit, summed over joints."""
    joint_limit: float = -5.0
    """How far joints are beyond the soft part of their range, rad."""
    posture: float = -1.0
    """Squared deviation from the home pose, weighted by the robot's posture weights, rad^2."""
    stand_still: float = -1.0
    """Squared deviation of all joints from home while the command is zero, rad^2."""
    alive: float = 0.05
    """1 in every step that is not a fall."""
    fall: float = -2.0
    """1 in the step of a fall; paid once, not per second."""


@dataclass(frozen=True)
class JoystickLater:
    """What counts from one iteration of a run on, in place of the settings of the same names: a
    robot that has yet to learn to walk is asked for less."""

    iteration: int = 0
    """The iteration; counted from the run's start, not from its goal. 0: never."""
    zero_command: float = 0.25
    """Probability that a new command is to stand still."""
    recovery_speed: float = 0.4
    """Horizontal base speed, m/s, from which a robot that is told to stand is paid for stepping."""
    power: float = -0.008
    """Weight of the reward term of that name, as the next one."""
    landing: float = -5.0


@dataclass(frozen=True)
class JoystickConfig:
    """Follow a commanded planar velocity and yaw rate."""

    vx: tuple[float, float] = (-1.0, 1.0)
    """Range of the commanded forward velocity, m/s."""
    vy: tuple[float, float] = (-0.5, 0.5)
    """Range of the commanded leftward velocity, m/s."""
    yaw_rate: tuple[float, float] = (-1.0, 1.0)
    """Range of the commanded yaw rate, rad/s."""
    zero_command: float = 0.15
    """Probability that a new command is to stand still."""
    resample_s: tuple[float, float] = (4.0, 10.0)
    """Seconds between new commands, uniform."""
    episode_s: float = 20.0
    """Time limit of an episode, s (a truncation)."""
    fall_tilt: float = 1.0
    """Angle of the base's up axis to the vertical that counts as a fall, rad."""
    crouch: float = 0.02
    """How far under its standing height the base should be, m."""
    velocity_sigma: float = 0.15
    """Scale of the velocity reward, (m/s)^2."""
    velocity_fine_sigma: float = 0.04
    """Scale of the fine velocity reward, (m/s)^2."""
    yaw_sigma: float = 0.15
    """Scale of the yaw reward, (rad/s)^2."""
    height_sigma: float = 0.003
    """Scale of the foot-height reward, m^2."""
    swing_height: float = 0.08
    """Height of the swing curve's top, m."""
    swing_exponent: float = 1.0
    """Power of the half sine that a swinging foot follows: at 2 it lands and leaves at no speed."""
    swing_fraction: float = 0.45
    """Part of the gait cycle that a foot swings."""
    standing_clock: float = 1.0
    """Size at which the policy sees the gait's clock while it is told to stand still: 1 is as ever,
    0 is not at all."""
    recovery_speed: float = 0.0
    """Horizontal base speed, m/s, from which a robot that is told to stand is paid for stepping: a
    push has set it off. 0 never pays for that."""
    recovery_after_s: float = 0.0
    """Seconds of an episode from which that counts: who has just begun falls, not stumbles."""
    push_speed: float = 1.2
    """Largest sudden change of the base's horizontal velocity, m/s; 0 for none."""
    push_interval_s: float = 5.0
    """Mean seconds between pushes."""
    noise: float = 1.0
    """Scale of all observation noise; 0 for none."""
    randomize: bool = True
    """Randomize friction, masses, torso offset, joint friction and armature, and start pose."""
    friction: tuple[float, float] = (0.3, 1.25)
    """Floor friction coefficient, uniform."""
    link_mass: tuple[float, float] = (0.9, 1.1)
    """Factor on every link's mass and inertia, uniform per link."""
    torso_mass: tuple[float, float] = (-1.0, 3.0)
    """Mass added to the torso, kg, uniform."""
    torso_offset: float = 0.03
    """Largest shift of the torso's centre of mass along each axis, m."""
    joint_friction: tuple[float, float] = (0.5, 2.0)
    """Factor on joint friction loss, log-uniform per joint."""
    armature: tuple[float, float] = (0.9, 1.2)
    """Factor on joint armature, uniform per joint."""
    dry_friction: bool = True
    """Simulate the joints' dry friction; off, a physics step is a fifth cheaper."""
    self_collision: bool = True
    """Parts of the robot meet each other where its model has contact pairs for them; off, only
    soles and floor do."""
    start_yaw: float = 3.1416
    """Largest heading at the start, rad, to either side."""
    start_joint: float = 0.1
    """Largest offset of a joint at the start, rad."""
    start_velocity: float = 0.3
    """Largest base velocity at the start, m/s and rad/s."""
    reward: JoystickReward = field(default_factory=JoystickReward)
    later: JoystickLater = field(default_factory=JoystickLater)


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
    """zoo:NAME, a policy file (.npz) or a run's folder: whose policy a new run starts from."""
    net: NetConfig = field(default_factory=NetConfig)
    ppo: PPOConfig = field(default_factory=PPOConfig)
    joystick: JoystickConfig = field(default_factory=JoystickConfig)
    cartpole: CartpoleConfig = field(default_factory=CartpoleConfig)
