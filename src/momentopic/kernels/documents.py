"""The topics of a document under fixed topics: collapsed variational inference of order zero (CVB0)."""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit

from momentopic.kernels.lanes import reassign
from momentopic.kernels.registers import renew_tokens

Array = np.ndarray[Any, Any]

_ONE = np.float32(1)
_SECOND_RELAX, _RELAX = np.float32(1.2), np.float32(1.5)  # a third fewer passes are needed than with 1


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
def renew(
    words: Array,
    counts: Array,
    phi: Array,
    c: Array,
    relax: Any,
    G: Array,
    N: Array,
    g: Array,
    vectors: tuple[int, ...],
) -> None:
    """Renew the responsibilities of a document: g_k ∝ phi_wk (N_k - g_k + c_k), each entry's own contribution left out.

    N follows. At the beginning both are zeros. With `relax` above 1 they go that much beyond what they find (see
    `reassign`). `g` is scratch space; `vectors` is `vectors_of` K.
    """
    if len(vectors) > 0:
        renew_tokens(words, counts, phi, c, relax, G, N, vectors)
        return
    for i in range(words.shape[0]):
        reassign(phi[words[i]], c, N, G[i], np.float32(counts[i]), relax, N, g)


@njit(cache=True, nogil=True)
def most_entries(indptr: Array) -> int:
    """Return how many entries the longest document has."""
    most = 0
    for d in range(indptr.shape[0] - 1):
        most = max(most, indptr[d + 1] - indptr[d])
    return most


@njit(cache=True, nogil=True)
def infer(
    indptr: Array,
    indices: Array,
    counts: Array,
    phi: Array,
    c: Array,
    tol: float,
    max_iter: int,
    out: Array,
    vectors: tuple[int, ...],
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
    vectors : tuple
        `vectors_of` padded K.
    """
    K = c.shape[0]
    g, before = np.empty(K, dtype=np.float32), np.empty(K, dtype=np.float32)
    space = np.empty((most_entries(indptr), K), dtype=np.float32)
    for d in range(indptr.shape[0] - 1):
        words, tokens, n = indices[indptr[d] : indptr[d + 1]], counts[indptr[d] : indptr[d + 1]], out[d]
        G = space[: words.shape[0]]
        G[:] = 0
        n[:] = 0
        renew(words, tokens, phi, c, _ONE, G, n, g, vectors)
        length = np.float32(0)  # of the words that some topic can produce; the others say nothing
        for k in range(K):
            length += n[k]
        relax = _SECOND_RELAX
        for _ in range(max_iter):
            before[:] = n
            renew(words, tokens, phi, c, relax, G, n, g, vectors)
            relax = _RELAX
            moved = np.float32(0)
            for k in range(K):
                moved = max(moved, abs(n[k] - before[k]))
            if moved <= tol * length:
                break
        for k in range(K):
            n[k] = max(n[k], np.float32(0))
