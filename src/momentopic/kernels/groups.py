"""The part of X' Y that belongs to chosen words, for documents of one group."""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit

Array = np.ndarray[Any, Any]


@njit(cache=True, nogil=True, fastmath={"contract"})
def add_rows(
    indptr: Array, indices: Array, counts: Array, documents: Array, place: Array, Y: Array, totals: Array, out: Array
) -> None:
    """Add x_n y_n' of each of the documents to the rows of `out` of the words that have a place, and x_n to `totals`.

    Parameters
    ----------
    indptr, indices, counts : arrays
        The block.
    documents : int array
        Numbers of documents within the block.
    place : int array of shape (M,)
        The row of each word, or -1.
    Y : array of shape (len(documents), K)
    totals : array of shape (R,)
    out : array of shape (R, K)
    """
    for i in range(documents.shape[0]):
        n = documents[i]
        y = Y[i]
        for p in range(indptr[n], indptr[n + 1]):
            row = place[indices[p]]
            if row >= 0:
                x = counts[p]
                totals[row] += x
                scale = Y.dtype.type(x)
                target = out[row]
                for k in range(y.shape[0]):
                    target[k] += scale * y[k]
