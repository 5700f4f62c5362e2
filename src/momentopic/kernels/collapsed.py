"""The collapsed refinement of a block of documents: its start, its counts, and sweeps of expected topics (CVB0).

Arrays over topics are padded with zeros to a multiple of `LANES`, so that every loop over topics runs in whole vectors.
A sweep over a block takes the words range by range: whoever holds the counts of a range of words may change them at
once, while others do the same with other ranges (see `Engine.turn`). Sums over topics are those of `kernels.lanes`,
whose order is fixed, so the bits do not depend on where arrays lie.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit

from momentopic.kernels.bursts import shortened
from momentopic.kernels.choice import add_up, choose
from momentopic.kernels.documents import most_entries, renew_both
from momentopic.kernels.exchange import STORED, UNITS, exchange, exchange_abreast
from momentopic.kernels.lanes import reassign
from momentopic.kernels.random import GOLDEN, mix

Array = np.ndarray[Any, Any]

_ONE = np.float32(1)
_NOTHING = np.float32(0)
_STEP = np.float32(1 / (1 << 24))  # between the random numbers of a draw
_UNIT = np.float32(1 / UNITS)
ABREAST = 2  # documents that a sweep goes over at the same time
_SEVERAL, _SINGLE = (0,) * ABREAST, (0,)


@njit(cache=True, nogil=True)
def begin(words: Array, counts: Array, phi: Array, alpha: Array, G: Array, n: Array, scratch: Array) -> None:
    """Do the first pass of an inference under fixed topics, which knows the prior alone; G and n come as zeros.

    One that already trusts the words before gives sharper topics to start from.
    """
    nothing = np.zeros(alpha.shape[0], dtype=np.float32)
    for i in range(words.shape[0]):
        reassign(phi[words[i]], alpha, nothing, G[i], np.float32(counts[i]), _ONE, n, scratch)


@njit(cache=True, nogil=True)
def start(
    indptr: Array,
    indices: Array,
    counts: Array,
    phi: Array,
    alpha: Array,
    n_passes: int,
    frequencies: Array,
    mixed: float,
    kept: Array,
    boundaries: Array,
    place: Array,
    G: Array,
    N: Array,
    vectors: tuple[int, ...],
) -> None:
    """Infer the documents under fixed topics: responsibilities G (entries x K) as kept, N (documents x K).

    The entries of one range of words after the other, in G, so that a sweep over a range reads and writes what lies
    together: `boundaries` has the first words of the ranges, then M; `place` where the entries of each begin, and
    afterwards where they end. If `kept`, float32, has room for all entries, bursts are shortened (`bursts.shortened`):
    it takes the counts that are left, and N is of these. `vectors` is `vectors_of` K.
    """
    K, n_docs = alpha.shape[0], indptr.shape[0] - 1
    scratch = np.empty(K, dtype=np.float32)
    most = 0
    for d in range(n_docs):
        most = max(most, indptr[d + 1] - indptr[d])
    space = np.empty((2, most, K), dtype=np.float32)
    both = np.ones(2, dtype=np.bool_)
    for following in range(0, n_docs, 2):
        two = np.arange(following, min(following + 2, n_docs))
        if two.shape[0] == 2 and indptr[two[0] + 1] - indptr[two[0]] > indptr[two[1] + 1] - indptr[two[1]]:
            two[0], two[1] = two[1], two[0]
        for j, d in enumerate(two):
            space[j, : indptr[d + 1] - indptr[d]] = _NOTHING
            begin(
                indices[indptr[d] : indptr[d + 1]],
                counts[indptr[d] : indptr[d + 1]],
                phi,
                alpha,
                space[j],
                N[d],
                scratch,
            )
        for _ in range(n_passes - 1):
            renew_both(indptr, indices, counts, two, both, phi, alpha, _ONE, space, N, scratch, vectors)
        for d in range(following, following + two.shape[0]):
            own = space[0] if d == two[0] else space[1]
            left = kept[indptr[d] : indptr[d + 1]] if kept.shape[0] > 0 else kept
            words, tokens = indices[indptr[d] : indptr[d + 1]], counts[indptr[d] : indptr[d + 1]]
            keep(words, tokens, phi, frequencies, mixed, left, boundaries, place, own, G, N[d])


@njit(cache=True, nogil=True)
def keep(
    words: Array,
    counts: Array,
    phi: Array,
    frequencies: Array,
    mixed: float,
    kept: Array,
    boundaries: Array,
    place: Array,
    own: Array,
    G: Array,
    n: Array,
) -> None:
    """Do the part of `start` that keeps the responsibilities `own` of a document, and what is left of its counts."""
    K = n.shape[0]
    if kept.shape[0] > 0:
        length = 0.0
        for k in range(K):
            length += n[k]
        for i in range(words.shape[0]):
            of_background = mixed * frequencies[words[i]] * length
            kept[i] = shortened(np.float64(counts[i]), phi[words[i]], n, of_background, mixed)
    part = 0
    for k in range(K):
        n[k] = _NOTHING
    for i in range(words.shape[0]):
        while words[i] >= boundaries[part + 1]:
            part += 1
        g, x = G[place[part]], kept[i] if kept.shape[0] > 0 else np.float32(counts[i])
        for k in range(K):
            g[k] = STORED(own[i, k] * UNITS + np.float32(0.5))
            n[k] += x * (np.float32(g[k]) * _UNIT)
        place[part] += 1


@njit(cache=True, nogil=True)
def start_drawn(
    indptr: Array,
    indices: Array,
    counts: Array,
    order: Array,
    phi: Array,
    alpha: Array,
    n_passes: int,
    state: Array,
    z: Array,
    first_token: Array,
    N: Array,
    vectors: tuple[int, ...],
) -> None:
    """Infer the documents under fixed topics and draw from the result at once: responsibilities are not kept.

    `order` is `by_entries` of the documents, `vectors` is `vectors_of` K.
    """
    scratch = np.empty(alpha.shape[0], dtype=np.float32)
    space = np.empty((2, most_entries(indptr, order), alpha.shape[0]), dtype=np.float32)
    both = np.ones(2, dtype=np.bool_)
    for i in range(0, order.shape[0], 2):
        two = order[i : i + 2]
        for j, d in enumerate(two):
            words, tokens = indices[indptr[d] : indptr[d + 1]], counts[indptr[d] : indptr[d + 1]]
            space[j, : words.shape[0]] = _NOTHING
            begin(words, tokens, phi, alpha, space[j], N[d], scratch)
        for _ in range(n_passes - 1):
            renew_both(indptr, indices, counts, two, both, phi, alpha, _ONE, space, N, scratch, vectors)
        for j, d in enumerate(two):
            tokens = counts[indptr[d] : indptr[d + 1]]
            state[d] = draw(tokens, space[j], state[d], z[first_token[d] :], N[d])


@njit(cache=True, nogil=True)
def draw(counts: Array, G: Array, stream: Any, z: Array, n: Array) -> Any:
    """Draw the topics z of a document's tokens from its responsibilities; return the random stream as it is then."""
    n[:] = _NOTHING
    sums = np.empty(G.shape[1], dtype=np.float32)
    t = 0
    for e in range(counts.shape[0]):
        add_up(G[e], sums)
        for _ in range(counts[e]):
            stream += GOLDEN
            new = choose(G[e], sums, np.float32(np.int64(mix(stream) >> np.uint64(40))) * _STEP)
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
                o[k] += x * (np.float32(g[k]) * _UNIT)
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
    """Add how often some consecutive words have each topic, as drawn, to `out` (words x K); as in `sampled`."""
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
def add_to(total: Array, row: Array, factor: Any) -> None:
    """Add a row times a factor."""
    for k in range(total.shape[0]):
        total[k] += factor * row[k]


