"""Sweeps of the collapsed refinement over a block of documents: expected topics (CVB0), or sampled ones.

Arrays over topics are padded with zeros to a multiple of `LANES`, so that every loop over topics runs in whole vectors.
A sweep over a block takes the words range by range: whoever holds the counts of a range of words may change them at
once, while others do the same with other ranges (see `Engine.turn`). Sums over topics are those of `kernels.lanes`,
whose order is fixed, so the bits do not depend on where arrays lie.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit

from momentopic.kernels.documents import renew
from momentopic.kernels.lanes import LANES, add_at, exchange, passed_lanes, prefetch, reassign, weighted_lanes
from momentopic.kernels.random import GOLDEN, mix
from momentopic.kernels.registers import IN_REGISTERS, exchange_tokens

Array = np.ndarray[Any, Any]

_ONE = np.float32(1)
_NOTHING = np.float32(0)
_STEP = np.float32(1 / (1 << 24))  # between the random numbers of a draw
_LOW = np.uint64((1 << 24) - 1)
_AHEAD = 2  # entries: the counts of a word are asked for that early


@njit(cache=True, nogil=True)
def infer(
    words: Array, counts: Array, phi: Array, alpha: Array, n_passes: int, G: Array, n: Array, scratch: Array
) -> None:
    """Infer one document under fixed topics: responsibilities G (entries x K) and counts n, which come as zeros."""
    # the first pass knows the prior alone: one that already trusts the words before gives sharper topics to start from
    nothing = np.zeros(alpha.shape[0], dtype=np.float32)
    for i in range(words.shape[0]):
        reassign(phi[words[i]], alpha, nothing, G[i], np.float32(counts[i]), _ONE, n, scratch)
    for _ in range(n_passes - 1):
        renew(words, counts, phi, alpha, _ONE, G, n, scratch)


@njit(cache=True, nogil=True)
def start(
    indptr: Array,
    indices: Array,
    counts: Array,
    phi: Array,
    alpha: Array,
    n_passes: int,
    boundaries: Array,
    place: Array,
    G: Array,
    N: Array,
) -> None:
    """Infer the documents under fixed topics: responsibilities G (entries x K), N (documents x K).

    The entries of one range of words after the other, in G, so that a sweep over a range reads and writes what lies
    together: `boundaries` has the first words of the ranges, then M; `place` where the entries of each begin, and
    afterwards where they end.
    """
    scratch = np.empty(alpha.shape[0], dtype=np.float32)
    for d in range(indptr.shape[0] - 1):
        words, tokens = indices[indptr[d] : indptr[d + 1]], counts[indptr[d] : indptr[d + 1]]
        own = np.zeros((words.shape[0], alpha.shape[0]), dtype=np.float32)
        infer(words, tokens, phi, alpha, n_passes, own, N[d], scratch)
        part = 0
        for i in range(words.shape[0]):
            while words[i] >= boundaries[part + 1]:
                part += 1
            G[place[part]] = own[i]
            place[part] += 1


@njit(cache=True, nogil=True)
def start_drawn(
    indptr: Array,
    indices: Array,
    counts: Array,
    phi: Array,
    alpha: Array,
    n_passes: int,
    state: Array,
    z: Array,
    first_token: Array,
    N: Array,
) -> None:
    """Infer the documents under fixed topics and draw from the result at once: responsibilities are not kept."""
    scratch = np.empty(alpha.shape[0], dtype=np.float32)
    for d in range(indptr.shape[0] - 1):
        begin, end = indptr[d], indptr[d + 1]
        G = np.zeros((end - begin, alpha.shape[0]), dtype=np.float32)
        infer(indices[begin:end], counts[begin:end], phi, alpha, n_passes, G, N[d], scratch)
        state[d] = draw(indices[begin:end], counts[begin:end], G, state[d], z, first_token[d], N[d])


@njit(cache=True, nogil=True)
def draw(words: Array, counts: Array, G: Array, stream: Any, z: Array, first_token: int, n: Array) -> Any:
    """Draw the topics z of a document's tokens from its responsibilities; return the random stream as it is then."""
    n[:] = _NOTHING
    t = first_token
    for e in range(words.shape[0]):
        for _ in range(counts[e]):
            stream += GOLDEN
            u = np.float32(np.int64(mix(stream) >> np.uint64(40))) * _STEP
            new = 0
            for k in range(G.shape[1]):
                if G[e, k] > _NOTHING:
                    new = k
                    u -= G[e, k]
                    if u < _NOTHING:
                        break
            z[t] = new
            n[new] += _ONE
            t += 1
    return stream


@njit(cache=True, nogil=True)
def entries_before(indptr: Array, entry: Array, first_word: int) -> int:
    """Return how many entries of a block are of words before `first_word`, if `entry` has the next of each document."""
    before = 0
    if first_word > 0:  # before the first word, the cursors may still be at the end
        for d in range(entry.shape[0]):
            before += entry[d] - indptr[d]
    return before


