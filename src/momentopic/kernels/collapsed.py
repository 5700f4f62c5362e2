"""Sweeps of the collapsed refinement over a block of documents: expected topics (CVB0), or sampled ones.

Arrays over topics are padded with zeros to a multiple of `LANES`, so that every loop over topics runs in whole vectors.
Word counts are those of the previous sweep, so that blocks are independent of each other. Loops that store do not sum
and loops that sum do not store (see `kernels.documents`), so the bits do not depend on where arrays lie.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit

from momentopic.kernels.random import uniform

Array = np.ndarray[Any, Any]

LANES = 16
_ONE = np.float32(1)
_NOTHING = np.float32(0)


@njit(cache=True, nogil=True, fastmath={"reassoc"})
def lane_sum(p: Array, first: int) -> Any:
    """Return the sum of LANES entries."""
    total = _NOTHING
    for j in range(LANES):
        total += p[first + j]
    return total


@njit(cache=True, nogil=True)
def normalise(g: Array) -> None:
    """Scale g to sum 1, in place."""
    total = _NOTHING
    for first in range(0, g.shape[0], LANES):
        total += lane_sum(g, first)
    inverse = _ONE / total
    for k in range(g.shape[0]):
        g[k] *= inverse


@njit(cache=True, nogil=True)
def start(
    indptr: Array,
    indices: Array,
    counts: Array,
    phi: Array,
    alpha: Array,
    n_passes: int,
    G: Array,
    N: Array,
    out: Array,
) -> None:
    """Infer the documents under fixed topics: responsibilities G (entries x K), N (documents x K), word counts out."""
    K = alpha.shape[0]
    fresh = np.empty(K, dtype=np.float32)
    for d in range(indptr.shape[0] - 1):
        for _ in range(n_passes):
            fresh[:] = _NOTHING
            for e in range(indptr[d], indptr[d + 1]):
                f, g, x = phi[indices[e]], G[e], np.float32(counts[e])
                for k in range(K):
                    g[k] = f[k] * (max(N[d, k] - g[k], _NOTHING) + alpha[k])
                normalise(g)
                for k in range(K):
                    fresh[k] += x * g[k]
            N[d] = fresh
        for e in range(indptr[d], indptr[d + 1]):
            o, g, x = out[indices[e]], G[e], np.float32(counts[e])
            for k in range(K):
                o[k] += x * g[k]


@njit(cache=True, nogil=True)
def expected_sweep(
    indptr: Array, indices: Array, counts: Array, phi: Array, scale: Array, alpha: Array, G: Array, N: Array, out: Array
) -> float:
    """One CVB0 sweep, in place; add the new word counts to out and return how many tokens changed their topic.

    Parameters
    ----------
    phi : array of shape (M, K)
        Word counts of the previous sweep plus the smoothing.
    scale : array of shape (K,)
        One over the column sums of phi.
    alpha : array of shape (K,)
    G : array of shape (entries, K)
        Responsibilities.
    N : array of shape (documents, K)
        Topic counts of the documents.
    out : array of shape (M, K)
    """
    K = alpha.shape[0]
    g = np.empty(K, dtype=np.float32)
    step = np.empty(K, dtype=np.float32)
    moved = 0.0
    least = np.float32(1e-10)
    for d in range(indptr.shape[0] - 1):
        n = N[d]
        for e in range(indptr[d], indptr[d + 1]):
            w, x = indices[e], np.float32(counts[e])
            f, own, o = phi[w], G[e], out[w]
            for k in range(K):
                g[k] = max(f[k] - own[k], least) * (max(n[k] - own[k], _NOTHING) + alpha[k]) * scale[k]
            normalise(g)
            for k in range(K):
                step[k] = abs(g[k] - own[k])
                n[k] += x * (g[k] - own[k])
                own[k] = g[k]
                o[k] += x * g[k]
            for first in range(0, K, LANES):
                moved += 0.5 * x * lane_sum(step, first)
    return moved


@njit(cache=True, nogil=True)
def choose(p: Array, lanes: Array, u: Any, old: int) -> int:
    """Return the topic at which the sum of p passes u, the old topic left out."""
    held = p[old]
    lanes[old // LANES] -= held
    p[old] = _NOTHING
    b = 0
    while b < lanes.shape[0] - 1 and u >= lanes[b]:
        u -= lanes[b]
        b += 1
    new = old
    for k in range(b * LANES, (b + 1) * LANES):
        if p[k] > _NOTHING:
            new = k
            u -= p[k]
            if u < _NOTHING:
                break
    p[old] = held
    return new


@njit(cache=True, nogil=True)
def gather(p: Array, old: int, own: Any, total: Any, soft: Array) -> None:
    """Add the probabilities p / total to soft, with `own` in the place of the old topic."""
    inverse = _ONE / total
    held = p[old]
    p[old] = own
    for k in range(p.shape[0]):
        soft[k] += p[k] * inverse
    p[old] = held


@njit(cache=True, nogil=True)
def sampled_sweep(
    indptr: Array,
    indices: Array,
    counts: Array,
    phi: Array,
    scale: Array,
    alpha: Array,
    z: Array,
    N: Array,
    state: Array,
    collect: bool,
    out: Array,
    soft: Array,
) -> None:
    """One collapsed Gibbs sweep, in place; add the new word counts to out.

    Parameters
    ----------
    phi, scale, alpha, N, out
        As in `expected_sweep`.
    z : int array of shape (tokens,)
        The topic of each token, entry after entry.
    state : uint64 array of shape (documents,)
        A random stream for each document.
    collect : bool
        Whether to add the probabilities each token was drawn from to soft.
    soft : array of shape (M, K)
    """
    K = alpha.shape[0]
    p = np.empty(K, dtype=np.float32)
    a = np.empty(K, dtype=np.float32)
    lanes = np.empty(K // LANES, dtype=np.float32)
    stream = np.empty(1, dtype=np.uint64)
    t = 0
    for d in range(indptr.shape[0] - 1):
        stream[0] = state[d]
        n = N[d]
        for k in range(K):
            a[k] = (n[k] + alpha[k]) * scale[k]
        for e in range(indptr[d], indptr[d + 1]):
            w = indices[e]
            f, o, s = phi[w], out[w], soft[w if collect else 0]
            for _ in range(counts[e]):
                old = z[t]
                for k in range(K):
                    p[k] = a[k] * f[k]
                total = _NOTHING
                for b in range(K // LANES):
                    lanes[b] = lane_sum(p, b * LANES)
                    total += lanes[b]
                # the token itself is left out of the counts of its topic
                own = max((a[old] - scale[old]) * (f[old] - _ONE) / (_ONE - scale[old]), _NOTHING)
                total += own - p[old]
                u = np.float32(uniform(stream)) * total
                # once the topics are good, most tokens keep theirs: ask for the old one first
                new = old if u < own else choose(p, lanes, u - own, old)
                if collect:
                    gather(p, old, own, total, s)
                if new != old:
                    a[old] -= scale[old]
                    a[new] += scale[new]
                    n[old] -= _ONE
                    n[new] += _ONE
                    z[t] = new
                o[new] += _ONE
                t += 1
        state[d] = stream[0]


@njit(cache=True, nogil=True)
def draw_topics(indptr: Array, counts: Array, G: Array, state: Array, z: Array, N: Array) -> None:
    """Draw the topic of every token from its responsibilities; N becomes the counts of the draws."""
    stream = np.empty(1, dtype=np.uint64)
    t = 0
    for d in range(indptr.shape[0] - 1):
        stream[0] = state[d]
        N[d] = _NOTHING
        for e in range(indptr[d], indptr[d + 1]):
            for _ in range(counts[e]):
                u = uniform(stream)
                new = 0
                for k in range(G.shape[1]):
                    if G[e, k] > _NOTHING:
                        new = k
                        u -= G[e, k]
                        if u < 0.0:
                            break
                z[t] = new
                N[d, new] += _ONE
                t += 1
        state[d] = stream[0]
