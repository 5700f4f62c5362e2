"""How many topics a corpus supports: the eigenvalues of S against the noise that the corpus itself shows.

S has as many positive eigenvalues as there are topics (section 3.1: S = D Cov(α) D'), but the S of a finite corpus is
off by an error matrix E, and eigenvalues below ‖E‖ may be nothing but noise. Two halves of the corpus measure E without
any assumption on how words are distributed, bursts included:

*The floor.* The halves have S_1 = S + E_1 and S_2 = S + E_2. In (S_1 - S_2) / 2 the topics cancel, and what is left
has the covariance of the error of the whole corpus. By Weyl's inequality an eigenvalue of the whole above the largest
eigenvalue of that difference belongs to a topic: so many topics are certain.

*Held-out directions.* An eigenvector u of S_1 is a direction that S_2 has never seen: u' S_2 u is an unbiased measure
of what is really there, and as it is a mean over documents it comes with a standard error. A direction is supported if
it is there beyond doubt (three standard errors) and is more signal than noise: at least half of its eigenvalue is found
again. (Any corpus of natural text has many directions that are there beyond doubt, since words come in bursts; and
directions of noise hold a little of the topics whose own directions are not exact.)

*Thinning.* A document counts in S with the square of its length, and a few long ones drown all others. So documents are
first thinned, by drawing tokens at random, to the length that three quarters of them do not exceed: a thinned document
has the topics it had (a thinned Poisson variable is Poisson), and the S of thinned documents as many eigenvalues.

A corpus in which words are independent, given how long documents are, has one topic at most: the words' frequencies.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np

from momentopic._types import FloatArray
from momentopic.corpus.blocks import Block, Corpus, as_corpus
from momentopic.corpus.selection import some_documents
from momentopic.corpus.validate import document_lengths
from momentopic.engine.base import Engine, get_engine
from momentopic.moments import dica_moments
from momentopic.moments.dica import DICAMoments
from momentopic.moments.eigen import Eigenpairs, largest_eigenpairs

_TOLERANCE = 1e-3  # of the eigenpairs: far below the noise
_STANDARD_ERRORS = 3.0  # a held-out direction must be so many above zero: of 100 directions of noise, 0.1 are
_MORE_SIGNAL_THAN_NOISE = 0.5
_THINNED_TO = 0.75  # the quantile of the lengths
LEAST_DOCUMENTS = 12


@dataclass(frozen=True, eq=False)
class Spectrum:
    """The eigenvalues of S, and which of them are above the noise.

    Attributes
    ----------
    eigenvalues : array of shape (r,)
        The largest eigenvalues of S of the thinned corpus, descending.
    floor : float
        The largest eigenvalue that noise alone was seen to give.
    heldout : array of shape (r,)
        What the other half of the documents has in the directions found in one half, mean over halves and splits.
    heldout_stderr : array of shape (r,)
    reproduced : array of shape (r,)
        The part of the eigenvalues of one half that the other half has in the same directions.
    certain : int
        Supported directions whose eigenvalues are above the floor.
    supported : int
        Directions with a held-out value of at least three standard errors and half the eigenvalue.
    """

    eigenvalues: FloatArray
    floor: float
    heldout: FloatArray
    heldout_stderr: FloatArray
    reproduced: FloatArray
    certain: int
    supported: int

    @property
    def open_ended(self) -> bool:
        """Whether all directions that were looked at are supported, so that there may be more."""
        return self.supported == len(self.eigenvalues)

    def advice(self) -> str:
        """Return a sentence on how many topics to ask for."""
        if self.supported <= 1:
            return "No topics: the words of this corpus vary together no more than document lengths and chance explain."
        more = " or more" if self.open_ended else ""
        if self.certain == self.supported:
            return f"The corpus supports {self.certain}{more} topics."
        return (
            f"The corpus supports between {max(self.certain, 1)} topics, which are certain, and "
            f"{self.supported}{more}, which are more signal than noise."
        )


def spectrum(
    X: Any, max_topics: int = 100, *, n_splits: int = 2, engine: Any = "auto", random_state: int = 0
) -> Spectrum:
    """Compare the eigenvalues of S with the noise of the corpus, to choose the number of topics.

    Parameters
    ----------
    X : array-like, scipy sparse matrix or Corpus, shape (N, M)
        Counts of at least 12 documents.
    max_topics : int
        How many eigenvalues to look at.
    n_splits : int
        How many times the documents are cut into random halves.
    engine : "auto", "threads" or an Engine
    random_state : int
        Seeds the thinning and the halves.

    Returns
    -------
    Spectrum
    """
    corpus = as_corpus(X)
    N, M = corpus.shape
    if N < LEAST_DOCUMENTS:
        raise ValueError(
            f"the noise is measured on halves of the corpus: give at least {LEAST_DOCUMENTS} documents, not {N}"
        )
    if max_topics < 1 or n_splits < 1:
        raise ValueError(f"max_topics and n_splits must be at least 1, got {max_topics} and {n_splits}")
    r = min(max_topics, M)
    who = get_engine(engine, corpus)
    rng = np.random.default_rng(random_state)
    corpus = thinned(corpus, rng)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=r"\d+ of \d+ documents are empty")
        eigenvalues = _eigenpairs(dica_moments(corpus, engine=who), r).values
        floors: list[float] = []
        found, values, variances = [], [], []
        for _ in range(n_splits):
            order = rng.permutation(N)
            halves = [some_documents(corpus, np.sort(rows)) for rows in (order[: N // 2], order[N // 2 : 2 * (N // 2)])]
            moments = [dica_moments(half, engine=who) for half in halves]
            floors += [_largest_difference(moments[0], moments[1]), _largest_difference(moments[1], moments[0])]
            for one, other in ((0, 1), (1, 0)):
                pairs = _eigenpairs(moments[one], r)
                value, variance = _heldout(moments[other], halves[other], pairs.vectors, who)
                found.append(pairs.values)
                values.append(value)
                variances.append(variance)
    floor = max(0.0, *floors)
    heldout = np.mean(values, axis=0)
    # the halves of different splits share documents: no smaller than the error of one half
    stderr = np.sqrt(np.mean(variances, axis=0))
    mean = np.mean(found, axis=0)
    reproduced = np.divide(heldout, mean, out=np.zeros_like(mean), where=mean > 0)
    supported = (heldout > _STANDARD_ERRORS * stderr) & (reproduced >= _MORE_SIGNAL_THAN_NOISE)
    certain = supported & (eigenvalues > floor)
    return Spectrum(eigenvalues, floor, heldout, stderr, reproduced, int(certain.sum()), int(supported.sum()))


def thinned(corpus: Corpus, rng: np.random.Generator) -> Corpus:
    """Return the corpus with random tokens left out of long documents: none is much longer than most."""
    lengths = document_lengths(corpus.counts)
    filled = lengths[lengths > 0]
    most = np.quantile(filled, _THINNED_TO) if len(filled) else 0.0
    kept = np.repeat(most / np.maximum(lengths, most + (most == 0)), np.diff(corpus.counts.indptr))
    X = corpus.counts.astype(np.int64)
    X.data = np.where(kept < 1, rng.binomial(X.data, kept), X.data)
    return Corpus(X, empty_ok=True)


def _eigenpairs(moments: DICAMoments, k: int) -> Eigenpairs:
    return largest_eigenpairs(
        moments.second, len(moments.mean), k, tol=_TOLERANCE, n_threads=getattr(moments, "n_threads", None)
    )


def _largest_difference(first: DICAMoments, second: DICAMoments) -> float:
    """Return the largest eigenvalue of (S_1 - S_2) / 2."""
    pairs = largest_eigenpairs(
        lambda V: (first.second(V) - second.second(V)) / 2, len(first.mean), 1, tol=_TOLERANCE,
        n_threads=getattr(first, "n_threads", None),
    )  # fmt: skip
    return float(pairs.values[0])


def _heldout(moments: DICAMoments, corpus: Corpus, U: FloatArray, engine: Engine) -> tuple[FloatArray, FloatArray]:
    """Return u' S u for each column u of U, and the squares of their standard errors."""
    N = corpus.shape[0]
    total, squares = engine.sum(heldout_block, corpus, U, moments.mean @ U)
    # u' S u is the mean over documents of (u' z)² - Σ_m u_m² x_m, up to N / (N - 1)
    mean = total / N
    return mean, np.maximum(squares / N - mean**2, 0.0) / (N - 1)


def heldout_block(block: Block, U: FloatArray, center: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return the sums over documents of (u' z)² - Σ_m u_m² x_m and of its square, for each column u of U."""
    X = block.matrix()
    terms = (X @ U - center) ** 2 - X @ U**2
    return terms.sum(axis=0), (terms**2).sum(axis=0)
