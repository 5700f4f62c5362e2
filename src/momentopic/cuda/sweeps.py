"""Gibbs sweeps of the collapsed refinement on the device.

All blocks of documents work at once, each on its own part of the words, as in `Engine.turn`; within a turn a document
sees the word counts as they were before it, and its own changes. What documents add to the counts are whole numbers, so
the bits do not depend on the order in which they come.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import cupy as cp
import numpy as np
from scipy.special import digamma

from momentopic.corpus.blocks import Corpus
from momentopic.cuda.device import Chunk, DeviceCorpus, kernel
from momentopic.refine.blocks import BlockState, WordCounts
from momentopic.refine.prior import BINS

_THREADS = 128
_WARP = 32
_MOST_TOPICS = 512


def can_sweep(K: int) -> bool:
    """Say whether the kernels know so many topics."""
    return K <= _MOST_TOPICS


def width_of(K: int) -> int:
    """Return the length that arrays over topics have on the device."""
    per_lane = 1
    while _WARP * per_lane < K:
        per_lane *= 2
    return _WARP * per_lane


def padded(values: Any, width: int) -> Any:
    """Return an array whose last axis is padded with zeros, in single precision, on the device."""
    values = cp.asarray(values)
    out = cp.zeros((*values.shape[:-1], width), dtype=cp.float32)
    out[..., : values.shape[-1]] = values[..., :width]
    return out


@dataclass(eq=False)
class ChunkState:
    """What is remembered of a chunk of documents from sweep to sweep: as `BlockState`, with blocks for documents."""

    chunk: Chunk
    block_of: Any
    first_token: Any
    random: Any
    N: Any
    z: Any
    entry: Any
    token: Any


@dataclass(eq=False)
class DeviceState:
    """The state of all documents, and the counts of the words."""

    chunks: list[ChunkState]
    boundaries: Any  # of the parts of the words; None before the first turn
    F: Any  # words x width: how often each word has each topic; None before it is known here
    change: Any


def _documents(corpus: Corpus, device: DeviceCorpus) -> list[tuple[Chunk, Any, Any]]:
    """Return the chunks, each with the block and the first token of its documents."""
    blocks = np.repeat(np.arange(corpus.n_blocks, dtype=np.int32), np.diff(corpus.boundaries))
    found = []
    for chunk in device.chunks():
        ends = cp.cumsum(chunk.counts.astype(cp.int64))
        tokens = cp.concatenate([cp.zeros(1, dtype=cp.int64), ends])[chunk.indptr]
        found.append((chunk, cp.asarray(blocks[chunk.first : chunk.first + chunk.n_docs]), tokens))
    return found


def start(
    corpus: Corpus, device: DeviceCorpus, phi: Any, alpha: Any, random_state: int, n_passes: int
) -> tuple[tuple[Any], list[DeviceState]]:
    """Infer all documents under fixed topics and draw from the result; as `start_block`, which keeps nothing."""
    width = width_of(phi.shape[1])
    wide, prior = padded(phi, width), padded(alpha, width)
    counts = cp.zeros((corpus.shape[1], width), dtype=cp.int32)
    seeds = np.concatenate(
        [
            np.random.SeedSequence([random_state, int(first)]).generate_state(int(end - first), np.uint64)
            for first, end in zip(corpus.boundaries[:-1], corpus.boundaries[1:], strict=True)
        ]
    )
    states = []
    for chunk, block_of, tokens in _documents(corpus, device):
        n = chunk.n_docs
        state = ChunkState(
            chunk,
            block_of,
            tokens[:-1],
            cp.asarray(seeds[chunk.first : chunk.first + n]),
            cp.empty((n, width), dtype=cp.float32),
            cp.empty(int(tokens[-1]), dtype=cp.uint16),
            cp.empty(n, dtype=cp.int64),
            cp.empty(n, dtype=cp.int64),
        )
        kernel(f"start<{width // _WARP}>")(
            (-(-n * _WARP // _THREADS),),
            (_THREADS,),
            (
                *_rows(chunk), state.first_token, wide, prior, np.int32(n_passes), state.random, state.z, state.N,
                counts, np.int64(n),
            ),
        )  # fmt: skip
        states.append(state)
    held = DeviceState(states, None, counts.astype(cp.float32), None)
    totals = counts[:, : phi.shape[1]].sum(axis=0, dtype=cp.float64).get()
    return (totals,), [held] * corpus.n_blocks


def uploaded(corpus: Corpus, device: DeviceCorpus, states: list[BlockState], K: int) -> DeviceState:
    """Return the state of documents whose topics were drawn elsewhere."""
    width = width_of(K)

    def joined(name: str) -> Any:
        return np.concatenate([getattr(state, name) for state in states])

    N, z, random = joined("N"), joined("z"), joined("random")
    found, first = [], 0
    for chunk, block_of, tokens in _documents(corpus, device):
        documents = slice(chunk.first, chunk.first + chunk.n_docs)
        n_tokens = int(tokens[-1])
        topics = cp.asarray(z[first : first + n_tokens].astype(np.uint16))
        first += n_tokens
        cursors = [cp.empty(chunk.n_docs, dtype=cp.int64) for _ in range(2)]
        N_chunk = padded(N[documents], width)
        found.append(ChunkState(chunk, block_of, tokens[:-1], cp.asarray(random[documents]), N_chunk, topics, *cursors))
    return DeviceState(found, None, None, None)


def _rows(chunk: Chunk) -> tuple[Any, Any, Any]:
    return chunk.indptr, chunk.indices, chunk.counts.astype(cp.float32, copy=False)


def sampled_turn(
    state: DeviceState, words: list[WordCounts], turn: int, eta: Any, scale: Any, alpha: Any
) -> tuple[tuple[Any], list[WordCounts]]:
    """Do a turn of a Gibbs sweep; return what it adds to the totals of the topics, and the counts of the words."""
    length = len(alpha)
    width = state.chunks[0].N.shape[1]
    if not isinstance(words[0].counts, cp.ndarray):
        state.F = padded(np.concatenate([np.asarray(part.counts) for part in words]), width)
        words = counted(state, words)
    wide_scale, wide_alpha = padded(scale, width), padded(alpha, width)
    for held in state.chunks:
        n = held.chunk.n_docs
        kernel(f"sampled<{width // _WARP}>")(
            (-(-n * _WARP // _THREADS),),
            (_THREADS,),
            (
                *_rows(held.chunk), held.first_token, held.block_of, state.boundaries, np.int32(len(words)),
                np.int32(turn), held.entry, held.token, state.F, np.float32(eta), wide_scale, wide_alpha, held.z,
                held.N, held.random, state.change, np.int64(n),
            ),
        )  # fmt: skip
    total = state.change.sum(axis=0, dtype=cp.int64)
    state.F += state.change
    state.change.fill(0)
    return (total[:length].get().astype(np.float32),), words


def counted(state: DeviceState, words: list[WordCounts]) -> list[WordCounts]:
    """Return the parts of the words' counts as they lie on the device; before the first turn, make ready for it."""
    if state.boundaries is None:
        state.change = cp.zeros(state.F.shape, dtype=cp.int32)
        state.boundaries = cp.asarray([part.first for part in words] + [len(state.F)], dtype=cp.int32)
        for held in state.chunks:
            kernel("seek")(
                (-(-held.chunk.n_docs // _THREADS),),
                (_THREADS,),
                (
                    *_rows(held.chunk), held.first_token, held.block_of, state.boundaries, held.entry, held.token,
                    np.int64(held.chunk.n_docs),
                ),
            )  # fmt: skip
    ranges = [(part.first, *part.counts.shape) for part in words]
    return [WordCounts(first, state.F[first : first + n_words, :length]) for first, n_words, length in ranges]


def prior_sums(state: DeviceState, c: Any) -> tuple[Any, Any]:
    """Return the histogram of the documents' topic counts, as `prior_block`."""
    K = len(c)
    numbers = cp.zeros((K, BINS), dtype=cp.uint64)
    beyond = np.zeros(K)
    n_docs = 0
    for held in state.chunks:
        n, width = held.N.shape
        kernel("histogram")(
            (-(-n * width // 256),),
            (256,),
            (held.N, numbers, np.int64(n), np.int32(width), np.int32(K), np.int32(BINS)),
        )
        n_docs += n
        large = cp.nonzero(held.N[:, :K] >= BINS - 0.5)
        if len(large[0]):
            k, counts = large[1].get(), held.N[large].get()
            np.add.at(beyond, k, digamma(counts.astype(np.float64) + c[k]) - digamma(BINS - 1 + c[k]))
    found = numbers.get().astype(np.float64)
    found[:, 0] = n_docs - found[:, 1:].sum(axis=1)
    return found, beyond
