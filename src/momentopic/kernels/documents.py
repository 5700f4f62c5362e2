"""The topics of a document under fixed topics: collapsed variational inference of order zero (CVB0)."""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit

Array = np.ndarray[Any, Any]


# A loop that both stores and sums gets a run-time check whether its arrays overlap, and the order of its additions then
# depends on where they lie. Sums are therefore functions of their own, which only read.
@njit(cache=True, nogil=True, fastmath={"reassoc"})
def total_of(g: Array) -> float:
    """Return Σ_k g_k."""
    total = 0.0
    for k in range(g.shape[0]):
        total += g[k]
    return total


@njit(cache=True, nogil=True)
def responsibilities(p: Array, counts: Array, own: Array, c: Array, g: Array) -> bool:
    """Write g_k ∝ p_k (counts_k - own_k + c_k) into g; return False where no topic can produce the word."""
    for k in range(p.shape[0]):
        g[k] = p[k] * (max(counts[k] - own[k], 0.0) + c[k])
    total = total_of(g)
    if total <= 0.0:
        return False
    inverse = 1.0 / total
    for k in range(p.shape[0]):
        g[k] *= inverse
    return True


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
    """Write the expected tokens of each topic in each document into `out`, of shape (n, K).

    Each token of a word has the responsibilities g_k ∝ phi_wk (N_dk - g_k + c_k), its own contribution left out, and
    N_dk is the sum of all of them: iterated until no N_dk moves by more than `tol` times the length.

    Parameters
    ----------
    indptr, indices, counts : arrays
        The rows of a block.
    phi : array of shape (M, K)
        The probability of each word (row) under each topic (column).
    c : array of shape (K,)
        Dirichlet parameters.
    """
    K = c.shape[0]
    nothing = np.zeros(K)
    fresh = np.empty(K)
    for d in range(indptr.shape[0] - 1):
        begin, end = indptr[d], indptr[d + 1]
        G = np.zeros((end - begin, K))
        N = out[d]
        N[:] = 0.0
        length = 0.0
        for i in range(end - begin):
            if responsibilities(phi[indices[begin + i]], nothing, nothing, c, G[i]):
                x = float(counts[begin + i])
                length += x
                for k in range(K):
                    N[k] += x * G[i, k]
            else:
                G[i, 0] = -1.0  # a word that no topic can produce says nothing
        for _ in range(max_iter):
            moved = 0.0
            before = N.copy()
            for i in range(end - begin):
                if G[i, 0] < 0.0:
                    continue
                responsibilities(phi[indices[begin + i]], N, G[i], c, fresh)
                x = float(counts[begin + i])
                for k in range(K):
                    N[k] += x * (fresh[k] - G[i, k])
                    G[i, k] = fresh[k]
            for k in range(K):
                moved = max(moved, abs(N[k] - before[k]))
            if moved <= tol * length:
                break
        for k in range(K):
            N[k] = max(N[k], 0.0)
