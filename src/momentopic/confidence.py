"""How sure the topics are: groups of documents cut into halves, in the whitened space, without another pass."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy.optimize import linear_sum_assignment
from scipy.special import stdtrit

from momentopic._types import FloatArray, IntArray
from momentopic.diagonalize import joint_diagonalize
from momentopic.diagonalize.newton import quasi_newton
from momentopic.engine.blas import single_threaded_blas
from momentopic.engine.threads import sum_over_ranges
from momentopic.moments.groups import GroupMoments, Replicate, Replicates
from momentopic.views import UNSTABLE

_SMALLEST = 0.1  # part of an eigenvalue of S that a replicate keeps at least
_TOLERANCE, _GAIN, _STEPS = 1e-3, 1e-5, 60  # of the rotation of a half: far below the noise
_AT_A_TIME = 8  # splits between two reports of progress


@dataclass(frozen=True, eq=False)
class Confidence:
    """How sure the topics of a moment solution are.

    Attributes
    ----------
    stability : array of shape (K,)
        In [0, 1]: the part of a topic's probability that two halves of the documents, solved apart, put on the same
        words, on average over splits.
    words : int array of shape (K, n)
        The first words of each topic, most probable first.
    probability : array of shape (K, n)
        Their probabilities, halfway between those of the topic with and without its entries below zero.
    low, high : arrays of shape (K, n)
        The ends of the intervals; NaN for a word whose sums were not kept.
    concentration : array of shape (K,)
    concentration_low, concentration_high : arrays of shape (K,)
    level : float
        The part of intervals that should hold the truth.
    n_groups, n_splits : int
    """

    stability: FloatArray
    words: IntArray
    probability: FloatArray
    low: FloatArray
    high: FloatArray
    concentration: FloatArray
    concentration_low: FloatArray
    concentration_high: FloatArray
    level: float
    n_groups: int
    n_splits: int

    @property
    def unstable(self) -> Any:
        """Which topics are marked as not reproducible, a bool array of shape (K,)."""
        return self.stability < UNSTABLE


@dataclass(frozen=True, eq=False)
class Evidence:
    """What a fitted model keeps to be asked how sure its topics are.

    Attributes
    ----------
    groups : GroupMoments
    V : array of shape (k, k)
        The rotation of the moment solution; a row a topic of it.
    origin : int array of shape (K,)
        The topic of the moment solution that each topic of the model is, or was refined from; -1 for none.
    """

    groups: GroupMoments
    V: FloatArray
    origin: IntArray

    def of(self, origin: IntArray) -> Evidence:
        """Return the same for topics in another order."""
        return replace(self, origin=origin)


@dataclass(frozen=True, eq=False)
class Solved:
    """The topics of one selection of groups: rows of `scaled` are chosen words, columns topics, d̃_k = √s_k d_k."""

    V: FloatArray
    scaled: FloatArray
    deviation: FloatArray  # √s_k, the sum of d̃_k over all words
    concentration: FloatArray


def confidence(
    source: Any,
    K: int | None = None,
    *,
    V: FloatArray | None = None,
    words: IntArray | None = None,
    n_words: int = 10,
    level: float = 0.9,
    n_splits: int = 100,
    random_state: int = 0,
    callback: Callable[[int, int], None] | None = None,
) -> Confidence:
    """Cut the groups of documents into halves again and again, solve for the topics of both, and compare.

    Parameters
    ----------
    source : DiscreteICA or GroupMoments
        A model fitted with `n_groups`, or group moments of r directions. Topics of a refined model are asked about
        through the topics of the moment solution that they were refined from.
    K : int, optional
        For group moments, the number of topics: at most r, which is the default.
    V : array of shape (K, K), optional
        For group moments, the rotation of the solution that is asked about, its rows in the order of the topics. By
        default it is found from the groups, and topics are in the order of descending concentration.
    words : int array of shape (K, n), optional
        The words to give intervals for. By default the `n_words` most probable ones of each topic.
    n_words : int
    level : float
        The part of intervals that should hold the truth.
    n_splits : int
    random_state : int
    callback : callable, optional
        Called as ``callback(splits done, splits)``.

    Returns
    -------
    Confidence

    Raises
    ------
    ValueError
        If the model has no group moments: it was fitted without `n_groups`, or saved by an older version; or if it is
        asked about other topics than its own, by K or V.
    """
    if not isinstance(source, GroupMoments):
        if K is not None or V is not None:
            raise ValueError("K and V are for group moments: a model has the topics that it has. Leave them out.")
        return _of_model(source, words, n_words, level, n_splits, random_state, callback)
    groups = source
    if not 0 < level < 1:
        raise ValueError(f"level must be between 0 and 1, got {level}")
    if n_splits < 2:
        raise ValueError(f"n_splits must be at least 2, got {n_splits}")
    groups = groups.corner(groups.n_directions if K is None else K)
    with single_threaded_blas():
        replicates = Replicates(groups)
        whole = solved_whole(replicates, V)
        if words is None:
            words = groups.words[np.argsort(-whole.scaled, axis=0, kind="stable")[:n_words].T]
        drawn = split(replicates, whole, words, n_splits, random_state, callback)
    quantile = float(stdtrit(groups.n_groups - 1, (1 + level) / 2))
    probability, apart = probabilities(groups, whole, words)
    # to the variance between halves comes that of a uniform distribution between the two ways of scaling
    error = quantile * np.sqrt((drawn.probability**2).mean(axis=0) / 4 + apart**2 / 12)
    relative = np.exp(quantile * np.sqrt((drawn.concentration**2).mean(axis=0)) / 2)
    return Confidence(
        drawn.agreement.mean(axis=0),
        words,
        probability,
        np.clip(probability - error, 0, 1),
        np.clip(probability + error, 0, 1),
        whole.concentration,
        whole.concentration / relative,
        whole.concentration * relative,
        level,
        groups.n_groups,
        n_splits,
    )


def evidence_arrays(model: Any) -> dict[str, Any]:
    """Return what a model keeps for `confidence` as named arrays; none if it keeps nothing."""
    kept: Evidence | None = getattr(model, "_evidence", None)
    return {} if kept is None else {**kept.groups.arrays(), "V": kept.V, "origin": kept.origin}


def evidence(arrays: dict[str, Any]) -> Evidence | None:
    """Return the evidence that `evidence_arrays` gave; a TypeError or KeyError if something is missing."""
    if not arrays:
        return None
    rest = dict(arrays)
    return Evidence(V=rest.pop("V"), origin=rest.pop("origin"), groups=GroupMoments(**rest))


def _of_model(
    model: Any,
    words: IntArray | None,
    n_words: int,
    level: float,
    n_splits: int,
    random_state: int,
    callback: Callable[[int, int], None] | None,
) -> Confidence:
    evidence: Evidence | None = getattr(model, "_evidence", None)
    if evidence is None:
        raise ValueError(
            "this model has no group moments, so nothing says how sure its topics are: it was fitted without them, or "
            "saved by a version that knew none. Fit again with DiscreteICA(..., n_groups=32), or momentopic fit "
            "--confidence."
        )
    if words is None:
        words = np.argsort(-model.components_, axis=1, kind="stable")[:, :n_words]
    kept = evidence.origin >= 0
    asked = np.empty((len(evidence.V), words.shape[1]), dtype=np.int64)
    asked[evidence.origin[kept]] = words[kept]
    found = confidence(
        evidence.groups, V=evidence.V, words=asked, level=level, n_splits=n_splits, random_state=random_state,
        callback=callback,
    )  # fmt: skip

    def in_order(values: FloatArray, missing: float = np.nan) -> FloatArray:
        ordered = np.full((len(kept), *values.shape[1:]), missing)
        ordered[kept] = values[evidence.origin[kept]]
        return ordered

    return replace(
        found,
        stability=in_order(found.stability, 0.0),
        words=words,
        probability=in_order(found.probability),
        low=in_order(found.low),
        high=in_order(found.high),
        concentration=in_order(found.concentration),
        concentration_low=in_order(found.concentration_low),
        concentration_high=in_order(found.concentration_high),
    )


@dataclass(frozen=True, eq=False)
class Splits:
    """What pairs of halves gave, each topic matched with one of the whole corpus."""

    agreement: FloatArray  # (B, K): the overlap of a topic's two versions
    probability: FloatArray  # (B, K, n): the difference of their probabilities of words
    concentration: FloatArray  # (B, K): the difference of the logarithms of their concentrations


def split(
    replicates: Replicates,
    whole: Solved,
    words: IntArray,
    n_splits: int,
    random_state: int,
    callback: Callable[[int, int], None] | None = None,
) -> Splits:
    """Cut the groups into halves at random, again and again, and solve for the topics of both."""
    G = replicates.groups.n_groups
    rng = np.random.default_rng(random_state)
    halves = np.array([rng.permutation(G) < G // 2 for _ in range(n_splits)])
    K, n = words.shape
    splits = Splits(np.empty((n_splits, K)), np.empty((n_splits, K, n)), np.empty((n_splits, K)))
    for first in range(0, n_splits, _AT_A_TIME):
        some = slice(first, min(first + _AT_A_TIME, n_splits))
        parts = Splits(splits.agreement[some], splits.probability[some], splits.concentration[some])
        sum_over_ranges(_split, some.stop - first, 1, replicates, whole, words, halves[some], parts)
        if callback is not None:
            callback(some.stop, n_splits)
    return splits


def _split(
    part: slice, replicates: Replicates, whole: Solved, words: IntArray, halves: Any, splits: Splits
) -> tuple[FloatArray]:
    groups = replicates.groups
    for i in range(part.start, part.stop):
        one, other = (solved(replicates.weighted(half.astype(float)), whole.V) for half in (halves[i], ~halves[i]))
        splits.agreement[i] = overlaps(one.scaled, other.scaled, groups.word_weights)
        splits.probability[i] = probabilities(groups, one, words)[0] - probabilities(groups, other, words)[0]
        splits.concentration[i] = np.log(one.concentration / other.concentration)
    return (np.zeros(1),)


def overlaps(a: FloatArray, b: FloatArray, weights: FloatArray) -> FloatArray:
    """Return 1 - ½ ‖a_k - b_k‖_1 of columns truncated at zero and scaled to sum to 1, rows being weighted."""
    first, second = (np.maximum(columns, 0) for columns in (a, b))
    first, second = (columns / np.maximum(weights @ columns, 1e-300) for columns in (first, second))
    result: FloatArray = weights @ np.minimum(first, second)
    return result


def probabilities(groups: GroupMoments, found: Solved, words: IntArray) -> tuple[FloatArray, FloatArray]:
    """Return the probabilities of words (K, n), and by how much two ways to scale a topic to sum to 1 differ there.

    d̃_k has entries below zero. With them, its sum is right on average over corpora of the model; without them, as in
    the topics of a model, noise makes it too large. But what is below zero may also be the model's failure to fit. So
    the probabilities are taken halfway. NaN where a word's sums were not kept.
    """
    place = np.searchsorted(groups.words, words)
    place[place == len(groups.words)] = 0
    scaled = np.where(groups.words[place] == words, found.scaled[place, np.arange(len(words))[:, None]], np.nan)
    truncated = groups.word_weights @ np.maximum(found.scaled, 0)
    whole = np.maximum(found.deviation, _SMALLEST * truncated)
    high, low = scaled / whole[:, None], scaled / truncated[:, None]
    return (high + low) / 2, abs(high - low)


def solved_whole(replicates: Replicates, V: FloatArray | None = None) -> Solved:
    """Solve for the topics of all groups: from the rotation V, or from none and then in order of concentration."""
    all_of_them = replicates.weighted(np.ones(replicates.groups.n_groups))
    L, _ = _whitened(all_of_them)
    if V is None:
        V = joint_diagonalize(_transformed(all_of_them.third, L)).V
        V = V[np.argsort(-((V @ L @ all_of_them.mean) ** 2), kind="stable")]
        # signs by the squared mass, as in `recover.directions`; words that stand for many count as many
        scaled = all_of_them.rows @ L @ V.T
        excess = replicates.groups.word_weights @ (scaled * abs(scaled))
        V = V * np.where(excess >= 0, 1.0, -1.0)[:, None]
    return solved(all_of_them, V)


def solved(replicate: Replicate, V: FloatArray) -> Solved:
    """Whiten and diagonalise again, starting from V; topics have its order, and its signs."""
    L, root = _whitened(replicate)
    tensor = _transformed(replicate.third, L)
    found = quasi_newton(tensor, V, tol=_TOLERANCE, gain=_GAIN, max_steps=_STEPS).V
    # W d̃ of the replicate is root V', that of the start V'
    agreement = V @ root @ found.T
    _, order = linear_sum_assignment(-abs(agreement))
    found = found[order] * np.where(agreement[np.arange(len(V)), order] >= 0, 1.0, -1.0)[:, None]
    transformed = L @ found.T
    unmixed = found @ L @ replicate.mean
    return Solved(
        found,
        replicate.rows @ transformed,
        replicate.total @ transformed,
        np.maximum(unmixed**2, np.finfo(np.float64).tiny),
    )


def _whitened(replicate: Replicate) -> tuple[FloatArray, FloatArray]:
    """Return the symmetric inverse root and root of W S W', its eigenvalues kept away from zero."""
    values, vectors = np.linalg.eigh(replicate.second)
    values = np.maximum(values, _SMALLEST)
    return (vectors / np.sqrt(values)) @ vectors.T, (vectors * np.sqrt(values)) @ vectors.T


def _transformed(tensor: FloatArray, L: FloatArray) -> FloatArray:
    """Return T(L, L, L) for a symmetric L; symmetric in its indices to the last bit of a matrix's two halves."""
    rotated = np.tensordot(L, L @ tensor @ L, 1)
    result: FloatArray = (rotated + rotated.transpose(0, 2, 1)) / 2
    return result
