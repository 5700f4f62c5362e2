"""The topics of tokens under fixed topics and any distribution of the intensities: a collapsed Gibbs sampler."""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit

from momentopic.kernels.lanes import LANES, weighted_lanes
from momentopic.kernels.random import GOLDEN, mix

Array = np.ndarray[Any, Any]

_STEP = np.float32(1.0 / 16777216.0)
_NOTHING = np.float32(0)


@njit(cache=True, nogil=True, inline="always")
def expected_intensity(table: Array, n: int, k: int) -> Any:
    """Return E[α_k | n tokens]: from the table, and beyond its end in proportion to n, as for any smooth prior."""
    last = table.shape[0] - 1
    return table[n, k] if n <= last else table[last, k] * np.float32(n) / np.float32(last)


@njit(cache=True, nogil=True)
def sweep(
    indptr: Array, indices: Array, counts: Array, phi: Array, own: Any, table: Array, z: Array, N: Array, state: Array
) -> None:
    """Draw the topic of every token given all others, in place.

    With the intensities integrated out, P(z = k | the others) ∝ phi_wk E[α_k | n_k], where n_k leaves the token out.

    Parameters
    ----------
    indptr, indices, counts : arrays
        The rows of a block.
    phi : float32 array of shape (M, padded K)
        The probability of each word (row) under each topic (column), up to a factor for each word; or, up to one for
        each topic that `table` has, the smoothed counts of the words in the topics before this sweep.
    own : float32
        What a token has added to phi itself, in the row of its word, and is left out: 1 for counts, else 0.
    table : float32 array of shape (rows, padded K)
        E[α_k | n], for n = 0, 1, ...; 0 where K is padded.
    z : int32 array of shape (tokens,)
        The topic of each token, entry after entry; -1 where it has none: not yet, or as no topic produces its word.
    N : int32 array of shape (documents, padded K)
        How many tokens of each topic a document has.
    state : uint64 array of shape (documents,)
        A random stream for each document.
    """
    K = phi.shape[1]
    a, lanes = np.empty(K, dtype=np.float32), np.empty(LANES, dtype=np.float32)
    t = 0
    for d in range(indptr.shape[0] - 1):
        n, stream = N[d], state[d]
        for k in range(K):
            a[k] = expected_intensity(table, n[k], k)
        for e in range(indptr[d], indptr[d + 1]):
            f = phi[indices[e]]
            for _ in range(counts[e]):
                old = z[t]
                total = _NOTHING
                if old >= 0:
                    n[old] -= 1
                    a[old] = expected_intensity(table, n[old], old)
                    total = -own * a[old]
                total += weighted_lanes(a, f, _NOTHING, lanes)
                if total > 0:
                    stream += GOLDEN
                    u = np.float32(np.int64(mix(stream) >> np.uint64(40))) * _STEP * total
                    new, likely, passed = -1, 0, np.float32(0)
                    for k in range(K):
                        part = a[k] * (f[k] - own if k == old else f[k])
                        if part > 0:
                            likely = k  # where rounding leaves nothing over, the last one that is possible
                            passed += part
                            if passed > u:
                                new = k
                                break
                    if new < 0:
                        new = likely
                    z[t] = new
                    n[new] += 1
                    a[new] = expected_intensity(table, n[new], new)
                t += 1
        state[d] = stream


@njit(cache=True, nogil=True)
def add_words(indptr: Array, indices: Array, counts: Array, z: Array, out: Array) -> None:
    """Count the tokens of each word (row) that have each topic (column)."""
    t = 0
    for e in range(indptr[-1]):
        for _ in range(counts[e]):
            if z[t] >= 0:
                out[indices[e], z[t]] += 1
            t += 1


@njit(cache=True, nogil=True)
def add_entries(counts: Array, z: Array, out: Array) -> None:
    """Add the part of the tokens of each entry (row) that has each topic (column)."""
    t = 0
    for e in range(counts.shape[0]):
        for _ in range(counts[e]):
            if z[t] >= 0:
                out[e, z[t]] += np.float32(1) / np.float32(counts[e])
            t += 1


@njit(cache=True, nogil=True)
def add_histogram(N: Array, histogram: Array) -> None:
    """Count the documents that have n tokens of topic k in histogram[n, k]; more than it has rows go to the last."""
    last = histogram.shape[0] - 1
    for d in range(N.shape[0]):
        for k in range(histogram.shape[1]):
            histogram[min(N[d, k], last), k] += 1


@njit(cache=True, nogil=True)
def add_scores(N: Array, scores: Array, out: Array) -> None:
    """Add scores[k, N_dk] to the parts of out[d] that belong to topic k; out has shape (documents, K, scores)."""
    last = scores.shape[1] - 1
    for d in range(N.shape[0]):
        for k in range(scores.shape[0]):
            row = scores[k, min(N[d, k], last)]
            for j in range(row.shape[0]):
                out[d, k, j] += row[j]
