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

from momentopic import kernels
from momentopic._types import FloatArray, IntArray
from momentopic.engine.threads import sum_over_ranges

_MEMORY = 16  # pairs of steps and changes of the gradient that are remembered
_LONGEST = 0.3  # radians: the largest entry of a step
_SMALLEST = 0.05  # curvatures below this part of their median are raised to it
_DECREASE = 1e-4  # part of what the slope promises that a step must deliver
_ROUNDING = 1e-14  # of the whole: differences of the criterion below it mean nothing
_NUMBERS = 1 << 17  # in the matrices of a part: they stay in the second-level cache
_TENSOR_PARTS = 4  # of V: each reads the whole tensor
_SMALL = 48  # topics: fewer are not worth another thread
_SYMMETRIC = 1e-12  # part of the largest entry by which those of a symmetric tensor may differ


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
    squares: FloatArray | None = None,
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
    squares : array of shape (K, K), optional
        Σ_p (V B_p V')_ij² for i < j, where they are known.
    """
    K = len(V)
    pairs: tuple[Any, Any] = np.triu_indices(K, 1)
    whole = float((matrices**2).sum())
    slices = packed_slices(matrices) if is_symmetric_tensor(matrices) else None
    sums = _sums(matrices, V) if slices is None or squares is None else _tensor_sums(slices, V, squares)
    point = _point(sums, pairs, whole)
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
            sums = _sums(matrices, moved) if slices is None else _tensor_sums(slices, moved, sums.squares)
            reached = _point(sums, pairs, whole)
            if reached.off <= point.off + _DECREASE * size * slope + _ROUNDING * whole:
                break
            size /= 2
            if size < 1e-8:
                return Steps(V, n_steps, False)
        if slices is not None and _largest(reached) <= tol:  # if the squares are those of the first step
            sums = _sums(matrices, moved)
            reached = _point(sums, pairs, whole)
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


class _Sums(NamedTuple):
    """Sums over the matrices a = V B_p V', each of shape (K, K)."""

    crossed: FloatArray  # Σ_p a_ii a_ij
    squares: FloatArray  # Σ_p a_ij²
    products: FloatArray  # Σ_p a_ii a_jj


def _point(sums: _Sums, pairs: tuple[IntArray, IntArray], whole: float) -> _Point:
    diagonal = np.diag(sums.products)
    apart = (diagonal[:, None] + diagonal - 2 * sums.products)[pairs]  # Σ_p (a_ii - a_jj)²
    crossed = (sums.crossed - sums.crossed.T)[pairs]
    on = apart - 4 * sums.squares[pairs]
    angles = 0.25 * np.arctan2(4 * crossed, on)
    # a pair whose criterion hardly varies has no best angle: `kernels.jacobi.sweep` leaves it alone too
    angles[np.hypot(on, 4 * crossed) <= np.finfo(np.float64).eps ** 2 * whole] = 0.0
    # rotations leave the whole as it is
    return _Point(whole - float(diagonal.sum()), -4 * crossed, 4 * on, angles)


def _sums(matrices: FloatArray, V: FloatArray) -> _Sums:
    size = max(1, _NUMBERS // len(V) ** 2)
    return _Sums(*sum_over_ranges(_rotated_part, len(matrices), size, matrices, V))


def _rotated_part(part: slice, matrices: FloatArray, V: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
    rotated = V @ matrices[part] @ V.T
    diagonals = rotated.diagonal(axis1=1, axis2=2).copy()
    crossed = np.einsum("pi,pij->ij", diagonals, rotated)
    return crossed, np.einsum("pij,pij->ij", rotated, rotated), diagonals.T @ diagonals


def is_symmetric_tensor(matrices: FloatArray) -> bool:
    """Whether symmetric matrices are the slices of an array that is symmetric in all three indices, up to rounding."""
    if matrices.shape[0] != matrices.shape[1]:
        return False
    return bool(abs(matrices - matrices.transpose(1, 0, 2)).max() <= _SYMMETRIC * abs(matrices).max())


def packed_slices(T: FloatArray) -> FloatArray:
    """Return the entries T[:, b, c] of b <= c as an array of shape (K, K (K + 1) / 2)."""
    b, c = np.triu_indices(len(T))
    return np.ascontiguousarray(T[:, b, c])


def _tensor_sums(slices: FloatArray, V: FloatArray, squares: FloatArray) -> _Sums:
    """Return the sums over the slices of a symmetric tensor, all but the squares, in a third of the time.

    With B_i = T(v_i, ·, ·), a_ij over p is the vector B_i v_j: Σ_p a_ii a_ij = v_j' B_i (B_i v_i). One product gives
    half of the entries of all B_i, which is all of them.

    Parameters
    ----------
    slices : array of shape (K, K (K + 1) / 2)
        From `packed_slices`.
    V : array of shape (K, K)
    squares : array of shape (K, K)
        Of an earlier step: they only serve to guess the curvature, for which those of the first step do as well.
    """
    K = len(V)
    once, twice = np.empty((K, K)), np.empty((K, K))
    size = K if K < _SMALL else -(-K // _TENSOR_PARTS)
    sum_over_ranges(_applied_part, K, size, slices, V, once, twice)
    return _Sums(twice @ V.T, squares, once @ once.T)


def _applied_part(
    part: slice, slices: FloatArray, V: FloatArray, once: FloatArray, twice: FloatArray
) -> tuple[FloatArray]:
    kernels.jacobi.apply_twice(V[part] @ slices, V[part], once[part], twice[part])
    return (np.zeros(1),)
