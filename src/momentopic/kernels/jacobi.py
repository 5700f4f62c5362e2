"""Jacobi sweeps of the orthogonal joint diagonalisation (Cardoso and Souloumiac, 1996), real symmetric case."""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit

Array = np.ndarray[Any, Any]


@njit(cache=True, nogil=True, fastmath={"reassoc", "contract"})
def _rotate(A: Array, i: int, j: int, k: int, l: int, c: float, s: float) -> None:
    """Rotate A[i, j] and A[k, l]; views of them would take longer than what is done where the rows are short."""
    for m in range(A.shape[2]):
        x, y = A[i, j, m], A[k, l, m]
        A[i, j, m] = c * x + s * y
        A[k, l, m] = c * y - s * x


@njit(cache=True, nogil=True, fastmath={"reassoc", "contract"})
def sweep(A: Array, V: Array, negligible: float) -> float:
    """Rotate every pair of coordinates once, in place; return the largest |sin| of the angles.

    Parameters
    ----------
    A : array of shape (K, K, P)
        P symmetric matrices, the matrix index last so that the inner loops run over contiguous memory. Entries below
        the diagonals are neither read nor written.
    V : array of shape (K, K)
        The product of all rotations so far: V A_p V' is diagonalised.
    negligible : float
        A pair whose criterion varies by less than this (a sum of squares) is left alone: its best angle is noise.
    """
    K, P = A.shape[0], A.shape[2]
    largest = 0.0
    for p in range(K - 1):
        for q in range(p + 1, K):
            # G = Σ g g' with g = (a_pp - a_qq, 2 a_pq): its principal direction gives the best angle in closed form
            on = 0.0
            off = 0.0
            for m in range(P):
                g = A[p, p, m] - A[q, q, m]
                h = 2.0 * A[p, q, m]
                on += g * g - h * h
                off += 2.0 * g * h
            if np.sqrt(on * on + off * off) <= negligible:
                continue
            angle = 0.25 * np.arctan2(off, on)
            s = np.sin(angle)
            largest = max(largest, abs(s))
            if s == 0.0:
                continue
            c = np.cos(angle)
            for j in range(p):
                _rotate(A, j, p, j, q, c, s)
            for j in range(p + 1, q):
                _rotate(A, p, j, j, q, c, s)
            for j in range(q + 1, K):
                _rotate(A, p, j, q, j, c, s)
            for m in range(P):
                a, b, d = A[p, p, m], A[q, q, m], A[p, q, m]
                A[p, p, m] = c * c * a + 2.0 * c * s * d + s * s * b
                A[q, q, m] = c * c * b - 2.0 * c * s * d + s * s * a
                A[p, q, m] = (c * c - s * s) * d + c * s * (b - a)
            for m in range(K):
                x, y = V[p, m], V[q, m]
                V[p, m] = c * x + s * y
                V[q, m] = c * y - s * x
    return largest


@njit(cache=True, nogil=True, fastmath={"reassoc", "contract"})
def apply_twice(packed: Array, V: Array, once: Array, twice: Array) -> None:
    """Write B_i v_i and B_i (B_i v_i) for n symmetric matrices.

    Parameters
    ----------
    packed : array of shape (n, K (K + 1) / 2)
        Each row the entries of B_i on and above the diagonal, row after row.
    V, once, twice : arrays of shape (n, K)
        The v_i, and the two results.
    """
    for i in range(len(V)):
        _apply(packed[i], V[i], once[i])
        _apply(packed[i], once[i], twice[i])


@njit(cache=True, nogil=True, fastmath={"reassoc", "contract"})
def _apply(packed: Array, x: Array, y: Array) -> None:
    K = len(x)
    y[:] = 0.0
    offset = 0
    for a in range(K):
        row = packed[offset : offset + K - a]
        offset += K - a
        total = row[0] * x[a]
        for j in range(1, K - a):
            total += row[j] * x[a + j]
            y[a + j] += row[j] * x[a]
        y[a] += total
