"""Cart and pole, swing-up: the smallest thing to learn, and the quickest test of a trainer.

A cart of 1 kg on a rail of +-1.8 m carries a pole of 1 m and 0.1 kg; one motor pushes the cart with
up to 10 N. The hinge angle is 0 when the pole is upright; "home" hangs down (pi rad).
"""

import math
from pathlib import Path

from jaxrl_hw.envs.robots.spec import RobotSpec

SPEC = RobotSpec(
    name="cartpole",
    mjcf=Path(__file__).resolve().parent / "cartpole.xml",
    task="cartpole",
    base="",
    torso="cart",
    feet=(),
    gait_offsets=(),
    gait_period=1.0,
    action_scale=(1.0,),
    timestep=0.01,
    base_height=0.0,
    fall_height=-math.inf,
    posture=(0.0, 0.0),
    mirror=None,
)
