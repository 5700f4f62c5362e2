"""The DICA cumulants of documents that need not be there any more: sums over documents on a subspace (section 3.1).

With an orthonormal basis Q (M x r), y_n = Q' x_n and a fixed centre a, these sums over documents

    N,   Σ x,   Σ x (y - a)'  (M x r),   Σ (y - a) (y - a)'  (r x r),   Σ (y - a) ⊗ (y - a) ⊗ (y - a)  (r x r x r)

give S Q and T(W', W', W') for every W whose rows lie in the span of Q: exactly, but for Q itself. They add up: the
sums of two corpora are those of both together. So they can be made where the documents are, saved, sent and merged, and
they can grow while documents come and go.

The basis matters less than one would think. If S = D diag(s) D' held without noise, any Q for which Q'D has rank K
would give the very same topics, because they are read from S W' = S Q A', which lies in the span of the topics even
where Q does not. Q decides how much of the sampling noise comes through: least where it spans the leading eigenvectors.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np
import scipy.linalg

from momentopic._types import FloatArray
from momentopic.corpus.blocks import Corpus, as_corpus
from momentopic.engine.base import get_engine
from momentopic.engine.blas import single_threaded_blas
from momentopic.moments import sums
from momentopic.moments.base import outer_terms, word_sum
from momentopic.moments.basis import Basis, BasisMismatchError
from momentopic.moments.triples import packed_size, unpacked
from momentopic.moments.whiten import Whitening, checked_positive

if TYPE_CHECKING:
    from momentopic.corpus.text import TextSettings

SUMS = ("_numbers", "_totals", "_products", "_pairs", "_third")
_SPANNED = 1e-4  # of a row that may lie outside of the span of the basis: single precision leaves less


class SketchedMoments:
    """The DICA cumulants of documents that need not be there any more, on a fixed subspace.

    Parameters
    ----------
    basis : Basis
        From `find_basis`, or the `basis` of other moments.
    vocabulary : sequence of str, optional
        The M words, by which moments of different places are checked before they are merged.
    settings : TextSettings, optional
        How the words were counted in texts.
    engine : "auto", "threads" or an Engine
        Who does the sums over documents.

    Attributes
    ----------
    basis : Basis
    mean : array of shape (M,)
        The mean counts of all documents.
    n_docs : int
        N, all documents so far.
    mean_length : float
        Their mean number of tokens.
    """

    c0: float | None = None

    def __init__(
        self,
        basis: Basis,
        *,
        vocabulary: Sequence[str] | None = None,
        settings: TextSettings | None = None,
        engine: Any = "auto",
    ) -> None:
        if vocabulary is not None and len(vocabulary) != basis.n_words:
            raise ValueError(f"the vocabulary has {len(vocabulary)} words, but the basis is of {basis.n_words}")
        M, r = basis.vectors.shape
        self.basis = basis
        self.vocabulary = None if vocabulary is None else [str(word) for word in vocabulary]
        self.settings = settings
        # what "auto" means is found out when there are documents: they may be on a cluster
        self.engine: Any = engine if isinstance(engine, str) and engine == "auto" else get_engine(engine)
        self._numbers = np.zeros(4)  # documents, tokens, cubes of the lengths, empty documents
        self._totals = np.zeros(M)
        self._products = np.zeros((M, r))
        self._pairs = np.zeros((r, r))
        self._third = np.zeros(packed_size(r))

    @property
    def n_words(self) -> int:
        """M, the size of the vocabulary."""
        return self.basis.n_words

    @property
    def n_docs(self) -> int:
        """N, the number of documents."""
        return int(self._numbers[0])

    @property
    def n_tokens(self) -> float:
        """The number of tokens of all documents."""
        return float(self._numbers[1])

    @property
    def n_empty(self) -> int:
        """The number of documents without any word."""
        return int(self._numbers[3])

    @property
    def mean(self) -> FloatArray:
        """The mean counts, of shape (M,)."""
        mean: FloatArray = self._totals / max(self.n_docs, 1)
        return mean

    @property
    def mean_length(self) -> float:
        """The mean number of tokens of a document."""
        return self.n_tokens / max(self.n_docs, 1)

    @property
    def n_threads(self) -> int | None:
        """How many threads the engine was told to use on this machine; None for all cores."""
        return getattr(self.engine, "n_threads", None)

    def add(self, X: Any) -> SketchedMoments:
        """Add documents, which are not kept; return self.

        Parameters
        ----------
        X : array-like, scipy sparse matrix or Corpus, shape (N, M)
            Counts of the words of the basis.
        """
        corpus = as_corpus(X, empty_ok=True)
        self._check_words(corpus)
        Q, a = self.basis.vectors, self.basis.center
        V = sums.tiled(Q)
        padded = np.zeros(V.shape[1])
        padded[: len(a)] = a
        engine = get_engine(self.engine, corpus)
        with single_threaded_blas():
            totals, numbers = engine.sum(sums.word_totals, corpus, orders=(0,))
            (products,) = engine.sum(sums.second_product, corpus, V, padded, order=0)
            (third,) = engine.sum(sums.third_tensor, corpus, V, a, order=0)
            products = products[:, : len(a)]
            # Σ (y - a) (y - a)' from Σ x (y - a)'
            pairs = Q.T @ products - np.outer(a, Q.T @ totals - numbers[0] * a)
        self._numbers += numbers
        self._totals += totals
        self._products += products
        self._pairs += (pairs + pairs.T) / 2
        self._third += third
        return self

    def merge(self, other: SketchedMoments) -> SketchedMoments:
        """Return the moments of the documents of both: the sums add up, to rounding (about 1e-15 of their size).

        ``a.merge(b)`` and ``b.merge(a)`` have the same bits; `pooled` gives the same bits for any order of many.

        Parameters
        ----------
        other : SketchedMoments
            Of the same words, on the same basis.

        Raises
        ------
        BasisMismatchError
            If words or bases differ.
        """
        if not isinstance(other, SketchedMoments):
            raise TypeError(f"only SketchedMoments can be merged with them, got {type(other).__name__}")
        _check_mergeable(self, other)
        merged = self.empty()
        merged.vocabulary = self.vocabulary if self.vocabulary is not None else other.vocabulary
        merged.settings = self.settings if self.settings is not None else other.settings
        for name in SUMS:
            setattr(merged, name, getattr(self, name) + getattr(other, name))
        return merged

    def empty(self, basis: Basis | None = None) -> SketchedMoments:
        """Return moments of no documents, on the same basis or another: what another site begins with."""
        return SketchedMoments(
            basis or self.basis, vocabulary=self.vocabulary, settings=self.settings, engine=self.engine
        )

    def second(self, V: FloatArray) -> FloatArray:
        """Return S V for a vector (M,) or a matrix (M, r) in the span of the basis."""
        V = np.asarray(V, dtype=np.float64)
        with single_threaded_blas():
            return self.second_of_basis() @ self._coordinates(V.reshape(len(V), -1).T).T.reshape(-1, *V.shape[1:])

    def whitening(self, K: int) -> Whitening:
        """Return the whitening of S on the subspace: W S W' = I (Rayleigh and Ritz); `whiten` calls it.

        `unwhiten` is S W', which leaves the subspace: the part of the topics that lies outside of it is recovered.
        """
        if self.basis.rank < K:
            raise ValueError(
                f"{K} topics were asked for, but these moments were made on a basis of {self.basis.rank} directions: "
                f"ask for at most {self.basis.rank}, or make them again on a basis of higher rank, twice {K} say."
            )
        with single_threaded_blas():
            values, vectors, images = self.ritz(K)
            checked_positive(values, K)
            signs = np.where(vectors.max(axis=0) >= -vectors.min(axis=0), 1.0, -1.0)
            residuals = np.linalg.norm(images - vectors * values, axis=0)
            W = np.ascontiguousarray((vectors * (signs / np.sqrt(values))).T)
            return Whitening(W, images * (signs / np.sqrt(values)), values, residuals, 0, True)

    def ritz(self, K: int) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Return the leading K eigenvalues of S on the subspace (K), its eigenvectors u there and S u (M x K each)."""
        image = self.second_of_basis()
        H = self.basis.vectors.T @ image
        values, U = scipy.linalg.eigh((H + H.T) / 2)
        values, U = values[::-1][:K], np.ascontiguousarray(U[:, ::-1][:, :K])
        return values, self.basis.vectors @ U, image @ U

    def residual(self, K: int) -> float:
        """Return ‖S u - λ u‖ / λ of the leading K directions u of the subspace, as the root of the mean square.

        0 where the subspace is invariant, as where it was found on the same documents; sampling noise alone, of other
        documents than those it was found on, makes it positive. It cannot see what is orthogonal to the subspace: of a
        stream, new documents are searched for that while they are there (`momentopic.stream`).
        """
        found = self.whitening(K)
        return float(np.sqrt(np.mean((found.residuals / found.eigenvalues) ** 2)))

    def third(self, W: FloatArray, second: FloatArray | None = None) -> FloatArray:
        """Return T(W', W', W'), of shape (K, K, K), for rows of W in the span of the basis.

        Parameters
        ----------
        W : array of shape (K, M)
        second : array of shape (M, K), optional
            S W' if it is known (`Whitening.unwhiten`).
        """
        W = np.ascontiguousarray(W, dtype=np.float64)
        with single_threaded_blas():
            A = self._coordinates(W)
            second = self.second_of_basis() @ A.T if second is None else second
            T = self._central()
            for _ in range(3):  # each turn multiplies the last axis and moves it to the front
                T = np.ascontiguousarray(np.moveaxis(T @ A.T, -1, 0))
            return T - word_sum(W, second, self.n_threads, diagonal=self.mean / 3)

    def projected(self, W: FloatArray, v: FloatArray, second: FloatArray | None = None) -> FloatArray:
        """Return W T(v) W', of shape (K, K), for rows of W and v in the span of the basis."""
        return self.third(np.vstack([W, v]))[:-1, :-1, -1]

    def third_by_word(self, W: FloatArray, second: FloatArray | None = None, words: int | None = None) -> NoReturn:
        """Refuse: single words do not lie in the span of the basis."""
        raise ValueError(
            "projections='vocabulary' projects the tensor on every word, for which the documents must be there; on a "
            "subspace the tensor is known there alone. Use projections='basis'."
        )

    def save(self, path: str | Path) -> None:
        """Write the moments to a folder; `SketchedMoments.load` reads it. See `momentopic.moments.stored`."""
        from momentopic.moments.stored import save_moments

        save_moments(self, path)

    @staticmethod
    def load(path: str | Path, *, engine: Any = "auto") -> SketchedMoments:
        """Read moments that `save` wrote, with the bits they were saved with."""
        from momentopic.moments.stored import load_moments

        return load_moments(path, engine=engine)

    def __repr__(self) -> str:
        return f"SketchedMoments({self.n_docs} documents x {self.n_words} words on {self.basis.rank} directions)"

    def _check_words(self, corpus: Corpus) -> None:
        if corpus.shape[1] != self.n_words:
            raise ValueError(
                f"the documents have {corpus.shape[1]} words, but these moments are of {self.n_words}: count the same "
                "vocabulary everywhere (Corpus.from_texts(texts, vocabulary=...))."
            )
        if self.vocabulary is None:
            self.vocabulary = corpus.vocabulary
            self.settings = self.settings or corpus.settings
        elif corpus.vocabulary is not None and corpus.vocabulary != self.vocabulary:
            raise ValueError(f"the documents have other words than these moments: {_difference(self, corpus)}")

    def shift(self) -> FloatArray:
        """Return the mean of y - a; whatever is asked of the moments needs it."""
        if self.n_docs < 3:
            raise ValueError(
                f"the third-order cumulants need at least 3 documents, got n_samples = {self.n_docs} so far: add more."
            )
        shift: FloatArray = self._totals @ self.basis.vectors / self.n_docs - self.basis.center
        return shift

    def second_of_basis(self) -> FloatArray:
        """Return S Q."""
        # centring one factor is enough: Σ x (y - ȳ)' = Σ z (y - ȳ)'
        image: FloatArray = self._products - np.outer(self._totals, self.shift())
        image /= self.n_docs - 1
        image -= self.mean[:, None] * self.basis.vectors
        return image

    def _central(self) -> FloatArray:
        """Return N / ((N - 1) (N - 2)) Σ z ⊗ z ⊗ z in the coordinates of the basis, z = y minus its mean."""
        N, m = self.n_docs, self.shift()
        T = unpacked(self._third, self.basis.rank)
        T -= outer_terms(m, self._pairs)
        T += 2 * N * m[:, None, None] * m[:, None] * m
        T *= N / ((N - 1) * (N - 2))
        return T

    def _coordinates(self, W: FloatArray) -> FloatArray:
        """Return W Q after a check that W = (W Q) Q'."""
        if W.ndim != 2 or W.shape[1] != self.n_words:
            raise ValueError(f"expected {self.n_words} numbers, one for each word, got an array of shape {W.shape}")
        Q = self.basis.vectors
        A: FloatArray = W @ Q
        outside = np.linalg.norm(W - A @ Q.T, axis=1)
        if (outside > _SPANNED * np.linalg.norm(W, axis=1)).any():
            raise ValueError(
                "these moments are known on the span of their basis alone, and this vector does not lie in it: use "
                "W = whiten(moments, K).W, or moments that hold their documents (dica_moments)."
            )
        return A


