"""What MuJoCo Warp's kernels take beside JAX's arrays, before the model is loaded."""

from __future__ import annotations

_PER_ROW, _ROWS_PER_DOF = 24, 4
"""Bytes per constraint, and room for constraints per degree of freedom: 3 (Go1) to 4.2 (G1)."""


def warp_scratch(dofs: int) -> int:
    """Bytes per environment that its solver takes: Newton's matrix, and vectors of constraints.

    The engine knows the sizes of its arrays (`envs.physics.warp_memory`), and a program that has
    been compiled here has its figures. Pairs of boxes, cylinders or meshes take more, which the
    number of degrees of freedom does not tell.
    """
    matrix = 4 * dofs**2 if dofs <= 32 else 2 * 4 * (16 * -(-dofs // 16)) ** 2
    return matrix + _PER_ROW * _ROWS_PER_DOF * dofs
