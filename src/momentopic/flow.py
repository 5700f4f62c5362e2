"""Which topics split into which from one number of topics to the next.

Each topic of the larger model is taken for a part of the topic of the smaller one whose words it shares most: a topic
may be continued by one, by several (a split) or by none. The similarity is the Bhattacharyya coefficient of the two
distributions of words, Σ_m √(p_m q_m): 1 for the same topic, 0 for topics without a common word, and less ruled by the
few most frequent words than the overlap of probabilities.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from momentopic._types import FloatArray, IntArray

_NEW = 0.5  # a topic less similar than this to every earlier one is new


@dataclass(frozen=True, eq=False)
class Level:
    """The topics of one K, and where they come from.

    Attributes
    ----------
    k : int
    shares : array of shape (k,)
        The part of the prior that each topic has.
    parent : int array of shape (k,)
        The most similar topic of the K before; all -1 for the first.
    similarity : array of shape (k,)
        Its similarity, in [0, 1]; NaN for the first K.
    order : int array of shape (k,)
        The topics from top to bottom of the drawing: beside the parents of their group.
    """

    k: int
    shares: FloatArray
    parent: IntArray
    similarity: FloatArray
    order: IntArray

    @property
    def new(self) -> list[int]:
        """Topics that are a part of none before."""
        return [int(k) for k in np.flatnonzero(self.similarity < _NEW)]

    def split(self) -> dict[int, list[int]]:
        """Return the earlier topics that go on in two or more, with those."""
        children: dict[int, list[int]] = {}
        for k, parent in enumerate(self.parent):
            if parent >= 0 and self.similarity[k] >= _NEW:
                children.setdefault(int(parent), []).append(k)
        return {parent: found for parent, found in children.items() if len(found) > 1}


def flow(topics: Mapping[int, FloatArray], shares: Mapping[int, FloatArray]) -> list[Level]:
    """Follow topics from each K to the next.

    Parameters
    ----------
    topics : mapping of int to array of shape (K, M)
        The topics (rows) for each K, in increasing order.
    shares : mapping of int to array of shape (K,)
        How much of the corpus each has.

    Returns
    -------
    list of Level
    """
    levels: list[Level] = []
    before: FloatArray | None = None
    for k, rows in topics.items():
        roots = np.sqrt(rows)
        if before is None:
            nothing = np.full(k, -1)
            levels.append(Level(k, shares[k], nothing, np.full(k, np.nan), np.argsort(-shares[k], kind="stable")))
        else:
            similar = np.minimum(before @ roots.T, 1.0)
            parent = similar.argmax(axis=0)
            levels.append(Level(k, shares[k], parent, similar.max(axis=0), _beside(parent, shares[k], levels[-1])))
        before = roots
    return levels


def _beside(parent: IntArray, shares: FloatArray, before: Level) -> IntArray:
    """Order topics as their parents are, the larger part of a split first."""
    place = np.empty(before.k, dtype=np.int64)
    place[before.order] = np.arange(before.k)
    return np.lexsort((-shares, place[parent]))


@dataclass(frozen=True)
class Bar:
    """A topic in the drawing of a flow: coordinates in [0, 1], y downwards."""

    k: int
    topic: int
    x: float
    top: float
    bottom: float


@dataclass(frozen=True)
class Ribbon:
    """The way from a topic to a part of it: (x, top, bottom) on the left and on the right."""

    left: tuple[float, float, float]
    right: tuple[float, float, float]
    similarity: float


def drawing(levels: Sequence[Level], gap: float = 0.25) -> tuple[list[Bar], list[Ribbon]]:
    """Return where the bars of topics and the ribbons between them are drawn.

    Parameters
    ----------
    levels : sequence of Level
    gap : float
        The part of the height that is left between the bars of one K, all gaps together.
    """
    places: list[dict[int, tuple[float, float]]] = []
    bars, ribbons = [], []
    for i, level in enumerate(levels):
        x = i / max(len(levels) - 1, 1)
        heights = (1 - gap) * level.shares / level.shares.sum()
        space = gap / max(level.k - 1, 1)
        top, here = 0.0, {}
        for topic in level.order:
            here[int(topic)] = (top, top + float(heights[topic]))
            bars.append(Bar(level.k, int(topic), x, *here[int(topic)]))
            top += float(heights[topic]) + space
        places.append(here)
        if i:
            ribbons += _ribbons(levels[i - 1 : i + 1], places[i - 1 : i + 1], (i - 1) / (len(levels) - 1), x)
    return bars, ribbons


def _ribbons(
    levels: Sequence[Level], places: Sequence[dict[int, tuple[float, float]]], left: float, right: float
) -> list[Ribbon]:
    """Divide the right edge of each topic among its parts, in their order and by their shares."""
    after = levels[1]
    total = np.bincount(after.parent, after.shares, minlength=levels[0].k)
    used = np.zeros(levels[0].k)
    ribbons = []
    for topic in after.order:
        parent = int(after.parent[topic])
        top, bottom = places[0][parent]
        begin = top + (bottom - top) * used[parent] / total[parent]
        used[parent] += after.shares[topic]
        end = top + (bottom - top) * used[parent] / total[parent]
        ribbons.append(Ribbon((left, begin, end), (right, *places[1][int(topic)]), float(after.similarity[topic])))
    return ribbons
