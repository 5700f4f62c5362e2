"""Sums of x_a y_b z_c over many rows for a <= b <= c: a symmetric third-order array, each entry computed once.

All arithmetic is in matrix products: for a tile of columns b, the products x_a y_b of all a <= b are formed for some
rows, and multiplied by z_c for c from the first column of the tile on. About N K³ / 6 multiplications, where a loop
over a with all b, c >= a would take N K³ / 3. Of single precision, the products are single and their sums double.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from momentopic._types import FloatArray

_TILE = 5
_PRODUCTS = 1 << 19  # numbers in the array of products: few calls, and it stays in the cache


def triple_tiles(K: int) -> list[tuple[int, int]]:
    """Return the tiles of columns b: (first, end) of each."""
    return [(first, min(first + _TILE, K)) for first in range(0, K, _TILE)]


def packed_size(K: int) -> int:
    """Return how many numbers the packed sums of K columns have."""
    return sum(_pairs(first, end) * (K - first) for first, end in triple_tiles(K))


def _pairs(first: int, end: int) -> int:
    """Return the number of pairs a <= b with b in the tile."""
    return (end * (end + 1) - first * (first + 1)) // 2


def add_triples(packed: FloatArray, factors: list[tuple[Any, Any]], last: Any) -> None:
    """Add Σ_n (Σ_i x_an y_bn) z_cn, a <= b <= c, to the packed sums, i running over the factors (x, y).

    Parameters
    ----------
    packed : array of shape (packed_size(K),)
        Tile after tile, rows are pairs (a, b) ordered by b, columns are c. Entries with c < b are no use.
    factors : list of pairs of arrays of shape (K, n)
    last : array of shape (K, n)
    """
    K, n = last.shape
    rows = max(16, _PRODUCTS // (K * _TILE))
    products = np.empty((K * _TILE, min(rows, n)), dtype=last.dtype)
    scratch = np.empty((K, min(rows, n)), dtype=last.dtype)
    for start in range(0, n, rows):
        chunk = slice(start, min(start + rows, n))
        width = chunk.stop - chunk.start
        z = last[:, chunk]
        offset = 0
        for first, end in triple_tiles(K):
            pair = 0
            for b in range(first, end):
                here = products[pair : pair + b + 1, :width]
                for i, (x, y) in enumerate(factors):
                    if i == 0:
                        np.multiply(x[: b + 1, chunk], y[b, chunk], out=here)
                    else:
                        np.multiply(x[: b + 1, chunk], y[b, chunk], out=scratch[: b + 1, :width])
                        here += scratch[: b + 1, :width]
                pair += b + 1
            size = pair * (K - first)
            packed[offset : offset + size] += (products[:pair, :width] @ z[first:].T).ravel()
            offset += size


def unpacked(packed: FloatArray, K: int) -> FloatArray:
    """Return the symmetric (K, K, K) array of packed sums."""
    T = np.empty((K, K, K))
    offset = 0
    for first, end in triple_tiles(K):
        pair = 0
        size = _pairs(first, end) * (K - first)
        rows = packed[offset : offset + size].reshape(-1, K - first)
        for b in range(first, end):
            part = rows[pair : pair + b + 1, b - first :]  # a <= b, c >= b
            T[: b + 1, b, b:] = part
            T[b, : b + 1, b:] = part
            T[: b + 1, b:, b] = part
            T[b, b:, : b + 1] = part.T
            T[b:, : b + 1, b] = part.T
            T[b:, b, : b + 1] = part.T
            pair += b + 1
        offset += size
    return T
