"""Constraint forces by Newton's method, for MJX: few kernels per iteration.

MuJoCo's accelerations minimize a convex cost (Todorov 2014, doi:10.1109/ICRA.2014.6907751):

    (a - a0)' M (a - a0) / 2 + sum_i s_i(x_i),    x = J a - aref

Each s_i is half a parabola with a force -D x that cannot leave a range: a contact or a limit only
pushes, dry friction has a largest force, an equality has none. So the cost's slope along a line
rises, in straight pieces. `mjx.solve` finds the same minimum. On an accelerator it launches some
hundred kernels per iteration, most in a line search that looks at costs, slopes and curvatures of
three points one by one; here a trip of the line search is one reduction over the rows.

All functions are for one environment, and vmapped.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import mujoco
import numpy as np
from jax import Array, lax

from jaxrl_hw.envs.physics.line_search import Slopes, least

_CORNER = 1e30
"""Of the bordered Hessian: larger than any g' H^-1 g, and far below float32's largest."""


class Bounds(NamedTuple):
    """When the solver stops, and what it may rely on; plain numbers."""

    iterations: int
    """Newton steps at most."""
    trips: int
    """Of the line search in each."""
    tolerance: float
    """An environment rests once a step lowers its cost, over the trace of M, by less."""
    lone: tuple[int, int] = (0, 0)
    """Rows that concern one degree of freedom each: the first of them, and the first after them."""


class Problem(NamedTuple):
    """What does not change while it is solved: n rows, nv degrees of freedom."""

    jacobian: Array  # J of the rows, [n, nv]
    mass: Array  # M, [nv, nv]
    aref: Array  # accelerations that the rows ask for, [n]
    stiffness: Array  # D, force per acceleration, [n]
    low: Array  # of the rows' forces, [n]
    high: Array
    smooth_force: Array  # all forces but the rows', [nv]
    smooth: Array  # a0, the accelerations that it causes, [nv]


class Point(NamedTuple):
    """A guess, and what moves along with it."""

    qacc: Array  # [nv]
    x: Array  # J qacc - aref, [n]
    inertial: Array  # M qacc, [nv]


def suits(model: mujoco.MjModel) -> bool:
    """Whether this solver handles the model's friction cones and its integrator.

    Which solver the model asks for does not matter: all of MuJoCo's find the same minimum.
    """
    single = (mujoco.mjtIntegrator.mjINT_EULER, mujoco.mjtIntegrator.mjINT_IMPLICITFAST)
    pyramidal = model.opt.cone == mujoco.mjtCone.mjCONE_PYRAMIDAL
    return bool(pyramidal and model.opt.integrator in single)


def lone_rows(model: mujoco.MjModel, data: Any) -> tuple[int, int]:
    """Where the rows of dry friction and of joints' limits lie, for `Bounds.lone`.

    data: any mjx.Data of the model. With tendons, or with ball joints that have limits, these rows
    may have several entries: then none is counted.
    """
    balls = model.jnt_type == mujoco.mjtJoint.mjJNT_BALL
    if model.ntendon or np.any(balls & (model.jnt_limited > 0)):
        return (0, 0)
    rows = data._impl
    return (rows.ne, rows.ne + rows.nf + rows.nl)


def solve(mass: Array, data: Any, bounds: Bounds) -> Any:
    """An mjx.Data with the constraints' forces, and the accelerations that follow.

    mass: M, [nv, nv].
    data: after `mjx.fwd_acceleration`; its qacc_warmstart is the first guess, unless the
        accelerations without any constraint are a better one.
    """
    problem = problem_of(mass, data)
    # On an accelerator the host waits after every trip of a loop whose end is not known, and of
    # thousands of environments some need all iterations anyway.
    found = lax.platform_dependent(
        problem,
        start_of(problem, data.qacc_warmstart),
        cpu=lambda p, s: until_at_rest(p, s, bounds),
        default=lambda p, s: every_iteration(p, s, bounds),
    )
    force, _ = _forces(problem, found.x)
    return data.tree_replace(
        {
            "qacc": found.qacc,
            "qfrc_constraint": problem.jacobian.T @ force,
            "_impl.efc_force": force,
        }
    )


def problem_of(mass: Array, data: Any) -> Problem:
    """The rows of an mjx.Data after `mjx.make_constraint`: equalities, dry friction, the others."""
    efc = data._impl
    n, equal, rubbing = efc.efc_J.shape[0], efc.ne, efc.ne + efc.nf
    row = jnp.arange(n)
    low = jnp.where(row < equal, -jnp.inf, jnp.where(row < rubbing, -efc.efc_frictionloss, 0.0))
    high = jnp.where((row < equal) | (row >= rubbing), jnp.inf, efc.efc_frictionloss)
    return Problem(
        efc.efc_J, mass, efc.efc_aref, efc.efc_D, low, high, data.qfrc_smooth, data.qacc_smooth
    )


def start_of(problem: Problem, warm: Array) -> Point:
    """The better of two guesses: the last step's accelerations, and those without constraints."""
    guesses = jnp.stack((warm, problem.smooth))
    x = guesses @ problem.jacobian.T - problem.aref
    points = Point(guesses, x, guesses @ problem.mass)
    force, _ = _forces(problem, points.x)
    compliance = 1.0 / jnp.maximum(problem.stiffness, mujoco.mjMINVAL)
    rows = (-force * (points.x + 0.5 * force * compliance)).sum(axis=-1)
    moved = guesses - problem.smooth
    cost = rows + 0.5 * (moved * (points.inertial - problem.smooth_force)).sum(axis=-1)
    first = cost[0] < cost[1]
    return jax.tree.map(lambda leaf: jnp.where(first, leaf[0], leaf[1]), points)


