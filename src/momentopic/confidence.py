"""How sure the topics are: a bootstrap over groups of documents, in the whitened space, without another pass."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.optimize import linear_sum_assignment
from scipy.stats import t as student

from momentopic._types import FloatArray, IntArray
from momentopic.diagonalize import joint_diagonalize
from momentopic.diagonalize.newton import quasi_newton
from momentopic.engine.blas import single_threaded_blas
from momentopic.engine.threads import sum_over_ranges
from momentopic.moments.groups import GroupMoments, Replicate, Replicates

UNSTABLE = 0.5  # a topic of which less than this part comes again is marked
_SMALLEST = 0.1  # part of an eigenvalue of S that a replicate keeps at least
_TOLERANCE, _GAIN, _STEPS = 1e-3, 1e-7, 60  # of a replicate's rotation: far below the noise


@dataclass(frozen=True, eq=False)
class Confidence:
    """How sure the topics of a moment solution are.

    Attributes
    ----------
    stability : array of shape (K,)
        In [0, 1]: the part of a topic's probability that comes again on the same words, on average over replicates.
    words : int array of shape (K, n)
        The first words of each topic, most probable first.
    probability : array of shape (K, n)
        Their probabilities without truncation, which is unbiased: those of the model are lower where noise was cut off.
    low, high : arrays of shape (K, n)
        The ends of the intervals; NaN for a word whose sums were not kept.
    concentration : array of shape (K,)
    concentration_low, concentration_high : arrays of shape (K,)
    level : float
        The part of intervals that should hold the truth.
    n_groups, n_replicates : int
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
    n_replicates: int

    @property
    def unstable(self) -> Any:
        """Which topics are marked as not reproducible, a bool array of shape (K,)."""
        return self.stability < UNSTABLE


@dataclass(frozen=True, eq=False)
class Solved:
    """The topics of one selection of groups: rows of `scaled` are chosen words, columns topics, d̃_k = √s_k d_k."""

    V: FloatArray
    scaled: FloatArray
    deviation: FloatArray  # √s_k, the sum of d̃_k over all words
    concentration: FloatArray


def confidence(
    groups: GroupMoments,
    K: int | None = None,
    *,
    V: FloatArray | None = None,
    words: IntArray | None = None,
    n_words: int = 10,
    level: float = 0.9,
    n_replicates: int = 200,
    random_state: int = 0,
) -> Confidence:
    """Solve for the topics again and again, on groups of documents drawn with replacement.

    Parameters
    ----------
    groups : GroupMoments
        Of r directions.
    K : int, optional
        The number of topics, at most r, which is the default.
    V : array of shape (K, K), optional
        The rotation of the solution that is asked about, its rows in the order of the topics. By default it is found
        from the groups, the topics in the order of descending concentration.
    words : int array of shape (K, n), optional
        The words to give intervals for. By default the `n_words` most probable ones of each topic.
    n_words : int
    level : float
        The part of intervals that should hold the truth.
    n_replicates : int
    random_state : int

    Returns
    -------
    Confidence
    """
    if not 0 < level < 1:
        raise ValueError(f"level must be between 0 and 1, got {level}")
    if n_replicates < 2:
        raise ValueError(f"n_replicates must be at least 2, got {n_replicates}")
    groups = groups.corner(groups.n_directions if K is None else K)
    with single_threaded_blas():
        replicates = Replicates(groups)
        whole = solved_whole(replicates, V)
        if words is None:
            words = groups.words[np.argsort(-whole.scaled, axis=0, kind="stable")[:n_words].T]
        drawn = draw(replicates, whole, words, n_replicates, random_state)
    quantile = float(student.ppf((1 + level) / 2, groups.n_groups - 1)) * np.sqrt(
        groups.n_groups / (groups.n_groups - 1)
    )
    probability = probabilities(groups, whole, words)
    error = quantile * drawn.probability.std(axis=0, ddof=1)
    relative = np.exp(quantile * np.log(drawn.concentration).std(axis=0, ddof=1))
    return Confidence(
        drawn.overlap.mean(axis=0),
        words,
        probability,
        np.clip(probability - error, 0, 1),
        np.clip(probability + error, 0, 1),
        whole.concentration,
        whole.concentration / relative,
        whole.concentration * relative,
        level,
        groups.n_groups,
        n_replicates,
    )


@dataclass(frozen=True, eq=False)
class Draws:
    """What the replicates gave."""

    overlap: FloatArray  # (B, K)
    probability: FloatArray  # (B, K, n)
    concentration: FloatArray  # (B, K)


def draw(replicates: Replicates, whole: Solved, words: IntArray, n_replicates: int, random_state: int) -> Draws:
    """Solve `n_replicates` times on as many groups as there are, drawn with replacement; topics as in `whole`."""
    G = replicates.groups.n_groups
    weights = np.random.default_rng(random_state).multinomial(G, np.full(G, 1 / G), size=n_replicates).astype(float)
    K, n = words.shape
    draws = Draws(np.empty((n_replicates, K)), np.empty((n_replicates, K, n)), np.empty((n_replicates, K)))
    sum_over_ranges(_draw, n_replicates, 1, replicates, whole, words, weights, draws)
    return draws


def _draw(
    part: slice, replicates: Replicates, whole: Solved, words: IntArray, weights: FloatArray, draws: Draws
) -> tuple[FloatArray]:
    for i in range(part.start, part.stop):
        found = solved(replicates.weighted(weights[i]), whole.V)
        draws.overlap[i] = overlaps(whole.scaled, found.scaled, replicates.groups.word_weights)
        draws.probability[i] = probabilities(replicates.groups, found, words)
        draws.concentration[i] = found.concentration
    return (np.zeros(1),)


def overlaps(a: FloatArray, b: FloatArray, weights: FloatArray) -> FloatArray:
    """Return 1 - ½ ‖a_k - b_k‖_1 of columns truncated at zero and scaled to sum to 1, rows being weighted."""
    first, second = (np.maximum(columns, 0) for columns in (a, b))
    first, second = (columns / np.maximum(weights @ columns, 1e-300) for columns in (first, second))
    result: FloatArray = weights @ np.minimum(first, second)
    return result


def probabilities(groups: GroupMoments, found: Solved, words: IntArray) -> FloatArray:
    """Return the probabilities of words (K, n), not truncated; NaN where a word's sums were not kept."""
    place = np.searchsorted(groups.words, words)
    place[place == len(groups.words)] = 0
    kept = groups.words[place] == words
    topics = np.arange(len(words))[:, None]
    result = found.scaled[place, topics] / found.deviation[:, None]
    return np.where(kept, result, np.nan)


def solved_whole(replicates: Replicates, V: FloatArray | None = None) -> Solved:
    """Solve for the topics of all groups: from the rotation V, or from none and then in order of concentration."""
    all_of_them = replicates.weighted(np.ones(replicates.groups.n_groups))
    if V is not None:
        return solved(all_of_them, V)
    L, _ = _whitened(all_of_them)
    V = joint_diagonalize(_transformed(all_of_them.third, L)).V
    return solved(all_of_them, V[np.argsort(-((V @ L @ all_of_them.mean) ** 2), kind="stable")])


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
