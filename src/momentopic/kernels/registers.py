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


def over_words(
    builder: Any, n_words: Any, ns: list[Any], n_vectors: int, renew: Callable[..., None], more: Any = None
) -> None:
    """Call `renew` for each word of a document, or of some, with the vectors of their counts n in registers.

    If there is an array of something `more`, as long as n, it is added to them for so long.
    """
    places = [ir.Constant(LONG, LANES * i) for i in range(n_vectors)]
    added = [TILE.load(builder, more.data, place) if more else ZERO for place in places]

    def begin(n: Any, i: int) -> Any:
        value = TILE.load(builder, n.data, places[i])
        return cgutils.alloca_once_value(builder, builder.fadd(value, added[i]) if more else value)

    sums = [[begin(n, i) for i in range(n_vectors)] for n in ns]
    with cgutils.for_range(builder, n_words) as loop:
        renew(loop.index, *sums)
    for n, totals in zip(ns, sums, strict=True):
        for place, total, part in zip(places, totals, added, strict=True):
            value = builder.load(total)
            TILE.store(builder, builder.fsub(value, part) if more else value, n.data, place)


def vectors_at(builder: Any, row: Any, width: Any, n_vectors: int) -> list[Any]:
    """Return the places of the vectors of a row."""
    first = builder.mul(row, width)
    return [builder.add(first, ir.Constant(LONG, LANES * i)) for i in range(n_vectors)]


def row_of_word(
    builder: Any,
    words: Any,
    last: Any,
    first_word: Any,
    matrix: Any,
    width: Any,
    entry: Any,
    n_vectors: int,
    *,
    write: bool = False,
) -> Any:
    """Return the places of the vectors of a word's row; those of a word that comes later are asked for.

    `last` is the last entry that there is.
    """

    def places(entry: Any) -> list[Any]:
        word = builder.sext(builder.load(builder.gep(words.data, [entry])), LONG)
        return vectors_at(builder, builder.sub(word, first_word), width, n_vectors)

    ahead = builder.add(entry, ir.Constant(LONG, _AHEAD))
    for place in places(builder.select(builder.icmp_signed("<", ahead, last), ahead, last)):
        prefetch_line(builder, builder.gep(matrix.data, [place]), write=write)
    return places(entry)


def number_of_tokens(builder: Any, counts: Any, entry: Any) -> Any:
    """Return the count of an entry, in all lanes."""
    return TILE.broadcast(builder, TILE.number(builder, builder.load(builder.gep(counts.data, [entry]))))


@intrinsic
def renew_tokens(
    typing: Any, words: Any, counts: Any, phi: Any, c: Any, relax: Any, G: Any, n: Any, vectors: Any
) -> Any:
    """Do what `reassign` does, for the words of a document one after the other.

    Parameters
    ----------
    words, counts : arrays of shape (entries,)
    phi : float32 array of shape (M, K)
    c, n : float32 arrays of shape (K,)
    relax : float32
    G : float32 array of shape (entries, K)
        Responsibilities.
    vectors : tuple
        `vectors_of` K.
    """
    signature = types.void(words, counts, phi, c, types.float32, G, n, vectors)

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        words, counts, phi, c, relax, G, n, _ = pieces(context, builder, signature, args)

        def renew(entry: Any, sums: list[Any]) -> None:
            _renew(builder, entry, words, counts, phi, c, relax, G, sums)

        over_words(builder, builder.extract_value(words.shape, 0), [n], signature.args[-1].count, renew)

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

        def renew(entry: Any, sums: list[Any], other_sums: list[Any]) -> None:
            _renew(builder, entry, words, counts, phi, c, relax, G, sums)
            _renew(builder, entry, other_words, other_counts, phi, c, relax, other_G, other_sums)

        over_words(builder, builder.extract_value(words.shape, 0), [n, other_n], signature.args[-1].count, renew)

    return signature, generate


def _renew(
    builder: Any, entry: Any, words: Any, counts: Any, phi: Any, c: Any, relax: Any, G: Any, sums: list[Any]
) -> None:
    """Renew the responsibilities of a word in a document whose counts are in registers."""
    width, nothing = builder.extract_value(c.shape, 0), ir.Constant(FLOAT, 0.0)
    rest = TILE.broadcast(builder, builder.fsub(ir.Constant(FLOAT, 1.0), relax))
    last = builder.sub(builder.extract_value(words.shape, 0), ir.Constant(LONG, 1))
    rows = row_of_word(builder, words, last, ir.Constant(LONG, 0), phi, width, entry, len(sums))
    places = vectors_at(builder, entry, width, len(sums))
    tokens = number_of_tokens(builder, counts, entry)
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
