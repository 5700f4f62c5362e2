"""The topics of documents under fitted topics: posterior mean proportions and intensities."""

from __future__ import annotations

from typing import Any

import numpy as np

from momentopic import kernels
from momentopic._types import FloatArray, IntArray
from momentopic.corpus.blocks import Block, Corpus
from momentopic.engine.base import Engine

_TOLERANCE = 1e-7  # of the length of a document
_ITERATIONS = 1000
_DOCUMENTS = 256  # to a block


def expected_tokens(indptr: IntArray, indices: IntArray, counts: Any, phi: FloatArray, c: FloatArray) -> FloatArray:
    """Return E N_dk, the expected tokens of each topic in each document, of shape (n, K).

    Collapsed variational inference of order zero with the topics held fixed (`kernels.documents.infer`), from a
    start that depends on the document alone: the same for a document by itself or among others.
    """
    out = np.empty((len(indptr) - 1, len(c)))
    kernels.documents.infer(indptr, indices, counts, phi, c, _TOLERANCE, _ITERATIONS, out)
    return out


def proportions_block(block: Block, phi: FloatArray, c: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return the posterior mean proportions (n, K) and the lengths (n,) of the documents of a block."""
    tokens = expected_tokens(block.indptr, block.indices, block.counts, phi, c) + c
    return tokens / tokens.sum(axis=1, keepdims=True), block.lengths()


def proportions(corpus: Corpus, topics: FloatArray, c: FloatArray, engine: Engine) -> tuple[FloatArray, FloatArray]:
    """Return the posterior mean of θ, (N, K), and the lengths (N,) of documents; topics are rows (K, M).

    An empty document, or one of words that no topic can produce, has the prior mean c / c0.
    """
    phi = np.ascontiguousarray(topics.T)
    theta, lengths = engine.map(proportions_block, corpus.cut(_DOCUMENTS), phi, c)
    return theta, lengths


def intensities(theta: FloatArray, lengths: FloatArray, c: FloatArray, rate: float) -> FloatArray:
    """Return the posterior mean of α under the GP model.

    α = λ θ with λ ~ Gamma(c0, b) independent of θ, and L ~ Poisson(λ): given the document, λ ~ Gamma(c0 + L, b + 1),
    still independent of θ.
    """
    alpha: FloatArray = theta * ((c.sum() + lengths) / (rate + 1))[:, None]
    return alpha