def _forces(problem: Problem, x: Array) -> tuple[Array, Array]:
    """The rows' forces, and which of them would change with x."""
    free = -problem.stiffness * x
    force = jnp.clip(free, problem.low, problem.high)
    return force, force == free


def until_at_rest(problem: Problem, start: Point, bounds: Bounds) -> Point:
    """Newton steps until no environment moves."""

    def moves(carry: tuple[Point, Array, Array]) -> Array:
        _, at_rest, k = carry
        return ~at_rest & (k < bounds.iterations)

    def body(carry: tuple[Point, Array, Array]) -> tuple[Point, Array, Array]:
        point, _, k = carry
        return *_newton_step(problem, point, bounds), k + 1

    return lax.while_loop(moves, body, (start, jnp.bool_(False), jnp.int32(0)))[0]


def every_iteration(problem: Problem, start: Point, bounds: Bounds) -> Point:
    """As many steps as there may be; an environment at rest keeps what it has."""

    def body(_: Array, carry: tuple[Point, Array]) -> tuple[Point, Array]:
        point, at_rest = carry
        moved, rests = _newton_step(problem, point, bounds)
        kept = jax.tree.map(lambda old, new: jnp.where(at_rest, old, new), point, moved)
        return kept, at_rest | rests

    return lax.fori_loop(0, bounds.iterations, body, (start, jnp.bool_(False)))[0]


def _newton_step(problem: Problem, point: Point, bounds: Bounds) -> tuple[Point, Array]:
    """The point of least cost along Newton's direction, and whether it is as good as before."""
    force, changes = _forces(problem, point.x)
    gradient = point.inertial - problem.smooth_force - problem.jacobian.T @ force
    direction = _against(_hessian(problem, changes, bounds.lone), gradient)
    slope = direction @ gradient
    moved, pushed = problem.jacobian @ direction, problem.mass @ direction
    smooth = slope + force @ moved
    at = _slopes(problem, point.x, moved, smooth, direction @ pushed)
    # along Newton's direction d the curvature d' H d is -d' g
    length = least(at, slope, -slope, bounds.trips)
    new = Point(
        point.qacc + length * direction,
        point.x + length * moved,
        point.inertial + length * pushed,
    )
    return new, -length * slope < bounds.tolerance * jnp.trace(problem.mass)


def _hessian(problem: Problem, changes: Array, lone: tuple[int, int]) -> Array:
    """M + J' D J of the rows whose force changes, [nv, nv]; lone rows add to its diagonal only."""
    first, last = lone
    jacobian, stiffness = problem.jacobian, problem.stiffness * changes
    diagonal = jnp.square(jacobian[first:last]).T @ stiffness[first:last]
    others, weight = jacobian[last:], stiffness[last:]
    if first:
        others = jnp.concatenate((jacobian[:first], others))
        weight = jnp.concatenate((stiffness[:first], weight))
    return problem.mass + jnp.diag(diagonal) + others.T @ (weight[:, None] * others)


def _against(hessian: Array, gradient: Array) -> Array:
    """Newton's direction d = -H^-1 g, with one triangular solve instead of two.

    The Cholesky factor of [[H, g], [g', corner]] has L^-1 g as its last row. So L' d = -L^-1 g is
    left to solve. The bordered factor solves it where d is followed by a 1.
    """
    nv = gradient.shape[0]
    corner = jnp.full((1,), _CORNER, gradient.dtype)
    above = jnp.concatenate((hessian, gradient[:, None]), axis=1)
    below = jnp.concatenate((gradient, corner))
    bordered = jnp.concatenate((above, below[None]))
    factor = lax.linalg.cholesky(bordered, symmetrize_input=False)
    last = jnp.zeros((nv + 1, 1), gradient.dtype).at[nv, 0].set(factor[nv, nv])
    solved = lax.linalg.triangular_solve(factor, last, left_side=True, lower=True, transpose_a=True)
    return solved[:nv, 0]


def _slopes(problem: Problem, x: Array, moved: Array, smooth: Array, curvature: Array) -> Slopes:
    """The slope and curvature of the cost at step lengths, [k] each.

    moved: J direction, [n]. smooth: the slope at 0 without the rows. curvature: of M.
    """

    def at(lengths: Array) -> tuple[Array, Array]:
        force, changes = _forces(problem, x + lengths[:, None] * moved)
        slope = smooth + lengths * curvature - (force * moved).sum(axis=-1)
        bent = (changes * (problem.stiffness * moved * moved)).sum(axis=-1)
        return slope, curvature + bent

    return at
