"""Topic coherence: whether the most probable words of a topic keep company in the documents of a reference corpus.

A corpus of counts has no word order, so the window in which words meet is the whole document: all measures are made of
document frequencies and co-document frequencies, of the top words alone. Values are those of gensim's
``CoherenceModel`` where it sees the same windows. Topics are rows (K x M), as in `components_`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias, get_args

import numpy as np

from momentopic._types import FloatArray, IntArray
from momentopic.corpus.blocks import Block, as_corpus
from momentopic.engine.base import get_engine

Measure: TypeAlias = Literal["umass", "npmi", "cv"]

# Keeps the logarithm finite where two words never meet. The value is part of the measures: a pair that never meets adds
# about log(1e-12) = -28 to UMass.
_EPSILON = 1e-12


@dataclass(frozen=True, eq=False)
class Coherence:
    """The coherence of topics: higher is better.

    Attributes
    ----------
    per_topic : array of shape (K,)
        The coherence of each topic.
    measure : {"umass", "npmi", "cv"}
    absent : int array of shape (K,)
        How many of the top words of each topic are in no document of the reference corpus. Where this is not 0 the
        coherence of the topic is made of conventions in part; see `coherence`.
    mean : float
        The mean over topics.
    """

    per_topic: FloatArray
    measure: Measure
    absent: IntArray

    @property
    def mean(self) -> float:
        """The mean over topics."""
        return float(self.per_topic.mean())


def coherence(
    topics: Any, corpus: Any, measure: Measure = "npmi", *, n_words: int = 10, engine: Any = "auto"
) -> Coherence:
    """Measure the coherence of topics on a reference corpus.

    Parameters
    ----------
    topics : fitted model, array of shape (K, M), or sequence of sequences of int
        Floating-point numbers are probabilities: rows are topics, and the `n_words` most probable words of each are
        taken, equally probable ones in the order of the vocabulary, as `DiscreteICA.topics` does. Words of probability
        zero are never taken, so a topic with few others is measured on fewer words. Integers are the words themselves,
        column numbers of `corpus`, most probable first: the first `n_words` of each topic are taken, or all where there
        are fewer.
    corpus : array-like, scipy sparse matrix or Corpus, shape (N, M)
        The reference corpus: counts, of which only whether they are zero matters. Empty documents count in N.
    measure : {"npmi", "umass", "cv"}
        See Notes.
    n_words : int
        Top words to a topic, at least 2.
    engine : "auto", "threads" or an Engine

    Returns
    -------
    Coherence

    Raises
    ------
    ValueError
        If there are fewer than two words to a topic, or `topics` and `corpus` are over different vocabularies.

    Notes
    -----
    P(v) is the fraction of documents that contain word v, P(v, w) the fraction that contain both, ε = 1e-12, and
    w_1, ..., w_n are the top words in order.

    "umass" : Mimno et al. (2011); gensim's "u_mass".
        The mean over pairs i > j of log (P(w_i, w_j) + ε) / P(w_j), near zero or below. Depends on the order of the
        words. gensim and this function add ε to the probability, the original adds 1 to the count and sums over pairs.
    "npmi" : Bouma (2009), Aletras and Stevenson (2013); gensim's "c_npmi".
        The mean over pairs i ≠ j of NPMI(w_i, w_j), in [-1, 1], where NPMI(v, w) = log [(P(v, w) + ε) / (P(v) P(w))]
        / -log (P(v, w) + ε).
    "cv" : Röder, Both and Hinneburg (2015); gensim's "c_v".
        The mean over i of the cosine of the vectors (NPMI(w_i, w_j))_j and (Σ_l NPMI(w_l, w_j))_j, in [-1, 1].

    gensim and the literature slide a window of 10 ("npmi") or 110 words ("cv") over the text. Here the window is the
    document: compare values of this function with each other, not with published ones, unless documents are shorter
    than the window.

    A word that is in no document makes a division by zero. gensim's "u_mass" counts a pair with such a w_j as 0, its
    other measures become infinite or NaN. Here every such ratio counts as 0, for NPMI the value of independent words,
    and the cosine with a vector of zeros is 0. The result is finite, but under "umass" it flatters topics of
    absent words: `Coherence.absent` says which they are. Two words that are both in every document have NPMI -1, not 1,
    because of ε, here as in gensim: leave such words out of the vocabulary.
    """
    if measure not in get_args(Measure):
        raise ValueError(f"measure must be 'umass', 'npmi' or 'cv', got {measure!r}")
    if n_words < 2:
        raise ValueError(f"n_words must be at least 2, for coherence is about pairs of words; got {n_words}")
    reference = as_corpus(corpus)
    summing = get_engine(engine, reference)
    n_docs, M = reference.shape
    tops = _top_words(topics, n_words, M)
    words = np.unique(np.concatenate(tops))
    (counts,) = summing.sum(co_document_counts, reference, words, [np.searchsorted(words, top) for top in tops])
    # sums of ones: whole numbers below 2⁵³, so exact
    found = [together[: len(top), : len(top)] for together, top in zip(counts, tops, strict=True)]
    confirm = _MEASURES[measure]
    return Coherence(
        np.array([confirm(together, n_docs) for together in found]),
        measure,
        np.array([(together.diagonal() == 0).sum() for together in found]),
    )


def co_document_counts(block: Block, words: IntArray, topics: Sequence[IntArray]) -> tuple[FloatArray]:
    """Count the documents of a block that contain two words of a topic, for all its pairs of words.

    Parameters
    ----------
    block : Block
    words : int array
        The distinct words of all topics, ascending.
    topics : sequence of int arrays
        The words of each topic, as positions in `words`.

    Returns
    -------
    tuple of one array of shape (K, n, n)
        Documents of the block that contain words i and j of topic k; on the diagonal, those that contain word i. n is
        the length of the longest topic: entries beyond the words of a shorter one are zero.
    """
    present = block.matrix()[:, words].tocsc()
    present.data = np.ones(present.nnz)
    n = max(len(topic) for topic in topics)
    counts = np.zeros((len(topics), n, n))
    # topic by topic: pairs of words of different topics, nearly all there are, are not asked for
    for together, topic in zip(counts, topics, strict=True):
        members = present[:, topic]
        together[: len(topic), : len(topic)] = (members.T @ members).toarray()
    return (counts,)


def _umass(together: FloatArray, n_docs: int) -> float:
    """Return the mean of log P(w_i | w_j) over pairs i > j."""
    later, earlier = np.tril_indices(len(together), -1)
    given = together.diagonal()[earlier]
    seen = given > 0
    ratio = (together[later, earlier] / n_docs + _EPSILON)[seen] / (given[seen] / n_docs)
    return float(np.log(ratio).sum() / len(seen))


def _npmi(together: FloatArray, n_docs: int) -> float:
    """Return the mean NPMI over pairs i ≠ j."""
    return float(_pairwise_npmi(together, n_docs)[np.tril_indices(len(together), -1)].mean())


def _cv(together: FloatArray, n_docs: int) -> float:
    """Return the mean cosine of the NPMI vector of a word and the sum of those of all words."""
    vectors = _pairwise_npmi(together, n_docs)
    total = vectors.sum(axis=0)
    lengths = np.sqrt((vectors**2).sum(axis=1)) * np.sqrt((total**2).sum())
    # not a product of arrays: the bits of BLAS may depend on the number of its threads
    cosines = np.divide((vectors * total).sum(axis=1), lengths, out=np.zeros(len(vectors)), where=lengths > 0)
    return float(cosines.mean())


def _pairwise_npmi(together: FloatArray, n_docs: int) -> FloatArray:
    """Return NPMI(w_i, w_j) for all i and j, 0 where a word is in no document."""
    joint = together / n_docs
    marginal = joint.diagonal()
    independent = np.outer(marginal, marginal)
    ratio = np.divide(joint + _EPSILON, independent, out=np.ones_like(joint), where=independent > 0)
    # never a division by zero: log (1 + ε) is not 0 either
    result: FloatArray = np.log(ratio) / -np.log(joint + _EPSILON)
    return result


_MEASURES: dict[str, Callable[[FloatArray, int], float]] = {"umass": _umass, "npmi": _npmi, "cv": _cv}


def _top_words(topics: Any, n_words: int, M: int) -> list[IntArray]:
    """Return the words of each topic, most probable first."""
    topics = getattr(topics, "components_", topics)
    if hasattr(topics, "__array__"):
        topics = np.asarray(topics)  # iterating over a DataFrame would give the names of its columns
    rows = [np.asarray(row) for row in topics] if np.iterable(topics) else []
    kinds = {row.dtype.kind for row in rows}
    if not rows or any(row.ndim != 1 for row in rows) or not kinds <= set("fiu"):
        raise ValueError(
            "topics must be a fitted model, a 2-D array of probabilities (topics x words), or a sequence of word "
            "numbers (columns of the corpus) for each topic; and there must be at least one"
        )
    probabilities = "f" in kinds
    if probabilities and n_words > M:
        raise ValueError(f"n_words is {n_words}, but the corpus has only {M} words")
    tops = []
    for k, row in enumerate(rows):
        top = _most_probable(k, row, n_words, M) if probabilities else _checked_words(k, row[:n_words], M)
        if len(top) < 2:
            raise ValueError(
                f"topic {k} has {len(top)} word(s){' of positive probability' * probabilities}, and coherence is about "
                "pairs of words: leave that topic out"
            )
        tops.append(top)
    return tops


def _most_probable(k: int, row: FloatArray | IntArray, n_words: int, M: int) -> IntArray:
    topic = row.astype(np.float64)
    if len(topic) != M:
        raise ValueError(
            f"topic {k} is over {len(topic)} words, but the corpus has {M}: topics and corpus must be over the same "
            "vocabulary"
        )
    if not np.isfinite(topic).all() or topic.min() < 0:
        raise ValueError(f"topic {k} has probabilities that are negative, NaN or infinite")
    likely = np.flatnonzero(topic)
    # a stable sort: equally probable words stay in the order of the vocabulary
    top: IntArray = likely[np.argsort(-topic[likely], kind="stable")[:n_words]]
    return top


def _checked_words(k: int, words: IntArray, M: int) -> IntArray:
    outside = words[(words < 0) | (words >= M)]
    if len(outside):
        raise ValueError(
            f"topic {k} contains word number {outside[0]}, but the words of the corpus are numbered 0 to {M - 1}. "
            "Whole numbers are taken for word numbers: pass probabilities as floating-point numbers."
        )
    if len(np.unique(words)) < len(words):
        raise ValueError(
            f"topic {k} contains a word twice. Whole numbers are taken for word numbers: pass probabilities as "
            "floating-point numbers."
        )
    return words.astype(np.int64)
