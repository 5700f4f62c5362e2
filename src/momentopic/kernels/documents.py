"""The topics of a document under fixed topics: collapsed variational inference of order zero (CVB0)."""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit

from momentopic.kernels.lanes import reassign
from momentopic.kernels.registers import renew_tokens, renew_two

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


def by_entries(indptr: Array) -> Array:
    """Return the numbers of the documents, those of fewer entries first: two at a time then have about as many."""
    return np.argsort(np.diff(indptr), kind="stable")


@njit(cache=True, nogil=True)
def most_entries(indptr: Array, order: Array) -> int:
    """Return how many entries the last document of `by_entries` has; 0 if there is none."""
    if order.shape[0] == 0:
        return 0
    return int(indptr[order[-1] + 1] - indptr[order[-1]])


@njit(cache=True, nogil=True)
def renew_both(
    indptr: Array,
    indices: Array,
    counts: Array,
    two: Array,
    active: Array,
    phi: Array,
    c: Array,
    relax: Any,
    G: Array,
    N: Array,
    g: Array,
    vectors: tuple[int, ...],
) -> None:
    """Do what `renew` does for those of two documents, or one, that are active; at a time, where both are.

    `two` has their numbers, the second having not fewer entries; G[j] their responsibilities, N their topic counts.
    `vectors` is `vectors_of` K.
    """
    together = 0  # entries
    if two.shape[0] == 2 and active[0] and active[1] and len(vectors) > 0:
        together = indptr[two[0] + 1] - indptr[two[0]]
    if together > 0:
        a, b = slice(indptr[two[0]], indptr[two[0]] + together), slice(indptr[two[1]], indptr[two[1]] + together)
        renew_two(
            indices[a], counts[a], G[0], N[two[0]], indices[b], counts[b], G[1], N[two[1]], phi, c, relax, vectors
        )  # fmt: skip
    for j, d in enumerate(two):
        left = slice(indptr[d] + together, indptr[d + 1])
        if active[j] and left.start < left.stop:
            renew(indices[left], counts[left], phi, c, relax, G[j, together:], N[d], g, vectors)


@njit(cache=True, nogil=True)
def infer(
    indptr: Array,
    indices: Array,
    counts: Array,
    order: Array,
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
    order : int64 array of shape (n,)
        `by_entries` of the documents.
    phi : float32 array of shape (M, padded K)
        The probability of each word (row) under each topic (column), up to a factor for each word.
    c : float32 array of shape (padded K,)
        Dirichlet parameters. K is padded with zeros to a multiple of LANES.
    out : float32 array of shape (n, padded K)
    vectors : tuple
        `vectors_of` padded K.
    """
    K = c.shape[0]
    g, lengths = np.empty(K, dtype=np.float32), np.empty(2, dtype=np.float32)
    before = np.empty((2, K), dtype=np.float32)
    space = np.empty((2, most_entries(indptr, order), K), dtype=np.float32)
    out[:] = 0
    for i in range(0, order.shape[0], 2):
        two, active = order[i : i + 2], np.ones(2, dtype=np.bool_)
        for j, d in enumerate(two):
            space[j, : indptr[d + 1] - indptr[d]] = 0
        renew_both(indptr, indices, counts, two, active, phi, c, _ONE, space, out, g, vectors)
        for j, d in enumerate(two):
            lengths[j] = 0  # of the words that some topic can produce; the others say nothing
            for k in range(K):
                lengths[j] += out[d, k]
        relax = _SECOND_RELAX
        for _ in range(max_iter):
            for j, d in enumerate(two):
                before[j] = out[d]
            renew_both(indptr, indices, counts, two, active, phi, c, relax, space, out, g, vectors)
            relax = _RELAX
            for j, d in enumerate(two):
                moved = np.float32(0)
                for k in range(K):
                    moved = max(moved, abs(out[d, k] - before[j, k]))
                active[j] &= moved > tol * lengths[j]
            if not active[: two.shape[0]].any():
                break
        for d in two:
            for k in range(K):
                out[d, k] = max(out[d, k], np.float32(0))
