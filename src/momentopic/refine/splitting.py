"""More topics than the moments support."""

from __future__ import annotations

from typing import Any

import numpy as np

from momentopic._types import FloatArray


def split_topics(topics: FloatArray, K: int, random_state: int = 0, dtype: Any = np.float64) -> Any:
    """Return K topics: the given ones and, where they are fewer, random halves of the first ones.

    Parameters
    ----------
    topics : array of shape (k, M), k <= K
        Rows are probability vectors, the most prominent first.
    K : int
    random_state : int
    dtype : dtype
        Of the result.

    Returns
    -------
    array of shape (K, M)
    """
    rng = np.random.default_rng(random_state)
    parts = list(topics)
    for i in range(K - len(topics)):
        # each word goes mostly to one half or mostly to the other
        share = rng.beta(0.5, 0.5, size=topics.shape[1])
        parts.append(parts[i] * share)
        parts[i] = parts[i] * (1 - share)
    rows = np.array(parts, dtype=dtype)
    totals = rows.sum(axis=1, keepdims=True, dtype=np.float64)
    rows[~(totals[:, 0] > 0)] = 1.0
    rows /= np.where(totals > 0, totals, topics.shape[1]).astype(dtype)
    return rows
