"""The DICA cumulants of random groups of documents, in the whitened space: what any selection of groups needs.

Everything is a sum over documents of y_n = W x_n - W mean, with one W, that of the whole corpus. The cumulants of any
selection of groups follow exactly from these sums, because a change of the mean only adds terms of lower order, with
one exception: in the terms with two or three equal words, Σ_m W_im W_jm Cov_mk and its like, only the chosen words vary
from group to group, and the others take part with what they have in the whole corpus. A word takes part there with
about the cube of its frequency, so that a thousand words are nearly all of it.

The same words are those whose probabilities can be given intervals: their rows of S W' are kept too, because
a topic varies also outside of the span of the whitened directions. A sample of the other words is among the chosen
ones: it stands for them where a whole topic is compared with another.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any, NamedTuple

import numpy as np

from momentopic import kernels
from momentopic._types import FloatArray, IntArray
from momentopic.corpus.blocks import Block
from momentopic.engine.blas import single_threaded_blas
from momentopic.moments import sums
from momentopic.moments.base import outer_terms, word_sum
from momentopic.moments.dica import DICAMoments
from momentopic.moments.triples import packed_size, padded_rows, unpacked
from momentopic.moments.whiten import Whitening

N_GROUPS = 32
_FEWEST_GROUPS, _MOST_GROUPS = 5, 255
_LEAST_DOCUMENTS = 3  # of a half
_WORDS, _WORDS_PER_TOPIC = 1000, 20  # chosen words: the larger of the two numbers
_SAMPLED = 500  # words that stand for all others


@dataclass(frozen=True, eq=False)
class GroupMoments:
    """Sums over the documents of G groups, in r whitened directions, and for R chosen words.

    Attributes
    ----------
    n_docs, tokens : arrays of shape (G,)
        Numbers of documents, and of tokens in them.
    first : array of shape (G, r)
        Σ y.
    lengths : array of shape (G, r)
        Σ L y, L being a document's number of tokens.
    second : array of shape (G, r, r)
        Σ y y'.
    third : float32 array of shape (G, r (r + 1) (r + 2) / 6)
        Σ y ⊗ y ⊗ y, packed (`momentopic.moments.triples`).
    words : int array of shape (R,)
        The chosen words, ascending.
    word_weights : array of shape (R,)
        How many words of the vocabulary each stands for: 1, or more for the sampled ones.
    word_totals : array of shape (G, R)
        Σ x of those words.
    word_rows : float32 array of shape (G, R, r)
        Σ x y' of those words.
    W_words : array of shape (r, R)
        Their columns of W.
    center : array of shape (r,)
        W mean.
    second_rest : array of shape (r, r)
        Σ_m mean_m w_m w_m' over the words that were not chosen.
    third_rest : array of shape (r, r, r)
        What they have in the terms of T with equal words.
    """

    n_docs: FloatArray
    tokens: FloatArray
    first: FloatArray
    lengths: FloatArray
    second: FloatArray
    third: Any
    words: IntArray
    word_weights: FloatArray
    word_totals: FloatArray
    word_rows: Any
    W_words: FloatArray
    center: FloatArray
    second_rest: FloatArray
    third_rest: FloatArray

    @property
    def n_groups(self) -> int:
        """G, the number of groups."""
        return len(self.n_docs)

    @property
    def n_directions(self) -> int:
        """r, the number of whitened directions: topics can be asked about for every K up to it."""
        return len(self.center)

    def corner(self, k: int) -> GroupMoments:
        """Return the sums of the first k directions: those that a whitening for k topics gives."""
        r = self.n_directions
        if not 1 <= k <= r:
            raise ValueError(f"k must be between 1 and {r}, the number of directions that were kept; got {k}")
        if k == r:
            return self
        return GroupMoments(
            self.n_docs,
            self.tokens,
            self.first[:, :k],
            self.lengths[:, :k],
            np.ascontiguousarray(self.second[:, :k, :k]),
            self.third[:, packed_corner(r, k)],
            self.words,
            self.word_weights,
            self.word_totals,
            np.ascontiguousarray(self.word_rows[:, :, :k]),
            self.W_words[:k],
            self.center[:k],
            self.second_rest[:k, :k],
            self.third_rest[:k, :k, :k],
        )

    def arrays(self) -> dict[str, Any]:
        """Return the attributes by name, as a model folder keeps them."""
        return {field.name: getattr(self, field.name) for field in fields(self)}


class Replicate(NamedTuple):
    """The cumulants of a selection of groups, in the coordinates of the whole corpus' W."""

    mean: FloatArray  # W mean, (K,)
    second: FloatArray  # W S W', (K, K)
    third: FloatArray  # T(W', W', W'), (K, K, K)
    rows: FloatArray  # the chosen words' rows of S W', (R, K)
    total: FloatArray  # the sum of all rows of S W', (K,)


