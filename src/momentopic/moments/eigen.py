"""The algebraically largest eigenpairs of a symmetric operator, by thick-restart block Lanczos.

Plain subspace iteration finds the eigenvalues that are largest in *magnitude*. In short documents most words do not
repeat, the diagonal of S is negative, and as many eigenvalues lie far below zero as far above it. A Krylov space holds
both ends of the spectrum, and a restart that keeps the upper Ritz vectors sheds the lower ones.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.linalg

from momentopic import kernels
from momentopic._types import FloatArray
from momentopic.engine.blas import single_threaded_blas
from momentopic.engine.threads import sum_over_ranges

# Residuals are measured against the eigenvalue itself, but against this part of the largest one where it is near zero.
_SMALLEST_SCALE = 1e-6
_ROWS, _PARTS = 1024, 32  # to a part of a product with the basis, at least; and not many more parts than that
_BLOCK = 16  # vectors to a product: as many as the kernels take
# Cholesky factors serve where what is left of a block is larger than this part of the scale, and its columns are this
# far from being dependent; at once where they are further from it. And where rounding was not most of the block.
_LEAST_LEFT, _LEAST_INDEPENDENT, _INDEPENDENT = 1e-10, 1e-5, 1e-2
_LEAST_PART = 1e-4
_ROUGH, _NEGLIGIBLE = 0.01, 2e-4  # for such a tolerance, so much of the basis may be left in columns of unit length


@dataclass(frozen=True, eq=False)
class Eigenpairs:
    """The k algebraically largest eigenpairs of a symmetric operator.

    Attributes
    ----------
    values : array of shape (k,)
        In descending order.
    vectors : array of shape (M, k)
        Orthonormal columns.
    residuals : array of shape (k,)
        ‖S u - λ u‖ for each pair.
    n_products : int
        How many vectors the operator was applied to.
    converged : bool
        Whether every residual is below the tolerance that was asked for.
    """

    values: FloatArray
    vectors: FloatArray
    residuals: FloatArray
    n_products: int
    converged: bool


def largest_eigenpairs(
    product: Callable[[FloatArray], FloatArray],
    size: int,
    k: int,
    *,
    tol: float = 1e-8,
    max_products: int = 20_000,
    random_state: int = 0,
    n_threads: int | None = None,
) -> Eigenpairs:
    """Find the k algebraically largest eigenpairs of the symmetric operator V -> S V, on one BLAS thread.

    Parameters
    ----------
    product : callable
        Takes an (M, j) array V and returns S V.
    size : int
        M.
    k : int
        How many eigenpairs, at most M.
    tol : float
        Stop when ‖S u_i - λ_i u_i‖ <= tol max(|λ_i|, 1e-6 λ_1) for every pair.
    max_products : int
        Give up after the operator was applied to this many vectors; the pairs found so far are returned.
    random_state : int
        Seeds the starting block.
    n_threads : int, optional
        Of the products with the basis; by default, the cores this process may use.

    Returns
    -------
    Eigenpairs
    """
    with single_threaded_blas():
        return _lanczos(product, size, k, tol, max_products, random_state, n_threads)


def _lanczos(
    product: Callable[[FloatArray], FloatArray],
    size: int,
    k: int,
    tol: float,
    max_products: int,
    random_state: int,
    n_threads: int | None,
) -> Eigenpairs:
    kept = k + max(_BLOCK // 2, k // 4)
    widest = kept + max(5 * _BLOCK, k)
    if size <= widest + _BLOCK:
        # the Krylov basis would be as large as the matrix itself
        values, vectors = scipy.linalg.eigh(_symmetrised(product(np.eye(size))))
        return Eigenpairs(values[::-1][:k], vectors[:, ::-1][:, :k], np.zeros(k), size, True)

    rng = np.random.default_rng(random_state)
    Q = np.empty((size, widest + _BLOCK))  # the orthonormal basis
    H = np.zeros((widest, widest))  # Q' S Q
    newest = np.linalg.qr(rng.standard_normal((size, _BLOCK)))[0]
    n = 0  # columns of Q whose image under S is known
    coupling = np.zeros((0, _BLOCK))  # what Q' S has to say of the newest block already: S is symmetric
    n_products = 0
    negligible = _NEGLIGIBLE if tol >= _ROUGH else 0.0
    scale = 0.0  # of S: no eigenvalue of Q' S Q is larger
    while True:
        last = slice(n, n + _BLOCK)
        Q[:, last] = newest
        n += _BLOCK
        image = np.ascontiguousarray(product(newest), dtype=np.float64)
        n_products += _BLOCK
        basis = Q[:, :n]
        coefficients, newest, remainder = _expanded(image, basis, coupling, scale, negligible, rng, n_threads)
        H[:n, last] = coefficients
        H[last, :n] = coefficients.T
        scale = max(scale, float(abs(coefficients).sum(axis=0).max()))
        coupling = np.zeros((n, _BLOCK))
        coupling[last] = remainder.T
        if n < k and n + _BLOCK <= widest:
            continue  # there are not k Ritz pairs yet
        values, Y = scipy.linalg.eigh(_symmetrised(H[:n, :n]), driver="evd", check_finite=False)
        values, Y = values[::-1], Y[:, ::-1]
        # S (Q y) - λ (Q y) lies in the span of the newest block: Lanczos' residual for free
        residuals = np.linalg.norm(remainder @ Y[last, :k], axis=0)
        floor = np.maximum(abs(values[:k]), _SMALLEST_SCALE * abs(values[0]))
        converged = n >= k and bool((residuals <= tol * floor).all())
        if converged or (n >= k and n_products >= max_products):
            del image, newest  # of a tall array the next one may take the place
            vectors = np.empty((size, k))
            sum_over_ranges(_combined, size, _part(size), basis, Y[:, :k], vectors, n_threads=n_threads)
            return Eigenpairs(values[:k], vectors, residuals, n_products, converged)
        if n + _BLOCK > widest:
            sum_over_ranges(_combined, size, _part(size), basis, Y[:, :kept], Q[:, :kept], n_threads=n_threads)
            H[:] = 0.0
            np.fill_diagonal(H[:kept, :kept], values[:kept])
            coupling = (remainder @ Y[last, :kept]).T
            n = kept


def _symmetrised(A: FloatArray) -> FloatArray:
    result: FloatArray = (A + A.T) / 2
    return result


def _orthogonalised(Z: FloatArray, basis: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return the coefficients of `Z` in the basis and what is left of it; twice is enough, says Kahan."""
    first = basis.T @ Z
    Z = Z - basis @ first
    second = basis.T @ Z
    return first + second, Z - basis @ second


