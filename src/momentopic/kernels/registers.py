"""Passes over the words of a document that keep its topic counts in registers from the first word to the last.

As `kernels.lanes`, and with the same fixed order of additions; but where the machine can, it multiplies and adds in one
step.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

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
    rest_of,
    tree_sum,
    without,
)
from momentopic.kernels.tiles import LONG, pieces, prefetch_line

IN_REGISTERS = 8 * LANES  # topics, of three vectors that a processor with 32 registers of this width can hold
_AHEAD = 4  # entries of a document: the row of a word is asked for that early


def vectors_of(width: int) -> tuple[int, ...]:
    """Return a tuple as long as an array over topics has vectors; an empty one if these are too many for registers.

    Registers cannot be counted through: for kernels that take such a tuple there is code for each number of them.
    """
    return (0,) * (width // LANES) if width <= IN_REGISTERS else ()


def _over_words(
    builder: Any, n_words: Any, ns: list[Any], width: Any, renew: Callable[..., None], n_vectors: int | None = None
) -> None:
    """Call `renew` for each word of a document, or of some, with the vectors of their counts n in registers.

    If it is not known how many vectors these have, there is a loop for each number.
    """
    lengths = [length for length in range(LANES, IN_REGISTERS + 1, LANES) if n_vectors in (None, length // LANES)]
    for length in lengths:
        with builder.if_then(builder.icmp_signed("==", width, ir.Constant(LONG, length))):
            places = [ir.Constant(LONG, first) for first in range(0, length, LANES)]
            sums = [[cgutils.alloca_once_value(builder, TILE.load(builder, n.data, p)) for p in places] for n in ns]
            with cgutils.for_range(builder, n_words) as loop:
                renew(loop.index, *sums)
            for n, totals in zip(ns, sums, strict=True):
                for place, total in zip(places, totals, strict=True):
                    TILE.store(builder, builder.load(total), n.data, place)


def _vectors(builder: Any, row: Any, width: Any, n_vectors: int) -> list[Any]:
    """Return the places of the vectors of a row."""
    first = builder.mul(row, width)
    return [builder.add(first, ir.Constant(LONG, LANES * i)) for i in range(n_vectors)]


def _row_of_word(builder: Any, words: Any, first_word: Any, matrix: Any, width: Any, entry: Any, n_vectors: int) -> Any:
    """Return the places of the vectors of a word's row; those of a word that comes later are asked for."""

    def places(entry: Any) -> list[Any]:
        word = builder.sext(builder.load(builder.gep(words.data, [entry])), LONG)
        return _vectors(builder, builder.sub(word, first_word), width, n_vectors)

    last = builder.sub(builder.extract_value(words.shape, 0), ir.Constant(LONG, 1))
    ahead = builder.add(entry, ir.Constant(LONG, _AHEAD))
    for place in places(builder.select(builder.icmp_signed("<", ahead, last), ahead, last)):
        prefetch_line(builder, builder.gep(matrix.data, [place]), write=False)
    return places(entry)


def _number_of_tokens(builder: Any, counts: Any, entry: Any) -> Any:
    return TILE.broadcast(builder, TILE.number(builder, builder.load(builder.gep(counts.data, [entry]))))


@intrinsic
def renew_tokens(typing: Any, words: Any, counts: Any, phi: Any, c: Any, relax: Any, G: Any, n: Any) -> Any:
    """Do what `reassign` does, for the words of a document one after the other and at most IN_REGISTERS topics.

    Parameters
    ----------
    words, counts : arrays of shape (entries,)
    phi : float32 array of shape (M, K)
    c, n : float32 arrays of shape (K,)
    relax : float32
    G : float32 array of shape (entries, K)
        Responsibilities.
    """
    signature = types.void(words, counts, phi, c, types.float32, G, n)

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        words, counts, phi, c, relax, G, n = pieces(context, builder, signature, args)
        width = builder.extract_value(c.shape, 0)

        def renew(entry: Any, sums: list[Any]) -> None:
            _renew(builder, entry, words, counts, phi, c, relax, G, sums)

        _over_words(builder, builder.extract_value(words.shape, 0), [n], width, renew)

    return signature, generate


@intrinsic
def renew_two(
    typing: Any,
    words: Any,
    counts: Any,
    G: Any,
    n: Any,
    other_words: Any,
    other_counts: Any,
    other_G: Any,
    other_n: Any,
    phi: Any,
    c: Any,
    relax: Any,
    vectors: Any,
) -> Any:
    """Do what `renew_tokens` does, for two documents of as many entries at a time. `vectors` is `vectors_of` K.

    Each word of a document waits for the one before it: with two documents the processor has something else to do.
    """
    documents = (words, counts, G, n, other_words, other_counts, other_G, other_n)
    signature = types.void(*documents, phi, c, types.float32, vectors)

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        *documents, phi, c, relax, _ = pieces(context, builder, signature, args)
        words, counts, G, n, other_words, other_counts, other_G, other_n = documents
        width = builder.extract_value(c.shape, 0)

        def renew(entry: Any, sums: list[Any], other_sums: list[Any]) -> None:
            _renew(builder, entry, words, counts, phi, c, relax, G, sums)
            _renew(builder, entry, other_words, other_counts, phi, c, relax, other_G, other_sums)

        n_vectors = signature.args[-1].count
        _over_words(builder, builder.extract_value(words.shape, 0), [n, other_n], width, renew, n_vectors)

    return signature, generate


