"""The tensor power method with restarts and deflation (Anandkumar et al. 2014), on the whitened tensor."""

from __future__ import annotations

import warnings

import numpy as np

from momentopic._types import FloatArray
from momentopic.diagonalize.result import Diagonalization, diagonalized, symmetric_matrices
from momentopic.engine.blas import single_threaded_blas
from momentopic.exceptions import ConvergenceWarning


def tensor_power(
    tensor: FloatArray,
    *,
    n_restarts: int = 10,
    max_iter: int = 100,
    tol: float = 1e-5,
    random_state: int = 0,
) -> Diagonalization:
    """Find the components of a nearly orthogonally decomposable tensor one after another.

    For each component, u <- T(I, u, u) / ‖T(I, u, u)‖ is iterated from several random starts at once, the one with
    the largest T(u, u, u) is polished and taken, and λ u ⊗ u ⊗ u is subtracted.

    Parameters
    ----------
    tensor : array of shape (K, K, K)
        Symmetric: the whitened tensor.
    n_restarts : int
        Random starts for each component.
    max_iter : int
        Iterations of each start, and again of the polishing.
    tol : float
        Stop when no start moves by more than this in an iteration; near a solution the error is then squared.
    random_state : int
        Seeds the starts.

    Returns
    -------
    Diagonalization
        `V` is the orthogonal matrix nearest to the components found, which noise leaves only nearly orthogonal.
    """
    T = symmetric_matrices(tensor)
    K = len(T)
    rng = np.random.default_rng(random_state)
    residual = T.copy()
    found = np.empty((K, K))
    longest, all_converged = 0, True
    with single_threaded_blas():
        for k in range(K):
            starts = rng.standard_normal((K, n_restarts))
            U, n_iter, _ = _iterate(residual, starts / np.linalg.norm(starts, axis=0), max_iter, tol)
            best = U[:, [np.einsum("kr,kr->r", U, _apply(residual, U)).argmax()]]
            best, n_polish, converged = _iterate(residual, best, max_iter, tol)
            u = best[:, 0]
            found[k] = u
            residual -= (u @ _apply(residual, best)[:, 0]) * (u[:, None, None] * u[:, None] * u)
            longest = max(longest, n_iter + n_polish)
            all_converged &= converged
        if not all_converged:
            warnings.warn(
                f"the tensor power method left a component unconverged after {2 * max_iter} iterations, as it does "
                "where the tensor is far from diagonal: algorithm 'jd' is more robust; callers of tensor_power may "
                "raise max_iter.",
                ConvergenceWarning,
                stacklevel=2,
            )
        left, _, right = np.linalg.svd(found)
        return diagonalized(left @ right, T, longest, all_converged)


def _apply(T: FloatArray, U: FloatArray) -> FloatArray:
    """Return T(I, u, u) for each column u of U."""
    K = len(T)
    contracted = (T.reshape(K * K, K) @ U).reshape(K, K, -1)
    result: FloatArray = np.einsum("abr,br->ar", contracted, U)
    return result


def _iterate(T: FloatArray, U: FloatArray, max_iter: int, tol: float) -> tuple[FloatArray, int, bool]:
    """Iterate all columns of U together; return them, the number of iterations and whether all came to rest."""
    for n_iter in range(1, max_iter + 1):
        image = _apply(T, U)
        norms = np.linalg.norm(image, axis=0)
        # a start in the null space of a tensor of lower rank stays where it is
        image = np.where(norms > 0, image / np.where(norms > 0, norms, 1.0), U)
        moved = float(np.linalg.norm(image - U, axis=0).max())
        U = image
        if moved <= tol:
            return U, n_iter, True
    return U, max_iter, False
