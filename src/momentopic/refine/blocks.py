"""What a block of documents does in a collapsed refinement: functions for the verbs of an `Engine`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

from momentopic import kernels
from momentopic._types import FloatArray, IntArray
from momentopic.corpus.blocks import Block, Corpus
from momentopic.refine.prior import histogram


class Mixed(NamedTuple):
    """What was mixed into the topics that tokens are drawn under.

    Attributes
    ----------
    frequencies : array of shape (M,)
        The word frequencies of the corpus.
    part : float
    """

    frequencies: FloatArray
    part: float


class WordCounts(NamedTuple):
    """How often each of some consecutive words has each topic."""

    first: int
    counts: Any  # words x padded K, float32


@dataclass(eq=False)
class BlockState:
    """What is remembered of a block of documents from sweep to sweep.

    Attributes
    ----------
    N : float32 array of shape (documents, padded K)
        Topic counts.
    random : uint64 array of shape (documents,)
        A random stream for each document.
    entry, token, first_token : int64 arrays of shape (documents,)
        The entry and the token of each document that come next, and its first token.
    G : uint8 array of shape (entries, padded K)
        Responsibilities as kept (`kernels.exchange`), in expected sweeps: of the first part of the words, then of the
        next.
    z : uint16 array of shape (tokens,)
        Topics, in sampled sweeps.
    indptr, indices, counts : arrays
        The rows that take part, where these are not all tokens of the block; only the counts, where they are as many
        entries.
    """

    N: Any
    random: Any
    entry: Any
    token: Any
    first_token: Any
    G: Any = None
    z: Any = None
    indptr: Any = None
    indices: Any = None
    counts: Any = None

    def rows(self, block: Block) -> tuple[Any, Any, Any]:
        """Return the rows of the block that take part."""
        if self.counts is None:
            return block.indptr, block.indices, block.counts
        if self.indptr is None:
            return block.indptr, block.indices, self.counts
        return self.indptr, self.indices, self.counts


def start_block(
    block: Block,
    first_word: int,
    phi: Any,
    alpha: Any,
    random_state: int,
    n_passes: int,
    boundaries: IntArray | None,
    one_in: float,
    mixed: Mixed | None = None,
) -> tuple[tuple[Any, ...], BlockState]:
    """Infer the documents under the starting topics; keep their responsibilities, or draw from them at once.

    They are kept if there are `boundaries`: the first words of the parts that sweeps go over, then M.
    `first_word` is the state of a block at the beginning: the first of the words that it holds in turn 0. The
    documents are gone over `n_passes` times. Of the tokens, one in `one_in` takes part; if it is said what is `mixed`
    into the topics, a part of the bursts is left out (`kernels.bursts`). Returns the tokens of each
    topic; those of the words are counted by `count_block`, turn by turn, so that there is no array over words and
    topics for each block.
    """
    width = len(alpha)
    vectors = kernels.registers.vectors_of(width)
    seeds = np.random.SeedSequence([random_state, block.first]).generate_state(block.n_docs, np.uint64)
    part = block if one_in == 1 else thinned(block, seeds, one_in)
    ends = np.cumsum(part.lengths()).astype(np.int64)
    first_token = np.concatenate(([0], ends[:-1])).astype(np.int64)
    entry, token = np.empty_like(first_token), np.empty_like(first_token)
    rows = (part.indptr, part.indices, part.counts)
    kernels.collapsed.seek(*rows, first_token, first_word, entry, token)
    state = BlockState(kernels.lanes.zeros_in_lines(block.n_docs, width), seeds, entry, token, first_token)
    if one_in > 1:
        state.indptr, state.indices, state.counts = rows
    if boundaries is not None:
        state.G = np.empty((len(part.indices), width), dtype=kernels.exchange.STORED)
        place = first_entries(part.indices, boundaries)
        bursts = kernels.bursts.AS_THEY_ARE
        if mixed is not None:
            state.counts = np.empty(len(part.indices), dtype=np.float32)
            bursts = (mixed.frequencies, mixed.part, state.counts)
        kernels.collapsed.start(*rows, phi, alpha, n_passes, *bursts, boundaries, place, state.G, state.N, vectors)
    else:
        state.z = np.empty(int(ends[-1]), dtype=np.uint16)
        of_tokens = (state.random, state.z, first_token, state.N)
        kernels.collapsed.start_drawn(*rows, phi, alpha, n_passes, *of_tokens, vectors)
        if mixed is not None:
            state.counts = np.empty_like(part.counts)
            drawn = (state.z, first_token, state.N, state.counts)
            n_kept = kernels.bursts.shorten(*rows, phi, mixed.frequencies, mixed.part, *drawn)
            state.z = state.z[:n_kept].copy()
            kernels.collapsed.seek(*state.rows(block), first_token, first_word, entry, token)
    return (state.N.sum(axis=0, dtype=np.float64),), state


def first_entries(indices: Any, boundaries: IntArray) -> IntArray:
    """Return how many entries are of words before each part of them: where its entries begin, part after part."""
    before = np.concatenate(([0], np.cumsum(np.bincount(indices, minlength=boundaries[-1]))))
    return before[boundaries[:-1]].astype(np.int64)


def count_block(block: Block, state: BlockState, words: WordCounts) -> tuple[tuple[Any, ...], BlockState, WordCounts]:
    """Add the topics of some words in a block to their counts."""
    rows = state.rows(block)
    if state.z is None:
        kernels.collapsed.count_expected(*rows, state.entry, words.first, state.G, words.counts)
    else:
        of_tokens = (state.entry, state.token, words.first, state.z, state.first_token)
        kernels.collapsed.count_drawn(*rows, *of_tokens, words.counts)
    return (), state, words


def thinned(block: Block, streams: Any, one_in: float) -> Block:
    """Return the documents with one token in so many, drawn by the random stream of each document."""
    words, kept, indptr = np.empty_like(block.indices), np.empty_like(block.counts), np.zeros_like(block.indptr)
    kernels.collapsed.thin(block.indptr, block.indices, block.counts, 1 / one_in, streams, indptr[1:], words, kept)
    n = indptr[-1]
    return Block(indptr, words[:n].copy(), kept[:n].copy(), block.n_words, block.first)


def taking_part(corpus: Corpus, states: list[BlockState]) -> Corpus:
    """Return the tokens that take part, in the same blocks."""
    if states[0].counts is None:
        return corpus
    rows = [state.rows(corpus.block(i)) for i, state in enumerate(states)]
    parts = [sp.csr_matrix(of_block[::-1], shape=(len(of_block[0]) - 1, corpus.shape[1])) for of_block in rows]
    together = Corpus(sp.vstack(parts, format="csr"), empty_ok=True)
    together.boundaries = corpus.boundaries
    return together


def expected_block(
    block: Block, state: BlockState, words: WordCounts, eta: Any, scale: Any, alpha: Any, relax: Any, left_out: Any
) -> tuple[tuple[Any, ...], BlockState, WordCounts]:
    """Do a CVB0 sweep over some words; return what it adds to the totals."""
    change = np.zeros_like(alpha)
    kernels.collapsed.expected_sweep(
        *state.rows(block),
        state.entry,
        words.first,
        words.counts,
        eta,
        scale,
        alpha,
        relax,
        left_out,
        state.G,
        state.N,
        change,
        kernels.registers.vectors_of(len(alpha)),
    )
    return (change,), state, words


def sampled_block(
    block: Block, state: BlockState, words: WordCounts, eta: Any, scale: Any, alpha: Any
) -> tuple[tuple[Any, ...], BlockState, WordCounts]:
    """Draw the tokens of some words anew; return what that adds to the totals of the topics."""
    change = np.zeros_like(alpha)
    operands = (
        *state.rows(block),
        state.entry,
        state.token,
        words.first,
        words.counts,
        eta,
        scale,
        alpha,
        state.z,
        state.first_token,
        state.N,
        state.random,
        change,
    )
    if vectors := kernels.registers.vectors_of(len(alpha)):
        kernels.sampled.sweep_abreast(*operands, *kernels.sampled.room_abreast(len(alpha)), vectors)
    else:
        kernels.sampled.sweep_one_by_one(*operands)
    return (change,), state, words


def pairs_block(block: Block) -> tuple[FloatArray]:
    """Return how many pairs of equal words there are, each counted twice."""
    x = block.counts.astype(np.float64)
    return (np.array(np.dot(x, x) - x.sum()),)


def prior_block(block: Block, state: BlockState, c: FloatArray) -> tuple[tuple[Any, ...], BlockState]:
    """Return the histogram of the documents' topic counts."""
    found = histogram(state.N, c)
    return (found.numbers, found.beyond), state
