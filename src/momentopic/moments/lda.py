"""The LDA moments (appendix "The LDA moments": equations S:lda and T:lda with their U-statistics).

With [δ_i]_n one over the number of ordered i-tuples of tokens in document n, and y_n = W x_n,

    M1 = 1/N Σ δ1 x,   M2 = 1/N Σ δ2 (x x' - diag x),
    M3(W', W', W') = 1/N Σ δ3 [y ⊗ y ⊗ y + 2 Σ_m x_m w_m³ - (the three placements of) Σ_m x_m w_m ⊗ w_m ⊗ y],
    S = M2 - c0/(c0+1) M1 M1',
    T = M3 - c0/(c0+2) (the three placements of) M2 ⊗ M1 + 2 c0²/((c0+1)(c0+2)) M1 ⊗ M1 ⊗ M1.

Documents of fewer than 3 tokens have no triple of tokens and are left out.
"""

from __future__ import annotations

import warnings
from typing import Any, Self

import numpy as np

from momentopic._types import FloatArray
from momentopic.corpus.blocks import Corpus
from momentopic.moments import sums
from momentopic.moments.base import Moments, outer_terms, whitened_mean, word_sum
from momentopic.moments.triples import unpacked


class LDAMoments(Moments):
    """The LDA moments of a corpus; made by `lda_moments`."""

    c0: float

    def __init__(self, X: Any, c0: float, engine: Any = "auto") -> None:
        if not np.isfinite(c0) or c0 <= 0:
            raise ValueError(f"c0, the sum of the Dirichlet parameters, must be a positive number, got {c0}")
        super().__init__(X, engine)
        self.c0 = float(c0)
        total = self.corpus.shape[0]
        totals = self.engine.sum(sums.word_totals, self.corpus, orders=(1, 2, 3))
        self.n_docs = int(totals[3][0])
        if self.n_docs < 3:
            raise ValueError(
                f"the LDA moments need at least 3 documents of at least 3 tokens, got {self.n_docs} among "
                f"n_samples = {total}."
            )
        if self.n_docs < total:
            warnings.warn(
                f"{total - self.n_docs} of {total} documents have fewer than 3 tokens and were left out: the LDA "
                "moments average over triples of tokens (the DICA cumulants use documents of any length).",
                UserWarning,
                stacklevel=3,
            )
        self.mean = totals[0] / self.n_docs
        self.mean_length = float(totals[3][1] / self.n_docs)
        self.length_skew = float(totals[3][2] / self.n_docs / self.mean_length**3)
        # diagonals of M2 and M3: Σ δ2 x / N and Σ δ3 x / N
        self._pairs = totals[1] / self.n_docs
        self._triples = totals[2] / self.n_docs

    def _of(self, corpus: Corpus) -> Self:
        return type(self)(corpus, self.c0, self.engine)

    def _second(self, V: FloatArray) -> FloatArray:
        product = self._weighted(V, 2) - self._pairs[:, None] * V
        product -= self.c0 / (self.c0 + 1) * np.outer(self.mean, self.mean @ V)
        return product

    def _third(self, W: FloatArray, second: FloatArray) -> FloatArray:
        columns = np.ascontiguousarray(W.T)
        (T,) = self.engine.sum(sums.third_tensor, self.corpus, sums.tiled(columns), np.zeros(len(W)), order=3)
        M3 = unpacked(T, len(W)) / self.n_docs
        repeated = self._weighted(columns, 3) - 2 / 3 * self._triples[:, None] * columns
        M3 -= word_sum(W, repeated, self.n_threads)
        M1 = whitened_mean(W, self.mean)
        M2 = W @ second + self.c0 / (self.c0 + 1) * np.outer(M1, M1)
        M2 = (M2 + M2.T) / 2
        cube = M1[:, None, None] * M1[:, None] * M1
        return M3 - self._a * outer_terms(M1, M2) + self._b * cube

    def _projected(self, W: FloatArray, v: FloatArray, second: FloatArray) -> FloatArray:
        columns = np.ascontiguousarray(W.T)
        (B,) = self.engine.sum(sums.third_projection, self.corpus, columns, np.zeros(len(W)), v, 0.0, order=3)
        crossed = (W * v) @ self._weighted(columns, 3)
        diagonal = 2 * self._triples * v - self._weighted(v[:, None], 3)[:, 0]
        M3 = B / self.n_docs - crossed - crossed.T + (W * diagonal) @ W.T
        M1, M1v = W @ self.mean, float(self.mean @ v)
        M2 = W @ second + self.c0 / (self.c0 + 1) * np.outer(M1, M1)
        M2v = W @ self.second(v) + self.c0 / (self.c0 + 1) * M1 * M1v
        mixed = np.outer(M2v, M1)
        return M3 - self._a * (M1v * M2 + mixed + mixed.T) + self._b * M1v * np.outer(M1, M1)

    def _third_words(self, W: FloatArray, second: FloatArray, words: slice) -> FloatArray:
        columns = np.ascontiguousarray(W.T)
        k, l = np.triu_indices(len(W))
        (B,) = self.engine.sum(
            sums.third_words,
            self.corpus,
            columns,
            np.zeros(len(W)),
            order=3,
            scales=(1 / self.n_docs, 1 / self.n_docs),
            words=(words.start, words.stop),
        )
        w, weighted = columns[words], self._weighted(columns, 3)[words]
        B += 2 * self._triples[words, None] * w[:, k] * w[:, l] - w[:, k] * weighted[:, l] - w[:, l] * weighted[:, k]
        M1, mean = W @ self.mean, self.mean[words, None]
        M2 = W @ second + self.c0 / (self.c0 + 1) * np.outer(M1, M1)
        M2_words = second[words] + self.c0 / (self.c0 + 1) * mean * M1
        B -= self._a * (mean * M2[k, l] + M2_words[:, k] * M1[l] + M2_words[:, l] * M1[k])
        B += self._b * mean * (M1[k] * M1[l])
        return B

    def _weighted(self, V: FloatArray, order: int) -> FloatArray:
        """Return 1/N X diag(δ_order) X' V in the paper's orientation of X."""
        columns = sums.tiled(V)
        center = np.zeros(columns.shape[1], dtype=V.dtype)
        (product,) = self.engine.sum(sums.second_product, self.corpus, columns, center, order=order)
        product /= self.n_docs
        return product[:, : V.shape[1]]

    @property
    def _a(self) -> float:
        return self.c0 / (self.c0 + 2)

    @property
    def _b(self) -> float:
        return 2 * self.c0 / (self.c0 + 1) * (self.c0 / (self.c0 + 2))


def lda_moments(X: Any, c0: float, *, engine: Any = "auto") -> LDAMoments:
    """Return the LDA moments of a corpus, equations (S:lda) and (T:lda) with their U-statistics.

    Parameters
    ----------
    X : array-like, scipy sparse matrix or Corpus, shape (N, M)
        Counts, documents x words. Documents of fewer than 3 tokens are left out, with a warning that counts them.
    c0 : float
        The sum of the Dirichlet parameters, which these moments need to know beforehand.
    engine : "auto", "threads" or an Engine
        Who does the sums over documents.

    Returns
    -------
    LDAMoments
        With `.mean` = M1, `.second(V)` = S V, `.third(W)` = T(W', W', W') and `.projected(W, v)` = W T(v) W'.
    """
    return LDAMoments(X, c0, engine)
