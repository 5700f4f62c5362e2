"""Topics that take in blocks of documents once: what is left of a collapsed refinement when documents go.

The tokens of a block are divided among the topics by collapsed variational inference under the topics so far
(`kernels.collapsed.start`), and added to the counts of the words; the block has no part in those counts yet, so nothing
has to be left out. Each document is seen once, under topics that do not know the later ones: a refinement of all
documents together (`refine_collapsed`) is better.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from momentopic import kernels
from momentopic._types import FloatArray
from momentopic.corpus.blocks import Block, Corpus
from momentopic.engine.base import Engine

_PASSES = 10
_DOCUMENTS = 256  # at a time: what is kept of each of their words and topics is dropped at once


class FoldedTopics:
    """How often each word has each topic, and the topics that follow.

    Parameters
    ----------
    topics : array of shape (K, M)
        The topics to begin with: rows are probability vectors.
    concentration : array of shape (K,)
        The prior of the documents' topics, which stays as it is.
    smoothing : float
        The Dirichlet parameter of the topics.
    """

    def __init__(self, topics: FloatArray, concentration: FloatArray, smoothing: float) -> None:
        self.topics = topics
        self.concentration = concentration
        self.smoothing = smoothing
        self._counts = np.zeros(topics.T.shape)

    def add(self, corpus: Corpus, engine: Engine) -> None:
        """Take in a block of documents, and renew the topics."""
        K = len(self.concentration)
        width: int = kernels.lanes.padded_length(K)
        phi = np.zeros((corpus.shape[1], width), dtype=np.float32)
        phi[:, :K] = self.topics.T
        # words that are new belong to all topics alike
        phi[~self.topics.any(axis=0), :K] = 1 / corpus.shape[1]
        alpha = np.zeros(width, dtype=np.float32)
        alpha[:K] = self.concentration
        (counts,) = engine.sum(folded_block, corpus, phi, alpha)
        self._counts = self._counts + counts[:, :K]  # a copy of these topics keeps its own
        seen = self._counts.sum(axis=1, keepdims=True) > 0
        smoothed = (self._counts + self.smoothing) * seen
        self.topics = np.ascontiguousarray((smoothed / smoothed.sum(axis=0)).T)


def folded_block(block: Block, phi: Any, alpha: Any) -> tuple[FloatArray]:
    """Return how often each word has each topic in a block, under topics phi (M x padded K)."""
    counts = np.zeros_like(phi)
    for first in range(0, block.n_docs, _DOCUMENTS):
        ends = block.indptr[first : first + _DOCUMENTS + 1]
        entries = slice(int(ends[0]), int(ends[-1]))
        G = np.empty((entries.stop - entries.start, len(alpha)), dtype=kernels.exchange.STORED)
        N = np.zeros((len(ends) - 1, len(alpha)), dtype=np.float32)
        rows = (ends - ends[0], block.indices[entries], block.counts[entries])
        vectors = kernels.registers.vectors_of(len(alpha))
        all_words, place = np.array([0, len(phi)]), np.zeros(1, dtype=np.int64)
        kernels.collapsed.start(
            *rows, phi, alpha, _PASSES, *kernels.bursts.AS_THEY_ARE, all_words, place, G, N, vectors
        )
        kernels.collapsed.count_expected(*rows, np.empty(len(N), dtype=np.int64), 0, G, counts)
    return (counts.astype(np.float64),)
