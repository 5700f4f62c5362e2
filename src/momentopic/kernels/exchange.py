"""Responsibilities that are exchanged for new ones, document and word following at once: the step of a CVB0 sweep.

They are kept in one byte each, as a floating-point number of five bits and an exponent of three: a quarter of what
single precision would bring from the memory and back, which is what a sweep would wait for. What is rounded off never
gets into the counts.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from llvmlite import ir
from numba import types

from momentopic.kernels.lanes import FLOAT, LANES, TILE, ZERO, cgutils, intrinsic, larger, pairwise_sum
from momentopic.kernels.registers import Slots, number_of_tokens, over_words, row_of_word, vectors_at
from momentopic.kernels.tiles import LONG, pieces, prefetch_line

STORED = np.uint8
# What is kept is h = LEAST + SCALE g, between LEAST and 2: the exponents are eight consecutive ones, which end with
# that of 1. So three bits say which, and what the byte leaves out of a float32 is the same for all. A responsibility of
# 1 becomes 1/2: it is kept as it is, and those just below it twice as fine as those above.
LEAST = 2.0**-7
SCALE = 0.5 - LEAST
_DROPPED = 18  # bits of a float32 behind those that are kept
_FIRST = 120 << 23  # LEAST, as the bits of a float32
_AHEAD, _IN_LINE = 8, 4  # entries: so early responsibilities are asked for; vectors of them in a cache line
_BYTES, _INTS = (ir.VectorType(ir.IntType(bits), LANES) for bits in (8, 32))
_WORDS_TO_LAG = 32  # in shorter documents, sweeps that lag behind end at worse topics
_NONE = 1e-20  # less than any sum of responsibilities, or of weights


def decoded(codes: Any) -> Any:
    """Return the responsibilities that are kept as some codes."""
    bits = np.asarray(codes).astype(np.uint32) << _DROPPED | _FIRST
    return (bits.view(np.float32) - np.float32(LEAST)) / np.float32(SCALE)


def _number(value: float) -> Any:
    return ir.Constant(FLOAT, value)


def _same(builder: Any, value: float) -> Any:
    return TILE.broadcast(builder, _number(value))


def _bits(value: int) -> Any:
    return ir.Constant(_INTS, [value] * LANES)


def _kept(builder: Any, G: Any, place: Any) -> Any:
    """Return where a vector of responsibilities is kept."""
    return builder.bitcast(builder.gep(G.data, [place]), _BYTES.as_pointer())


def _load(builder: Any, G: Any, place: Any) -> Any:
    """Return the h of a vector of responsibilities."""
    codes = builder.zext(builder.load(_kept(builder, G, place), align=1), _INTS)
    return builder.bitcast(builder.or_(builder.shl(codes, _bits(_DROPPED)), _bits(_FIRST)), TILE.vector)


def _store(builder: Any, G: Any, place: Any, h: Any) -> Any:
    """Keep the h of responsibilities, rounded; return what is kept."""
    bits = builder.add(builder.bitcast(h, _INTS), _bits(1 << (_DROPPED - 1)))
    codes = builder.trunc(builder.lshr(bits, _bits(_DROPPED)), _BYTES)
    builder.store(codes, _kept(builder, G, place), align=1)
    return builder.bitcast(builder.and_(bits, _bits(-(1 << _DROPPED))), TILE.vector)


def _unscaled(builder: Any, x: Any) -> Any:
    """Return what is to be multiplied by a difference of h for x times that of responsibilities."""
    return TILE.broadcast(builder, builder.fmul(x, _number(1 / SCALE)))


def _add(builder: Any, total: Any, place: Any, x: Any, h: Any) -> None:
    """Add x times responsibilities, given their h, to a vector of `total`."""
    more = builder.fsub(h, _same(builder, LEAST))
    sums = TILE.add_product(builder, TILE.load(builder, total.data, place), _unscaled(builder, x), more)
    TILE.store(builder, sums, total.data, place)


@intrinsic
def keep_row(typing: Any, values: Any, own: Any, total: Any, x: Any) -> Any:
    """Keep a row of responsibilities, `values`, in `own`; add x times what is kept to `total`.

    Parameters
    ----------
    values, total : float32 arrays, of one length that is a multiple of LANES
    own : uint8 array of that length
    x : float32
    """
    signature = types.void(values, own, total, types.float32)

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        values, own, total, x = pieces(context, builder, signature, args)
        length, step = builder.extract_value(values.shape, 0), ir.Constant(LONG, LANES)
        with cgutils.for_range_slice(builder, ir.Constant(LONG, 0), length, step) as (place, _):
            given = TILE.load(builder, values.data, place)
            h = TILE.add_product(builder, _same(builder, LEAST), given, _same(builder, SCALE))
            _add(builder, total, place, x, _store(builder, own, place, h))

    return signature, generate


@intrinsic
def add_row(typing: Any, total: Any, own: Any, x: Any) -> Any:
    """Add x times the responsibilities that are kept in `own` to a float32 row `total`."""
    signature = types.void(total, own, types.float32)

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        total, own, x = pieces(context, builder, signature, args)
        length, step = builder.extract_value(total.shape, 0), ir.Constant(LONG, LANES)
        with cgutils.for_range_slice(builder, ir.Constant(LONG, 0), length, step) as (place, _):
            _add(builder, total, place, x, _load(builder, own, place))

    return signature, generate


class _Topics(NamedTuple):
    """What the responsibilities of a vector of topics depend on, beside counts."""

    prior: Any
    scale: Any
    of_none: Any  # what the weight has of a word that does not occur elsewhere


def _of_topics(builder: Any, alpha: Any, scale: Any, eta: Any, place: Any) -> _Topics:
    """Return what a vector of topics says, given the prior, the inverse totals and the smoothing."""
    prior, inverse = (TILE.load(builder, each.data, place) for each in (alpha, scale))
    return _Topics(prior, inverse, builder.fmul(TILE.broadcast(builder, eta), inverse))


def _document(builder: Any, topics: _Topics) -> Any:
    """Return what is added to the counts of a document for `_weight`."""
    return builder.fadd(topics.prior, _same(builder, LEAST / SCALE))


def _weight(builder: Any, f: Any, n: Any, h: Any, part: Any, topics: _Topics) -> Any:
    """Return (max(f - part g, 0) + eta) scale (max(n - g, 0) + prior): n comes with `_document` added to it."""
    left = larger(builder, TILE.add_product(builder, n, h, _same(builder, -1 / SCALE)), topics.prior)
    least = builder.fmul(part, _same(builder, LEAST / SCALE))
    own = TILE.add_product(builder, least, h, builder.fmul(part, _same(builder, -1 / SCALE)))
    of_word = TILE.add_product(builder, topics.of_none, builder.fadd(f, own), topics.scale)
    return builder.fmul(larger(builder, of_word, topics.of_none), left)


def _turned(builder: Any, vector: Any, distance: int) -> Any:
    """Return a vector whose lanes have changed places with those at a distance, a power of two."""
    order = ir.Constant(_INTS, [i ^ distance for i in range(LANES)])
    return builder.shuffle_vector(vector, vector, order)


def _steps(builder: Any, weights: Any, kept: Any, relax: Any, width: Any) -> Any:
    """Return what weights are multiplied by (first lane), and responsibilities as they are (last lane).

    That is SCALE relax / Σ weights and (1 - relax) / Σ g: both sums are taken at once, each in half of a vector.
    """
    middle = LANES // 2
    low, high = (
        ir.Constant(_INTS, [*range(i, i + middle), *range(LANES + i, LANES + i + middle)]) for i in (0, middle)
    )
    sums = builder.fadd(builder.shuffle_vector(weights, kept, low), builder.shuffle_vector(weights, kept, high))
    distance = middle // 2
    while distance:
        sums = builder.fadd(sums, _turned(builder, sums, distance))
        distance //= 2
    first = ir.Constant(ir.VectorType(ir.IntType(1), LANES), [i < middle for i in range(LANES)])
    lanes = builder.uitofp(width, FLOAT)
    of_least = TILE.broadcast(builder, builder.fmul(lanes, _number(LEAST)))
    sums = builder.fsub(sums, builder.select(first, ZERO, of_least))
    some = builder.fcmp_ordered(">", sums, _same(builder, _NONE))
    there = builder.fmul(relax, _number(SCALE))
    back = builder.fmul(builder.fsub(_number(1), relax), _number(SCALE))
    parts = builder.select(first, TILE.broadcast(builder, there), TILE.broadcast(builder, back))
    return builder.select(some, builder.fdiv(parts, builder.select(some, sums, _same(builder, 1.0))), ZERO)


def _lane(builder: Any, vector: Any, lane: int) -> Any:
    return builder.shuffle_vector(vector, vector, ir.Constant(_INTS, [lane] * LANES))


def _beyond(builder: Any, weight: Any, h: Any, steps: Any) -> Any:
    """Return the h of new responsibilities."""
    there, back = _lane(builder, steps, 0), _lane(builder, steps, LANES - 1)
    least = TILE.add_product(builder, _same(builder, LEAST), back, _same(builder, -LEAST))
    new = TILE.add_product(builder, least, weight, there)
    return larger(builder, TILE.add_product(builder, new, h, back), _same(builder, LEAST))


@intrinsic
def exchange_words(
    typing: Any,
    words: Any,
    counts: Any,
    G: Any,
    n: Any,
    length: Any,
    first_word: Any,
    F: Any,
    eta: Any,
    alpha: Any,
    scale: Any,
    relax: Any,
    left_out: Any,
    vectors: Any,
) -> Any:
    """Do what `exchange` does, for some words of a document one after the other, `over_words`.

    Parameters
    ----------
    words, counts : arrays of shape (entries,)
    G : uint8 array of shape (entries, K)
        Responsibilities, as kept.
    n : float32 array of shape (K,)
    length, first_word : int64
        How many words the whole document has; the word of the first row of F.
    F : float32 array of shape (words, K)
    eta, relax, left_out : float32
    alpha, scale : float32 arrays of shape (K,)
    vectors : tuple
        `vectors_of` K.
    """
    number, long = types.float32, types.int64
    signature = types.void(words, counts, G, n, long, long, F, number, alpha, scale, number, number, vectors)

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        words, counts, G, n, length, first_word, F, eta, alpha, scale, relax, left_out, _ = pieces(
            context, builder, signature, args
        )
        n_vectors = signature.args[-1].count
        width, n_entries = builder.extract_value(alpha.shape, 0), builder.extract_value(words.shape, 0)
        last = builder.sub(n_entries, ir.Constant(LONG, 1))
        places = [ir.Constant(LONG, LANES * i) for i in range(n_vectors)]
        topics = [_of_topics(builder, alpha, scale, eta, place) for place in places]
        times_own = TILE.broadcast(builder, left_out)

        def weigh(entry: Any, sums: list[Any], slots: Slots) -> None:
            row = row_of_word(builder, words, last, first_word, F, width, entry, n_vectors, write=True)
            own = vectors_at(builder, entry, width, n_vectors)
            ahead = builder.add(own[0], builder.mul(ir.Constant(LONG, _AHEAD), width))
            for i in range(0, n_vectors, _IN_LINE):
                prefetch_line(builder, builder.gep(G.data, [builder.add(ahead, places[i])]), write=True)
            part = builder.fmul(number_of_tokens(builder, counts, entry), times_own)
            weights, kept = [], []
            for i, of_topic in enumerate(topics):
                h, f = _load(builder, G, own[i]), TILE.load(builder, F.data, row[i])
                weights.append(_weight(builder, f, builder.load(sums[i]), h, part, of_topic))
                kept.append(h)
                builder.store(weights[i], slots(builder, entry, i))
                builder.store(h, slots(builder, entry, n_vectors + i))
            steps = _steps(builder, pairwise_sum(builder, weights), pairwise_sum(builder, kept), relax, width)
            builder.store(steps, slots(builder, entry, 2 * n_vectors))

        def put_to_use(entry: Any, sums: list[Any], slots: Slots) -> None:
            word = builder.sext(builder.load(builder.gep(words.data, [entry])), LONG)
            row, own = (vectors_at(builder, i, width, n_vectors) for i in (builder.sub(word, first_word), entry))
            steps, x = builder.load(slots(builder, entry, 2 * n_vectors)), number_of_tokens(builder, counts, entry)
            times = builder.fmul(x, _same(builder, 1 / SCALE))
            for i, total in enumerate(sums):
                weight, h = (builder.load(slots(builder, entry, j)) for j in (i, n_vectors + i))
                change = builder.fsub(_store(builder, G, own[i], _beyond(builder, weight, h, steps)), h)
                f = TILE.load(builder, F.data, row[i])
                TILE.store(builder, TILE.add_product(builder, f, times, change), F.data, row[i])
                builder.store(TILE.add_product(builder, builder.load(total), times, change), total)

        added = [_document(builder, each) for each in topics]
        over_words(builder, n_entries, length, _WORDS_TO_LAG, n, added, 2 * n_vectors + 1, weigh, put_to_use)

    return signature, generate


@intrinsic
def exchange(
    typing: Any,
    f: Any,
    n: Any,
    own: Any,
    eta: Any,
    alpha: Any,
    scale: Any,
    relax: Any,
    left_out: Any,
    x: Any,
    g: Any,
) -> Any:
    """Give x tokens of a word in a document new responsibilities; all counts follow at once.

    own_k ∝ (max(f_k - left_out x own_k, 0) + eta) (max(n_k - own_k, 0) + alpha_k) scale_k, or, if `relax` is above 1,
    that much beyond it, but never below 0; so they may sum to more than 1, until the next time, when they are scaled to
    1 before they go beyond anything.

    Of the word, with `left_out` at 1, all is left out that the document itself has of it: its tokens come together, and
    for the same reason. Above 1, also what comes back from other documents, which follow it (see `refine.rounds`).

    Parameters
    ----------
    f, n, alpha, scale, g : float32 arrays, contiguous, of one length that is a multiple of LANES
        The counts of the word and of the document, the prior, the inverse totals of the topics, and scratch space.
    own : uint8 array of that length
        The responsibilities, as kept.
    eta, relax, left_out, x : float32
        `relax` is less than 4.
    """
    signature = types.void(f, n, own, eta, alpha, scale, relax, left_out, x, g)

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        f, n, own, eta, alpha, scale, relax, left_out, x, g = pieces(context, builder, signature, args)
        length, step = builder.extract_value(f.shape, 0), ir.Constant(LONG, LANES)
        times, part = _unscaled(builder, x), TILE.broadcast(builder, builder.fmul(left_out, x))
        total, so_far = (cgutils.alloca_once_value(builder, ZERO) for _ in range(2))
        with cgutils.for_range_slice(builder, ir.Constant(LONG, 0), length, step) as (place, _):
            topics = _of_topics(builder, alpha, scale, eta, place)
            of_word, of_document = (TILE.load(builder, each.data, place) for each in (f, n))
            h = _load(builder, own, place)
            weight = _weight(builder, of_word, builder.fadd(of_document, _document(builder, topics)), h, part, topics)
            TILE.store(builder, weight, g.data, place)
            builder.store(builder.fadd(builder.load(so_far), h), so_far)
            builder.store(builder.fadd(builder.load(total), weight), total)
        steps = _steps(builder, builder.load(total), builder.load(so_far), relax, length)
        with cgutils.for_range_slice(builder, ir.Constant(LONG, 0), length, step) as (place, _):
            h = _load(builder, own, place)
            new = _beyond(builder, TILE.load(builder, g.data, place), h, steps)
            change = builder.fsub(_store(builder, own, place, new), h)
            for counts in (f, n):
                more = TILE.add_product(builder, TILE.load(builder, counts.data, place), times, change)
                TILE.store(builder, more, counts.data, place)

    return signature, generate
