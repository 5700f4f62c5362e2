"""The Chib-style estimate of the likelihood of a document (Murray and Salakhutdinov 2009; Wallach et al. 2009)."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numba import njit

from momentopic.kernels.lanes import LANES, put_at, weighted_lanes
from momentopic.kernels.random import GOLDEN, mix, uniform
from momentopic.kernels.sampled import choose

Array = np.ndarray[Any, Any]

_NOTHING = np.float32(0)
_STEP = np.float32(1 / (1 << 24))  # between the random numbers of a draw


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
def gibbs_sweep(
    words: Array, z: Array, N: Array, c: Array, ratios: Array, a: Array, state: Array, backward: bool
) -> None:
    """Draw every z_n given the others, in place, forward or backward.

    The draws are in single precision, whose errors are far below what a chain of any length shows.

    Parameters
    ----------
    words, z : int arrays of shape (L,)
        The word and the topic of each token.
    N, c : arrays of shape (K,)
        The counts of z, kept up to date, and the Dirichlet parameters.
    ratios : float32 array of shape (M, padded K)
        The probability of each word under each topic, up to a factor for each word.
    a : float32 array of shape (padded K,)
        c plus N.
    state : uint64 array of shape (1,)
        Of the random stream.
    """
    L = words.shape[0]
    lanes, before = np.empty(LANES, dtype=np.float32), np.empty(LANES + 1, dtype=np.float32)
    stream = state[0]
    for i in range(L):
        n = L - 1 - i if backward else i
        p = ratios[words[n]]
        old = np.uint32(z[n])
        whole = weighted_lanes(a, p, _NOTHING, lanes)
        held = a[old] * p[old]
        own = np.float32(c[old] + (N[old] - 1.0)) * p[old]  # the token itself is left out
        stream += GOLDEN
        u = np.float32(np.int64(mix(stream) >> np.uint64(40))) * _STEP * (whole + (own - held))
        if u >= own:
            new = np.uint32(choose(a, p, _NOTHING, lanes, before, held, u - own, old))
            if new != old:
                N[old] -= 1.0
                N[new] += 1.0
                # not by adding: rounding would pile up, and the c of an empty topic is small
                put_at(a, old, np.float32(c[old] + N[old]))
                put_at(a, new, np.float32(c[new] + N[new]))
                z[n] = new
    state[0] = stream


@njit(cache=True, nogil=True)
def log_transition(
    words: Array, z: Array, target: Array, N: Array, c: Array, phi: Array, a: Array, counts: Array
) -> float:
    """Return the log probability, in double precision, that a forward Gibbs sweep takes z to the target.

    N and c as in `gibbs_sweep`; `a` and `counts` are scratch space of their length.
    """
    for k in range(c.shape[0]):
        counts[k] = N[k]
        a[k] = c[k] + N[k]
    product = 1.0
    total = 0.0
    for n in range(words.shape[0]):
        p = phi[words[n]]
        old, new = z[n], target[n]
        own = (c[new] + (counts[new] - (old == new))) * p[new]
        # the token is left out here, not in `a`: a vector that was just written to is slow to read. Where c is tiny,
        # rounding may leave less than its largest term of the sum
        whole = max(weight(a, p) - p[old], own)
        product *= own / whole
        if old != new:
            counts[old] -= 1.0
            counts[new] += 1.0
            a[old], a[new] = c[old] + counts[old], c[new] + counts[new]
        if product < 1e-200:
            total += math.log(product)
            product = 1.0
    return total + math.log(product)


@njit(cache=True, nogil=True)
def climb(words: Array, z: Array, N: Array, c: Array, phi: Array) -> None:
    """Move z to a probable state by iterated conditional modes, at most 12 sweeps, in place; N are its counts."""
    for _ in range(12):
        changed = False
        for n in range(words.shape[0]):
            N[z[n]] -= 1.0
            p = phi[words[n]]
            best, largest = z[n], -1.0
            for k in range(c.shape[0]):
                q = (c[k] + N[k]) * p[k]
                if q > largest:
                    best, largest = k, q
            changed = changed or best != z[n]
            z[n] = best
            N[best] += 1.0
        if not changed:
            break


@njit(cache=True, nogil=True)
def log_joint(words: Array, z: Array, N: Array, phi: Array, c: Array) -> float:
    """Return log P(words, z), the proportions integrated out."""
    joint = 0.0
    c0 = 0.0
    for n in range(words.shape[0]):
        joint += math.log(phi[words[n], z[n]])
    for k in range(c.shape[0]):
        c0 += c[k]
        joint += math.lgamma(c[k] + N[k]) - math.lgamma(c[k])
    return joint + math.lgamma(c0) - math.lgamma(c0 + words.shape[0])


@njit(cache=True, nogil=True)
def chib(words: Array, phi: Array, ratios: Array, c: Array, n_iter: int, state: Array) -> float:
    """Estimate log P(words): P(words, z*) over the mean probability of a sweep from the chain to z*.

    Parameters
    ----------
    words : int array of shape (L,)
        The word of each token.
    phi : array of shape (M, K)
        The probability of each word (row) under each topic (column).
    ratios : float32 array of shape (M, padded K)
        The same in single precision, up to a factor for each word.
    c : array of shape (K,)
        Dirichlet parameters.
    n_iter : int
        States of the chain.
    state : uint64 array of shape (1,)
        Of the random stream.
    """
    L, K = words.shape[0], c.shape[0]
    z, N = np.empty(L, dtype=np.int64), np.zeros(K)
    for n in range(L):
        z[n] = draw(c, phi[words[n]], state)
        N[z[n]] += 1.0
    a = single(N, c, ratios.shape[1])
    for _ in range(3):
        gibbs_sweep(words, z, N, c, ratios, a, state, False)
    climb(words, z, N, c, phi)
    target = z.copy()
    joint = log_joint(words, z, N, phi, c)

    scratch, counts = np.empty(K), np.empty(K)
    logs = np.empty(n_iter)
    middle = int(uniform(state) * n_iter)
    a = single(N, c, ratios.shape[1])
    gibbs_sweep(words, z, N, c, ratios, a, state, True)
    logs[middle] = log_transition(words, z, target, N, c, phi, scratch, counts)
    z_middle, N_middle, a_middle = z.copy(), N.copy(), a.copy()
    for s in range(middle + 1, n_iter):
        gibbs_sweep(words, z, N, c, ratios, a, state, False)
        logs[s] = log_transition(words, z, target, N, c, phi, scratch, counts)
    z, N, a = z_middle, N_middle, a_middle
    for s in range(middle - 1, -1, -1):
        gibbs_sweep(words, z, N, c, ratios, a, state, True)
        logs[s] = log_transition(words, z, target, N, c, phi, scratch, counts)
    largest = float(logs.max())
    total = 0.0
    for s in range(n_iter):
        total += math.exp(logs[s] - largest)
    return joint - largest - math.log(total / n_iter)


@njit(cache=True, nogil=True)
def single(N: Array, c: Array, width: int) -> Array:
    """Return c + N in single precision, padded with zeros."""
    a = np.zeros(width, dtype=np.float32)
    for k in range(c.shape[0]):
        a[k] = c[k] + N[k]
    return a
