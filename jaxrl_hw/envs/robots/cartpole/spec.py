"""Cart and pole, swing-up: the smallest thing to learn, and the quickest test of a trainer.

A cart of 1 kg on a rail of +-1.8 m carries a pole of 1 m and 0.1 kg; one motor pushes the cart with
up to 10 N. The hinge angle is 0 when the pole is upright; "home" hangs down (pi rad).
"""

from pathlib import Path

from jaxrl_hw.envs.robots.spec import RobotSpec

SPEC = RobotSpec(
    name="cartpole",
    mjcf=Path(__file__).resolve().parent / "cartpole.xml",
    task="cartpole",
    action_scale=(1.0,),
    timestep=0.01,
)