def _expanded(
    image: FloatArray,
    basis: FloatArray,
    coupling: FloatArray,
    scale: float,
    negligible: float,
    rng: np.random.Generator,
    n_threads: int | None,
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return the coefficients of `image` in the basis, and factor what is left of it as newest @ remainder.

    The columns of `newest` are orthonormal and orthogonal to the basis. `image` is that of the last block of the basis;
    its coefficients in the others are known to be `coupling`, but for rounding, which a pass over the whole basis
    measures and another one takes out, unless it is `negligible`. Cholesky factors of Gram matrices do it in these two
    passes; where that would lose accuracy, `_new_directions` does it with more care.
    """

    def over_rows(function: Callable[..., tuple[FloatArray, ...]], *args: Any) -> tuple[FloatArray, ...]:
        return sum_over_ranges(function, len(basis), _part(len(basis)), *args, n_threads=n_threads)

    (own,) = over_rows(_coefficients, basis[:, -_BLOCK:], image)
    first = np.concatenate([coupling, own])
    Z = np.empty_like(image)
    gram, second = over_rows(_take_out, basis, image, first, Z)
    scale = max(scale, float(abs(first).sum(axis=0).max()))
    left = gram - second.T @ second  # the Gram matrix without what rounding has put into the basis' own space
    if (np.diag(left) > np.maximum((_LEAST_LEFT * scale) ** 2, _LEAST_PART * np.diag(gram))).all():
        with contextlib.suppress(np.linalg.LinAlgError):
            R = np.linalg.cholesky(left).T
            independence = np.diag(R).min() / np.diag(R).max()
            if independence > _LEAST_INDEPENDENT:
                coefficients, divisor = first + second, np.linalg.inv(R)
                # of one column, rather than none: an array without columns is of another kind, compiled for again
                n = 1 if abs(second @ divisor).max() <= negligible else len(second)
                (gram,) = over_rows(_take_out_and_divide, basis[:, :n], Z, second[:n], divisor)
                if independence < _INDEPENDENT:
                    # the division has blown up what was small in Z, and with it what rounding left of the basis in it
                    (third,) = over_rows(_coefficients, basis, Z)
                    coefficients += third @ R
                    gram, _ = over_rows(_take_out, basis, Z, third, Z)
                again = np.linalg.cholesky(gram).T
                return coefficients, Z @ np.linalg.inv(again), again @ R
    return first + second, *_new_directions(Z - basis @ second, basis, scale, rng)


def _part(size: int) -> int:
    return max(_ROWS, -(-size // _PARTS))


def _coefficients(rows: slice, basis: FloatArray, Z: FloatArray) -> tuple[FloatArray]:
    """Return basis' Z."""
    total = np.zeros((basis.shape[1], _BLOCK))
    kernels.tall.coefficients(basis, Z, rows.start, rows.stop, total)
    return (total,)


def _take_out(
    rows: slice, basis: FloatArray, Z: FloatArray, coefficients: FloatArray, out: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Write Z - basis @ coefficients into `out`; return its Gram matrix and its own coefficients."""
    gram, left = np.zeros((_BLOCK, _BLOCK)), np.zeros_like(coefficients)
    nothing = int(np.argmax(coefficients.any(axis=1)))  # so many coefficients are 0, in most blocks most of them
    kernels.tall.take_out(basis, nothing, coefficients, Z, rows.start, rows.stop, out, left, gram)
    return gram, left


def _take_out_and_divide(
    rows: slice, basis: FloatArray, Z: FloatArray, coefficients: FloatArray, divisor: FloatArray
) -> tuple[FloatArray]:
    """Replace Z by (Z - basis @ coefficients) @ divisor; return its Gram matrix."""
    gram = np.zeros((_BLOCK, _BLOCK))
    kernels.tall.take_out_and_divide(basis, coefficients, Z, rows.start, rows.stop, divisor, gram)
    return (gram,)


def _combined(rows: slice, basis: FloatArray, Y: FloatArray, out: FloatArray) -> tuple[FloatArray]:
    """Write basis @ Y into `out`, which may be a part of the basis."""
    out[rows] = basis[rows] @ Y
    return (np.zeros(1),)


def _new_directions(
    Z: FloatArray, basis: FloatArray, scale: float, rng: np.random.Generator
) -> tuple[FloatArray, FloatArray]:
    """Factor Z = newest @ remainder with orthonormal columns orthogonal to the basis.

    Where the basis spans an invariant subspace already, Z has not full rank: its null directions are replaced by
    random ones, which S may still have something to say about; their rows of the remainder are rounding errors.
    """
    newest, R, pivots = scipy.linalg.qr(Z, mode="economic", pivoting=True)
    remainder = np.empty_like(R)
    remainder[:, pivots] = R
    negligible = scale * np.finfo(np.float64).eps * np.sqrt(len(Z))
    rank = int(np.count_nonzero(abs(np.diag(R)) > negligible))
    if rank < Z.shape[1]:
        spanned = np.concatenate([basis, newest[:, :rank]], axis=1)
        fresh = rng.standard_normal((len(Z), Z.shape[1] - rank))
        fresh = np.linalg.qr(_orthogonalised(fresh, spanned)[1])[0]
        newest[:, rank:] = np.linalg.qr(_orthogonalised(fresh, spanned)[1])[0]
    # dividing by a small diagonal has blown up what rounding left of the basis in Z: take it out once more
    newest, R = np.linalg.qr(newest - basis @ (basis.T @ newest))
    return newest, R @ remainder
