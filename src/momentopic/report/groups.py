"""Prevalence of topics in groups of documents: by label, and over time."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from momentopic._types import FloatArray, IntArray

_MOST_BINS = 60
_BINS = (("D", 1), ("M", 1), ("M", 3), ("Y", 1), ("Y", 2), ("Y", 5), ("Y", 10), ("Y", 20), ("Y", 100))


@dataclass(frozen=True, eq=False)
class Groups:
    """The share of each topic among the tokens of groups of documents.

    Attributes
    ----------
    names : list of str
    documents : int array of shape (groups,)
        How many documents each has.
    shares : array of shape (groups, K)
        Rows sum to 1, or are 0 where a group has no tokens.
    """

    names: list[str]
    documents: IntArray
    shares: FloatArray


def by_label(labels: Sequence[str | None], tokens: FloatArray, most: int = 40) -> Groups:
    """Group documents by label, the most frequent labels first.

    Parameters
    ----------
    labels : sequence of (str or None)
    tokens : array of shape (N, K)
        The tokens of each topic in each document.
    most : int
        Labels beyond so many are put together.
    """
    names, numbers = np.unique(
        [label if label not in (None, "") else "(none)" for label in labels], return_inverse=True
    )
    sizes = np.bincount(numbers)
    order = np.argsort(-sizes, kind="stable")
    shown = [str(names[i]) for i in order]
    place = np.empty(len(names), dtype=np.int64)
    place[order] = np.arange(len(names))
    if len(shown) > most:
        place = np.minimum(place, most - 1)
        shown = [*shown[: most - 1], f"({len(shown) - most + 1} others)"]
    return _grouped(shown, place[numbers], tokens)


def by_time(dates: Any, tokens: FloatArray) -> Groups | None:
    """Group documents by date, in days, months or years as there are enough of them; None without any dates.

    Parameters
    ----------
    dates : datetime64[D] array of shape (N,)
    tokens : array of shape (N, K)
    """
    known = ~np.isnat(dates)
    if not known.any():
        return None
    days = dates[known]
    # where only years (or months) are known, all are their first days: nothing finer is to be seen
    finest = next((unit for unit in ("Y", "M") if (days == days.astype(f"datetime64[{unit}]")).all()), "D")
    for unit, step in _BINS[next(i for i, (unit, _) in enumerate(_BINS) if unit == finest) :]:
        # years are counted from 0, so that decades begin with their round numbers
        count = days.astype(f"datetime64[{unit}]").astype(np.int64) + (1970 if unit == "Y" else 0)
        bins = count // step
        if bins.max() - bins.min() < _MOST_BINS:
            break
    first = int(bins.min())
    names = [_bin_name(unit, step, b) for b in range(first, int(bins.max()) + 1)]
    return _grouped(names, bins - first, tokens[known])


def _bin_name(unit: str, step: int, b: int) -> str:
    if unit == "Y":
        return str(b) if step == 1 else f"{b * step}–{b * step + step - 1}"
    begin = str(np.array(b * step, dtype=f"datetime64[{unit}]"))
    return begin if step == 1 else f"{begin[:4]} Q{int(begin[5:7]) // 3 + 1}"


def _grouped(names: list[str], numbers: IntArray, tokens: FloatArray) -> Groups:
    sums = np.zeros((len(names), tokens.shape[1]))
    np.add.at(sums, numbers, tokens)
    totals = sums.sum(axis=1, keepdims=True)
    shares = np.divide(sums, totals, out=np.zeros_like(sums), where=totals > 0)
    return Groups(names, np.bincount(numbers, minlength=len(names)), shares)
