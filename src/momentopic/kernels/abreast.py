"""Draws of tokens for several documents abreast, so that the processor is never kept waiting by any one of them.

A draw is a long chain of steps, each of which waits for the one before; and where a random number falls is what no
processor predicts. So here is not one branch, and the draws of `ABREAST` documents take every step together. None of
them sees what the others of the same moment do to the counts of a word that they share; all see it a moment later.
"""

from __future__ import annotations

from functools import partial
from typing import Any

from llvmlite import ir
from numba import types

from momentopic.kernels.lanes import FLOAT, LANES, TILE, ZERO, cgutils, intrinsic, running_sums
from momentopic.kernels.random import FIRST, GOLDEN, SECOND
from momentopic.kernels.tiles import LONG, pieces, prefetch_line

ABREAST = 4  # as many as fill the waiting times, and whose vectors are still in registers
_ALL = range(ABREAST)
_INT, _BIT = ir.IntType(32), ir.IntType(1)
_INDEX = ir.VectorType(_INT, LANES)
_MASK = ir.IntType(LANES)
_LONGS, _INTS, _FLOATS = (ir.VectorType(kind, ABREAST) for kind in (LONG, _INT, FLOAT))
_ONE, _NOTHING = ir.Constant(FLOAT, 1.0), ir.Constant(FLOAT, 0.0)
_ONES = ir.Constant(TILE.vector, [1.0] * LANES)
_BITS = 24  # of a random number
_AHEAD = 3  # positions: the rows of words are asked for that early


def _long(value: int) -> Any:
    return ir.Constant(LONG, value)


def _same(kind: Any, value: Any) -> Any:
    """Return a constant vector of one number."""
    return ir.Constant(kind, [value] * kind.count)


def _topics(i: int) -> Any:
    """Return the topics of the i-th vector."""
    return ir.Constant(_INDEX, list(range(LANES * i, LANES * (i + 1))))


def _at(builder: Any, data: Any, place: Any) -> Any:
    return builder.load(builder.gep(data, [place]))


def _spread(builder: Any, topic: Any) -> Any:
    """Return a vector of one topic."""
    first = builder.insert_element(ir.Constant(_INDEX, ir.Undefined), topic, ir.Constant(_INT, 0))
    return builder.shuffle_vector(first, first, _same(_INDEX, 0))


def _random_numbers(builder: Any, streams: Any) -> tuple[Any, Any]:
    """Return two vectors of numbers in [0, 1), one of each for a document; its stream goes on. As `random.mix`."""
    state = builder.add(builder.load(streams), _same(_LONGS, int(GOLDEN)))
    builder.store(state, streams)
    for shift, factor in ((30, FIRST), (27, SECOND)):
        state = builder.xor(state, builder.lshr(state, _same(_LONGS, shift)))
        state = builder.mul(state, _same(_LONGS, int(factor)))
    state = builder.xor(state, builder.lshr(state, _same(_LONGS, 31)))
    numbers = []
    for bits in (builder.lshr(state, _same(_LONGS, 64 - _BITS)), builder.and_(state, _same(_LONGS, (1 << _BITS) - 1))):
        whole = builder.sitofp(builder.trunc(bits, _INTS), _FLOATS)
        numbers.append(builder.fmul(whole, _same(_FLOATS, 1 / (1 << _BITS))))
    return numbers[0], numbers[1]


def _passed(builder: Any, masks: list[Any], lane: Any) -> Any:
    """Return how many of the masks have the bit of a lane."""
    found: Any = _long(0)
    for first in range(0, len(masks), 4):
        joined = [*masks[first : first + 4], *[_same(ir.VectorType(_BIT, LANES), 0)] * 3][:4]
        while len(joined) > 1:  # one behind the other, to 64 bits
            width = 2 * joined[0].type.count
            index = ir.Constant(ir.VectorType(_INT, width), list(range(width)))
            joined = [builder.shuffle_vector(a, b, index) for a, b in zip(joined[::2], joined[1::2], strict=True)]
        bits = builder.lshr(builder.bitcast(joined[0], LONG), lane)
        every = _long(sum(1 << (LANES * i) for i in range(4)))
        found = builder.add(found, builder.ctpop(builder.and_(bits, every)))
    return found


