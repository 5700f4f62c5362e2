"""Orthogonal joint diagonalisation: the JD algorithm (section 4, Algorithm 1)."""

from __future__ import annotations

import warnings
from collections.abc import Callable

import numpy as np

from momentopic import kernels
from momentopic._types import FloatArray
from momentopic.diagonalize.newton import quasi_newton
from momentopic.diagonalize.result import Diagonalization, diagonalized, symmetric_matrices
from momentopic.engine.blas import single_threaded_blas
from momentopic.exceptions import ConvergenceWarning

_SWEEPS = 4  # slow ones, before quasi-Newton steps: enough to be near the optimum that sweeps alone would reach


def joint_diagonalize(
    matrices: FloatArray,
    *,
    tol: float = 1e-8,
    gain: float = 0.0,
    max_sweeps: int = 1000,
    init: FloatArray | None = None,
    callback: Callable[[int, float], None] | None = None,
) -> Diagonalization:
    """Find the orthogonal V that makes every V B_p V' as diagonal as possible.

    Each Jacobi sweep rotates every pair of coordinates by the angle that minimises Σ_p ‖off(V B_p V')‖² in closed form
    (Bunse-Gerstner et al. 1993; Cardoso and Souloumiac 1996). Where they are slow, as on real
    corpora, quasi-Newton steps (`momentopic.diagonalize.newton`) go on to where they would end. The criterion never
    increases.

    Parameters
    ----------
    matrices : array of shape (P, K, K)
        Symmetric; they may be indefinite.
    tol : float
        Stop when no pair of coordinates is rotated by an angle with a |sin| above this.
    gain : float
        Also stop when a sweep or step lowers the criterion by less than this part of Σ_p ‖B_p‖². The last of them
        hardly change it: for an answer that will be refined by other means, 1e-4 takes a tenth of them.
    max_sweeps : int
        Stop after this many sweeps and steps, with a ConvergenceWarning. Sampled corpora take 6 to 8, real ones 50.
    init : array of shape (K, K), optional
        An orthogonal matrix to start from; the identity by default.
    callback : callable, optional
        Called as ``callback(sweeps and steps done, largest |sin|)`` after each.

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
        A = _matrix_last(V @ stack @ V.T if init is not None else stack)
        n_sweeps, sweeps_left, converged = 0, _SWEEPS, K == 1
        largest = 1.0
        whole = float((stack**2).sum())
        diagonal = _diagonal_part(A)
        while not converged and n_sweeps < max_sweeps:
            if sweeps_left:
                last, largest = largest, kernels.jacobi.sweep(A, V, (np.finfo(np.float64).eps ** 2) * whole)
                before, diagonal = diagonal, _diagonal_part(A)
                converged = largest <= tol or diagonal - before < gain * whole
                n_sweeps += 1
                if largest > last / 4:  # where sweeps converge fast, nothing is faster
                    sweeps_left -= 1
                if callback is not None:
                    callback(n_sweeps, largest)
            else:
                steps = quasi_newton(
                    stack, V, tol=tol, gain=gain, max_steps=max_sweeps - n_sweeps, first=n_sweeps, callback=callback,
                    squares=np.einsum("ijp,ijp->ij", A, A),
                )  # fmt: skip
                V, converged = steps.V, steps.converged
                n_sweeps += max(1, steps.n_steps)
                if not converged:
                    A = _matrix_last(V @ stack @ V.T)
                sweeps_left = 1  # gets it off where steps do not: from where a pair is at its worst, say
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


def _matrix_last(stack: FloatArray) -> FloatArray:
    """Return the matrices with their index last: the inner loops of a rotation run over it."""
    return np.array(stack.transpose(1, 2, 0), order="C")


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
