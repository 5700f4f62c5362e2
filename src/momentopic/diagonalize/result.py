"""What every diagonalisation returns."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from momentopic._types import FloatArray


@dataclass(frozen=True, eq=False)
class Diagonalization:
    """An orthogonal matrix that makes matrices (or a tensor) as diagonal as it can.

    Attributes
    ----------
    V : array of shape (K, K)
        Orthogonal; its rows are the z_k of equation (orthT): V B_p V' is close to diagonal.
    diagonals : array of shape (P, K)
        The diagonals a_p of V B_p V'.
    off : float
        What is left off the diagonals: Σ_p Σ_{i≠j} (V B_p V')_ij².
    n_sweeps : int
        Iterations: Jacobi sweeps for the joint diagonalisation, the longest run for the power method, 1 for the
        spectral algorithm.
    converged : bool
        Whether the iteration reached its tolerance before its limit.
    """

    V: FloatArray
    diagonals: FloatArray
    off: float
    n_sweeps: int
    converged: bool


def diagonalized(V: FloatArray, matrices: FloatArray, n_sweeps: int, converged: bool) -> Diagonalization:
    """Measure how far V diagonalises the (P, K, K) matrices."""
    rotated = V @ matrices @ V.T
    diagonals = rotated.diagonal(axis1=1, axis2=2).copy()
    k = np.arange(len(V))
    rotated[:, k, k] = 0.0  # not the difference of two large sums
    return Diagonalization(V, diagonals, float(np.vdot(rotated, rotated)), n_sweeps, converged)


def symmetric_matrices(matrices: FloatArray) -> FloatArray:
    """Check that `matrices` is a stack of finite symmetric matrices and return it as float64."""
    stack = np.asarray(matrices, dtype=np.float64)
    if stack.ndim != 3 or stack.shape[1] != stack.shape[2] or stack.size == 0:
        raise ValueError(f"expected matrices of shape (P, K, K), got {stack.shape}")
    if not np.isfinite(stack).all():
        raise ValueError("the matrices to diagonalise contain NaN or infinity")
    if abs(stack - stack.transpose(0, 2, 1)).max() > 1e-8 * abs(stack).max():
        raise ValueError("the matrices to diagonalise are not symmetric")
    return stack