class Replicates:
    """The cumulants of any selection of groups.

    Parameters
    ----------
    groups : GroupMoments
    """

    def __init__(self, groups: GroupMoments) -> None:
        self.groups = groups
        N = groups.n_docs.sum()
        W = groups.W_words
        # one word_sum a group: Cov has 1 / (N - 1) and the diagonal 1 / N, whose ratio is left at that of the whole
        self._equal = np.empty(groups.third.shape, dtype=np.float32)
        flat = packed_places(groups.n_directions)
        with single_threaded_blas():
            for g in range(groups.n_groups):
                F = groups.word_rows[g] - (2 / 3 * (1 - 1 / N)) * (groups.word_totals[g] * W).T
                self._equal[g] = word_sum(W.astype(np.float32), F).ravel()[flat]

    def weighted(self, weights: FloatArray) -> Replicate:
        """Return the cumulants of the corpus in which group g is taken weights[g] times.

        Parameters
        ----------
        weights : array of shape (G,)
            Nonnegative; together they must leave at least 3 documents.
        """
        groups, w = self.groups, weights
        K = groups.n_directions
        N = float(w @ groups.n_docs)
        change = w @ groups.first / N  # of W mean
        raw = _combined(w, groups.second)
        covariance = (raw - N * np.outer(change, change)) / (N - 1)
        totals = w @ groups.word_totals / N
        diagonal = (groups.W_words * totals) @ groups.W_words.T
        moved = _combined(w, groups.word_rows) - N * np.outer(totals, change)
        rows = moved / (N - 1) - totals[:, None] * groups.W_words.T
        mean = groups.center + change
        total = (w @ groups.lengths - float(w @ groups.tokens) * change) / (N - 1) - mean
        cubes = unpacked(_combined(w, groups.third), K)
        cubes += 2 * N * change[:, None, None] * change[:, None] * change - outer_terms(change, raw)
        equal = unpacked(_combined(w, self._equal), K) / (N - 1) - N / (N - 1) * outer_terms(change, diagonal)
        third = N / ((N - 1) * (N - 2)) * cubes - equal - groups.third_rest
        second = covariance - diagonal - groups.second_rest
        return Replicate(mean, (second + second.T) / 2, third, rows, total)


def _combined(weights: FloatArray, sums_by_group: Any) -> FloatArray:
    """Return the weighted sum over groups, taken in the precision of the sums: one matrix product."""
    flat = sums_by_group.reshape(len(weights), -1)
    combined: FloatArray = (weights.astype(flat.dtype) @ flat).astype(np.float64)
    return combined.reshape(sums_by_group.shape[1:])


def group_moments(
    moments: DICAMoments, whitening: Whitening, n_groups: int = N_GROUPS, *, W: Any = None
) -> tuple[FloatArray, GroupMoments]:
    """Return the whitened tensor T(W', W', W'), and what each of random groups of documents has in it: one pass.

    Parameters
    ----------
    moments : DICAMoments
    whitening : Whitening
        Of those moments, in r directions.
    n_groups : int
        G, of as many documents each. Which documents are in a group depends on their number alone.
    W : array of shape (r, M), optional
        `whitening.W` in single precision, to multiply documents in single precision.

    Returns
    -------
    tensor : array of shape (r, r, r)
        As `moments.third` gives it, up to rounding.
    GroupMoments
    """
    check_groups(n_groups, moments.n_docs)
    W = whitening.W if W is None else W
    mean, M = moments.mean, moments.n_words
    words, word_weights = chosen_words(mean, whitening)
    place = np.full(M, -1, dtype=np.int32)
    place[words] = np.arange(len(words))
    with single_threaded_blas():
        center = whitening.W @ mean
        counts, first, lengths, second, third, word_totals, word_rows = moments.engine.sum(
            group_sums,
            moments.corpus,
            sums.tiled(W.T),
            W.astype(np.float64) @ mean,
            document_groups(moments.n_docs, n_groups),
            n_groups,
            place,
        )
        rest, few = np.setdiff1d(np.arange(M), words, assume_unique=True), W[:, words]
        whole = word_sum(W, whitening.unwhiten, moments.n_threads, diagonal=mean / 3)
        third_rest = whole - word_sum(np.ascontiguousarray(few), whitening.unwhiten[words], diagonal=mean[words] / 3)
        second_rest = (whitening.W[:, rest] * mean[rest]) @ whitening.W[:, rest].T
        N = moments.n_docs
        tensor = N / ((N - 1) * (N - 2)) * unpacked(third.sum(axis=0), len(W)) - whole
    return tensor, GroupMoments(
        counts[:, 0],
        counts[:, 1],
        first,
        lengths,
        second,
        third.astype(np.float32),
        words,
        word_weights,
        word_totals,
        word_rows.astype(np.float32),
        np.ascontiguousarray(whitening.W[:, words]),
        center,
        second_rest,
        third_rest,
    )


