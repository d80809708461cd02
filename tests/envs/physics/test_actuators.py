"""Actuators of any kind move a model on MJX as C MuJoCo does, also at their limits."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import mujoco
import numpy as np
import pytest

from jaxrl_hw.envs.physics import mjx
from jaxrl_hw.envs.physics.api import state_at

ROWS, SUBSTEPS = 32, 2
GENERAL = 'general biastype="affine" biasprm="1 -10 -1.5"'
DAMPED_BY_CTRL = f'{GENERAL} gaintype="affine" gainprm="1 0 -2"'
SERVO = 'position kp="20" kv="2"'
LIMIT = 'forcerange="-12 12"'
MIX = [
    *(SERVO, f"{SERVO} {LIMIT}"),
    *('velocity kv="2"', f'velocity kv="2" gear="-2" {LIMIT}'),
    *("motor", f'motor gear="20" {LIMIT}'),
    *(f'{GENERAL} gainprm="10"', f'{GENERAL} gainprm="10" {LIMIT}'),
    *(DAMPED_BY_CTRL, f"{DAMPED_BY_CTRL} {LIMIT}"),
    f'{SERVO} timeconst="0.1" {LIMIT}',
]


def chain(actuators: list[str], joint: str = "", integrator: str = "implicitfast") -> str:
    """MJCF of as many links, each with a hinge about y and one of the actuators.

    joint: more attributes of the hinges.
    """
    links = "".join(
        '<body pos="0.1 0 0" gravcomp="0.5">'
        f'<joint name="j{i}" axis="0 1 0" armature="0.1" {joint}/>'
        '<geom size="0.05" pos="0.2 0 0" mass="1" contype="0" conaffinity="0"/>'
        for i in range(len(actuators))
    )
    motors = "".join(f'<{one} joint="j{i}"/>' for i, one in enumerate(actuators))
    return (
        f'<mujoco><option timestep="0.005" integrator="{integrator}"/>'
        f"<worldbody>{links}{'</body>' * len(actuators)}</worldbody>"
        f'<actuator>{motors}</actuator><keyframe><key name="home"/></keyframe></mujoco>'
    )


def gap(mjcf: str) -> tuple[float, float]:
    """How far qvel is from C MuJoCo's after a few physics steps, rad/s, and the share at a limit.

    Over random velocities and ctrl; the largest difference. Counted are actuators and joints.
    """
    model = mujoco.MjModel.from_xml_string(mjcf)
    rng = np.random.default_rng(0)
    qvel = (2.0 * rng.standard_normal((ROWS, model.nv))).astype(np.float32)
    ctrl = rng.standard_normal((ROWS, model.nu)).astype(np.float32)
    engine = mjx.make(model, SUBSTEPS, ())
    step = jax.jit(jax.vmap(lambda v, u: engine.step({}, state_at(model)._replace(qvel=v), u)))
    got, _ = step(jnp.asarray(qvel), jnp.asarray(ctrl))
    wanted, clipped = np.zeros(qvel.shape), []
    for row in range(ROWS):
        data = mujoco.MjData(model)
        data.qvel[:], data.ctrl[:] = qvel[row], ctrl[row]
        mujoco.mj_step(model, data, nstep=SUBSTEPS)
        wanted[row] = data.qvel
        clipped.append(np.abs(data.actuator_force) == model.actuator_forcerange[:, 1])
        clipped.append(np.abs(data.qfrc_actuator) == model.jnt_actfrcrange[:, 1])
    limits = model.actuator_forcelimited.sum() + model.jnt_actfrclimited.sum()
    share = np.concatenate(clipped).sum() / (ROWS * max(limits, 1))
    return float(np.abs(got.qvel - wanted).max()), float(share)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("integrator", "actuators"), [("implicitfast", MIX), ("Euler", MIX), ("RK4", MIX[:2])]
)
def test_actuators_move_alike_at_force_limits(integrator: str, actuators: list[str]) -> None:
    difference, share = gap(chain(actuators, integrator=integrator))
    assert 0.1 < share < 0.9
    assert difference < 1e-4  # rad/s


def test_a_motor_beside_a_servo_leaves_the_servo_undamped_at_its_limit() -> None:
    difference, share = gap(chain([f"{SERVO} {LIMIT}", "motor"]))
    assert 0.1 < share < 0.9
    assert difference < 1e-4


@pytest.mark.slow
@pytest.mark.skipif(mujoco.mj_version() < 4_000_000, reason="MuJoCo 3 damps such a joint")
def test_an_actuator_whose_joint_is_at_its_limit_is_not_damped() -> None:
    joint = 'actuatorfrcrange="-3 3" actuatorgravcomp="true"'
    second = '<velocity joint="j0" kv="1" forcerange="-9 9"/></actuator>'
    mjcf = chain([SERVO, f"{SERVO} {LIMIT}", "motor"], joint).replace("</actuator>", second)
    difference, share = gap(mjcf)
    assert 0.1 < share < 0.9
    assert difference < 1e-4


def test_damping_that_grows_with_ctrl_is_that_of_the_ctrl_in_its_range() -> None:
    difference, _ = gap(chain([f'{DAMPED_BY_CTRL} ctrlrange="-0.2 0.3"', DAMPED_BY_CTRL]))
    assert difference < 1e-4
