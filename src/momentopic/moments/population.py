"""Exact moments of a model whose parameters are known: what the estimators converge to."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from momentopic._types import FloatArray


@dataclass(frozen=True, eq=False)
class PopulationMoments:
    """S = Σ s_k d_k d_k' and T = Σ t_k d_k ⊗ d_k ⊗ d_k, equation (ST), with the interface of the estimated moments.

    Attributes
    ----------
    D : array of shape (M, K)
        Topics are columns.
    s, t : arrays of shape (K,)
    mean : array of shape (M,)
    mean_length : float
    c0 : float or None
        For LDA moments, the sum of the Dirichlet parameters.
    """

    D: FloatArray
    s: FloatArray
    t: FloatArray
    mean: FloatArray
    mean_length: float = 1.0
    c0: float | None = None

    def second(self, V: FloatArray) -> FloatArray:
        """Return S V."""
        result: FloatArray = (self.D * self.s) @ (self.D.T @ V)
        return result

    def third(self, W: FloatArray, second: FloatArray | None = None) -> FloatArray:
        """Return T(W', W', W')."""
        A = W @ self.D
        result: FloatArray = np.einsum("k,ak,bk,ck->abc", self.t, A, A, A, optimize=True)
        return result

    def projected(self, W: FloatArray, v: FloatArray, second: FloatArray | None = None) -> FloatArray:
        """Return W T(v) W'."""
        A = W @ self.D
        result: FloatArray = (A * (self.t * (v @ self.D))) @ A.T
        return result

    def third_by_word(
        self, W: FloatArray, second: FloatArray | None = None, words: int | None = None
    ) -> list[tuple[slice, FloatArray]]:
        """Return W T(e_m) W' for all words, as upper triangles, in one slice."""
        A = W @ self.D
        k, l = np.triu_indices(len(W))
        return [(slice(0, len(self.D)), (self.D * self.t) @ (A[k] * A[l]).T)]


def gamma_poisson_population(D: FloatArray, c: FloatArray, b: float) -> PopulationMoments:
    """Return the cumulants of the GP model: s_k = c_k / b² and t_k = 2 c_k / b³.

    Parameters
    ----------
    D : array of shape (M, K)
        Topics are columns.
    c : array of shape (K,)
        Gamma shapes of the intensities.
    b : float
        Their rate.
    """
    return PopulationMoments(D, c / b**2, 2 * c / b**3, D @ (c / b), float(c.sum() / b))


def lda_population(D: FloatArray, c: FloatArray) -> PopulationMoments:
    """Return the moments of the LDA model, equations (diagS:lda) and (diagT:lda).

    Parameters
    ----------
    D : array of shape (M, K)
        Topics are columns.
    c : array of shape (K,)
        Dirichlet parameters.
    """
    c0 = c.sum()
    return PopulationMoments(D, c / (c0 * (c0 + 1)), 2 * c / (c0 * (c0 + 1) * (c0 + 2)), D @ c / c0, c0=float(c0))