@njit(cache=True, nogil=True)
def exchange_one(
    indices: Array,
    counts: Array,
    G: Array,
    N: Array,
    document: Array,
    entry: Array,
    shift: Array,
    n_entries: int,
    first_word: int,
    phi: Array,
    eta: Any,
    alpha: Array,
    scale: Array,
    relax: Any,
    scratch: Array,
    vectors: tuple[int, ...],
) -> None:
    """Do what `exchange_abreast` does, for the first document alone, whatever the number of topics."""
    if len(vectors) > 0:
        exchange_abreast(
            indices, counts, G, N, document, entry, shift, n_entries, first_word,
            phi, eta, alpha, scale, relax, vectors, _SINGLE,
        )  # fmt: skip
        return
    for i in range(entry[0], entry[0] + n_entries):
        f, g, x = phi[indices[i] - first_word], G[i + shift[0]], np.float32(counts[i])
        exchange(f, N[document[0]], g, eta, alpha, scale, relax, x, scratch)


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
    vectors: tuple[int, ...],
) -> None:
    """One CVB0 sweep over the entries of some consecutive words, in place.

    Some documents at a time: one that has been gone through gives its place to the next one.

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
    G : uint16 array of shape (entries, K)
        Responsibilities, laid out as by `start`.
    N : array of shape (documents, K)
        Topic counts of the documents.
    change : float32 array of shape (K,)
        What is to be added to the totals of the topics.
    vectors : tuple
        `registers.vectors_of` K.
    """
    K = alpha.shape[0]
    scratch = np.empty(K, dtype=np.float32)
    end_word = first_word + phi.shape[0]
    place = entries_before(indptr, entry, first_word)  # in G, of the entries of the document that comes next
    following, active = 0, 0
    # The documents under way, the next entry of each, the end of its entries, and what is added to an entry for its
    # place in G.
    numbers = np.empty((4, ABREAST), dtype=np.int64)
    document, e, end, shift = numbers[0], numbers[1], numbers[2], numbers[3]
    while True:
        while active < ABREAST and following < indptr.shape[0] - 1:
            d = following
            first = last = indptr[d] if first_word == 0 else entry[d]
            while last < indptr[d + 1] and indices[last] < end_word:
                last += 1
            entry[d] = last
            following += 1
            if last > first:
                document[active], e[active], end[active], shift[active] = d, first, last, place - first
                active += 1
                place += last - first
                add_to(change, N[d], -_ONE)
        if active == 0:
            return
        together = end[0] - e[0]
        if active == ABREAST and len(vectors) > 0:
            for j in range(1, ABREAST):
                together = min(together, end[j] - e[j])
            exchange_abreast(
                indices, counts, G, N, document, e, shift, together, first_word,
                phi, eta, alpha, scale, relax, vectors, _SEVERAL,
            )  # fmt: skip
            e += together
        else:
            exchange_one(
                indices, counts, G, N, document, e, shift, together, first_word,
                phi, eta, alpha, scale, relax, scratch, vectors,
            )  # fmt: skip
            e[0] = end[0]
        left = 0  # those that are not done, in the order in which they came
        for j in range(active):
            if e[j] == end[j]:
                add_to(change, N[document[j]], _ONE)
            else:
                numbers[:, left] = numbers[:, j]
                left += 1
        active = left


@njit(cache=True, nogil=True)
def histogram(N: Array, out: Array) -> None:
    """Count how often each whole number (rounded) is in each column of N; the last bin takes all larger ones."""
    most = out.shape[1] - 1
    for d in range(N.shape[0]):
        for k in range(out.shape[0]):
            out[k, min(np.int64(np.rint(N[d, k])), most)] += 1