@njit(cache=True, nogil=True)
def count_expected(
    indptr: Array, indices: Array, counts: Array, entry: Array, first_word: int, G: Array, out: Array
) -> None:
    """Add how often some consecutive words have each topic, as the responsibilities say, to `out` (words x K).

    The arguments are as in `expected_sweep`.
    """
    end_word = first_word + out.shape[0]
    i = entries_before(indptr, entry, first_word)
    for d in range(indptr.shape[0] - 1):
        e = indptr[d] if first_word == 0 else entry[d]
        while e < indptr[d + 1] and indices[e] < end_word:
            o, g, x = out[indices[e] - first_word], G[i], np.float32(counts[e])
            for k in range(out.shape[1]):
                o[k] += x * g[k]
            e += 1
            i += 1
        entry[d] = e


@njit(cache=True, nogil=True)
def count_drawn(
    indptr: Array,
    indices: Array,
    counts: Array,
    entry: Array,
    token: Array,
    first_word: int,
    z: Array,
    first_token: Array,
    out: Array,
) -> None:
    """Add how often some consecutive words have each topic, as drawn, to `out` (words x K); as in `sampled_sweep`."""
    end_word = first_word + out.shape[0]
    for d in range(indptr.shape[0] - 1):
        e, t = entry[d], token[d]
        if first_word == 0:
            e, t = indptr[d], first_token[d]
        while e < indptr[d + 1] and indices[e] < end_word:
            o = out[indices[e] - first_word]
            for _ in range(counts[e]):
                o[z[t]] += _ONE
                t += 1
            e += 1
        entry[d], token[d] = e, t


@njit(cache=True, nogil=True)
def thin(indptr: Array, counts: Array, share: Any, state: Array, kept: Array, entries: Array) -> None:
    """Keep each token with a probability: the counts that are left, and how many of each document are above zero."""
    for d in range(indptr.shape[0] - 1):
        stream, left = state[d], 0
        for e in range(indptr[d], indptr[d + 1]):
            n = 0
            for _ in range(counts[e]):
                stream += GOLDEN
                n += np.float32(np.int64(mix(stream) >> np.uint64(40))) * _STEP < share
            kept[e] = n
            left += n > 0
        entries[d], state[d] = left, stream


@njit(cache=True, nogil=True)
def seek(
    indptr: Array, indices: Array, counts: Array, first_token: Array, first_word: int, entry: Array, token: Array
) -> None:
    """Set the cursors of each document to its first entry whose word is `first_word` or a later one."""
    for d in range(indptr.shape[0] - 1):
        e, t = indptr[d], first_token[d]
        while e < indptr[d + 1] and indices[e] < first_word:
            t += np.int64(counts[e])
            e += 1
        entry[d], token[d] = e, t


@njit(cache=True, nogil=True)
def expected_sweep(
    indptr: Array,
    indices: Array,
    counts: Array,
    entry: Array,
    first_word: int,
    phi: Array,
    eta: Any,
    scale: Array,
    alpha: Array,
    relax: Any,
    G: Array,
    N: Array,
    change: Array,
) -> float:
    """One CVB0 sweep over the entries of some consecutive words, in place; return how many tokens changed their topic.

    Parameters
    ----------
    indptr, indices, counts : arrays
        The rows of a block, words ascending.
    entry : int64 array of shape (documents,)
        The entry of each document that comes next; with the first word, it is the document's first, whatever it was.
    first_word : int
        The words are this one and those after it, as many as phi has rows.
    phi : array of shape (words, K)
        How often each word has each topic: counts, kept up to date.
    eta : float
        The smoothing.
    scale : array of shape (K,)
        One over the smoothed totals of the topics; 0 for the padding.
    alpha : array of shape (K,)
    relax : float32
        How far tokens go towards what they find; above 1, beyond it.
    G : array of shape (entries, K)
        Responsibilities, laid out as by `start`.
    N : array of shape (documents, K)
        Topic counts of the documents.
    change : float32 array of shape (K,)
        What is to be added to the totals of the topics.
    """
    K = alpha.shape[0]
    g = np.empty(K, dtype=np.float32)
    moved = 0.0
    end_word = first_word + phi.shape[0]
    place = entries_before(indptr, entry, first_word)  # in G, of the entry that comes next
    for d in range(indptr.shape[0] - 1):
        n, end = N[d], indptr[d + 1]
        e = begin = indptr[d] if first_word == 0 else entry[d]
        while e < end and indices[e] < end_word:
            e += 1
        entry[d] = e
        if e == begin:
            continue
        for k in range(K):
            change[k] -= n[k]
        if K <= IN_REGISTERS:
            words, tokens, of_words = indices[begin:e], counts[begin:e], G[place : place + e - begin]
            moved += exchange_tokens(words, tokens, first_word, phi, eta, alpha, scale, relax, of_words, n)
        else:
            for i in range(begin, e):
                f, x = phi[indices[i] - first_word], np.float32(counts[i])
                moved += exchange(f, n, G[place + i - begin], eta, alpha, scale, relax, x, g)
        place += e - begin
        for k in range(K):
            change[k] += n[k]
    return moved


