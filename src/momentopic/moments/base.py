"""What whitening and diagonalisation ask of moments, and the sums over words that both kinds of moments share."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator
from typing import Any, Protocol

import numpy as np

from momentopic._types import FloatArray
from momentopic.corpus.blocks import Corpus, as_corpus
from momentopic.engine.base import Engine, get_engine
from momentopic.engine.blas import single_threaded_blas

# Words to a step of the sums over words: bounds the temporary arrays.
_WORDS = 4096


class SecondOrder(Protocol):
    """The part of the moments that whitening needs."""

    @property
    def mean(self) -> FloatArray:
        """The mean, of shape (M,)."""
        ...

    def second(self, V: FloatArray) -> FloatArray:
        """Return S V for V of shape (M, r)."""
        ...


class AnyMoments(SecondOrder, Protocol):
    """What a whole solution needs: `DICAMoments`, `LDAMoments` and `PopulationMoments` have it.

    `second` is everywhere S W' if it is known, of shape (M, K).
    """

    @property
    def mean_length(self) -> float:
        """The mean number of tokens of a document."""
        ...

    @property
    def c0(self) -> float | None:
        """The sum of the Dirichlet parameters that LDA moments are made with; None for DICA cumulants."""
        ...

    def third(self, W: FloatArray, second: FloatArray | None = None) -> FloatArray:
        """Return T(W', W', W'), of shape (K, K, K)."""
        ...

    def projected(self, W: FloatArray, v: FloatArray, second: FloatArray | None = None) -> FloatArray:
        """Return W T(v) W', of shape (K, K)."""
        ...

    def third_by_word(
        self, W: FloatArray, second: FloatArray | None = None, words: int | None = None
    ) -> Iterable[tuple[slice, FloatArray]]:
        """Yield slices of the vocabulary with their W T(e_m) W', as upper triangles."""
        ...


class Moments(ABC):
    """Second- and third-order moments of a corpus, as operators.

    Attributes
    ----------
    mean : array of shape (M,)
        The first moment: mean counts for DICA, M_1 for LDA.
    n_docs : int
        N, the number of documents that count.
    mean_length : float
        The mean number of tokens of those documents.
    c0 : float or None
        The c0 that LDA moments are made with; None for DICA cumulants.
    """

    mean: FloatArray
    n_docs: int
    mean_length: float
    c0: float | None = None

    def __init__(self, X: Any, engine: Any = "auto") -> None:
        self.corpus: Corpus = as_corpus(X)
        self.engine: Engine = get_engine(engine)

    @property
    def n_words(self) -> int:
        """M, the size of the vocabulary."""
        return self.corpus.shape[1]

    def second(self, V: FloatArray) -> FloatArray:
        """Return S V for a vector (M,) or a matrix (M, r), without forming S."""
        V = np.asarray(V, dtype=np.float64)
        if V.shape[:1] != (self.n_words,) or V.ndim > 2:
            raise ValueError(f"V must have {self.n_words} rows, one for each word; its shape is {V.shape}")
        columns = np.ascontiguousarray(V.reshape(self.n_words, -1))
        with single_threaded_blas():
            return self._second(columns).reshape(V.shape)

    def third(self, W: FloatArray, second: FloatArray | None = None) -> FloatArray:
        """Return the whitened tensor T(W', W', W'), of shape (K, K, K).

        Parameters
        ----------
        W : array of shape (K, M)
        second : array of shape (M, K), optional
            S W' if it is known, as it is for a whitening matrix (`Whitening.unwhiten`): saves a pass.
        """
        W, second = self._checked(W, second)
        with single_threaded_blas():
            return self._third(W, second)

    def projected(self, W: FloatArray, v: FloatArray, second: FloatArray | None = None) -> FloatArray:
        """Return W T(v) W', of shape (K, K), for any v of shape (M,).

        Parameters
        ----------
        W : array of shape (K, M)
        v : array of shape (M,)
        second : array of shape (M, K), optional
            S W' if it is known.
        """
        W, second = self._checked(W, second)
        v = np.asarray(v, dtype=np.float64)
        if v.shape != (self.n_words,):
            raise ValueError(f"v must have shape ({self.n_words},), one entry for each word, got {v.shape}")
        with single_threaded_blas():
            return self._projected(W, v, second)

    def third_by_word(
        self, W: FloatArray, second: FloatArray | None = None, words: int | None = None
    ) -> Iterator[tuple[slice, FloatArray]]:
        """Yield W T(e_m) W' for the words in turn, a slice of the vocabulary at a time.

        Parameters
        ----------
        W : array of shape (K, M)
        second : array of shape (M, K), optional
            S W' if it is known.
        words : int, optional
            Words to a slice. By default, as many as keep a slice below 64 MB.

        Yields
        ------
        slice, array of shape (words in the slice, K (K + 1) / 2)
            The upper triangles, in the order of `numpy.triu_indices`.
        """
        W, second = self._checked(W, second)
        K = len(W)
        words = words or max(1, (1 << 26) // (8 * K * (K + 1) // 2))
        for first in range(0, self.n_words, words):
            chunk = slice(first, min(first + words, self.n_words))
            with single_threaded_blas():
                part = self._third_words(W, second, chunk)
            yield chunk, part

    @abstractmethod
    def _second(self, V: FloatArray) -> FloatArray: ...

    @abstractmethod
    def _third(self, W: FloatArray, second: FloatArray) -> FloatArray: ...

    @abstractmethod
    def _projected(self, W: FloatArray, v: FloatArray, second: FloatArray) -> FloatArray: ...

    @abstractmethod
    def _third_words(self, W: FloatArray, second: FloatArray, words: slice) -> FloatArray: ...

    def _checked(self, W: FloatArray, second: FloatArray | None) -> tuple[FloatArray, FloatArray]:
        W = np.ascontiguousarray(W, dtype=np.float64)
        if W.ndim != 2 or W.shape[1] != self.n_words:
            raise ValueError(f"W must have shape (K, {self.n_words}), one column for each word, got {W.shape}")
        if second is None:
            second = self.second(W.T)
        elif second.shape != W.T.shape:
            raise ValueError(f"second must be S W', of shape {W.T.shape}, got {second.shape}")
        return W, np.ascontiguousarray(second, dtype=np.float64)


def word_sum(W: FloatArray, F: FloatArray) -> FloatArray:
    """Return A_ijk + A_ikj + A_jki with A_ijk = Σ_m W_im W_jm F_mk: the terms of T with two or three equal words.

    Parameters
    ----------
    W : array of shape (K, M)
    F : array of shape (M, K)
    """
    K, M = W.shape
    A = np.zeros((K, K, K))
    for first in range(0, M, _WORDS):
        w, f = W[:, first : first + _WORDS], F[first : first + _WORDS]
        for i in range(K):
            A[i, i:] += (w[i:] * w[i]) @ f
    upper = np.triu_indices(K)
    A[upper[1], upper[0]] = A[upper]
    return A + A.transpose(0, 2, 1) + A.transpose(2, 1, 0)


def outer_terms(first: FloatArray, second: FloatArray) -> FloatArray:
    """Return second_ij first_k + second_ik first_j + second_jk first_i for a symmetric (K, K) second."""
    A = second[:, :, None] * first
    return A + A.transpose(0, 2, 1) + A.transpose(2, 1, 0)
