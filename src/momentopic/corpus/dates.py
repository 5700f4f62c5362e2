"""Dates of documents, in the many ways they are written, as days."""

from __future__ import annotations

import datetime
import re
from collections.abc import Sequence
from typing import Any

import numpy as np

_MISSING = np.datetime64("NaT", "D")
# a year, a year and a month, or a day; a time of day and a zone may follow
_ISO = re.compile(r"\s*(-?\d{4})(?:[-/](\d{1,2})(?:[-/](\d{1,2})(?:[T ].*)?)?)?\s*", re.DOTALL)


def as_dates(values: Any) -> Any:
    """Return dates as a datetime64[D] array, NaT where there is none or it cannot be read.

    Parameters
    ----------
    values : sequence
        Years (whole numbers), dates and times of the standard library, numpy or pandas, or strings that begin with
        "1993", "1993-04", "1993-04-21" or the same with slashes.
    """
    if isinstance(values, np.ndarray) and values.dtype.kind == "M":
        return values.astype("datetime64[D]")
    rows: Sequence[Any] = list(values)
    return np.array([_date(value) for value in rows], dtype="datetime64[D]")


def _date(value: Any) -> Any:
    if isinstance(value, np.datetime64):
        return value.astype("datetime64[D]")
    if isinstance(value, datetime.date) and type(value).__name__ != "NaTType":  # datetimes and Timestamps too
        return np.datetime64(value.isoformat()[:10], "D")
    if isinstance(value, (int, np.integer)) or (isinstance(value, float) and value.is_integer()):
        return _checked(int(value), 1, 1)
    match = _ISO.fullmatch(value) if isinstance(value, str) else None
    if match is None:
        return _MISSING
    return _checked(int(match[1]), int(match[2] or 1), int(match[3] or 1))


def _checked(year: int, month: int, day: int) -> np.datetime64:
    if not -9999 <= year <= 9999:
        return _MISSING
    try:
        return np.datetime64(f"{'-' if year < 0 else ''}{abs(year):04}-{month:02}-{day:02}", "D")
    except ValueError:
        return _MISSING
