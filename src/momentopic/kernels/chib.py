"""The Chib-style estimate of the likelihood of a document (Murray and Salakhutdinov 2009; Wallach et al. 2009)."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numba import njit

from momentopic.kernels.random import uniform

Array = np.ndarray[Any, Any]


@njit(cache=True, nogil=True, fastmath={"reassoc", "contract"})
def weight(a: Array, p: Array) -> float:
    """Return Σ_k a_k p_k."""
    total = 0.0
    for k in range(a.shape[0]):
        total += a[k] * p[k]
    return total


@njit(cache=True, nogil=True)
def draw(a: Array, p: Array, state: Array) -> int:
    """Draw k with probability proportional to a_k p_k."""
    left = uniform(state) * weight(a, p)
    K = a.shape[0]
    last = 0
    for k in range(K):
        q = a[k] * p[k]
        if q > 0.0:
            last = k
            left -= q
            if left < 0.0:
                return k
    return last


@njit(cache=True, nogil=True)
def gibbs_sweep(words: Array, z: Array, a: Array, phi: Array, state: Array, backward: bool) -> None:
    """Draw every z_n given the others, in place, forward or backward; `a` is c plus the counts of z."""
    L = words.shape[0]
    for i in range(L):
        n = L - 1 - i if backward else i
        a[z[n]] -= 1.0
        z[n] = draw(a, phi[words[n]], state)
        a[z[n]] += 1.0


@njit(cache=True, nogil=True)
def log_transition(words: Array, z: Array, target: Array, a: Array, phi: Array, scratch: Array) -> float:
    """Return the log probability that a forward Gibbs sweep takes z to the target."""
    for k in range(a.shape[0]):
        scratch[k] = a[k]
    product = 1.0
    total = 0.0
    for n in range(words.shape[0]):
        scratch[z[n]] -= 1.0
        p = phi[words[n]]
        k = target[n]
        product *= scratch[k] * p[k] / weight(scratch, p)
        scratch[k] += 1.0
        if product < 1e-200:
            total += math.log(product)
            product = 1.0
    return total + math.log(product)


@njit(cache=True, nogil=True)
def climb(words: Array, z: Array, a: Array, phi: Array) -> None:
    """Move z to a probable state by iterated conditional modes, at most 12 sweeps, in place."""
    for _ in range(12):
        changed = False
        for n in range(words.shape[0]):
            a[z[n]] -= 1.0
            p = phi[words[n]]
            best, largest = z[n], -1.0
            for k in range(a.shape[0]):
                if a[k] * p[k] > largest:
                    best, largest = k, a[k] * p[k]
            changed = changed or best != z[n]
            z[n] = best
            a[best] += 1.0
        if not changed:
            break


@njit(cache=True, nogil=True)
def log_joint(words: Array, z: Array, a: Array, phi: Array, c: Array) -> float:
    """Return log P(words, z), the proportions integrated out."""
    joint = 0.0
    c0 = 0.0
    for n in range(words.shape[0]):
        joint += math.log(phi[words[n], z[n]])
    for k in range(c.shape[0]):
        c0 += c[k]
        joint += math.lgamma(a[k]) - math.lgamma(c[k])
    return joint + math.lgamma(c0) - math.lgamma(c0 + words.shape[0])


@njit(cache=True, nogil=True)
def chib(words: Array, phi: Array, c: Array, n_iter: int, state: Array) -> float:
    """Estimate log P(words): P(words, z*) over the mean probability of a sweep from the chain to z*.

    Parameters
    ----------
    words : int array of shape (L,)
        The word of each token.
    phi : array of shape (M, K)
        The probability of each word (row) under each topic (column).
    c : array of shape (K,)
        Dirichlet parameters.
    n_iter : int
        States of the chain.
    state : uint64 array of shape (1,)
        Of the random stream.
    """
    L, K = words.shape[0], c.shape[0]
    z = np.empty(L, dtype=np.int64)
    a = c.copy()
    for n in range(L):
        z[n] = draw(c, phi[words[n]], state)
    for n in range(L):
        a[z[n]] += 1.0
    for _ in range(3):
        gibbs_sweep(words, z, a, phi, state, False)
    climb(words, z, a, phi)
    target = z.copy()
    joint = log_joint(words, z, a, phi, c)

    scratch = np.empty(K)
    logs = np.empty(n_iter)
    middle = int(uniform(state) * n_iter)
    gibbs_sweep(words, z, a, phi, state, True)
    logs[middle] = log_transition(words, z, target, a, phi, scratch)
    z_middle, a_middle = z.copy(), a.copy()
    for s in range(middle + 1, n_iter):
        gibbs_sweep(words, z, a, phi, state, False)
        logs[s] = log_transition(words, z, target, a, phi, scratch)
    z, a = z_middle, a_middle
    for s in range(middle - 1, -1, -1):
        gibbs_sweep(words, z, a, phi, state, True)
        logs[s] = log_transition(words, z, target, a, phi, scratch)
    largest = float(logs.max())
    total = 0.0
    for s in range(n_iter):
        total += math.exp(logs[s] - largest)
    return joint - largest - math.log(total / n_iter)
