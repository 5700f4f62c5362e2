"""Whitening (appendix "Whitening of S and dimensionality reduction"): W with W S W' = I."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import numpy as np

from momentopic._types import FloatArray
from momentopic.exceptions import ConvergenceWarning, RankError
from momentopic.moments.base import SecondOrder
from momentopic.moments.eigen import Eigenpairs, largest_eigenpairs

# An eigenvalue counts as positive above this part of the largest one: rounding alone puts zeros at about 1e-16 of it.
_ZERO = 1e-13
# From this tolerance on S is applied in single precision. The residuals that come out are about 1e-6, and larger where
# λ_1 is tens of thousands of times λ_K: accepted up to the second number.
_SINGLE, _GOOD_ENOUGH = 1e-6, 1e-5
_PROBES = 8  # a register tile of them


@dataclass(frozen=True, eq=False)
class Whitening:
    """A whitening matrix and its pseudo-inverse.

    The rows of W are in the order of descending eigenvalues, so the whitening for k < r topics is the first k rows of
    the one for r (`corner`), and the whitened tensor of k topics is the corner ``T[:k, :k, :k]`` of that of r.

    Attributes
    ----------
    W : array of shape (K, M)
        Σ^{-1/2} U': whitens S, W S W' = I.
    unwhiten : array of shape (M, K)
        U Σ^{1/2} = S W', the pseudo-inverse of W.
    eigenvalues : array of shape (K,)
        The K algebraically largest eigenvalues of S, descending, all positive.
    residuals : array of shape (K,)
        ‖S u - λ u‖ of each eigenpair.
    n_products : int
        How many vectors S was applied to.
    converged : bool
        Whether every residual reached the tolerance.
    """

    W: FloatArray
    unwhiten: FloatArray
    eigenvalues: FloatArray
    residuals: FloatArray
    n_products: int
    converged: bool

    def without_words(self) -> Whitening:
        """Return what is known of the eigenvalues alone."""
        nothing = np.empty((0, 0))
        return Whitening(nothing, nothing, self.eigenvalues, self.residuals, self.n_products, self.converged)

    def corner(self, k: int) -> Whitening:
        """Return the whitening for the first k <= K directions, sharing the arrays of this one."""
        if not 1 <= k <= len(self.eigenvalues):
            raise ValueError(f"k must be between 1 and {len(self.eigenvalues)}, got {k}")
        return Whitening(
            self.W[:k],
            self.unwhiten[:, :k],
            self.eigenvalues[:k],
            self.residuals[:k],
            self.n_products,
            self.converged,
        )


@runtime_checkable
class WhitensItself(Protocol):
    """Moments that know S on a subspace alone, and whiten it there (`SketchedMoments`)."""

    def whitening(self, K: int) -> Whitening:
        """Return the whitening for K directions."""
        ...


def checked_positive(values: FloatArray, K: int) -> None:
    """Raise a RankError unless the K largest eigenvalues, in descending order, are positive."""
    n_positive = int(np.count_nonzero(values > _ZERO * abs(values).max())) if values[0] > 0 else 0
    if n_positive < K:
        raise RankError(K, n_positive)


def whiten(
    moments: SecondOrder, K: int, *, tol: float = 1e-8, max_products: int = 20_000, random_state: int = 0
) -> Whitening:
    """Compute the whitening matrix of the K algebraically largest eigenvalues of S.

    Parameters
    ----------
    moments : object with `mean` and `second`
        `dica_moments(X)`, `lda_moments(X, c0)` or anything with S as an operator.
    K : int
        The number of directions, at most the number of positive eigenvalues of S.
    tol : float
        Stop when ‖S u_i - λ_i u_i‖ <= tol max(λ_i, 1e-6 λ_1) for every eigenpair. From 1e-6 on, S is applied in single
        precision, and what comes out is checked in double: if residuals are over 1e-5, all is done again in double.
    max_products : int
        Give up, with a ConvergenceWarning, after S was applied to this many vectors.
    random_state : int
        Seeds the start of the iteration; the result depends on it only within the tolerance.

    Returns
    -------
    Whitening

    Raises
    ------
    RankError
        If S has fewer than K positive eigenvalues; the error says how many there are.
    """
    M = len(moments.mean)
    if K < 1:
        raise ValueError(f"the number of topics must be at least 1, got {K}")
    if K > M:
        raise ValueError(f"{K} topics cannot be told apart with {M} words: ask for at most {M}")
    if isinstance(moments, WhitensItself):
        return moments.whitening(K)
    pairs = _eigenpairs(moments, K, tol, max_products, random_state)
    check_pairs(pairs, K, tol)
    values = pairs.values
    # the sign of an eigenvector is arbitrary: make its entry of largest magnitude positive
    vectors = np.ascontiguousarray(pairs.vectors)
    highest, lowest = vectors.max(axis=0), vectors.min(axis=0)
    vectors *= np.where(highest >= -lowest, 1.0, -1.0)
    # words that never occur have no part in S: what they have here is left from the start of the iteration
    vectors[moments.mean == 0] = 0.0
    W = vectors.T.copy(order="C")
    W /= np.sqrt(values)[:, None]
    vectors *= np.sqrt(values)
    return Whitening(
        W,
        vectors,
        values,
        pairs.residuals,
        pairs.n_products,
        pairs.converged,
    )


def check_pairs(pairs: Eigenpairs, K: int, tol: float) -> None:
    """Refuse eigenpairs of which fewer than K are positive; warn if they did not converge."""
    checked_positive(pairs.values, K)
    if not pairs.converged:
        worst = float((pairs.residuals / pairs.values).max())
        warnings.warn(
            f"the eigenpairs of S were left at a relative residual of {worst:.1e} (asked for {tol:.1e}) after "
            f"{pairs.n_products} products: eigenvalues beyond the first few may be too close to tell apart. Ask for "
            "fewer topics; callers of whiten may raise max_products.",
            ConvergenceWarning,
            stacklevel=3,
        )


def _eigenpairs(moments: SecondOrder, K: int, tol: float, max_products: int, random_state: int) -> Eigenpairs:
    def found(product: Callable[[FloatArray], FloatArray]) -> Eigenpairs:
        return largest_eigenpairs(
            product,
            len(moments.mean),
            K,
            tol=tol,
            max_products=max_products,
            random_state=random_state,
            n_threads=getattr(moments, "n_threads", None),
        )

    if tol >= _SINGLE:
        pairs = found(lambda V: moments.second(V.astype(np.float32)))
        if not pairs.converged or _relative_residual(moments, pairs, random_state) <= max(tol, _GOOD_ENOUGH):
            return pairs
    return found(moments.second)


def _relative_residual(moments: SecondOrder, pairs: Eigenpairs, random_state: int) -> float:
    """Return the root of the mean of ‖S u_i - λ_i u_i‖² / λ_i² in double precision, from a few random combinations."""
    if pairs.values[-1] <= 0:
        return np.inf  # there are fewer than K: how many, only double precision says
    signs = np.random.default_rng(random_state).choice([-1.0, 1.0], size=(len(pairs.values), _PROBES))
    combined = moments.second(pairs.vectors @ (signs / pairs.values[:, None])) - pairs.vectors @ signs
    return float(np.sqrt((combined**2).sum() / signs.size))
