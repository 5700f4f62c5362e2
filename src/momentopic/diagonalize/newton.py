"""Quasi-Newton steps of the orthogonal joint diagonalisation, for the end of the way.

Jacobi sweeps converge fast where the matrices can be diagonalised together, as those of sampled corpora nearly can. On
real ones much is left off the diagonals, each sweep undoes a part of the last, and 50 to 200 of them are needed. There
the criterion is smooth: limited-memory BFGS on the orthogonal group, with the second derivatives along single pairs
of coordinates for a first guess of the Hessian (as in Picard-O; Ablin, Cardoso and Gramfort 2018), takes some 40 steps.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from momentopic._types import FloatArray, IntArray
from momentopic.engine.threads import sum_over_ranges

_MEMORY = 12  # pairs of steps and changes of the gradient that are remembered
_LONGEST = 0.3  # radians: the largest entry of a step
_SMALLEST = 0.05  # curvatures below this part of their median are raised to it
_DECREASE = 1e-4  # part of what the slope promises that a step must deliver
_ROUNDING = 1e-14  # of the whole: differences of the criterion below it mean nothing
_NUMBERS = 1 << 17  # in the matrices of a part: they stay in the second-level cache


class _Point(NamedTuple):
    """The criterion at an orthogonal matrix, in the coordinates of the pairs i < j."""

    off: float  # Σ_p Σ_{i≠j} (V B_p V')_ij²
    gradient: FloatArray
    curvature: FloatArray
    angles: FloatArray  # by which a Jacobi sweep would rotate each pair, if it were the first


class Steps(NamedTuple):
    """Where quasi-Newton steps have led."""

    V: FloatArray
    n_steps: int
    converged: bool


def quasi_newton(
    matrices: FloatArray,
    V: FloatArray,
    *,
    tol: float,
    gain: float = 0.0,
    max_steps: int = 200,
    first: int = 0,
    callback: Callable[[int, float], None] | None = None,
) -> Steps:
    """Go down from V to where no rotation of a pair of coordinates has a |sin| above `tol`.

    Parameters
    ----------
    matrices : array of shape (P, K, K)
        Symmetric.
    V : array of shape (K, K)
        Orthogonal.
    tol : float
    gain : float
        Also stop when a step lowers the criterion by less than this part of Σ_p ‖B_p‖².
    max_steps : int
        Stop after this many, or when the criterion does not go down any more.
    first : int
        Where the callback's count of steps begins.
    callback : callable, optional
        Called as ``callback(first + steps done, largest |sin| left)`` after each step.
    """
    K = len(V)
    pairs: tuple[Any, Any] = np.triu_indices(K, 1)
    whole = float((matrices**2).sum())
    point = _evaluated(matrices, V, pairs, whole)
    remembered: list[tuple[FloatArray, FloatArray]] = []
    n_steps = 0
    converged = _largest(point) <= tol
    while not converged and n_steps < max_steps:
        direction = _direction(point, remembered)
        slope = float(direction @ point.gradient)
        longest = float(abs(direction).max())
        if longest < np.finfo(np.float64).eps:
            return Steps(V, n_steps, False)  # a saddle: some pair may still be at its worst
        size = min(1.0, _LONGEST / longest)
        while True:
            moved = _orthogonalised(_rotation(size * direction, pairs, K) @ V)
            reached = _evaluated(matrices, moved, pairs, whole)
            if reached.off <= point.off + _DECREASE * size * slope + _ROUNDING * whole:
                break
            size /= 2
            if size < 1e-8:
                return Steps(V, n_steps, False)
        step, change = size * direction, reached.gradient - point.gradient
        if step @ change > 1e-12 * np.linalg.norm(step) * np.linalg.norm(change):
            remembered = [*remembered, (step, change)][-_MEMORY:]
        converged = _largest(reached) <= tol or point.off - reached.off < gain * whole
        V, point = moved, reached
        n_steps += 1
        if callback is not None:
            callback(first + n_steps, _largest(point))
    return Steps(V, n_steps, converged)


def _largest(point: _Point) -> float:
    return float(np.sin(abs(point.angles)).max(initial=0.0))


def _direction(point: _Point, remembered: list[tuple[FloatArray, FloatArray]]) -> FloatArray:
    """Return the step of limited-memory BFGS, by its two loops; forget everything where it would go up."""
    curvature = abs(point.curvature)
    smallest = max(_SMALLEST * float(np.median(curvature)), float(np.finfo(np.float64).tiny))
    curvature = np.maximum(curvature, smallest)
    direction: FloatArray = -point.gradient
    parts = []
    for step, change in reversed(remembered):
        part = float(step @ direction) / float(step @ change)
        direction = direction - part * change
        parts.append(part)
    direction = direction / curvature
    for (step, change), part in zip(remembered, reversed(parts), strict=True):
        direction = direction + step * (part - float(change @ direction) / float(step @ change))
    if direction @ point.gradient >= 0:
        remembered.clear()
        direction = -point.gradient / curvature
    return direction


def _rotation(step: FloatArray, pairs: tuple[IntArray, IntArray], K: int) -> FloatArray:
    """Return the Cayley transform of the skew matrix with these entries above the diagonal."""
    half = np.zeros((K, K))
    half[pairs] = step / 2
    half -= half.T
    rotation: Any = np.linalg.solve(np.eye(K) - half, np.eye(K) + half)  # typed as any floating array
    result: FloatArray = rotation
    return result


def _orthogonalised(V: FloatArray) -> FloatArray:
    """Return V without its rounding errors: one Newton step to the nearest orthogonal matrix."""
    result: FloatArray = 1.5 * V - 0.5 * V @ V.T @ V
    return result


def _evaluated(matrices: FloatArray, V: FloatArray, pairs: tuple[IntArray, IntArray], whole: float) -> _Point:
    K = len(V)
    size = max(1, _NUMBERS // K**2)
    crossed, squares, products = sum_over_ranges(_rotated_part, len(matrices), size, matrices, V)
    # with a = V B_p V': crossed_ij = Σ_p a_ii a_ij, squares_ij = Σ_p a_ij², products_ij = Σ_p a_ii a_jj
    diagonal = np.diag(products)
    apart = (diagonal[:, None] + diagonal - 2 * products)[pairs]  # Σ_p (a_ii - a_jj)²
    crossed = (crossed - crossed.T)[pairs]
    squares = squares[pairs]
    on = apart - 4 * squares
    angles = 0.25 * np.arctan2(4 * crossed, on)
    # a pair whose criterion hardly varies has no best angle: `kernels.jacobi.sweep` leaves it alone too
    angles[np.hypot(on, 4 * crossed) <= np.finfo(np.float64).eps ** 2 * whole] = 0.0
    return _Point(2 * float(squares.sum()), -4 * crossed, 4 * on, angles)


def _rotated_part(part: slice, matrices: FloatArray, V: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
    rotated = V @ matrices[part] @ V.T
    diagonals = rotated.diagonal(axis1=1, axis2=2).copy()
    crossed = np.einsum("pi,pij->ij", diagonals, rotated)
    return crossed, np.einsum("pij,pij->ij", rotated, rotated), diagonals.T @ diagonals
