"""What a block of documents does in a collapsed refinement: functions for the verbs of an `Engine`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from momentopic import kernels
from momentopic._types import FloatArray
from momentopic.corpus.blocks import Block
from momentopic.refine.prior import histogram

START_PASSES = 3


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
    G : float32 array of shape (entries, padded K)
        Responsibilities, in expected sweeps.
    z : int32 array of shape (tokens,)
        Topics, in sampled sweeps.
    """

    N: Any
    random: Any
    entry: Any
    token: Any
    first_token: Any
    G: Any = None
    z: Any = None


def start_block(
    block: Block, first_word: int, phi: Any, alpha: Any, random_state: int, keep: bool
) -> tuple[tuple[Any, ...], BlockState]:
    """Infer the documents under the starting topics; keep their responsibilities, or draw from them at once.

    `first_word` is the state of a block at the beginning: the first of the words that it holds in turn 0.
    """
    width = len(alpha)
    seeds = np.random.SeedSequence([random_state, block.first]).generate_state(block.n_docs, np.uint64)
    ends = np.cumsum(block.lengths()).astype(np.int64)
    first_token = np.concatenate(([0], ends[:-1])).astype(np.int64)
    entry, token = np.empty_like(first_token), np.empty_like(first_token)
    rows = (block.indptr, block.indices, block.counts)
    kernels.collapsed.seek(*rows, first_token, first_word, entry, token)
    state = BlockState(np.zeros((block.n_docs, width), dtype=np.float32), seeds, entry, token, first_token)
    counts = np.zeros_like(phi)
    if keep:
        state.G = np.zeros((len(block.indices), width), dtype=np.float32)
        kernels.collapsed.start(*rows, phi, alpha, START_PASSES, state.G, state.N, counts)
    else:
        state.z = np.empty(int(ends[-1]), dtype=np.int32)
        kernels.collapsed.start_drawn(
            *rows, phi, alpha, START_PASSES, state.random, state.z, first_token, state.N, counts
        )
    return (counts,), state


def expected_block(
    block: Block, state: BlockState, words: WordCounts, eta: Any, scale: Any, alpha: Any
) -> tuple[tuple[Any, ...], BlockState, WordCounts]:
    """Do a CVB0 sweep over some words; return what it adds to the totals and the tokens that changed their topic."""
    change = np.zeros_like(alpha)
    moved = kernels.collapsed.expected_sweep(
        block.indptr,
        block.indices,
        block.counts,
        state.entry,
        words.first,
        words.counts,
        eta,
        scale,
        alpha,
        state.G,
        state.N,
        change,
    )
    return (change, np.array([moved])), state, words


def sampled_block(
    block: Block, state: BlockState, words: WordCounts, eta: Any, scale: Any, alpha: Any
) -> tuple[tuple[Any, ...], BlockState, WordCounts]:
    """Do a Gibbs sweep over some words; return what it adds to the totals of the topics."""
    change = np.zeros_like(alpha)
    kernels.collapsed.sampled_sweep(
        block.indptr,
        block.indices,
        block.counts,
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
    return (change,), state, words


def prior_block(block: Block, state: BlockState, c: FloatArray) -> tuple[tuple[Any, ...], BlockState]:
    """Return the histogram of the documents' topic counts."""
    found = histogram(state.N, c)
    return (found.numbers, found.beyond), state