@intrinsic
def draw_abreast(
    typing: Any,
    first: Any,
    end: Any,
    words: Any,
    z: Any,
    tokens: Any,
    a: Any,
    N: Any,
    documents: Any,
    nobody: Any,
    streams: Any,
    F: Any,
    eta: Any,
    scale: Any,
    vectors: Any,
) -> Any:
    """Draw the tokens at some positions, for all documents abreast.

    Draws are those of Liu (1996): another topic is proposed, as the others' weights a_k (f_k + eta) say, and taken with
    probability (1 - p_old) / (1 - p_new), if that is below 1. It leaves the same distribution as a Gibbs draw does as
    it is, and moves more often.

    Parameters
    ----------
    first, end : int64
        The positions: from the first until before the end.
    words : int64 array of shape (ABREAST, positions)
        Where the row of each token's word begins in F.
    z : uint16 array
        Topics of the tokens.
    tokens : int64 array of shape (ABREAST,)
        Where in z those of each document would begin, if they began at position 0.
    a : float32 array of shape (ABREAST, K)
        (n_k + alpha_k) scale_k for each document. All 0 where there is none: then no topic changes.
    N : float32 array of shape (all documents, K)
        Topic counts.
    documents : int64 array of shape (ABREAST,)
        Which those abreast are; negative for none.
    nobody : float32 array of shape (K,)
        All 0: the topic counts of none.
    streams : uint64 array of shape (ABREAST,)
        Random streams.
    F : float32 array of shape (words, K)
        Topic counts of the words.
    eta : float32
    scale : float32 array of shape (K,)
    vectors : tuple of integers
        `registers.vectors_of` K.
    """
    whole, number = types.int64, types.float32
    signature = types.void(whole, whole, words, z, tokens, a, N, documents, nobody, streams, F, number, scale, vectors)

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        arrays = pieces(context, builder, signature, args)
        first, end, words, z, tokens, a, N, documents, nobody, streams, F, eta, scale, _ = arrays
        length, room = LANES * signature.args[-1].count, builder.extract_value(words.shape, 1)
        states = builder.bitcast(streams.data, _LONGS.as_pointer())
        stream = cgutils.alloca_once_value(builder, builder.load(states, align=8))
        topics = [builder.gep(z.data, [_at(builder, tokens.data, _long(g))]) for g in _ALL]
        weights = [builder.gep(a.data, [_long(g * length)]) for g in _ALL]
        counts = [_row(builder, N, _at(builder, documents.data, _long(g)), nobody.data, length) for g in _ALL]
        with cgutils.for_range_slice(builder, first, end, _long(1)) as (position, _):
            places = [builder.add(builder.mul(_long(g), room), position) for g in _ALL]
            rows = [builder.gep(F.data, [_at(builder, words.data, place)]) for place in places]
            for place in places:  # at the end of the room, rows are asked for that nobody needs
                ahead = _at(builder, words.data, builder.add(place, _long(_AHEAD)))
                for column in range(0, length, LANES):
                    prefetch_line(builder, builder.gep(F.data, [builder.add(ahead, _long(column))]), write=False)
            here = [builder.gep(each, [position]) for each in topics]
            _draw(builder, length // LANES, rows, weights, counts, here, stream, eta, scale.data)
        builder.store(builder.load(stream), states, align=8)

    return signature, generate


def _row(builder: Any, matrix: Any, i: Any, instead: Any, length: int) -> Any:
    """Return the address of a row; another one if its number is negative."""
    row = builder.gep(matrix.data, [builder.mul(i, _long(length))])
    return builder.select(builder.icmp_signed("<", i, _long(0)), instead, row)


@intrinsic
def take_place(
    typing: Any,
    place: Any,
    gone: Any,
    coming: Any,
    N: Any,
    nobody: Any,
    alpha: Any,
    scale: Any,
    a: Any,
    change: Any,
    vectors: Any,
) -> Any:
    """Let a document take a place: make its weights. And note what has become of the counts of one that is gone.

    Parameters
    ----------
    place : int64
        Of those abreast.
    gone, coming : int64
        Documents; negative for none.
    N, nobody, scale, a, vectors
        As in `draw_abreast`.
    alpha : float32 array of shape (K,)
    change : float32 array of shape (K,)
        The tokens that are added to each topic: what documents have when they are gone, less what they came with.
    """
    whole = types.int64
    signature = types.void(whole, whole, whole, N, nobody, alpha, scale, a, change, vectors)

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        place, gone, coming, N, nobody, alpha, scale, a, change, _ = pieces(context, builder, signature, args)
        n_vectors = signature.args[-1].count
        length = LANES * n_vectors
        old, new = (_row(builder, N, d, nobody.data, length) for d in (gone, coming))
        prior = builder.select(builder.icmp_signed("<", coming, _long(0)), nobody.data, alpha.data)
        weights = builder.gep(a.data, [builder.mul(place, _long(length))])
        for i in range(n_vectors):
            column = _long(LANES * i)
            load = partial(TILE.load, builder, offset=column)
            n = load(new)
            TILE.store(builder, builder.fadd(load(change.data), builder.fsub(load(old), n)), change.data, column)
            TILE.store(builder, builder.fmul(builder.fadd(n, load(prior)), load(scale.data)), weights, column)

    return signature, generate


def _draw(
    builder: Any,
    n_vectors: int,
    rows: list[Any],
    weights: list[Any],
    counts: list[Any],
    topics: list[Any],
    stream: Any,
    eta: Any,
    scale: Any,
) -> None:
    """Draw one token of each document: every step for all of them, then the next."""
    smoothing = TILE.broadcast(builder, eta)
    chances, thresholds = _random_numbers(builder, stream)
    before = [builder.load(topic) for topic in topics]
    olds = [builder.zext(old, LONG) for old in before]
    own = []  # of the old topic, with the token itself left out
    for g, old in enumerate(olds):
        left = builder.fsub(_at(builder, weights[g], old), _at(builder, scale, old))
        weight = builder.fmul(left, builder.fadd(_at(builder, rows[g], old), builder.fsub(eta, _ONE)))
        own.append(builder.select(builder.fcmp_ordered(">", weight, _NOTHING), weight, _NOTHING))
    spread = [_spread(builder, builder.zext(old, _INT)) for old in before]
    # of the other topics: sums over the vectors so far, lane by lane
    sums: list[list[Any]] = [[] for _ in _ALL]
    for i in range(n_vectors):
        for g in _ALL:
            smoothed = builder.fadd(TILE.load(builder, rows[g], _long(LANES * i)), smoothing)
            weight = builder.fmul(TILE.load(builder, weights[g], _long(LANES * i)), smoothed)
            weight = builder.select(builder.icmp_unsigned("==", spread[g], _topics(i)), ZERO, weight)
            sums[g].append(builder.fadd(sums[g][-1], weight) if i else weight)
    ends = running_sums(builder, [each[-1] for each in sums])
    whole = [builder.shuffle_vector(e, e, _same(_INDEX, LANES - 1)) for e in ends]
    others = [builder.extract_element(w, ir.Constant(_INT, 0)) for w in whole]
    # the lane, then the topic of the lane, at which the sum passes a random part of the whole
    index = [ir.Constant(_INT, g) for g in _ALL]
    parts = [
        builder.fmul(w, TILE.broadcast(builder, builder.extract_element(chances, index[g])))
        for g, w in enumerate(whole)
    ]
    begins = [builder.fsub(e, each[-1]) for e, each in zip(ends, sums, strict=True)]
    lanes = []
    for e, part in zip(ends, parts, strict=True):
        below = builder.bitcast(builder.fcmp_ordered("<=", e, part), _MASK)
        below = builder.and_(below, ir.Constant(_MASK, (1 << (LANES - 1)) - 1))  # rounding may pass the last one
        lanes.append(builder.ctpop(builder.zext(below, LONG)))
    news = []
    for g, lane in enumerate(lanes):
        masks = [builder.fcmp_ordered("<=", builder.fadd(begins[g], s), parts[g]) for s in sums[g][:-1]]
        news.append(builder.add(lane, builder.mul(_passed(builder, masks, lane), _long(LANES))))
    taken = []
    for g, new in enumerate(news):
        there = builder.fmul(_at(builder, weights[g], new), builder.fadd(_at(builder, rows[g], new), eta))
        rest = builder.fsub(builder.fadd(others[g], own[g]), there)
        rest = builder.fmul(builder.extract_element(thresholds, index[g]), rest)
        possible = builder.fcmp_ordered(">", there, _NOTHING)
        taken.append(builder.and_(builder.fcmp_ordered("<", rest, others[g]), possible))
    for g, topic in enumerate(topics):
        builder.store(builder.select(taken[g], builder.trunc(news[g], before[g].type), before[g]), topic)
        one = builder.zext(taken[g], _INT)
        token = builder.uitofp(taken[g], FLOAT)
        for k, change in ((olds[g], builder.fsub), (news[g], builder.fadd)):
            lane = builder.and_(k, _long(LANES - 1))
            vector = builder.sub(k, lane)
            hot = builder.trunc(builder.shl(one, builder.trunc(lane, _INT)), _MASK)
            here = builder.bitcast(hot, ir.VectorType(_BIT, LANES))
            step = TILE.broadcast(builder, _at(builder, scale, k))
            # by way of whole vectors, see `lanes.add_at`; a store of some lanes alone would be as slow to read again
            for row, by in ((weights[g], step), (rows[g], _ONES)):
                moved = change(TILE.load(builder, row, vector), builder.select(here, by, ZERO))
                TILE.store(builder, moved, row, vector)
            place = builder.gep(counts[g], [k])
            builder.store(change(builder.load(place), token), place)
