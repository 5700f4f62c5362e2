"""Documents that arrive in blocks and go: moments on a subspace that the first ones fix, and later ones enlarge.

The first documents are held until they are enough for a good subspace: the leading eigenvectors of their S, twice as
many as topics. From then on a block only adds to sums (`SketchedMoments`).

Before a batch of documents goes, it is searched for what the subspace misses. Directions outside of it are proposed by
one half of the batch: the leading eigenvectors of its S there. The other half, which has other noise, says how much
documents vary along them. Those along which they surely vary half as much as along the weakest of the K directions in
use, or more, enlarge the subspace; what the documents that have gone would have along them is completed from what their
own S says (`momentopic.moments.enlarge`).

Two other ways were tried. Sums of new directions over the later documents alone, each divided by its own number, are
unbiased, but then the second and third moments are of different samples and do not fit together: topics were worse than
without any new direction. Beginning anew on the larger subspace and forgetting what came before costs more than a poor
subspace does. Following the eigenvectors (Oja) or shrinking a sketch of the counts (frequent directions) tracks the
second moment alone: third-order sums live in fixed coordinates, and cannot be turned once the documents have gone.
"""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp

from momentopic._types import FloatArray
from momentopic.corpus.blocks import Corpus
from momentopic.engine.base import Engine
from momentopic.engine.blas import single_threaded_blas
from momentopic.moments.basis import find_basis
from momentopic.moments.dica import DICAMoments
from momentopic.moments.eigen import largest_eigenpairs
from momentopic.moments.enlarge import enlarged
from momentopic.moments.sketched import SketchedMoments

FIRST_DOCUMENTS = 5000
_RANK, _MOST_RANK = 2, 3  # directions for a topic: at first, and at most
_PROPOSED = 16  # directions at a time
_WORTH = 0.5  # how much documents vary along a direction that is added, beside the weakest of the K in use
_ERRORS = 2.0  # by how many standard errors that must be certain
_RESIDUAL = 0.03  # of proposed directions: what the other half of the documents says of them is no more accurate


class Stream:
    """The moments of all documents so far, and the latest documents.

    Parameters
    ----------
    n_topics : int
        K: the subspace has 2 K directions at first, and 3 K at most.
    engine : Engine
    random_state : int
    batch : int, optional
        How many documents are held before the subspace is fixed, and each time before it is searched what it misses;
        by default 5,000.

    Attributes
    ----------
    n_docs : int
        The number of documents so far.
    """

    def __init__(self, n_topics: int, engine: Engine, *, random_state: int = 0, batch: int | None = None) -> None:
        self.n_topics = n_topics
        self.engine = engine
        self.random_state = random_state
        self.batch = FIRST_DOCUMENTS if batch is None else batch
        self.n_docs = 0
        self.held: list[Corpus] = []
        self._settled: SketchedMoments | None = None
        self._recent: SketchedMoments | None = None  # of the documents that are held

    @property
    def began(self) -> bool:
        """Whether documents have gone: the subspace is fixed."""
        return self._settled is not None

    def add(self, corpus: Corpus) -> None:
        """Take in a block of documents; after an error it is as if the block had not come."""
        held, settled = [*self.held, corpus], self._settled
        recent = None if self._recent is None else self._recent.merge(self._recent.empty().add(corpus))
        if sum(part.shape[0] for part in held) >= self.batch:
            settled = self._settle(stacked(held), recent)
            held, recent = [], settled.empty()
        self.n_docs += corpus.shape[0]
        self.held, self._settled, self._recent = held, settled, recent

    def documents(self) -> Corpus:
        """Return the documents that are held, as one corpus."""
        return stacked(self.held)

    def moments(self) -> DICAMoments | SketchedMoments:
        """Return the moments of the documents so far; while all of them are held, those without a subspace."""
        if self._settled is None or self._recent is None:
            return DICAMoments(self.documents(), self.engine)
        return self._settled.merge(self._recent)

    def _settle(self, documents: Corpus, recent: SketchedMoments | None) -> SketchedMoments:
        """Return the moments of all documents, on the subspace or on one that has what it misses of these."""
        K, settled = self.n_topics, self._settled
        if settled is None or recent is None:
            basis = find_basis(documents, _RANK * K, engine=self.engine, random_state=self.random_state)
            return SketchedMoments(
                basis, vocabulary=documents.vocabulary, settings=documents.settings, engine=self.engine
            ).add(documents)
        least = float(settled.merge(recent).ritz(K)[0][-1])
        missed = missed_directions(
            settled.basis.vectors, documents, least, most=_MOST_RANK * K, engine=self.engine,
            random_state=self.random_state,
        )  # fmt: skip
        if missed.shape[1]:
            settled = enlarged(settled, missed, K)
            recent = settled.empty().add(documents)
        return settled.merge(recent)


def missed_directions(
    Q: FloatArray, documents: Corpus, least: float, *, most: int, engine: Engine, random_state: int = 0
) -> FloatArray:
    """Return directions outside of a subspace along which documents vary enough to matter.

    Parameters
    ----------
    Q : array of shape (M, r)
        The basis of the subspace: orthonormal columns.
    documents : Corpus
        Every other one proposes directions, and the others say what they are worth: at least 6.
    least : float
        The variance along the weakest direction in use.
    most : int
        How many directions the subspace may have in all.
    engine : Engine
    random_state : int

    Returns
    -------
    array of shape (M, p)
        Orthonormal columns, orthogonal to the subspace; p may be 0.
    """
    n = min(_PROPOSED, most - Q.shape[1], len(Q) - Q.shape[1])
    counts = documents.counts
    half = counts[::2]
    half = half[np.diff(half.indptr) > 0]
    if n < 1 or half.shape[0] < 3 or documents.shape[0] < 6:
        return np.empty((len(Q), 0))
    proposing = DICAMoments(half, engine)

    def outside(V: FloatArray) -> FloatArray:
        left: FloatArray = V - Q @ (Q.T @ V)
        return left

    pairs = largest_eigenpairs(
        lambda V: outside(proposing.second(outside(V))), len(Q), n, tol=_RESIDUAL, max_products=20 * n,
        random_state=random_state, n_threads=proposing.n_threads,
    )  # fmt: skip
    with single_threaded_blas():
        U = np.linalg.qr(outside(pairs.vectors))[0]
        worth, error = _variation(counts[1::2], U)
    return np.ascontiguousarray(U[:, worth - _ERRORS * error > max(_WORTH * least, 0.0)])


def _variation(counts: sp.csr_matrix, U: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return u' S u for the columns of U, and the standard error: S is a mean of z z' - diag(x) over documents."""
    y = counts @ U
    terms = (y - y.mean(axis=0)) ** 2 - counts @ U**2
    n = len(terms)
    return terms.sum(axis=0) / (n - 1), terms.std(axis=0) / np.sqrt(n)


def stacked(parts: list[Corpus]) -> Corpus:
    """Return the documents of several corpora of the same words as one."""
    if len(parts) == 1:
        return parts[0]
    first = parts[0]
    counts = sp.vstack([part.counts for part in parts], format="csr")
    return Corpus(counts, first.vocabulary, empty_ok=True, settings=first.settings, name=first.name)
