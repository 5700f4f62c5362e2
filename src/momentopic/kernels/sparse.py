"""Passes over the sparse rows of a block of documents, one document at a time."""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit

Array = np.ndarray[Any, Any]


@njit(cache=True, nogil=True)
def totals(indptr: Array, indices: Array, counts: Array, weights: Array, out: Array) -> None:
    """Add X' w to `out`: the weighted total of each word."""
    for n in range(indptr.shape[0] - 1):
        for p in range(indptr[n], indptr[n + 1]):
            out[indices[p]] += weights[n] * counts[p]


@njit(cache=True, nogil=True)
def third_words(
    indptr: Array,
    indices: Array,
    counts: Array,
    weights: Array,
    V: Array,
    Y: Array,
    a: float,
    b: float,
    first: int,
    last: int,
    out: Array,
) -> None:
    """Add w_n x_nm (a y_n y_n' - b Σ_i x_ni V_i V_i') to row m - first of `out` for the words first <= m < last.

    Rows of `out` are upper triangles of K x K matrices, row after row.
    """
    K = V.shape[1]
    R = np.empty(K * (K + 1) // 2)
    for n in range(indptr.shape[0] - 1):
        begin = indptr[n] + np.searchsorted(indices[indptr[n] : indptr[n + 1]], first)
        end = indptr[n] + np.searchsorted(indices[indptr[n] : indptr[n + 1]], last)
        if begin == end:
            continue
        start = 0
        for k in range(K):
            scaled = weights[n] * a * Y[n, k]
            for l in range(k, K):
                R[start + l - k] = scaled * Y[n, l]
            start += K - k
        for p in range(indptr[n], indptr[n + 1]):
            x = weights[n] * b * counts[p]
            v = V[indices[p]]
            start = 0
            for k in range(K):
                scaled = x * v[k]
                for l in range(k, K):
                    R[start + l - k] -= scaled * v[l]
                start += K - k
        for p in range(begin, end):
            x = float(counts[p])
            row = out[indices[p] - first]
            for j in range(R.shape[0]):
                row[j] += x * R[j]
