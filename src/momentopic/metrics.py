"""How far estimated topics are from true ones, or two models' topics from each other; how well their words fit."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from scipy.optimize import linear_sum_assignment
from scipy.spatial.distance import cdist

from momentopic._types import FloatArray, IntArray
from momentopic.coherence import Coherence, coherence

__all__ = ["Alignment", "Coherence", "align_topics", "coherence", "recovery_error"]


@dataclass(frozen=True, eq=False)
class Alignment:
    """The best one-to-one matching of the topics of two models.

    Attributes
    ----------
    first, second : int arrays of equal length
        Topic ``first[i]`` of the first model is matched with topic ``second[i]`` of the second. `first` ascends; where
        the models have different numbers of topics, the worst-fitting ones of the larger are left out.
    distances : array
        The distance of each matched pair, in [0, 1].
    """

    first: IntArray
    second: IntArray
    distances: FloatArray


def align_topics(first: Any, second: Any, *, norm: Literal[1, 2] = 1) -> Alignment:
    """Match the topics of two models one to one so that the sum of their distances is least.

    Parameters
    ----------
    first, second : fitted models, or arrays of shape (K, M)
        Topics are rows, as in `components_`. The numbers of topics may differ.
    norm : {1, 2}
        1: half the l1 distance. 2: the l2 distance of topics scaled to unit l2 norm, over √2. Both are in [0, 1] for
        nonnegative topics.

    Returns
    -------
    Alignment
    """
    rows = [_topic_rows(model) for model in (first, second)]
    if rows[0].shape[1] != rows[1].shape[1]:
        raise ValueError(
            f"the models have different vocabularies: {rows[0].shape[1]} and {rows[1].shape[1]} words. "
            "Fit both on counts of the same words."
        )
    cost = _distances(rows[0], rows[1], norm)
    i, j = linear_sum_assignment(cost)
    return Alignment(i, j, cost[i, j])


def recovery_error(estimated: Any, true: Any, norm: Literal[1, 2] = 1) -> float:
    """Return the error of estimated topics under the best permutation, in [0, 1] (section 5, "Evaluation").

    Parameters
    ----------
    estimated, true : arrays of the same shape
        Topics are columns (the paper's D, M x K) or rows (`components_`, K x M), each summing to 1. Which of the two
        is seen from which axis sums to 1, for each array on its own; where both or neither do, topics are taken to
        be the shorter axis.
    norm : {1, 2}
        1: 1/(2K) Σ_k ‖d̂_k - d_k‖_1. 2: the same with the l2 norm over √2, topics scaled to unit l2 norm.

    Returns
    -------
    float
    """
    rows = [_oriented(np.asarray(topics, dtype=np.float64)) for topics in (estimated, true)]
    if rows[0].shape != rows[1].shape:
        raise ValueError(
            f"estimated and true must hold as many topics over as many words; got {rows[0].shape[0]} topics over "
            f"{rows[0].shape[1]} words and {rows[1].shape[0]} over {rows[1].shape[1]}"
        )
    return float(align_topics(rows[0], rows[1], norm=norm).distances.mean())


def _topic_rows(model: Any) -> FloatArray:
    rows = np.asarray(getattr(model, "components_", model), dtype=np.float64)
    if rows.ndim != 2:
        raise ValueError(f"expected a fitted model or topics of shape (K, M), got shape {rows.shape}")
    return rows


def _oriented(topics: FloatArray) -> FloatArray:
    """Return the topics as rows."""
    if topics.ndim != 2:
        raise ValueError(f"topics must be a 2-D array, got shape {topics.shape}")
    by_row, by_column = (bool(np.allclose(topics.sum(axis=axis), 1, atol=1e-6)) for axis in (1, 0))
    if by_row == by_column:
        return topics if topics.shape[0] <= topics.shape[1] else topics.T
    return topics if by_row else topics.T


def _distances(a: FloatArray, b: FloatArray, norm: int) -> FloatArray:
    if norm == 1:
        result: FloatArray = cdist(a, b, "cityblock") / 2
        return result
    if norm == 2:
        unit = [rows / np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), 1e-300) for rows in (a, b)]
        result = cdist(unit[0], unit[1], "euclidean") / np.sqrt(2)
        return result
    raise ValueError(f"norm must be 1 or 2, got {norm!r}")
