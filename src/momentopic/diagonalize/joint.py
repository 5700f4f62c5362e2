"""Orthogonal joint diagonalisation: the JD algorithm (section 4, Algorithm 1)."""

from __future__ import annotations

import warnings
from collections.abc import Callable

import numpy as np

from momentopic import kernels
from momentopic._types import FloatArray
from momentopic.diagonalize.result import Diagonalization, diagonalized, symmetric_matrices
from momentopic.engine.blas import single_threaded_blas
from momentopic.exceptions import ConvergenceWarning


def joint_diagonalize(
    matrices: FloatArray,
    *,
    tol: float = 1e-8,
    gain: float = 0.0,
    max_sweeps: int = 1000,
    init: FloatArray | None = None,
    callback: Callable[[int, float], None] | None = None,
) -> Diagonalization:
    """Find the orthogonal V that makes every V B_p V' as diagonal as possible, by Jacobi sweeps.

    Each sweep rotates every pair of coordinates by the angle that minimises Σ_p ‖off(V B_p V')‖² in closed form
    (Bunse-Gerstner et al. 1993; Cardoso and Souloumiac 1996). The criterion never increases.

    Parameters
    ----------
    matrices : array of shape (P, K, K)
        Symmetric; they may be indefinite.
    tol : float
        Stop when no rotation of a sweep has a |sin| above this.
    gain : float
        Also stop when a sweep lowers the criterion by less than this part of Σ_p ‖B_p‖². The last of many sweeps
        hardly change it: for an answer that will be refined by other means, 1e-4 takes a tenth of the sweeps.
    max_sweeps : int
        Stop after this many sweeps, with a ConvergenceWarning. Sampled corpora take 6 to 8, real ones up to 200.
    init : array of shape (K, K), optional
        An orthogonal matrix to start from; the identity by default.
    callback : callable, optional
        Called as ``callback(sweeps done, largest |sin| of the last)`` after each sweep.

    Returns
    -------
    Diagonalization
    """
    stack = symmetric_matrices(matrices)
    K = stack.shape[1]
    V = np.eye(K) if init is None else np.array(init, dtype=np.float64, order="C")
    if V.shape != (K, K) or abs(V @ V.T - np.eye(K)).max() > 1e-8:
        raise ValueError(f"init must be an orthogonal matrix of shape ({K}, {K})")
    with single_threaded_blas():
        # the matrix index goes last: the inner loops of a rotation run over it
        A = np.array((V @ stack @ V.T if init is not None else stack).transpose(1, 2, 0), order="C")
        n_sweeps, converged = 0, K == 1
        whole = float((stack**2).sum())
        negligible = (np.finfo(np.float64).eps ** 2) * whole
        diagonal = _diagonal_part(A)
        while not converged and n_sweeps < max_sweeps:
            largest = kernels.jacobi.sweep(A, V, negligible)
            before, diagonal = diagonal, _diagonal_part(A)
            converged = largest <= tol or diagonal - before < gain * whole
            n_sweeps += 1
            if callback is not None:
                callback(n_sweeps, largest)
        if not converged:
            warnings.warn(
                f"joint diagonalisation stopped at {max_sweeps} sweeps with rotations still above {tol:g}. Fewer "
                "topics or more documents make the tensor more nearly diagonal; callers of joint_diagonalize may raise "
                "max_sweeps.",
                ConvergenceWarning,
                stacklevel=2,
            )
        # measured on the matrices themselves, not on the rotated copy with its rounding
        return diagonalized(V, stack, n_sweeps, converged)


def _diagonal_part(A: FloatArray) -> float:
    """Return the sum of the squared diagonal entries of matrices whose index goes last: what rotations maximise."""
    k = np.arange(len(A))
    return float((A[k, k] ** 2).sum())


def random_directions(n: int, K: int, random_state: int) -> FloatArray:
    """Return n vectors of R^K, uniform on the unit sphere, as the rows of an (n, K) array."""
    u = np.random.default_rng(random_state).standard_normal((n, K))
    u /= np.linalg.norm(u, axis=1, keepdims=True)
    return u


def random_projections(tensor: FloatArray, n_projections: int, random_state: int = 0) -> FloatArray:
    """Return T(u_p) for P vectors u_p uniform on the sphere: option (a) of Algorithm 1, JD(k).

    Parameters
    ----------
    tensor : array of shape (K, K, K)
        The whitened tensor.
    n_projections : int
        P.
    random_state : int

    Returns
    -------
    array of shape (P, K, K)
    """
    u = random_directions(n_projections, len(tensor), random_state)
    with single_threaded_blas():
        result: FloatArray = np.einsum("abc,pc->pab", tensor, u, optimize=True)
    return result
