"""The algebraically largest eigenpairs of an operator on the device: block Lanczos, as in `moments.eigen`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import cupy as cp
import numpy as np
import scipy.linalg

from momentopic.moments import eigen
from momentopic.moments.eigen import Eigenpairs

_BLOCK = 32
_SMALLEST_SCALE = 1e-6
_LEAST_LEFT, _LEAST_INDEPENDENT = 1e-10, 1e-5


def largest_eigenpairs(
    product: Callable[[Any], Any], size: int, k: int, *, tol: float, max_products: int, random_state: int
) -> Eigenpairs:
    """Find the k algebraically largest eigenpairs; the vectors stay on the device, all else does not.

    Parameters
    ----------
    product : callable
        Takes an (M, j) array V and returns S V in double, both on the device.
    size, k, tol, max_products, random_state
        As in `moments.eigen.largest_eigenpairs`.
    """
    kept = k + max(_BLOCK // 2, k // 4)
    widest = kept + max(4 * _BLOCK, k)
    if size <= widest + _BLOCK:
        dense = product(cp.eye(size)).get()
        values, vectors = scipy.linalg.eigh((dense + dense.T) / 2)
        found = cp.asarray(np.ascontiguousarray(vectors[:, ::-1][:, :k]))
        return Eigenpairs(values[::-1][:k], found, np.zeros(k), size, True)
    rng = np.random.default_rng(random_state)
    # by columns: the first n of them are contiguous, and are multiplied without a copy
    Q = cp.empty((size, widest + _BLOCK), order="F")
    H = np.zeros((widest, widest))
    newest = cp.asfortranarray(cp.linalg.qr(cp.random.RandomState(random_state).standard_normal((size, _BLOCK)))[0])
    n, n_products, scale = 0, 0, 0.0
    while True:
        last = slice(n, n + _BLOCK)
        Q[:, last] = newest
        n += _BLOCK
        image = product(cp.ascontiguousarray(newest))
        n_products += _BLOCK
        coefficients, newest, remainder = _expanded(cp.asfortranarray(image), Q[:, :n], scale, rng)
        H[:n, last] = coefficients
        H[last, :n] = coefficients.T
        scale = max(scale, float(abs(coefficients).sum(axis=0).max()))
        if n < k and n + _BLOCK <= widest:
            continue
        values, Y = scipy.linalg.eigh((H[:n, :n] + H[:n, :n].T) / 2, driver="evd")
        values, Y = values[::-1], np.ascontiguousarray(Y[:, ::-1])
        residuals = np.linalg.norm(remainder @ Y[last, :k], axis=0)
        floor = np.maximum(abs(values[:k]), _SMALLEST_SCALE * abs(values[0]))
        converged = n >= k and bool((residuals <= tol * floor).all())
        if converged or (n >= k and n_products >= max_products):
            return Eigenpairs(values[:k], Q[:, :n] @ cp.asarray(Y[:, :k]), residuals, n_products, converged)
        if n + _BLOCK > widest:
            Q[:, :kept] = Q[:, :n] @ cp.asarray(Y[:, :kept])
            H[:] = 0.0
            np.fill_diagonal(H[:kept, :kept], values[:kept])
            n = kept


def _expanded(Z: Any, basis: Any, scale: float, rng: np.random.Generator) -> tuple[Any, Any, Any]:
    """Return the coefficients of Z in the basis, and factor what is left of it as newest @ remainder."""
    first = basis.T @ Z
    Z = Z - basis @ first
    second = basis.T @ Z
    Z -= basis @ second
    coefficients = (first + second).get()
    scale = max(scale, float(abs(coefficients).sum(axis=0).max()))
    gram = (Z.T @ Z).get()
    remainder = np.eye(gram.shape[0])
    try:
        if np.diag(gram).min() <= (_LEAST_LEFT * scale) ** 2:
            raise np.linalg.LinAlgError
        # Cholesky's factors twice, with what rounding left of the basis taken out between
        for again in range(2):
            R = np.linalg.cholesky(gram).T
            if np.diag(R).min() <= _LEAST_INDEPENDENT * np.diag(R).max():
                raise np.linalg.LinAlgError
            Z = Z @ cp.asarray(np.linalg.inv(R))
            remainder = R @ remainder
            if not again:
                Z -= basis @ (basis.T @ Z)
                gram = (Z.T @ Z).get()
    except np.linalg.LinAlgError:
        newest, factor = eigen._new_directions(Z.get(), basis.get(), scale, rng)
        return coefficients, cp.asfortranarray(cp.asarray(newest)), factor @ remainder
    return coefficients, cp.asfortranarray(Z), remainder
