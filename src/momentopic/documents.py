"""The topics of documents under fitted topics: posterior mean proportions and intensities."""

from __future__ import annotations

from typing import Any

import numpy as np

from momentopic import kernels
from momentopic._types import FloatArray, IntArray
from momentopic.corpus.blocks import Block, Corpus
from momentopic.engine.base import Engine

_WORDS = 1024  # rows of topics that are prepared at a time
_TOLERANCE = 4e-4  # of the length of a document; what CVB0 itself is off by is several times as large
_ITERATIONS = 200
_DOCUMENTS = 256  # to a block


def prepared(phi: FloatArray, c: FloatArray) -> tuple[Any, Any]:
    """Return phi (M x K) and c in single precision, topics padded, as `expected_tokens` wants them.

    The probabilities of each word are divided by the largest: only their ratios count, and none of them underflows.
    """
    width: int = kernels.lanes.padded_length(len(c))
    ratios = np.zeros((len(phi), width), dtype=np.float32)
    for first in range(0, len(phi), _WORDS):  # some at a time: phi may be a transposed view, and as large as a corpus
        some = np.ascontiguousarray(phi[first : first + _WORDS])
        largest = some.max(axis=1, keepdims=True)
        out = ratios[first : first + _WORDS, : len(c)]
        np.divide(some, largest, out=out, where=largest > 0, casting="same_kind")
    prior = np.zeros(width, dtype=np.float32)
    prior[: len(c)] = c
    return ratios, prior


def expected_tokens(indptr: IntArray, indices: IntArray, counts: Any, ratios: Any, prior: Any, K: int) -> FloatArray:
    """Return E N_dk, the expected tokens of each topic in each document, of shape (n, K).

    Collapsed variational inference of order zero with the topics held fixed (`kernels.documents.infer`), from a
    start that depends on the document alone: the same for a document by itself or among others. `ratios` and `prior`
    are made by `prepared`.
    """
    out = np.empty((len(indptr) - 1, len(prior)), dtype=np.float32)
    vectors = kernels.registers.vectors_of(len(prior))
    kernels.documents.infer(indptr, indices, counts, ratios, prior, _TOLERANCE, _ITERATIONS, out, vectors)
    return out[:, :K].astype(np.float64)


def proportions_block(block: Block, ratios: Any, prior: Any, c: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return the posterior mean proportions (n, K) and the lengths (n,) of the documents of a block."""
    tokens = expected_tokens(block.indptr, block.indices, block.counts, ratios, prior, len(c)) + c
    return tokens / tokens.sum(axis=1, keepdims=True), block.lengths()


def proportions(corpus: Corpus, topics: FloatArray, c: FloatArray, engine: Engine) -> tuple[FloatArray, FloatArray]:
    """Return the posterior mean of θ, (N, K), and the lengths (N,) of documents; topics are rows (K, M).

    An empty document, or one of words that no topic can produce, has the prior mean c / c0.
    """
    ratios, prior = prepared(topics.T, c)
    theta, lengths = engine.map(proportions_block, corpus.cut(_DOCUMENTS), ratios, prior, c)
    return theta, lengths


def intensities(theta: FloatArray, lengths: FloatArray, c: FloatArray, rate: float) -> FloatArray:
    """Return the posterior mean of α under the GP model.

    α = λ θ with λ ~ Gamma(c0, b) independent of θ, and L ~ Poisson(λ): given the document, λ ~ Gamma(c0 + L, b + 1),
    still independent of θ.
    """
    alpha: FloatArray = theta * ((c.sum() + lengths) / (rate + 1))[:, None]
    return alpha
