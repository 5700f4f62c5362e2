"""Corpora sampled from the paper's models, sparse all the way, the same for the same seed.

Topics are the columns of D (M x K), as in the paper. Sampling goes by tokens: how many tokens of each topic a document
has is drawn first, then the words of all tokens of a topic at once. No documents x words array is ever formed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, TypeAlias

import numpy as np
import scipy.sparse as sp

from momentopic._types import FloatArray, IntArray

# Draws n documents: the number of tokens of each topic in each, of shape (n, K).
TopicCounts: TypeAlias = Callable[[np.random.Generator, int], IntArray]
IntensitySampler: TypeAlias = Callable[[np.random.Generator, int], FloatArray]

_DOCUMENTS = 8192  # to a step: bounds the memory of a step
_MOST_REDRAWS = 1000


def gamma_poisson(
    D: FloatArray,
    c: FloatArray,
    n_docs: int,
    *,
    mean_length: float,
    min_length: int = 3,
    random_state: int = 0,
) -> sp.csr_matrix:
    """Sample from the GP model, equation (gp): α_k ~ Gamma(c_k, b), x_m ~ Poisson([D α]_m).

    Parameters
    ----------
    D : array of shape (M, K)
        Topics are columns and sum to 1.
    c : array of shape (K,)
        Gamma shapes.
    n_docs : int
        N.
    mean_length : float
        The mean document length before short documents are drawn again: b = Σ c / mean_length.
    min_length : int
        Documents of fewer tokens are drawn again, as the authors do; 0 keeps them.
    random_state : int

    Returns
    -------
    csr_matrix of int32, shape (N, M)
    """
    return _stacked(
        gamma_poisson_batches(D, c, n_docs, mean_length=mean_length, min_length=min_length, random_state=random_state)
    )


def gamma_poisson_batches(
    D: FloatArray,
    c: FloatArray,
    n_docs: int,
    *,
    mean_length: float,
    min_length: int = 3,
    random_state: int = 0,
) -> Iterator[sp.csr_matrix]:
    """Sample the documents of `gamma_poisson` some thousands at a time: for `momentopic.corpus.ShardWriter`, say."""
    D, c = _checked_topics(D), _checked_concentration(c, D)
    if mean_length <= 0:
        raise ValueError(f"mean_length must be positive, got {mean_length}")
    scale = mean_length / c.sum()

    def intensities(rng: np.random.Generator, n: int) -> FloatArray:
        return rng.gamma(c, scale, size=(n, len(c)))

    return dica_batches(D, intensities, n_docs, min_length=min_length, random_state=random_state)


def dica(
    D: FloatArray,
    intensities: IntensitySampler,
    n_docs: int,
    *,
    min_length: int = 3,
    random_state: int = 0,
) -> sp.csr_matrix:
    """Sample from the DICA model, equation (dica), with any nonnegative distribution of the intensities.

    Parameters
    ----------
    D : array of shape (M, K)
        Topics are columns and sum to 1.
    intensities : callable
        ``intensities(rng, n)`` returns n independent draws of α, an (n, K) array; its columns should be independent.
    n_docs : int
        N.
    min_length : int
        Documents of fewer tokens are drawn again; 0 keeps them.
    random_state : int

    Returns
    -------
    csr_matrix of int32, shape (N, M)
    """
    return _stacked(dica_batches(D, intensities, n_docs, min_length=min_length, random_state=random_state))


def dica_batches(
    D: FloatArray,
    intensities: IntensitySampler,
    n_docs: int,
    *,
    min_length: int = 3,
    random_state: int = 0,
) -> Iterator[sp.csr_matrix]:
    """Sample the documents of `dica` some thousands at a time."""
    D = _checked_topics(D)

    def topic_counts(rng: np.random.Generator, n: int) -> IntArray:
        alpha = np.asarray(intensities(rng, n))
        if alpha.shape != (n, D.shape[1]):
            raise ValueError(f"intensities must return shape {(n, D.shape[1])}, got {alpha.shape}")
        if not np.isfinite(alpha).all() or alpha.min(initial=0) < 0:
            raise ValueError("intensities must be nonnegative and finite")
        return rng.poisson(alpha)

    _checked_size(n_docs)
    return _sample(D, topic_counts, n_docs, min_length, random_state)


def lda_fixed(D: FloatArray, c: FloatArray, n_docs: int, *, length: int, random_state: int = 0) -> sp.csr_matrix:
    """Sample LDA-fix(L): θ ~ Dirichlet(c), x ~ Multinomial(L, D θ), every document of the same length.

    Parameters
    ----------
    D : array of shape (M, K)
        Topics are columns and sum to 1.
    c : array of shape (K,)
        Dirichlet parameters.
    n_docs : int
        N.
    length : int
        L.
    random_state : int

    Returns
    -------
    csr_matrix of int32, shape (N, M)
    """
    return lda_mixed(D, c, n_docs, fraction=0.0, lengths=(length, length), random_state=random_state)


def lda_mixed(
    D: FloatArray,
    c: FloatArray,
    n_docs: int,
    *,
    fraction: float,
    lengths: tuple[int, int],
    random_state: int = 0,
) -> sp.csr_matrix:
    """Sample LDA-fix2(γ, L1, L2): a part γ of the documents has length L2, the others have length L1.

    Parameters
    ----------
    D : array of shape (M, K)
        Topics are columns and sum to 1.
    c : array of shape (K,)
        Dirichlet parameters.
    n_docs : int
        N.
    fraction : float
        γ, between 0 and 1; exactly round(γ N) documents, at random places, are of length L2.
    lengths : (int, int)
        L1 and L2.
    random_state : int

    Returns
    -------
    csr_matrix of int32, shape (N, M)
    """
    return _stacked(lda_mixed_batches(D, c, n_docs, fraction=fraction, lengths=lengths, random_state=random_state))


def lda_mixed_batches(
    D: FloatArray,
    c: FloatArray,
    n_docs: int,
    *,
    fraction: float,
    lengths: tuple[int, int],
    random_state: int = 0,
) -> Iterator[sp.csr_matrix]:
    """Sample the documents of `lda_mixed` some thousands at a time."""
    D, c = _checked_topics(D), _checked_concentration(c, D)
    if not 0 <= fraction <= 1:
        raise ValueError(f"fraction must be between 0 and 1, got {fraction}")
    if min(lengths) < 1:
        raise ValueError(f"document lengths must be at least 1, got {lengths}")
    _checked_size(n_docs)
    long = np.random.default_rng([random_state, 1]).permutation(n_docs) < round(fraction * n_docs)
    all_lengths = np.where(long, lengths[1], lengths[0])
    drawn = 0

    def topic_counts(rng: np.random.Generator, n: int) -> IntArray:
        nonlocal drawn
        L = all_lengths[drawn : drawn + n]
        drawn += n
        return rng.multinomial(L, rng.dirichlet(c, size=n))

    return _sample(D, topic_counts, n_docs, 0, random_state)


def _stacked(batches: Iterator[sp.csr_matrix]) -> sp.csr_matrix:
    parts = list(batches)
    return sp.vstack(parts, format="csr") if len(parts) > 1 else parts[0]


def _sample(
    D: FloatArray, topic_counts: TopicCounts, n_docs: int, min_length: int, random_state: int
) -> Iterator[sp.csr_matrix]:
    rng = np.random.default_rng(random_state)
    for first in range(0, n_docs, _DOCUMENTS):
        n = min(_DOCUMENTS, n_docs - first)
        counts = topic_counts(rng, n)
        short = np.flatnonzero(counts.sum(axis=1) < min_length)
        for _ in range(_MOST_REDRAWS):
            if not len(short):
                break
            counts[short] = topic_counts(rng, len(short))
            short = short[counts[short].sum(axis=1) < min_length]
        if len(short):
            raise ValueError(
                f"documents of {min_length} tokens are too rare under these parameters: after {_MOST_REDRAWS} "
                "draws some are still shorter. Raise mean_length or lower min_length."
            )
        yield _words_of(D, counts, rng)


def _words_of(D: FloatArray, topic_counts: IntArray, rng: np.random.Generator) -> sp.csr_matrix:
    """Draw the words of documents whose number of tokens of each topic is known.

    The tokens of a topic are independent and alike, whichever document they stand in: their words are drawn together
    as one multinomial, and dealt out to the documents in random order.
    """
    n, M = len(topic_counts), len(D)
    rows, columns = [], []
    for k, counts in enumerate(topic_counts.T):
        words = np.repeat(np.arange(M, dtype=np.int32), rng.multinomial(counts.sum(), D[:, k]))
        rng.shuffle(words)
        columns.append(words)
        rows.append(np.repeat(np.arange(n, dtype=np.int32), counts))
    row, column = np.concatenate(rows), np.concatenate(columns)
    part = sp.csr_matrix((np.ones(len(row), dtype=np.int32), (row, column)), shape=(n, M))
    part.sum_duplicates()
    return part


def _checked_size(n_docs: int) -> None:
    if n_docs < 1:
        raise ValueError(f"n_docs must be at least 1, got {n_docs}")


def _checked_topics(topics: Any) -> FloatArray:
    D: FloatArray = np.asarray(topics, dtype=np.float64)
    if D.ndim != 2 or D.size == 0:
        raise ValueError(f"D must have shape (words, topics), got {D.shape}")
    sums = D.sum(axis=0)
    if not np.isfinite(D).all() or D.min() < 0 or abs(sums - 1).max() > 1e-6:
        raise ValueError(
            "the columns of D must be probability vectors over the words: nonnegative, each with sum 1. "
            "If your topics are rows (as in components_), pass their transpose."
        )
    normalised: FloatArray = D / sums
    return normalised


def _checked_concentration(concentration: Any, D: FloatArray) -> FloatArray:
    c: FloatArray = np.asarray(concentration, dtype=np.float64)
    if c.shape != (D.shape[1],):
        raise ValueError(f"c must have one entry for each of the {D.shape[1]} topics (columns of D), got {c.shape}")
    if not np.isfinite(c).all() or c.min() <= 0:
        raise ValueError("the entries of c must be positive and finite")
    return c
