"""The GP/DICA cumulants (section 3.1; appendix "Unbiased finite sample estimators for the GP/DICA cumulants").

With z_n = x_n - mean, the estimators are

    S = 1/(N-1) Σ z z' - diag(mean)
    T = N/((N-1)(N-2)) Σ z ⊗ z ⊗ z + 2 diag³(mean) - (the three placements of) Σ_m e_m ⊗ e_m ⊗ Cov e_m.

Writing Cov = S + diag(mean), the last two terms of the whitened tensor become sums over words of
W_im W_jm (S W' + mean W' / 3)_mk: with S W' known from the eigenpairs, they need no pass over the corpus.
"""

from __future__ import annotations

import warnings
from typing import Any, Self

import numpy as np

from momentopic._types import FloatArray
from momentopic.corpus.blocks import Corpus
from momentopic.engine.blas import single_threaded_blas
from momentopic.moments import sums
from momentopic.moments.base import Moments, weighty_words, whitened_mean, word_projections, word_sum
from momentopic.moments.triples import unpacked


class DICAMoments(Moments):
    """The DICA cumulants of a corpus; made by `dica_moments`."""

    def __init__(self, X: Any, engine: Any = "auto") -> None:
        super().__init__(X, engine)
        N = self.corpus.shape[0]
        if N < 3:
            raise ValueError(
                f"the third-order cumulants need at least 3 documents, got n_samples = {N}. "
                "Documents are rows, words are columns."
            )
        totals, (_, tokens, cubes, n_empty) = self.engine.sum(sums.word_totals, self.corpus, orders=(0,))
        self.n_docs = N
        self.mean = totals / N
        self.mean_length = float(tokens / N)
        self.length_skew = float(cubes / N / self.mean_length**3)
        if n_empty:
            warnings.warn(
                f"{int(n_empty)} of {N} documents are empty. They count as documents of length 0, which the GP model "
                "allows; if they are empty because their words were filtered out, drop them: X[X.sum(axis=1) > 0].",
                UserWarning,
                stacklevel=3,
            )

    def _of(self, corpus: Corpus) -> Self:
        return type(self)(corpus, self.engine)

    def _second(self, V: FloatArray) -> FloatArray:
        # centring one factor is enough: Σ x_n (y_n - ȳ)' = Σ z_n (y_n - ȳ)'
        center = (self.mean @ V).astype(V.dtype)
        (product,) = self.engine.sum(sums.second_product, self.corpus, V, center, order=0)
        product /= self.n_docs - 1
        product -= self.mean[:, None] * V
        return product

    def _third(self, W: FloatArray, second: FloatArray) -> FloatArray:
        (T,) = self.engine.sum(sums.third_tensor, self.corpus, sums.tiled(W.T), whitened_mean(W, self.mean), order=0)
        return self._factor * unpacked(T, len(W)) - word_sum(W, second, self.n_threads, diagonal=self.mean / 3)

    def projections(self, W: FloatArray, U: FloatArray, second: FloatArray, share: float = 1.0) -> FloatArray:
        """Return T(W', W', W' u_p) for the rows u_p of U, of shape (P, K, K), without forming T(W', W', W').

        Parameters
        ----------
        W : array of shape (K, M)
            In single precision, so are the products, as in `third`.
        U : array of shape (P, K)
        second : array of shape (M, K)
            S W'.
        share : float
            Leave the words out of the terms with equal words that add least to them, as long as the others add such
            a share (`weighty_words`).
        """
        W, second = self._checked(W, second)
        diagonal = self.mean / 3
        with single_threaded_blas():
            args = (sums.tiled(W.T), whitened_mean(W, self.mean), U)
            (B,) = self.engine.sum(sums.whitened_projections, self.corpus, *args)
            B *= self._factor
            if share < 1:
                some = weighty_words(W, second, diagonal, share)
                W, second, diagonal = W[:, some], second[some], diagonal[some]
            B -= word_projections(W, second, U, self.n_threads, diagonal=diagonal)
        symmetric: FloatArray = (B + B.transpose(0, 2, 1)) / 2
        return symmetric

    def _projected(self, W: FloatArray, v: FloatArray, second: FloatArray) -> FloatArray:
        (B,) = self.engine.sum(
            sums.third_projection, self.corpus, _columns(W), W @ self.mean, v, float(v @ self.mean), order=0
        )
        # Cov W' and Cov v, of which the three placements of two equal words take one each
        covariance = second + (self.mean * W).T
        crossed = (W * v) @ covariance
        covariance_v = self.second(v) + self.mean * v
        return self._factor * B - crossed - crossed.T + (W * (2 * self.mean * v - covariance_v)) @ W.T

    def _third_words(self, W: FloatArray, second: FloatArray, words: slice) -> FloatArray:
        k, l = np.triu_indices(len(W))
        N = self.n_docs
        (B,) = self.engine.sum(
            sums.third_words,
            self.corpus,
            _columns(W),
            W @ self.mean,
            order=0,
            scales=(self._factor, 1 / (N - 1)),
            words=(words.start, words.stop),
        )
        # that summed x_m where x_m - mean_m belongs: take away mean_m times the sum over documents
        covariance = second + (self.mean * W).T
        mean = self.mean[words, None]
        summed = self._factor * (N - 1) * (W @ covariance) - N / (N - 1) * (W * self.mean) @ W.T
        # the word e_m is equal to the first or to the second of the other two, or to both
        w, cov = W[:, words].T, covariance[words]
        B += mean * (2 * w[:, k] * w[:, l] - summed[k, l]) - w[:, k] * cov[:, l] - w[:, l] * cov[:, k]
        return B

    @property
    def _factor(self) -> float:
        N = self.n_docs
        return N / ((N - 1) * (N - 2))


def _columns(W: FloatArray) -> FloatArray:
    return np.ascontiguousarray(W.T)


def dica_moments(X: Any, *, engine: Any = "auto") -> DICAMoments:
    """Return the GP/DICA cumulants of a corpus, equations (S) and (T) with their unbiased estimators.

    Parameters
    ----------
    X : array-like, scipy sparse matrix or Corpus, shape (N, M)
        Counts, documents x words; at least 3 documents.
    engine : "auto", "threads" or an Engine
        Who does the sums over documents.

    Returns
    -------
    DICAMoments
        With `.mean`, `.second(V)` = S V, `.third(W)` = T(W', W', W') and `.projected(W, v)` = W T(v) W'.
    """
    return DICAMoments(X, engine)
