"""Sampled sweeps of the collapsed refinement over a block of documents: collapsed Gibbs sampling.

Arrays over topics, the ranges of words and the order of sums are as in `kernels.collapsed`.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit

from momentopic.kernels.abreast import ABREAST, draw_abreast, take_place
from momentopic.kernels.lanes import LANES, add_at, ask_for, passed_lanes, prefetch, weighted_lanes, zeros_in_lines
from momentopic.kernels.random import GOLDEN, mix

Array = np.ndarray[Any, Any]

_ONE = np.float32(1)
_NOTHING = np.float32(0)
_STEP = np.float32(1 / (1 << 24))  # between the random numbers of a draw
_LOW = np.uint64((1 << 24) - 1)
_AHEAD = 2  # entries: the counts of a word are asked for that early
_ROOM = 128  # tokens of each document that are laid out at a time
_SPARE = 4  # places after them, so that words may be written, and looked ahead at, without a branch
_LINE = 64  # bytes
_NONE = -1


def room_abreast(width: int) -> tuple[Array, Array]:
    """Return room for those abreast: for the words of their tokens, and, all 0, for weights of so many topics."""
    return np.zeros((2 * ABREAST, _ROOM + _SPARE), dtype=np.int64), zeros_in_lines(ABREAST + 1, width)


@njit(cache=True, nogil=True)
def rewind(indptr: Array, first_token: Array, entry: Array, token: Array) -> None:
    """Set the cursors of all documents to their first entries and tokens."""
    for d in range(entry.shape[0]):
        entry[d], token[d] = indptr[d], first_token[d]


@njit(cache=True, nogil=True)
def with_nobody(words: Array, z: Array, numbers: Array, streams: Array) -> None:
    """Write the numbers of those abreast before there is a document: as `sweep_abreast` names them."""
    documents, end, left, gone, tokens, nowhere = (
        numbers[0], numbers[1], numbers[2], numbers[3], numbers[4], numbers[5],
    )  # fmt: skip
    for g in range(ABREAST):
        streams[g] = 0
        documents[g] = gone[g] = _NONE
        end[g] = _ROOM  # of the tokens that are laid out
        left[g] = 0  # tokens of the next entry, if some of it have been laid out
        tokens[g] = nowhere[g] = (words[ABREAST:].ctypes.data - z.ctypes.data) // z.itemsize + _ROOM * g


@njit(cache=True, nogil=True)
def sweep_abreast(
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
    words: Array,
    weights: Array,
    vectors: tuple[int, ...],
) -> None:
    """Do what `sweep_one_by_one` does, `ABREAST` documents at a time.

    A document that has been gone through gives its place to the next one. `words` and `weights` are `room_abreast`.
    `vectors` is as in `draw_abreast`: for many topics, and so many registers, this would be slower.
    """
    K = alpha.shape[0]
    end_word = first_word + phi.shape[0]
    n_documents = indptr.shape[0] - 1
    if first_word == 0:
        rewind(indptr, first_token, entry, token)
    a, nobody = weights[:ABREAST], weights[ABREAST]
    # Of those abreast. Loops, here and above: assignments to whole arrays take seconds to compile.
    streams, numbers = np.empty(ABREAST, dtype=np.uint64), np.empty((6, ABREAST), dtype=np.int64)
    documents, end, left = numbers[0], numbers[1], numbers[2]
    gone = numbers[3]  # had the place before: counts just written are slow to read, so read later
    # Tokens that would be at position 0. Without a document, their topics are in the second half of `words`, as seen
    # from z.
    tokens, nowhere = numbers[4], numbers[5]
    with_nobody(words, z, numbers, streams)
    following = next_document(indptr, indices, entry, end_word, 0)
    drawn = _ROOM
    while True:
        start = drawn % _ROOM
        until, working = _ROOM, False
        for g in range(ABREAST):
            d = documents[g]
            if end[g] == drawn:
                if d != _NONE:
                    token[d] = tokens[g] + drawn
                if d == _NONE or (left[g] == 0 and not goes_on(indptr, indices, entry, end_word, d)):
                    if d != _NONE:
                        state[d] = streams[g]
                    coming = following if following < n_documents else _NONE
                    take_place(g, gone[g], coming, N, nobody, alpha, scale, a, change, vectors)
                    gone[g] = d
                    documents[g] = d = coming
                    tokens[g] = nowhere[g]
                    if d != _NONE:
                        streams[g] = state[d]
                        following = next_document(indptr, indices, entry, end_word, d + 1)
                        later = min(d + ABREAST, n_documents - 1)
                        ask_for_document(indices, counts, entry[later], z, token[later], N[later])
                if d != _NONE:
                    entry[d], left[g], end[g] = lay_out(
                        indices, counts, entry[d], indptr[d + 1], left[g], first_word, end_word, K, words[g], start
                    )
                    tokens[g] = token[d] - start
            if d != _NONE:
                working = True
                until = min(until, end[g])
        if not working:
            for g in range(ABREAST):
                take_place(g, gone[g], _NONE, N, nobody, alpha, scale, a, change, vectors)
            return
        draw_abreast(start, until, words, z, tokens, a, N, documents, nobody, streams, phi, eta, scale, vectors)
        drawn = until


@njit(cache=True, nogil=True, forceinline=True)
def goes_on(indptr: Array, indices: Array, entry: Array, end_word: int, d: int) -> bool:
    """Return whether the next entry of a document is of a word before the end."""
    return bool(entry[d] < indptr[d + 1] and indices[entry[d]] < end_word)


@njit(cache=True, nogil=True, forceinline=True)
def next_document(indptr: Array, indices: Array, entry: Array, end_word: int, d: int) -> int:
    """Return the first document from d on whose next entry is of a word before the end; how many there are, if none."""
    while d < entry.shape[0] and not goes_on(indptr, indices, entry, end_word, d):
        d += 1
    return d


@njit(cache=True, nogil=True, forceinline=True)
def ask_for_document(indices: Array, counts: Array, entry: int, z: Array, token: int, n: Array) -> None:
    """Ask for what the next draws of a document begin with: no processor foresees where that lies."""
    for i in range(2):
        ask_for(indices, entry + i * (_LINE // indices.itemsize))
        ask_for(counts, entry + i * (_LINE // counts.itemsize))
        ask_for(z, token + i * (_LINE // z.itemsize))
    prefetch(n)


@njit(cache=True, nogil=True, forceinline=True)
def repeat(out: Array, place: int, many: Any, value: Any) -> None:
    """Write one number many times. Indices are unsigned here, so that none is checked for being negative."""
    for i in range(many):
        out[np.uint64(place + i)] = value


@njit(cache=True, nogil=True, forceinline=True)
def lay_out(
    indices: Array,
    counts: Array,
    entry: int,
    end: int,
    left: int,
    first_word: int,
    end_word: int,
    width: int,
    words: Array,
    start: int,
) -> tuple[int, int, int]:
    """Write where the row of each token's word begins: for the tokens of some entries, as long as there is room.

    Of the entry, `left` tokens are still to come, or all if that is 0. Returns the entry that comes next, what is left
    of it in the same sense, and the position after the last token.
    """
    place: Any = start
    if left > 0:
        many = min(left, _ROOM - place)
        repeat(words, place, many, (np.int64(indices[entry]) - first_word) * width)
        place += many
        if many < left:
            return entry, left - many, place
        entry += 1
    while entry < end:
        word = np.int64(indices[np.uint64(entry)])
        if word >= end_word:
            break
        row, many = (word - first_word) * width, np.int64(counts[np.uint64(entry)])
        if many > _ROOM - place:
            repeat(words, place, _ROOM - place, row)
            return entry, many - (_ROOM - place), _ROOM
        # most words occur this often at most: so often without a branch
        for i in range(_SPARE):
            words[np.uint64(place + i)] = row
        if many > _SPARE:
            repeat(words, place + _SPARE, many - _SPARE, row)
        place += many
        entry += 1
    return entry, 0, place


@njit(cache=True, nogil=True)
def sweep_one_by_one(
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
    """One collapsed Gibbs sweep over the tokens of some consecutive words, in place, for any number of topics.

    Parameters
    ----------
    indptr, indices, counts, entry, first_word, phi, eta, scale, alpha, N, change
        As in `collapsed.expected_sweep`.
    token : int64 array of shape (documents,)
        The token of each document that comes next.
    z : uint16 array of shape (tokens,)
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
