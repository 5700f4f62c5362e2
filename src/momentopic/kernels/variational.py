"""The E-step of variational inference for LDA (Blei, Ng and Jordan 2003), document by document."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numba import njit

from momentopic.kernels.chib import weight

Array = np.ndarray[Any, Any]


@njit(cache=True, nogil=True)
def digamma(x: float) -> float:
    """Return ψ(x) for x > 0: recurrence up to 6, then the asymptotic series."""
    result = 0.0
    while x < 6.0:
        result -= 1.0 / x
        x += 1.0
    f = 1.0 / (x * x)
    series = f * (1 / 12 - f * (1 / 120 - f * (1 / 252 - f * (1 / 240 - f * (1 / 132 - f * 691 / 32760)))))
    return result + math.log(x) - 0.5 / x - series


@njit(cache=True, nogil=True)
def expected_logs(gamma: Array, out: Array) -> None:
    """Write E log θ under Dirichlet(gamma) into out."""
    total = 0.0
    for k in range(gamma.shape[0]):
        total += gamma[k]
    of_total = digamma(total)
    for k in range(gamma.shape[0]):
        out[k] = digamma(gamma[k]) - of_total


@njit(cache=True, nogil=True)
def e_step(
    indptr: Array,
    indices: Array,
    counts: Array,
    beta: Array,
    alpha: Array,
    max_iter: int,
    tol: float,
    gamma: Array,
    words: Array,
    logs: Array,
) -> float:
    """Infer the documents of a block, in place; return the evidence bound.

    Parameters
    ----------
    indptr, indices, counts : arrays
        The rows of the block.
    beta : array of shape (M, K)
        The probability of each word (row) under each topic (column).
    alpha : array of shape (K,)
        Dirichlet parameters.
    max_iter : int
        Iterations a document.
    tol : float
        A document is done when its bound changes by less than this part.
    gamma : array of shape (documents, K)
        Where the iteration starts and ends.
    words : array of shape (M, K)
        The expected tokens of each word and topic are added here.
    logs : array of shape (K,)
        The sums over documents of E log θ are added here.
    """
    K = alpha.shape[0]
    e_log = np.empty(K)
    e_theta = np.empty(K)
    fresh = np.empty(K)
    of_alpha = 0.0
    alpha0 = 0.0
    for k in range(K):
        alpha0 += alpha[k]
        of_alpha -= math.lgamma(alpha[k])
    of_alpha += math.lgamma(alpha0)
    total_bound = 0.0
    for d in range(indptr.shape[0] - 1):
        g = gamma[d]
        previous = 0.0
        for iteration in range(max_iter + 1):
            expected_logs(g, e_log)
            gamma0 = 0.0
            bound = of_alpha
            for k in range(K):
                e_theta[k] = math.exp(e_log[k])
                gamma0 += g[k]
                bound += (alpha[k] - g[k]) * e_log[k] + math.lgamma(g[k])
                fresh[k] = alpha[k]
            bound -= math.lgamma(gamma0)
            last = iteration == max_iter
            for e in range(indptr[d], indptr[d + 1]):
                b, x = beta[indices[e]], float(counts[e])
                norm = weight(b, e_theta)
                bound += x * math.log(norm)
                scale = x / norm
                for k in range(K):
                    fresh[k] += scale * b[k] * e_theta[k]
            # the bound is that of gamma with the best phi for it
            if iteration > 0 and abs(bound - previous) <= tol * abs(previous):
                last = True
            previous = bound
            if last:
                break
            g[:] = fresh
        total_bound += previous
        for k in range(K):
            logs[k] += e_log[k]
        for e in range(indptr[d], indptr[d + 1]):
            b, x, row = beta[indices[e]], float(counts[e]), words[indices[e]]
            scale = x / weight(b, e_theta)
            for k in range(K):
                row[k] += scale * b[k] * e_theta[k]
    return total_bound
