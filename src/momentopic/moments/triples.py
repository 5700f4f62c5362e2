"""Symmetric third-order arrays whose entries are kept once: packed for a <= b <= c, ordered by b, then a, then c."""

from __future__ import annotations

from typing import Any

import numpy as np

from momentopic._types import FloatArray

_MULTIPLE = 8  # of columns: a register of single precision


def packed_size(K: int) -> int:
    """Return how many numbers the packed entries of a (K, K, K) array are."""
    return K * (K + 1) * (K + 2) // 6


def padded_rows(rows: Any) -> Any:
    """Return (K, n) rows with two rows and some columns of zeros added, as `kernels.triples.add_triples` wants them."""
    K, n = rows.shape
    padded = np.zeros((K + 2, -(-n // _MULTIPLE) * _MULTIPLE), dtype=rows.dtype)
    padded[:K, :n] = rows
    return padded


def packed(T: FloatArray) -> FloatArray:
    """Return the packed entries of a symmetric (K, K, K) array."""
    return np.concatenate([T[: b + 1, b, b:].ravel() for b in range(len(T))])


def unpacked(packed: FloatArray, K: int) -> FloatArray:
    """Return the symmetric (K, K, K) array of packed entries."""
    T = np.empty((K, K, K))
    offset = 0
    for b in range(K):
        size = (b + 1) * (K - b)
        part = packed[offset : offset + size].reshape(b + 1, K - b)  # a <= b, c >= b
        offset += size
        T[: b + 1, b, b:] = part
        T[b, : b + 1, b:] = part
        T[: b + 1, b:, b] = part
        T[b, b:, : b + 1] = part.T
        T[b:, : b + 1, b] = part.T
        T[b:, b, : b + 1] = part.T
    return T