def group_sums(
    block: Block, V: Any, center: FloatArray, groups: IntArray, n_groups: int, place: IntArray
) -> tuple[Any, ...]:
    """Return for the documents of each group: number and tokens; Σ y, Σ L y, Σ y y', Σ y ⊗ y ⊗ y; Σ x and Σ x y'.

    All have the groups for their first axis. `groups` has the group of every document of the corpus; the last two are
    those of the words with a nonnegative `place`.
    """
    K, R = len(center), int(place.max()) + 1
    mine = groups[block.first : block.first + block.n_docs]
    order = np.argsort(mine, kind="stable")
    bounds = np.searchsorted(mine[order], np.arange(n_groups + 1))
    Y = sums.projected_documents(block, V, center)
    L = block.lengths()
    counts, first, lengths = np.zeros((n_groups, 2)), np.zeros((n_groups, K)), np.zeros((n_groups, K))
    second, third = np.zeros((n_groups, K, K)), np.zeros((n_groups, packed_size(K)), dtype=np.float32)
    totals, rows = np.zeros((n_groups, R)), np.zeros((n_groups, R, K), dtype=V.dtype)
    packed = np.empty(packed_size(K))
    for g in range(n_groups):
        documents = order[bounds[g] : bounds[g + 1]]
        if not len(documents):
            continue
        part = np.ascontiguousarray(Y[documents])
        y, length = part.astype(np.float64), L[documents]
        counts[g] = len(documents), length.sum()
        first[g], lengths[g], second[g] = y.sum(axis=0), length @ y, y.T @ y
        packed[:] = 0
        columns = padded_rows(part.T)
        kernels.triples.add_triples(packed, (columns,), (columns,), columns, K)
        third[g] = packed
        kernels.groups.add_rows(block.indptr, block.indices, block.counts, documents, place, part, totals[g], rows[g])
    return counts, first, lengths, second, third, totals, rows


def document_groups(n_docs: int, n_groups: int) -> IntArray:
    """Return the group of each document: at random, because corpora are often sorted; equally many in each."""
    groups: IntArray = (np.random.default_rng(0).permutation(n_docs) % n_groups).astype(np.uint8)
    return groups


def chosen_words(mean: FloatArray, whitening: Whitening) -> tuple[IntArray, FloatArray]:
    """Return the words whose sums are kept, ascending, and how many words each stands for.

    These are frequent ones, and such that have much of S, or of a weak direction of it: the words that can be among the
    first of a topic, which is not known yet when the sums are taken. To them comes a sample of the others.
    """
    M, r = len(mean), len(whitening.W)
    n_words = max(_WORDS, _WORDS_PER_TOPIC * r)
    if n_words + _SAMPLED >= M:
        return np.arange(M), np.ones(M)
    scores = (mean, (whitening.unwhiten**2).sum(axis=1), (whitening.W**2).sum(axis=0))
    # the best rank under any of the three
    ranks = np.min([np.argsort(np.argsort(-score, kind="stable"), kind="stable") for score in scores], axis=0)
    order = np.argsort(ranks, kind="stable")
    # a systematic sample with chances in proportion to the size of their entries: sums of entries come out best
    others = order[n_words:]
    size = np.sqrt(scores[1][others])
    size = np.maximum(size, 0.1 * size.mean() + np.finfo(float).tiny)
    ends = np.cumsum(size) / size.sum() * _SAMPLED
    sampled = np.unique(np.searchsorted(ends, np.arange(_SAMPLED) + 0.5).clip(max=len(others) - 1))
    words = np.concatenate([order[:n_words], others[sampled]])
    chances = np.minimum(1.0, size[sampled] / size.sum() * _SAMPLED)
    weights = np.concatenate([np.ones(n_words), 1 / chances])
    ascending = np.argsort(words)
    return words[ascending], weights[ascending]


def check_groups(n_groups: int, n_docs: int) -> None:
    """Raise a ValueError if so many documents cannot be cut into so many groups."""
    if not _FEWEST_GROUPS <= n_groups <= _MOST_GROUPS:
        raise ValueError(
            f"n_groups must be between {_FEWEST_GROUPS} and {_MOST_GROUPS} (20 to 50 serve well), got {n_groups}"
        )
    if n_docs < n_groups:
        raise ValueError(
            f"{n_docs} documents cannot be cut into {n_groups} groups: there are fewer documents than groups. "
            f"Confidence needs hundreds of documents: fit without (n_groups=None), or ask for at most {n_docs} groups."
        )
    smallest = (n_groups // 2) * (n_docs // n_groups)
    if smallest < _LEAST_DOCUMENTS:
        raise ValueError(
            f"{n_docs} documents in {n_groups} groups leave {smallest} to a half of them, and the third-order moments "
            f"of a half need at least {_LEAST_DOCUMENTS}: fit without (n_groups=None), or give more documents."
        )


def packed_places(K: int) -> IntArray:
    """Return where the packed entries of a symmetric (K, K, K) array are in the flat array."""
    return np.concatenate(
        [(np.arange(b + 1)[:, None] * K * K + b * K + np.arange(b, K)).ravel() for b in range(K)]
    ).astype(np.int64)


def packed_corner(r: int, k: int) -> IntArray:
    """Return which packed entries of an (r, r, r) array are the packed entries of its (k, k, k) corner."""
    starts = np.concatenate(([0], np.cumsum([(b + 1) * (r - b) for b in range(r)])))
    return np.concatenate(
        [(starts[b] + np.arange(b + 1)[:, None] * (r - b) + np.arange(k - b)).ravel() for b in range(k)]
    ).astype(np.int64)
