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

from momentopic.kernels.bursts import FEWEST, shortened
from momentopic.kernels.choice import add_up, choose
from momentopic.kernels.documents import most_entries, renew
from momentopic.kernels.exchange import add_row, exchange, exchange_words, keep_row
from momentopic.kernels.lanes import reassign
from momentopic.kernels.random import GOLDEN, mix
from momentopic.kernels.registers import begin_tokens

Array = np.ndarray[Any, Any]

_ONE = np.float32(1)
_NOTHING = np.float32(0)
_STEP = np.float32(1 / (1 << 24))  # between the random numbers of a draw


@njit(cache=True, nogil=True)
def infer_in_passes(
    words: Array,
    counts: Array,
    phi: Array,
    alpha: Array,
    n_passes: int,
    G: Array,
    n: Array,
    scratch: Array,
    vectors: tuple[int, ...],
) -> None:
    """Write the responsibilities of a document under fixed topics, after some passes; n comes as zeros.

    The first pass knows the prior alone: one that already trusts the words before gives sharper topics to start from.
    """
    if len(vectors) > 0:
        begin_tokens(words, counts, phi, alpha, _ONE, G, n, vectors)
    else:
        nothing = np.zeros(alpha.shape[0], dtype=np.float32)
        for i in range(words.shape[0]):
            G[i] = _NOTHING
            reassign(phi[words[i]], alpha, nothing, G[i], np.float32(counts[i]), _ONE, n, scratch)
    for _ in range(n_passes - 1):
        renew(words, counts, phi, alpha, _ONE, G, n, scratch, vectors)


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
    scratch = np.empty(alpha.shape[0], dtype=np.float32)
    space = np.empty((most_entries(indptr), alpha.shape[0]), dtype=np.float32)
    for d in range(indptr.shape[0] - 1):
        words, tokens = indices[indptr[d] : indptr[d + 1]], counts[indptr[d] : indptr[d + 1]]
        own = space[: words.shape[0]]
        infer_in_passes(words, tokens, phi, alpha, n_passes, own, N[d], scratch, vectors)
        left = kept[indptr[d] : indptr[d + 1]] if kept.shape[0] > 0 else kept
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
    if kept.shape[0] > 0:
        length = np.float32(0)
        for k in range(n.shape[0]):
            length += n[k]
        for i in range(words.shape[0]):
            kept[i] = counts[i]
            if counts[i] >= FEWEST:
                of_background = mixed * frequencies[words[i]] * length
                kept[i] = shortened(np.float64(counts[i]), phi[words[i]], n, of_background, mixed)
    part = 0
    n[:] = _NOTHING
    for i in range(words.shape[0]):
        while words[i] >= boundaries[part + 1]:
            part += 1
        x = kept[i] if kept.shape[0] > 0 else np.float32(counts[i])
        keep_row(own[i], G[place[part]], n, x)
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
    vectors: tuple[int, ...],
) -> None:
    """Infer the documents under fixed topics and draw from the result at once: responsibilities are not kept.

    `vectors` is `vectors_of` K.
    """
    scratch = np.empty(alpha.shape[0], dtype=np.float32)
    space = np.empty((most_entries(indptr), alpha.shape[0]), dtype=np.float32)
    for d in range(indptr.shape[0] - 1):
        words, tokens = indices[indptr[d] : indptr[d + 1]], counts[indptr[d] : indptr[d + 1]]
        own = space[: words.shape[0]]
        infer_in_passes(words, tokens, phi, alpha, n_passes, own, N[d], scratch, vectors)
        state[d] = draw(tokens, own, state[d], z[first_token[d] :], N[d])


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
            add_row(out[indices[e] - first_word], G[i], np.float32(counts[e]))
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
def thin(
    indptr: Array, indices: Array, counts: Array, share: float, state: Array, ends: Array, words: Array, kept: Array
) -> None:
    """Keep each token with a probability, which is rounded to a multiple of 2^-16.

    `words` and `kept` take the words and the counts that are left, and `ends` how many entries there are up to the end
    of each document. A random number of 64 bits is for four tokens.
    """
    below, piece = np.uint64(np.rint(share * 65536)), np.uint64(16)
    place = 0
    for d in range(indptr.shape[0] - 1):
        stream, random, n_pieces = state[d], np.uint64(0), 0
        for e in range(indptr[d], indptr[d + 1]):
            n: Any = 0
            for _ in range(counts[e]):
                if n_pieces == 0:
                    stream += GOLDEN
                    random, n_pieces = mix(stream), 4
                n += (random & np.uint64(65535)) < below
                random >>= piece
                n_pieces -= 1
            words[place], kept[place] = indices[e], n
            place += n > 0
        ends[d], state[d] = place, stream


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
    left_out: Any,
    G: Array,
    N: Array,
    change: Array,
    vectors: tuple[int, ...],
) -> None:
    """One CVB0 sweep over the entries of some consecutive words, in place.

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
    left_out : float32
        How many times what a document has of a word is left out of the word's counts (`exchange`).
    G : uint8 array of shape (entries, K)
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
    for d in range(indptr.shape[0] - 1):
        first = last = indptr[d] if first_word == 0 else entry[d]
        while last < indptr[d + 1] and indices[last] < end_word:
            last += 1
        entry[d] = last
        if last == first:
            continue
        n, own = N[d], G[place : place + last - first]
        add_to(change, n, -_ONE)
        if len(vectors) > 0:
            words, tokens, length = indices[first:last], counts[first:last], indptr[d + 1] - indptr[d]
            exchange_words(words, tokens, own, n, length, first_word, phi, eta, alpha, scale, relax, left_out, vectors)
        else:
            for i in range(first, last):
                f, x = phi[indices[i] - first_word], np.float32(counts[i])
                exchange(f, n, own[i - first], eta, alpha, scale, relax, left_out, x, scratch)
        add_to(change, n, _ONE)
        place += last - first


@njit(cache=True, nogil=True)
def histogram(N: Array, out: Array) -> None:
    """Count how often each whole number (rounded) is in each column of N; the last bin takes all larger ones."""
    most = out.shape[1] - 1
    for d in range(N.shape[0]):
        for k in range(out.shape[0]):
            out[k, min(np.int64(np.rint(N[d, k])), most)] += 1
