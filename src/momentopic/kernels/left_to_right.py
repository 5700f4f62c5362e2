"""The left-to-right estimate of the likelihood of a document (Wallach et al. 2009; Buntine 2009)."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numba import njit

from momentopic.kernels.chib import draw, weight

Array = np.ndarray[Any, Any]


@njit(cache=True, nogil=True)
def left_to_right(words: Array, phi: Array, c: Array, n_particles: int, n_moves: int, state: Array) -> float:
    """Estimate log P(words) by the mean over particles of Π_n P(w_n | z_<n).

    Before each token, `n_moves` of the earlier ones are drawn again, in turn. Parameters as in `chib`.
    """
    L, K = words.shape[0], c.shape[0]
    c0 = 0.0
    for k in range(K):
        c0 += c[k]
    logs = np.zeros(n_particles)
    z = np.empty(L, dtype=np.int64)
    for r in range(n_particles):
        a = c.copy()
        turn = 0
        for n in range(L):
            for _ in range(min(n, n_moves)):
                turn = turn + 1 if turn + 1 < n else 0
                a[z[turn]] -= 1.0
                z[turn] = draw(a, phi[words[turn]], state)
                a[z[turn]] += 1.0
            p = phi[words[n]]
            logs[r] += math.log(weight(a, p) / (c0 + n))
            z[n] = draw(a, p, state)
            a[z[n]] += 1.0
    largest = float(logs.max())
    total = 0.0
    for r in range(n_particles):
        total += math.exp(logs[r] - largest)
    return largest + math.log(total / n_particles)
