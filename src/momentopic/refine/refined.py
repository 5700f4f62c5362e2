"""What a refinement finds."""

from __future__ import annotations

from dataclasses import dataclass

from momentopic._types import FloatArray


@dataclass(frozen=True, eq=False)
class Refined:
    """Topics, prior and smoothing after a refinement.

    Attributes
    ----------
    topics : array of shape (K, M)
        Rows are probability vectors. Words that never occur have probability 0.
    concentration : array of shape (K,)
        Dirichlet parameters.
    smoothing : float
        The Dirichlet parameter of the topics.
    n_expected, n_sampled : int
        Sweeps of either kind.
    converged : bool
        Whether the topics came to rest before the limit of sweeps.
    """

    topics: FloatArray
    concentration: FloatArray
    smoothing: float
    n_expected: int
    n_sampled: int
    converged: bool
