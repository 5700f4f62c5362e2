"""The topics of a document under fixed topics: collapsed variational inference of order zero (CVB0)."""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit

from momentopic.kernels.lanes import reassign

Array = np.ndarray[Any, Any]


@njit(cache=True, nogil=True, fastmath={"reassoc", "contract"})
def log_probability(words: Array, phi: Array, theta: Array) -> float:
    """Return Σ_n log Σ_k θ_k phi_{w_n k}.

    A compiled loop, because the bits of numpy's matrix-vector product depend on where its arrays happen to lie.
    """
    total = 0.0
    for n in range(words.shape[0]):
        p = phi[words[n]]
        mixed = 0.0
        for k in range(theta.shape[0]):
            mixed += theta[k] * p[k]
        total += np.log(mixed)
    return total


@njit(cache=True, nogil=True)
def infer(
    indptr: Array, indices: Array, counts: Array, phi: Array, c: Array, tol: float, max_iter: int, out: Array
) -> None:
    """Write the expected tokens of each topic in each document into `out`, of shape (n, padded K).

    Each token of a word has the responsibilities g_k ∝ phi_wk (N_dk - g_k + c_k), its own contribution left out, and
    N_dk is the sum of all of them: iterated until no N_dk moves by more than `tol` times the length.

    Parameters
    ----------
    indptr, indices, counts : arrays
        The rows of a block.
    phi : float32 array of shape (M, padded K)
        The probability of each word (row) under each topic (column), up to a factor for each word.
    c : float32 array of shape (padded K,)
        Dirichlet parameters. K is padded with zeros to a multiple of LANES.
    out : float32 array of shape (n, padded K)
    """
    K = c.shape[0]
    nothing = np.zeros(K, dtype=np.float32)
    g, before = np.empty(K, dtype=np.float32), np.empty(K, dtype=np.float32)
    longest = 0
    for d in range(indptr.shape[0] - 1):
        longest = max(longest, indptr[d + 1] - indptr[d])
    G = np.empty((longest, K), dtype=np.float32)
    for d in range(indptr.shape[0] - 1):
        begin, entries = indptr[d], indptr[d + 1] - indptr[d]
        N = out[d]
        N[:] = 0
        G[:entries] = 0
        length = np.float32(0)
        for i in range(entries):
            x = np.float32(counts[begin + i])
            if reassign(phi[indices[begin + i]], c, nothing, G[i], x, N, g) > 0:
                length += x  # a word that no topic can produce says nothing
        for _ in range(max_iter):
            before[:] = N
            for i in range(entries):
                reassign(phi[indices[begin + i]], c, N, G[i], np.float32(counts[begin + i]), N, g)
            moved = np.float32(0)
            for k in range(K):
                moved = max(moved, abs(N[k] - before[k]))
            if moved <= tol * length:
                break
        for k in range(K):
            N[k] = max(N[k], np.float32(0))
