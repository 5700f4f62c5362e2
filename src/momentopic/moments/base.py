"""What whitening and diagonalisation ask of moments, and the sums over words that both kinds of moments share."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator
from typing import Any, Protocol, Self

import numpy as np

from momentopic import kernels
from momentopic._types import FloatArray, IntArray
from momentopic.corpus.blocks import Corpus, as_corpus
from momentopic.corpus.together import Together
from momentopic.engine.base import Engine, get_engine
from momentopic.engine.blas import single_threaded_blas
from momentopic.engine.threads import ThreadEngine, sum_over_ranges
from momentopic.moments.sums import tiled
from momentopic.moments.triples import packed_size, padded_rows, unpacked

# Words to a part of the sums over words.
_WORDS = 2048


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
    length_skew : float
        The mean cube of their lengths over the cube of the mean: large where a few documents outweigh all others.
    c0 : float or None
        The c0 that LDA moments are made with; None for DICA cumulants.
    """

    mean: FloatArray
    n_docs: int
    mean_length: float
    length_skew: float
    c0: float | None = None

    def __init__(self, X: Any, engine: Any = "auto") -> None:
        self.corpus: Corpus = as_corpus(X)
        self.engine: Engine = get_engine(engine, self.corpus)
        if isinstance(self.corpus, Together) and type(self.engine) is not ThreadEngine:
            parts: Any = _PartByPart(self.engine)
            self.engine = parts

    @property
    def n_threads(self) -> int | None:
        """How many threads the engine was told to use on this machine; None for all cores."""
        return getattr(self.engine, "n_threads", None)

    @property
    def n_words(self) -> int:
        """M, the size of the vocabulary."""
        return self.corpus.shape[1]

    def merge(self, other: Self) -> Self:
        """Return the moments of the documents of both corpora together; nothing is copied.

        Where documents may not leave their place, merge `SketchedMoments` instead, which are sums alone.

        Parameters
        ----------
        other : the same kind of moments
            Of the same words. The engine of these moments does the sums over both.
        """
        if type(other) is not type(self) or other.c0 != self.c0:
            raise ValueError(f"moments of the same kind and c0 add up; these are {self!r} and {other!r}")
        return self._of(Together([self.corpus, other.corpus]))

    def __repr__(self) -> str:
        c0 = "" if self.c0 is None else f", c0={self.c0}"
        return f"{type(self).__name__}({self.n_docs} documents x {self.n_words} words{c0})"

    def second(self, V: FloatArray) -> FloatArray:
        """Return S V for a vector (M,) or a matrix (M, r), without forming S.

        A V in single precision is multiplied in single precision, at twice the speed and to about 1e-6 of the largest
        eigenvalue; the result is in double.
        """
        V = np.asarray(V)
        V = V if V.dtype == np.float32 else V.astype(np.float64, copy=False)
        if V.shape[:1] != (self.n_words,) or V.ndim > 2:
            raise ValueError(f"V must have {self.n_words} rows, one for each word; its shape is {V.shape}")
        columns = V.reshape(self.n_words, -1)
        with single_threaded_blas():
            product = self._second(tiled(columns))[:, : columns.shape[1]]
        return np.ascontiguousarray(product).reshape(V.shape)

    def third(self, W: FloatArray, second: FloatArray | None = None) -> FloatArray:
        """Return the whitened tensor T(W', W', W'), of shape (K, K, K).

        Parameters
        ----------
        W : array of shape (K, M)
            In single precision, documents are multiplied in single precision too: at half the time, and to about 1e-6
            of the sum of the absolute values of what is added up.
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
            Words to a slice. By default, as many as keep a slice below 256 MB: each slice is a pass.

        Yields
        ------
        slice, array of shape (words in the slice, K (K + 1) / 2)
            The upper triangles, in the order of `numpy.triu_indices`.
        """
        W, second = self._checked(W, second)
        K = len(W)
        words = words or max(1, (1 << 28) // (8 * K * (K + 1) // 2))
        for first in range(0, self.n_words, words):
            chunk = slice(first, min(first + words, self.n_words))
            with single_threaded_blas():
                part = self._third_words(W, second, chunk)
            yield chunk, part

    @abstractmethod
    def _of(self, corpus: Corpus) -> Self: ...

    @abstractmethod
    def _second(self, V: FloatArray) -> FloatArray: ...

    @abstractmethod
    def _third(self, W: FloatArray, second: FloatArray) -> FloatArray: ...

    @abstractmethod
    def _projected(self, W: FloatArray, v: FloatArray, second: FloatArray) -> FloatArray: ...

    @abstractmethod
    def _third_words(self, W: FloatArray, second: FloatArray, words: slice) -> FloatArray: ...

    def _checked(self, W: FloatArray, second: FloatArray | None) -> tuple[FloatArray, FloatArray]:
        W = np.asarray(W)
        W = np.ascontiguousarray(W, dtype=np.float32 if W.dtype == np.float32 else np.float64)
        if W.ndim != 2 or W.shape[1] != self.n_words:
            raise ValueError(f"W must have shape (K, {self.n_words}), one column for each word, got {W.shape}")
        if second is None:
            second = self.second(W.T.astype(np.float64))
        elif second.shape != W.T.shape:
            raise ValueError(f"second must be S W', of shape {W.T.shape}, got {second.shape}")
        return W, np.ascontiguousarray(second, dtype=np.float64)


class _PartByPart:
    """Sums over several corpora by an engine that sends documents elsewhere: one corpus at a time."""

    def __init__(self, engine: Any) -> None:
        self.engine: Any = engine.engine if isinstance(engine, _PartByPart) else engine

    def sum(self, function: Any, corpus: Together, *args: Any, **kwargs: Any) -> Any:
        total = [self.engine.sum(function, part, *args, **kwargs) for part in _leaves(corpus)]
        return tuple(sum(arrays[1:], start=arrays[0]) for arrays in zip(*total, strict=True))


def _leaves(corpus: Corpus) -> Iterator[Corpus]:
    if isinstance(corpus, Together):
        for part in corpus.parts:
            yield from _leaves(part)
    else:
        yield corpus


def whitened_mean(W: Any, mean: FloatArray) -> FloatArray:
    """Return W mean in double precision, without a copy of W in double precision."""
    result = np.zeros(len(W))
    for first in range(0, W.shape[1], _WORDS):
        words = slice(first, first + _WORDS)
        result += W[:, words] @ mean[words]
    return result


def word_sum(W: Any, F: FloatArray, n_threads: int | None = None, *, diagonal: FloatArray | None = None) -> FloatArray:
    """Return A_ijk + A_ikj + A_jki with A_ijk = Σ_m W_im W_jm F_mk: the terms of T with two or three equal words.

    Parameters
    ----------
    W : array of shape (K, M)
        In single precision, so are the products.
    F : array of shape (M, K)
    n_threads : int, optional
    diagonal : array of shape (M,), optional
        F + diag(diagonal) W' takes the place of F; it is never made as a whole.
    """
    (packed,) = sum_over_ranges(_word_triples, W.shape[1], _WORDS, W, F, diagonal, n_threads=n_threads)
    return unpacked(packed, len(W))


def _word_triples(words: slice, W: Any, F: Any, diagonal: Any) -> tuple[FloatArray]:
    packed = np.zeros(packed_size(len(W)))
    few, rows = W[:, words], F[words].T
    if diagonal is not None:
        rows = rows + diagonal[words] * few
    w, f = padded_rows(few), padded_rows(rows.astype(W.dtype))
    kernels.triples.add_triples(packed, (w,), (w,), f, len(W))
    kernels.triples.add_triples(packed, (w, f), (f, w), w, len(W))
    return (packed,)


def word_projections(
    W: Any, F: FloatArray, U: FloatArray, n_threads: int | None = None, *, diagonal: FloatArray
) -> FloatArray:
    """Return Σ_k u_pk B_ijk for the B that `word_sum` returns and the rows u_p of U, of shape (P, K, K).

    Of each, one product of W with a matrix of its shape is one half, and its transpose the other.
    """
    (half,) = sum_over_ranges(_word_projections, W.shape[1], _WORDS, W, F, U, diagonal, n_threads=n_threads)
    result: FloatArray = half + half.transpose(0, 2, 1)
    return result


def weighty_words(W: FloatArray, F: FloatArray, diagonal: FloatArray, share: float) -> IntArray:
    """Return the fewest words that hold such a share of the bounds on what words add to the sums of `word_sum`.

    A word adds at most 3 ‖W_m‖² (‖F_m‖ + diagonal_m ‖W_m‖). In texts most words are rare, and hardly count.
    """
    of_w, of_f = np.einsum("km,km->m", W, W, dtype=np.float64), np.einsum("mk,mk->m", F, F)
    bounds = of_w * (np.sqrt(of_f) + diagonal * np.sqrt(of_w))
    order = np.argsort(-bounds, kind="stable")
    so_far = np.cumsum(bounds[order])
    return np.sort(order[: np.searchsorted(so_far, share * so_far[-1]) + 1])


def _word_projections(words: slice, W: Any, F: Any, U: Any, diagonal: Any) -> tuple[FloatArray]:
    few = np.ascontiguousarray(W[:, words])
    rows = (F[words].T + diagonal[words] * few).astype(W.dtype)
    U = U.astype(W.dtype)
    twice, once, product = np.empty_like(few), np.empty_like(few), np.empty((len(W), len(W)), dtype=W.dtype)
    half = np.empty((len(U), *product.shape))
    for p, (along_w, along_f) in enumerate(zip(U @ few, U @ rows / 2, strict=True)):
        np.multiply(rows, along_w, out=twice)
        np.multiply(few, along_f, out=once)
        twice += once
        half[p] = np.matmul(few, twice.T, out=product)
    return (half,)


def outer_terms(first: FloatArray, second: FloatArray) -> FloatArray:
    """Return second_ij first_k + second_ik first_j + second_jk first_i for a symmetric (K, K) second."""
    A = second[:, :, None] * first
    return A + A.transpose(0, 2, 1) + A.transpose(2, 1, 0)
