"""Bursts: words that come back in a document more often than its topics say, and would weigh too much in them."""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit

from momentopic.kernels.lanes import product

Array = np.ndarray[Any, Any]

FEWEST = 3  # occurrences: of two, both would be kept in any case
_EXPONENT = 0.85
# for `collapsed.start`: word frequencies that are mixed in, their part, and room for the counts that are left
AS_THEY_ARE: tuple[Array, float, Array] = (np.empty(0), 0.0, np.empty(0, dtype=np.float32))


@njit(cache=True, nogil=True)
def shortened(x: float, phi: Array, n: Array, of_background: float, mixed: float) -> float:
    """Return how many of x tokens of a word in a document are left: t (x / t)^0.85, if x is above t.

    t is how many tokens of the word the topics of the document let expect, but at least 1.

    Parameters
    ----------
    phi, n : float32 arrays of shape (padded K,)
        The probability of the word under each topic, and the tokens of each topic in the document.
    of_background, mixed : float
        What of Σ_k phi_k n_k is of the word frequencies that were mixed into all topics, and their part of these.
    """
    if x < FEWEST:
        return x
    usual = max((np.float64(product(phi, n)) - of_background) / (1 - mixed), 1.0)
    return x if x <= usual else usual * (x / usual) ** _EXPONENT


@njit(cache=True, nogil=True)
def shorten(
    indptr: Array,
    indices: Array,
    counts: Array,
    phi: Array,
    frequencies: Array,
    mixed: float,
    z: Array,
    first_token: Array,
    N: Array,
    kept: Array,
) -> int:
    """Leave out some tokens of bursts; return how many tokens are left.

    As many are kept as `shortened` says, rounded.

    Parameters
    ----------
    indptr, indices, counts : arrays
        The rows of a block.
    phi : float32 array of shape (words, padded K)
        The probability of each word (row) under each topic, as tokens were drawn.
    frequencies : float array of shape (words,)
        What was mixed into all of these topics.
    mixed : float
        Its part of them.
    z : uint16 array of shape (tokens,)
        The topics of the tokens, entry after entry. Those of the tokens that are kept move to the front.
    first_token : int64 array of shape (documents,)
        The first token of each document; afterwards, among those that are kept.
    N : float32 array of shape (documents, padded K)
        How many tokens of each topic a document has; afterwards, of those that are kept.
    kept : array of shape (entries,)
        For the tokens of each entry that are kept.
    """
    place = 0
    drawn = np.empty(N.shape[1], dtype=np.float32)
    for d in range(indptr.shape[0] - 1):
        t, first_token[d] = first_token[d], place
        length = 0.0
        for k in range(drawn.shape[0]):  # a loop, because slices and sums of arrays take long to compile
            drawn[k] = N[d, k]
            length += drawn[k]
        for e in range(indptr[d], indptr[d + 1]):
            word, x = indices[e], np.int64(counts[e])
            left: Any = x
            if x >= FEWEST:
                of_background = mixed * frequencies[word] * length
                left = np.int64(np.rint(shortened(np.float64(x), phi[word], drawn, of_background, mixed)))
            kept[e] = left
            for i in range(left):
                z[place + i] = z[t + i]
            for i in range(left, x):
                N[d, z[t + i]] -= np.float32(1)
            place += left
            t += x
    return place
