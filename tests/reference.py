"""Slow, dense, independent versions of the estimators, straight from the definitions."""

from __future__ import annotations

from itertools import permutations

import numpy as np


def dica_dense(X):
    """S and T of the DICA cumulants, equations (appSgp:fs), (appTgp:fs) and (cum:empirical)."""
    X = np.asarray(X, dtype=np.float64)
    N, M = X.shape
    mean = X.mean(axis=0)
    z = X - mean
    cov = z.T @ z / (N - 1)
    S = cov - np.diag(mean)
    T = N / ((N - 1) * (N - 2)) * np.einsum("na,nb,nc->abc", z, z, z)
    for a in range(M):
        for b in range(M):
            for c in range(M):
                if a == b == c:
                    T[a, b, c] += 2 * mean[a]
                if b == c:
                    T[a, b, c] -= cov[a, b]
                if a == c:
                    T[a, b, c] -= cov[a, b]
                if a == b:
                    T[a, b, c] -= cov[a, c]
    return mean, S, T


def lda_dense(X, c0):
    """M1, S and T of the LDA moments by enumerating the ordered tuples of tokens of every document."""
    X = np.asarray(X, dtype=np.int64)
    X = X[X.sum(axis=1) >= 3]
    N, M = X.shape
    M1, M2, M3 = np.zeros(M), np.zeros((M, M)), np.zeros((M, M, M))
    for x in X:
        tokens = np.repeat(np.arange(M), x)
        L = len(tokens)
        for i in tokens:
            M1[i] += 1 / L / N
        for i, j in permutations(tokens, 2):
            M2[i, j] += 1 / (L * (L - 1)) / N
        for i, j, k in permutations(tokens, 3):
            M3[i, j, k] += 1 / (L * (L - 1) * (L - 2)) / N
    S = M2 - c0 / (c0 + 1) * np.outer(M1, M1)
    T = (
        M3
        - c0
        / (c0 + 2)
        * (np.einsum("ab,c->abc", M2, M1) + np.einsum("ac,b->abc", M2, M1) + np.einsum("bc,a->abc", M2, M1))
        + 2 * c0**2 / ((c0 + 1) * (c0 + 2)) * np.einsum("a,b,c->abc", M1, M1, M1)
    )
    return M1, S, T


def relative_error(actual, expected):
    return np.abs(np.asarray(actual) - expected).max() / max(np.abs(expected).max(), 1e-300)


def exact_document(x, topics, c):
    """log P(tokens) and the posterior mean of θ of a tiny document, by enumerating every assignment of its tokens."""
    from itertools import product
    from math import lgamma

    words = np.repeat(np.arange(len(x)), x)
    K, L, c0 = len(topics), int(np.sum(x)), float(np.sum(c))
    total, theta = 0.0, np.zeros(K)
    for z in product(range(K), repeat=L):
        counts = np.bincount(z, minlength=K)
        log_prior = lgamma(c0) - lgamma(c0 + L) + sum(lgamma(c[k] + counts[k]) - lgamma(c[k]) for k in range(K))
        p = np.exp(log_prior) * np.prod([topics[k, w] for k, w in zip(z, words, strict=True)])
        total += p
        theta += p * (counts + c) / (c0 + L)
    return np.log(total), theta / total


LEAST = 1 / 128  # as what a responsibility of 0 is kept; one of 1 is kept as 1/2


def _digits(g):
    return np.frexp((0.5 - LEAST) * np.asarray(g, dtype=np.float64) + LEAST)


def kept(g):
    """Responsibilities as the bytes of an expected sweep keep them: with six binary digits."""
    fraction, exponent = _digits(g)
    return (np.ldexp(np.floor(fraction * 64 + 0.5) / 64, exponent) - LEAST) / (0.5 - LEAST)


def kept_steps(g):
    """How far the next responsibilities that can be kept are from some."""
    return np.ldexp(1 / 64, _digits(g)[1]) / (0.5 - LEAST)


def in_turn(n_words, lag, weigh, put_to_use):
    """Go over the words of a document: each is weighed before some of the words before it are put to use."""
    weighed = [weigh(e) for e in range(min(lag, n_words))]
    for e in range(n_words):
        if e + lag < n_words:
            weighed.append(weigh(e + lag))
        put_to_use(e, weighed.pop(0))


def expected_sweep(X, document_lengths, phi, G, N, change, eta, alpha, scale, relax, left_out, lag):
    """One CVB0 sweep over (word, document, tokens) triples, document by document, in place, as `exchange` states it."""
    words, document, x = X
    for d in np.unique(document):
        here = np.flatnonzero(document == d)

        def weigh(i, here=here, d=d):
            e = here[i]
            of_word = np.maximum(phi[words[e]] - left_out * x[e] * G[e], 0) + eta
            g = of_word * np.maximum(N[d] - G[e] + alpha, alpha) * scale
            return np.divide(g, g.sum()) if g.sum() > 0 else g

        def put_to_use(i, found, here=here, d=d):
            e = here[i]
            whole = G[e] / G[e].sum() if G[e].sum() > 0 else 0 * G[e]
            new = kept(np.maximum(whole + relax * (found - whole), 0))
            step = x[e] * (new - G[e])
            change[: len(step)] += step
            N[d] += step
            phi[words[e]] += step
            G[e] = new

        in_turn(len(here), min(lag, document_lengths[d] // 32), weigh, put_to_use)
