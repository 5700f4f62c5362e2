"""Random numbers for compiled loops: one stream a document, so that no result depends on threads or blocks."""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit

Array = np.ndarray[Any, Any]

GOLDEN = np.uint64(0x9E3779B97F4A7C15)
FIRST = np.uint64(0xBF58476D1CE4E5B9)
SECOND = np.uint64(0x94D049BB133111EB)


@njit(cache=True, nogil=True, inline="always")
def mix(state: Any) -> Any:
    """Return the 64 random bits that belong to a state of splitmix64; the next state is this one plus GOLDEN."""
    z = state
    z = (z ^ (z >> np.uint64(30))) * FIRST
    z = (z ^ (z >> np.uint64(27))) * SECOND
    return z ^ (z >> np.uint64(31))


@njit(cache=True, nogil=True, inline="always")
def uniform(state: Array) -> float:
    """Return the next number of the stream in [0, 1): splitmix64, whose state is the uint64 `state[0]`."""
    state[0] += GOLDEN
    return float(mix(state[0]) >> np.uint64(11)) * (1.0 / 9007199254740992.0)
