"""Passes over the sparse rows of a block of documents, one document at a time, and the sum of two such passes."""

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
def add_in_double(a: Array, b: Array, out: Array) -> None:
    """Write a + b, in single precision, into `out` in double."""
    for i in range(a.shape[0]):
        out[i] = np.float64(a[i]) + np.float64(b[i])