@njit(cache=True, nogil=True, inline="always")
def choose(a: Array, f: Array, eta: Any, lanes: Array, before: Array, held: Any, u: Any, old: Any) -> int:
    """Return the topic at which the sum of a_k (f_k + eta), lane after lane, passes u; the old topic is left out."""
    j = min(passed_lanes(lanes, old % np.uint32(LANES), held, u, before), LANES - 1)
    u -= before[j]
    total = _NOTHING
    passed = 0
    for k in range(j, a.shape[0], LANES):
        total += _NOTHING if k == old else a[k] * (f[k] + eta)
        passed += total <= u
    new = j + LANES * passed
    return new if new < a.shape[0] else last_possible(a, f, eta, old)


@njit(cache=True, nogil=True)
def last_possible(a: Array, f: Array, eta: Any, old: int) -> int:
    """Return the last topic that is possible: where rounding let a random number pass the sum of all."""
    for k in range(a.shape[0] - 1, -1, -1):
        if k != old and a[k] * (f[k] + eta) > _NOTHING:
            return k
    return old


@njit(cache=True, nogil=True)
def sampled_sweep(
    indptr: Array,
    indices: Array,
    counts: Array,
    entry: Array,
    token: Array,
    first_word: int,
    phi: Array,
    eta: Any,
    scale: Array,
    alpha: Array,
    z: Array,
    first_token: Array,
    N: Array,
    state: Array,
    change: Array,
) -> None:
    """One collapsed Gibbs sweep over the tokens of some consecutive words, in place.

    Parameters
    ----------
    indptr, indices, counts, entry, first_word, phi, eta, scale, alpha, N, change
        As in `expected_sweep`.
    token : int64 array of shape (documents,)
        The token of each document that comes next.
    z : int array of shape (tokens,)
        The topic of each token, entry after entry.
    first_token : int64 array of shape (documents,)
    state : uint64 array of shape (documents,)
        A random stream for each document.
    """
    K = alpha.shape[0]
    a = np.empty(K, dtype=np.float32)
    lanes, before = np.empty(LANES, dtype=np.float32), np.empty(LANES + 1, dtype=np.float32)
    end_word = first_word + phi.shape[0]
    for d in range(indptr.shape[0] - 1):
        e, t, last = entry[d], token[d], indptr[d + 1]
        if first_word == 0:
            e, t = indptr[d], first_token[d]
        if e == last or indices[e] >= end_word:
            entry[d], token[d] = e, t
            continue
        stream = state[d]
        n = N[d]
        for k in range(K):
            a[k] = (n[k] + alpha[k]) * scale[k]
            change[k] -= n[k]
        while e < last and indices[e] < end_word:
            f = phi[indices[e] - first_word]
            if e + _AHEAD < last and indices[e + _AHEAD] < end_word:
                prefetch(phi[indices[e + _AHEAD] - first_word])
            # once for all tokens of the word: what a token changes is changed here too
            whole = weighted_lanes(a, f, eta, lanes)
            for left in range(counts[e] - 1, -1, -1):
                old = np.uint32(z[t])  # unsigned, so that no index is checked for being negative
                held = a[old] * (f[old] + eta)
                # the token itself is left out of the counts of its topic
                own = max((a[old] - scale[old]) * (f[old] - _ONE + eta), _NOTHING)
                others = whole - held
                stream += GOLDEN
                bits = mix(stream)
                # Liu's (1996) version of a Gibbs draw: propose another topic, as the others' weights say, and take it
                # with probability (1 - p_old) / (1 - p_new), if that is below 1. It leaves the same distribution
                # as it is and moves more often. 1 - p_new is at least p_old: most tokens need no proposal.
                accepted = np.float32(np.int64(bits & _LOW)) * _STEP
                if accepted * own < others:
                    u = np.float32(np.int64(bits >> np.uint64(40))) * _STEP * others
                    new = np.uint32(choose(a, f, eta, lanes, before, held, u, old))
                    there = a[new] * (f[new] + eta)
                    if new != old and accepted * (others + own - there) < others:
                        add_at(a, old, -scale[old])
                        add_at(a, new, scale[new])
                        n[old] -= _ONE
                        n[new] += _ONE
                        f[old] -= _ONE
                        f[new] += _ONE
                        z[t] = new
                        if left > 0:
                            held = a[old] * (f[old] + eta) - held
                            there = a[new] * (f[new] + eta) - there
                            add_at(lanes, old % np.uint32(LANES), held)
                            add_at(lanes, new % np.uint32(LANES), there)
                            whole += held + there
                t += 1
            e += 1
        for k in range(K):
            change[k] += n[k]
        entry[d], token[d], state[d] = e, t, stream


@njit(cache=True, nogil=True)
def histogram(N: Array, out: Array) -> None:
    """Count how often each whole number (rounded) is in each column of N; the last bin takes all larger ones."""
    most = out.shape[1] - 1
    for d in range(N.shape[0]):
        for k in range(out.shape[0]):
            out[k, min(np.int64(np.rint(N[d, k])), most)] += 1
