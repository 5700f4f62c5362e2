"""Responsibilities that are exchanged for new ones, document and word following at once: the step of a CVB0 sweep.

They are kept as whole numbers of `1 / UNITS`, in two bytes each: half as much goes from the memory and back, which is
what a sweep would wait for. What is rounded off never gets into the counts.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from llvmlite import ir
from numba import types

from momentopic.kernels.lanes import (
    FLOAT,
    LANES,
    TILE,
    ZERO,
    cgutils,
    intrinsic,
    larger,
    pairwise_sum,
    tree_sum,
)
from momentopic.kernels.registers import number_of_tokens, over_words, row_of_word, vectors_at
from momentopic.kernels.tiles import LONG, pieces, prefetch_line

UNITS = 1 << 14  # so up to 4: beyond what they find they may be above 1
STORED = np.uint16
_AHEAD = 8  # entries: so early responsibilities are asked for
_SHORTS, _INTS = (ir.VectorType(ir.IntType(bits), LANES) for bits in (16, 32))


def _kept(builder: Any, G: Any, place: Any) -> Any:
    """Return where a vector of responsibilities is kept."""
    return builder.bitcast(builder.gep(G.data, [place]), _SHORTS.as_pointer())


def _load(builder: Any, G: Any, place: Any) -> Any:
    """Return a vector of responsibilities, in units."""
    return builder.sitofp(builder.zext(builder.load(_kept(builder, G, place), align=2), _INTS), TILE.vector)


def _store(builder: Any, G: Any, place: Any, g: Any) -> Any:
    """Keep a vector of responsibilities, in units and rounded down; return it as it is kept."""
    whole = builder.fptosi(g, _INTS)
    builder.store(builder.trunc(whole, _SHORTS), _kept(builder, G, place), align=2)
    return builder.sitofp(whole, TILE.vector)


def _number(value: float) -> Any:
    return ir.Constant(FLOAT, value)


def _same(builder: Any, value: float) -> Any:
    return TILE.broadcast(builder, _number(value))


def _weight(builder: Any, f: Any, n: Any, g: Any, alpha: Any, scale: Any, eta_scale: Any) -> Any:
    """Return (max(f - g, 0) + eta) scale max(n - g, alpha): g in units, alpha added to n."""
    opposite = _same(builder, -1 / UNITS)
    left = larger(builder, TILE.add_product(builder, n, g, opposite), alpha)
    of_word = larger(builder, TILE.add_product(builder, f, g, opposite), ZERO)
    return builder.fmul(TILE.add_product(builder, eta_scale, of_word, scale), left)


def _steps(builder: Any, relax: Any, whole: Any, held: Any) -> tuple[Any, Any]:
    """Return what weights that sum to `whole`, and responsibilities that sum to `held` units, are multiplied by."""
    some = builder.fcmp_ordered(">", held, _number(0))
    rest = builder.fmul(builder.fsub(_number(1), relax), _number(UNITS))
    rest = builder.fdiv(rest, builder.select(some, held, _number(1)))
    part = builder.fdiv(builder.fmul(relax, _number(UNITS)), whole)
    return TILE.broadcast(builder, part), TILE.broadcast(builder, rest)


def _beyond(builder: Any, weight: Any, g: Any, part: Any, rest: Any) -> Any:
    """Return new responsibilities, in units: one half more, to be rounded down."""
    new = TILE.add_product(builder, _same(builder, 0.5), weight, part)
    return larger(builder, TILE.add_product(builder, new, g, rest), ZERO)


class _Part(NamedTuple):
    """A part of an array that begins somewhere in it."""

    data: Any


def _part(builder: Any, array: Any, first: Any) -> _Part:
    return _Part(builder.gep(array.data, [first]))


@intrinsic
def exchange_abreast(
    typing: Any,
    words: Any,
    counts: Any,
    G: Any,
    N: Any,
    document: Any,
    entry: Any,
    shift: Any,
    n_entries: Any,
    first_word: Any,
    F: Any,
    eta: Any,
    alpha: Any,
    scale: Any,
    relax: Any,
    vectors: Any,
    abreast: Any,
) -> Any:
    """Do what `exchange` does, for as many entries of some documents: for the first of each, then for the second.

    Each word of a document waits for the one before it: with several documents the processor has something else to do.

    Parameters
    ----------
    words, counts : arrays of shape (entries,)
    G : uint16 array of shape (entries, K)
        Responsibilities, as kept.
    N : float32 array of shape (documents, K)
    document, entry, shift : int64 arrays
        The documents, the first entry of each, and what has to be added to an entry for its place in G.
    n_entries, first_word : int64
        Entries of each; the word of the first row of F.
    F : float32 array of shape (words, K)
    eta, relax : float32
    alpha, scale : float32 arrays of shape (K,)
    vectors, abreast : tuples
        `vectors_of` K; as long as there are documents.
    """
    number, long = types.float32, types.int64
    documents = (words, counts, G, N, document, entry, shift)
    signature = types.void(*documents, long, long, F, number, alpha, scale, number, vectors, abreast)

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        given = pieces(context, builder, signature, args)
        words, counts, G, N, document, entry, shift, n_entries, first_word, F, eta, alpha, scale, relax = given[:14]
        width, n_vectors = builder.extract_value(alpha.shape, 0), signature.args[-2].count
        several = []
        for j in range(signature.args[-1].count):
            d, e, more = (builder.load(builder.gep(a.data, [ir.Constant(LONG, j)])) for a in (document, entry, shift))
            of_document = [_part(builder, words, e), _part(builder, counts, e)]
            for rows, row in ((G, builder.add(e, more)), (N, d)):
                of_document.append(_part(builder, rows, builder.mul(row, width)))
            several.append(of_document)
        _exchange_all(builder, several, n_entries, n_vectors, first_word, F, eta, alpha, scale, relax)

    return signature, generate


def _exchange_all(
    builder: Any,
    documents: list[list[_Part]],
    n_entries: Any,
    n_vectors: int,
    first_word: Any,
    F: Any,
    eta: Any,
    alpha: Any,
    scale: Any,
    relax: Any,
) -> None:
    """Write the loop over the entries of documents; each of these has words, counts, G and n."""
    width, smoothing = builder.extract_value(alpha.shape, 0), TILE.broadcast(builder, eta)
    of_topics = [ir.Constant(LONG, LANES * i) for i in range(n_vectors)]
    scales = [TILE.load(builder, scale.data, place) for place in of_topics]
    eta_scales = [builder.fmul(smoothing, each) for each in scales]
    last = builder.sub(n_entries, ir.Constant(LONG, 1))

    def renew(entry: Any, *sums: list[Any]) -> None:
        # every step for all documents, then the next: so none of them sees what the others do to a row that they share
        # until a moment later
        rows, owns, weights, tokens = [], [], [], []
        places = vectors_at(builder, entry, width, n_vectors)
        ahead = builder.add(places[0], builder.mul(ir.Constant(LONG, _AHEAD), width))
        for words, counts, G, _ in documents:
            rows.append(row_of_word(builder, words, last, first_word, F, width, entry, n_vectors, write=True))
            for i in range(0, n_vectors, 2):
                place = builder.add(ahead, ir.Constant(LONG, LANES * i))
                prefetch_line(builder, builder.gep(G.data, [place]), write=True)
            owns.append([_load(builder, G, place) for place in places])
            tokens.append(builder.fmul(number_of_tokens(builder, counts, entry), _same(builder, 1 / UNITS)))
        for row, own, of_document in zip(rows, owns, sums, strict=True):
            weight = []
            for i, g in enumerate(own):
                prior = TILE.load(builder, alpha.data, of_topics[i])
                f, n = TILE.load(builder, F.data, row[i]), builder.load(of_document[i])
                weight.append(_weight(builder, f, n, g, prior, scales[i], eta_scales[i]))
            weights.append(weight)
        wholes = [tree_sum(builder, pairwise_sum(builder, weight)) for weight in weights]
        helds = [tree_sum(builder, pairwise_sum(builder, own)) for own in owns]
        factors = [_steps(builder, relax, whole, held) for whole, held in zip(wholes, helds, strict=True)]
        changes = []
        for (_, _, G, _), weight, own, factor in zip(documents, weights, owns, factors, strict=True):
            news = [_beyond(builder, w, g, *factor) for w, g in zip(weight, own, strict=True)]
            kept = [_store(builder, G, place, new) for place, new in zip(places, news, strict=True)]
            changes.append([builder.fsub(new, g) for new, g in zip(kept, own, strict=True)])
        for x, row, of_document, change in zip(tokens, rows, sums, changes, strict=True):
            for n, place, step in zip(of_document, row, change, strict=True):
                builder.store(TILE.add_product(builder, builder.load(n), x, step), n)
                f = TILE.load(builder, F.data, place)
                TILE.store(builder, TILE.add_product(builder, f, x, step), F.data, place)

    over_words(builder, n_entries, [document[3] for document in documents], n_vectors, renew, alpha)


@intrinsic
def exchange(
    typing: Any, f: Any, n: Any, own: Any, eta: Any, alpha: Any, scale: Any, relax: Any, x: Any, g: Any
) -> Any:
    """Give x tokens of a word new responsibilities, each left out of the counts; all counts follow at once.

    own_k ∝ (max(f_k - own_k, 0) + eta) (max(n_k - own_k, 0) + alpha_k) scale_k, or, if `relax` is above 1, that much
    beyond it, but never below 0; so they may sum to more than 1, until the next time, when they are scaled to 1 before
    they go beyond anything.

    Parameters
    ----------
    f, n, alpha, scale, g : float32 arrays, contiguous, of one length that is a multiple of LANES
        The counts of the word and of the document, the prior, the inverse totals of the topics, and scratch space.
    own : uint16 array of that length
        The responsibilities, as kept.
    eta, relax, x : float32
    """
    signature = types.void(f, n, own, eta, alpha, scale, relax, x, g)

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        f, n, own, eta, alpha, scale, relax, x, g = pieces(context, builder, signature, args)
        length, step = builder.extract_value(f.shape, 0), ir.Constant(LONG, LANES)
        smoothing = TILE.broadcast(builder, eta)
        tokens = TILE.broadcast(builder, builder.fmul(x, _number(1 / UNITS)))
        total, so_far = (cgutils.alloca_once_value(builder, ZERO) for _ in range(2))
        with cgutils.for_range_slice(builder, ir.Constant(LONG, 0), length, step) as (place, _):
            held, prior, of_topic = (
                _load(builder, own, place),
                *(TILE.load(builder, each.data, place) for each in (alpha, scale)),
            )
            with_prior = builder.fadd(TILE.load(builder, n.data, place), prior)
            of_word = TILE.load(builder, f.data, place)
            eta_scale = builder.fmul(smoothing, of_topic)
            weight = _weight(builder, of_word, with_prior, held, prior, of_topic, eta_scale)
            TILE.store(builder, weight, g.data, place)
            builder.store(builder.fadd(builder.load(so_far), held), so_far)
            builder.store(builder.fadd(builder.load(total), weight), total)
        whole, held = (tree_sum(builder, builder.load(each)) for each in (total, so_far))
        factors = _steps(builder, relax, whole, held)
        with cgutils.for_range_slice(builder, ir.Constant(LONG, 0), length, step) as (place, _):
            held = _load(builder, own, place)
            new = _beyond(builder, TILE.load(builder, g.data, place), held, *factors)
            change = builder.fsub(_store(builder, own, place, new), held)
            for counts in (f, n):
                more = TILE.add_product(builder, TILE.load(builder, counts.data, place), tokens, change)
                TILE.store(builder, more, counts.data, place)

    return signature, generate