def _renew(
    builder: Any, entry: Any, words: Any, counts: Any, phi: Any, c: Any, relax: Any, G: Any, sums: list[Any]
) -> None:
    """Renew the responsibilities of a word in a document whose counts are in registers."""
    width, nothing = builder.extract_value(c.shape, 0), ir.Constant(FLOAT, 0.0)
    rest = TILE.broadcast(builder, builder.fsub(ir.Constant(FLOAT, 1.0), relax))
    rows = _row_of_word(builder, words, ir.Constant(LONG, 0), phi, width, entry, len(sums))
    places = _vectors(builder, entry, width, len(sums))
    tokens = _number_of_tokens(builder, counts, entry)
    own = [TILE.load(builder, G.data, place) for place in places]
    fresh = []
    for i, (total, row, g) in enumerate(zip(sums, rows, own, strict=True)):
        left = without(builder, builder.load(total), g)
        left = builder.fadd(left, TILE.load(builder, c.data, ir.Constant(LONG, LANES * i)))
        fresh.append(builder.fmul(TILE.load(builder, phi.data, row), left))
    whole = tree_sum(builder, pairwise_sum(builder, fresh))
    possible = builder.fcmp_ordered(">", whole, nothing)
    scale = TILE.broadcast(builder, builder.select(possible, builder.fdiv(relax, whole), nothing))
    for total, place, g, f in zip(sums, places, own, fresh, strict=True):
        new = larger(builder, TILE.add_product(builder, builder.fmul(g, rest), f, scale), ZERO)
        TILE.store(builder, new, G.data, place)
        builder.store(TILE.add_product(builder, builder.load(total), tokens, builder.fsub(new, g)), total)


@intrinsic
def exchange_tokens(
    typing: Any,
    words: Any,
    counts: Any,
    first_word: Any,
    F: Any,
    eta: Any,
    alpha: Any,
    scale: Any,
    relax: Any,
    G: Any,
    n: Any,
) -> Any:
    """Do what `exchange` does, for some words of a document one after the other and at most IN_REGISTERS topics.

    Returns how many tokens changed their topic.

    Parameters
    ----------
    words, counts : arrays of shape (entries,)
    first_word : int64
        The word of the first row of F.
    F : float32 array of shape (words, K)
    eta, relax : float32
    alpha, scale, n : float32 arrays of shape (K,)
    G : float32 array of shape (entries, K)
        Responsibilities.
    """
    number = types.float32
    signature = number(words, counts, types.int64, F, number, alpha, scale, number, G, n)

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        words, counts, first_word, F, eta, alpha, scale, relax, G, n = pieces(context, builder, signature, args)
        width = builder.extract_value(alpha.shape, 0)
        smoothing = TILE.broadcast(builder, eta)
        moved = cgutils.alloca_once_value(builder, ZERO)

        def renew(entry: Any, sums: list[Any]) -> None:
            rows = _row_of_word(builder, words, first_word, F, width, entry, len(sums))
            places = _vectors(builder, entry, width, len(sums))
            for place in _vectors(builder, builder.add(entry, ir.Constant(LONG, _AHEAD)), width, len(sums)):
                prefetch_line(builder, builder.gep(G.data, [place]), write=True)
            tokens = _number_of_tokens(builder, counts, entry)
            own = [TILE.load(builder, G.data, place) for place in places]
            of_word = [TILE.load(builder, F.data, row) for row in rows]
            fresh = []
            for i, (total, f, g) in enumerate(zip(sums, of_word, own, strict=True)):
                of_topic = ir.Constant(LONG, LANES * i)
                left = builder.fadd(without(builder, builder.load(total), g), TILE.load(builder, alpha.data, of_topic))
                p = builder.fadd(without(builder, f, g), smoothing)
                fresh.append(builder.fmul(builder.fmul(p, TILE.load(builder, scale.data, of_topic)), left))
            whole = tree_sum(builder, pairwise_sum(builder, fresh))
            part = TILE.broadcast(builder, builder.fdiv(relax, whole))
            rest = rest_of(builder, relax, tree_sum(builder, pairwise_sum(builder, own)))
            gained = []
            for i, (total, f, g) in enumerate(zip(sums, of_word, own, strict=True)):
                new = larger(builder, TILE.add_product(builder, builder.fmul(g, rest), fresh[i], part), ZERO)
                TILE.store(builder, new, G.data, places[i])
                step = builder.fsub(new, g)
                builder.store(TILE.add_product(builder, builder.load(total), tokens, step), total)
                TILE.store(builder, TILE.add_product(builder, f, tokens, step), F.data, rows[i])
                gained.append(larger(builder, step, ZERO))
            sum_of_gains = pairwise_sum(builder, gained)
            builder.store(TILE.add_product(builder, builder.load(moved), tokens, sum_of_gains), moved)

        _over_words(builder, builder.extract_value(words.shape, 0), [n], width, renew)
        return tree_sum(builder, builder.load(moved))

    return signature, generate