def _check_mergeable(one: SketchedMoments, other: SketchedMoments) -> None:
    if one.n_words != other.n_words or (
        one.vocabulary is not None and other.vocabulary is not None and one.vocabulary != other.vocabulary
    ):
        raise BasisMismatchError(f"moments of different words do not add up: {_difference(one, other)}")
    if one.basis.fingerprint != other.basis.fingerprint:
        raise BasisMismatchError(
            f"these moments were made on different subspaces (of {one.basis.rank} and {other.basis.rank} directions): "
            "their sums do not add up. Agree on one: let one site make its moments first and give its folder, or one "
            "of public documents, to the others: sketched_moments(X, basis=moments.basis), or "
            "momentopic moments INPUT --basis FOLDER."
        )


def _difference(one: SketchedMoments, other: Any) -> str:
    numbers = [part.n_words if isinstance(part, SketchedMoments) else part.shape[1] for part in (one, other)]
    if numbers[0] != numbers[1]:
        return f"{numbers[0]} words and {numbers[1]}"
    m = next(i for i, pair in enumerate(zip(one.vocabulary or [], other.vocabulary, strict=True)) if pair[0] != pair[1])
    return f"word {m} is {(one.vocabulary or [])[m]!r} here and {other.vocabulary[m]!r} there"
