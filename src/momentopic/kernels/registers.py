"""Passes over the words of a document that keep its topic counts in registers from the first word to the last.

As `kernels.lanes`, and with the same fixed order of additions; but where the machine can, it multiplies and adds in one
step.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

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
_LAG = 2  # words
_WORDS_TO_LAG = 4  # of an inference under fixed topics, which ends where it would without a lag
_SLOTS = 4  # a power of two, above _LAG


def vectors_of(width: int) -> tuple[int, ...]:
    """Return a tuple as long as an array over topics has vectors; an empty one if these are too many for registers.

    Registers cannot be counted through: for kernels that take such a tuple there is code for each number of them.
    """
    return (0,) * (width // LANES) if width <= IN_REGISTERS else ()


class Slots(NamedTuple):
    """Places for vectors of the words under way, found but not yet put to use."""

    space: Any
    n_vectors: int  # of each word

    def __call__(self, builder: Any, entry: Any, i: int) -> Any:
        """Return the address of the i-th vector of a word."""
        slot = builder.and_(entry, ir.Constant(LONG, _SLOTS - 1))
        first = builder.mul(slot, ir.Constant(LONG, self.n_vectors))
        return builder.gep(self.space, [builder.add(first, ir.Constant(LONG, i))])


def over_words(
    builder: Any,
    n_words: Any,
    length: Any,
    words_to_lag: int,
    n: Any,
    added: list[Any],
    n_vectors: int,
    weigh: Callable[[Any, list[Any], Slots], None],
    put_to_use: Callable[[Any, list[Any], Slots], None],
) -> None:
    """Go over words of a document, which has `length` of them, with the vectors of its counts n in registers.

    What a word is given depends on a sum over topics, which takes long to add up. So `weigh` is called for a word
    before `put_to_use` is called for some words before it, up to `_LAG`, one for every `words_to_lag` words that the
    document has: the processor has something to do, and the counts that the word is weighed by are so much older.
    Both are given the entry, the counts, and slots for `n_vectors` vectors of each word. The vectors `added` are added
    to n for so long.
    """
    places = [ir.Constant(LONG, LANES * i) for i in range(len(added))]
    with builder.goto_entry_block():
        slots = Slots(builder.alloca(TILE.vector, ir.Constant(ir.IntType(32), _SLOTS * n_vectors)), n_vectors)
        slots.space.align = 4 * LANES
    sums = [
        cgutils.alloca_once_value(builder, builder.fadd(TILE.load(builder, n.data, place), more))
        for place, more in zip(places, added, strict=True)
    ]
    most = ir.Constant(LONG, _LAG)
    lag = builder.udiv(length, ir.Constant(LONG, words_to_lag))
    for bound in (most, n_words):
        lag = builder.select(builder.icmp_unsigned("<", lag, bound), lag, bound)
    with cgutils.for_range(builder, lag) as loop:
        weigh(loop.index, sums, slots)
    with cgutils.for_range(builder, n_words) as loop:
        later = builder.add(loop.index, lag)
        with builder.if_then(builder.icmp_signed("<", later, n_words), likely=True):
            weigh(later, sums, slots)
        put_to_use(loop.index, sums, slots)
    for total, place, more in zip(sums, places, added, strict=True):
        TILE.store(builder, builder.fsub(builder.load(total), more), n.data, place)


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


def _renewal(name: str, fresh: bool) -> Any:
    """Return an intrinsic that gives the words of a document responsibilities: again, or for the first time."""

    def renewal(
        typing: Any, words: Any, counts: Any, phi: Any, c: Any, relax: Any, G: Any, n: Any, vectors: Any
    ) -> Any:
        signature = types.void(words, counts, phi, c, types.float32, G, n, vectors)

        def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            words, counts, phi, c, relax, G, n, _ = pieces(context, builder, signature, args)
            n_vectors, n_words = signature.args[-1].count, builder.extract_value(words.shape, 0)
            width, nothing = builder.extract_value(c.shape, 0), ir.Constant(FLOAT, 0.0)
            last = builder.sub(n_words, ir.Constant(LONG, 1))
            rest = TILE.broadcast(builder, builder.fsub(ir.Constant(FLOAT, 1.0), relax))
            prior = [TILE.load(builder, c.data, ir.Constant(LONG, LANES * i)) for i in range(n_vectors)]

            def weigh(entry: Any, sums: list[Any], slots: Slots) -> None:
                row = row_of_word(builder, words, last, ir.Constant(LONG, 0), phi, width, entry, n_vectors)
                weights = []
                for i, place in enumerate(vectors_at(builder, entry, width, n_vectors)):
                    of_document = prior[i]
                    if not fresh:
                        left = without(builder, builder.load(sums[i]), TILE.load(builder, G.data, place))
                        of_document = builder.fadd(left, of_document)
                    weights.append(builder.fmul(TILE.load(builder, phi.data, row[i]), of_document))
                    builder.store(weights[i], slots(builder, entry, i))
                whole = tree_sum(builder, pairwise_sum(builder, weights))
                possible = builder.fcmp_ordered(">", whole, nothing)
                scale = builder.select(possible, builder.fdiv(relax, whole), nothing)
                builder.store(TILE.broadcast(builder, scale), slots(builder, entry, n_vectors))

            def put_to_use(entry: Any, sums: list[Any], slots: Slots) -> None:
                scale, x = builder.load(slots(builder, entry, n_vectors)), number_of_tokens(builder, counts, entry)
                for i, place in enumerate(vectors_at(builder, entry, width, n_vectors)):
                    weight, own = builder.load(slots(builder, entry, i)), ZERO
                    new = builder.fmul(weight, scale)
                    if not fresh:
                        own = TILE.load(builder, G.data, place)
                        new = TILE.add_product(builder, builder.fmul(own, rest), weight, scale)
                        new = larger(builder, new, ZERO)
                    TILE.store(builder, new, G.data, place)
                    change = builder.fsub(new, own)
                    builder.store(TILE.add_product(builder, builder.load(sums[i]), x, change), sums[i])

            over_words(
                builder, n_words, n_words, _WORDS_TO_LAG, n, [ZERO] * n_vectors, n_vectors + 1, weigh, put_to_use
            )

        return signature, generate

    renewal.__name__ = name
    return intrinsic(renewal)


# Do what `reassign` does, for the words of a document one after the other, `over_words`; the second one under the prior
# alone, from responsibilities of 0, whatever there is in G.
#
# words, counts : arrays of shape (entries,)
# phi : float32 array of shape (M, K)
# c, n : float32 arrays of shape (K,)
# relax : float32
# G : float32 array of shape (entries, K), responsibilities
# vectors : tuple, `vectors_of` K
renew_tokens = _renewal("renew_tokens", fresh=False)
begin_tokens = _renewal("begin_tokens", fresh=True)
