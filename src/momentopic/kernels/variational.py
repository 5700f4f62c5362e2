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
def infer(
    words: Array, counts: Array, beta: Array, alpha: Array, max_iter: int, tol: float, g: Array, e_log: Array,
    e_theta: Array, fresh: Array,
) -> float:  # fmt: skip
    """Infer one document from the variational parameters g, in place; return its bound without log Γ of alpha.

    With `max_iter` 0 nothing is changed but e_log and e_theta, E log θ and its exponential: the bound is that of g with
    the best responsibilities for it.
    """
    K = alpha.shape[0]
    previous = 0.0
    for iteration in range(max_iter + 1):
        expected_logs(g, e_log)
        gamma0 = 0.0
        bound = 0.0
        for k in range(K):
            e_theta[k] = math.exp(e_log[k])
            gamma0 += g[k]
            bound += (alpha[k] - g[k]) * e_log[k] + math.lgamma(g[k])
            fresh[k] = alpha[k]
        bound -= math.lgamma(gamma0)
        for e in range(words.shape[0]):
            b, x = beta[words[e]], float(counts[e])
            norm = weight(b, e_theta)
            bound += x * math.log(norm)
            scale = x / norm
            for k in range(K):
                fresh[k] += scale * b[k] * e_theta[k]
        if iteration == max_iter or (iteration > 0 and abs(bound - previous) <= tol * abs(previous)):
            return bound
        previous = bound
        g[:] = fresh
    return previous


@njit(cache=True, nogil=True)
def e_step(
    indptr: Array,
    indices: Array,
    counts: Array,
    beta: Array,
    alpha: Array,
    max_iter: int,
    tol: float,
    careful: bool,
    before: Array,
    gamma: Array,
    words: Array,
    logs: Array,
) -> float:
    """Infer the documents of a block; return the evidence bound.

    As in lda-c, every document starts afresh, from alpha + L / K: one that goes on from where it was stays in the
    topics that the first, poor topics put it into.

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
    careful : bool
        Whether a document that ends below what it had goes on from there instead: then the bound cannot decrease.
    before : array of shape (documents, K)
        The variational parameters that the documents had.
    gamma : array of shape (documents, K)
        Those they get.
    words : array of shape (M, K)
        The expected tokens of each word and topic are added here.
    logs : array of shape (K,)
        The sums over documents of E log θ are added here.
    """
    K = alpha.shape[0]
    e_log, e_theta, fresh = np.empty(K), np.empty(K), np.empty(K)
    of_alpha = 0.0
    alpha0 = 0.0
    for k in range(K):
        alpha0 += alpha[k]
        of_alpha -= math.lgamma(alpha[k])
    of_alpha += math.lgamma(alpha0)
    total_bound = 0.0
    for d in range(indptr.shape[0] - 1):
        begin, end = indptr[d], indptr[d + 1]
        w, x, g = indices[begin:end], counts[begin:end], gamma[d]
        length = 0.0
        for e in range(begin, end):
            length += counts[e]
        for k in range(K):
            g[k] = alpha[k] + length / K
        bound = infer(w, x, beta, alpha, max_iter, tol, g, e_log, e_theta, fresh)
        if careful and bound < infer(w, x, beta, alpha, 0, tol, before[d], e_log, e_theta, fresh):
            g[:] = before[d]
            bound = infer(w, x, beta, alpha, max_iter, tol, g, e_log, e_theta, fresh)
        elif careful:
            expected_logs(g, e_log)
            for k in range(K):
                e_theta[k] = math.exp(e_log[k])
        total_bound += of_alpha + bound
        for k in range(K):
            logs[k] += e_log[k]
        for e in range(begin, end):
            b, row = beta[indices[e]], words[indices[e]]
            scale = float(counts[e]) / weight(b, e_theta)
            for k in range(K):
                row[k] += scale * b[k] * e_theta[k]
    return total_bound
