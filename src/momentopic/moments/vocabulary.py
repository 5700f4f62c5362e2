"""JD(f): the joint diagonalisation of all M projections W T(e_m) W', in the memory of a few of them."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.linalg

from momentopic._types import FloatArray
from momentopic.engine.blas import single_threaded_blas
from momentopic.moments.base import AnyMoments
from momentopic.moments.whiten import Whitening


def vocabulary_projections(
    moments: AnyMoments, whitening: Whitening, dtype: Any = np.float64
) -> tuple[FloatArray, FloatArray]:
    """Return matrices that are jointly diagonalised exactly as all M matrices W T(e_m) W' are, and the tensor.

    The criterion Σ_m ‖off(V B_m V')‖² is quadratic in the B_m: it depends on them through Σ_m vec(B_m) vec(B_m)'
    alone, so any R with R'R = B'B (B holding one vec(B_m) a row) stands for all of B. R is kept triangular and is
    updated by a QR decomposition for each slice of the vocabulary: at most K (K + 1) / 2 matrices instead of M.

    Parameters
    ----------
    moments : DICAMoments or LDAMoments
    whitening : Whitening
    dtype : dtype
        In single precision, documents are multiplied in single precision, as in `third`.

    Returns
    -------
    array of shape (P, K, K)
        P <= min(M, K (K + 1) / 2).
    array of shape (K, K, K)
        T(W', W', W') = Σ_m B_m ⊗ W_m, which comes for free.
    """
    W = whitening.W
    K = len(W)
    n_pairs = K * (K + 1) // 2
    R = np.empty((0, n_pairs))
    tensor = np.zeros((K, n_pairs))
    for words, triangles in moments.third_by_word(W.astype(dtype, copy=False), second=whitening.unwhiten):
        with single_threaded_blas():
            tensor += W[:, words] @ triangles
            R = np.concatenate([R, triangles])
            if len(R) > n_pairs:
                (R,) = scipy.linalg.qr(R, mode="r", overwrite_a=True, check_finite=False)
                R = R[:n_pairs]
    return _unpacked(R, K), _unpacked(tensor, K)


def _unpacked(triangles: FloatArray, K: int) -> FloatArray:
    """Return the symmetric (P, K, K) matrices whose upper triangles are given."""
    k, l = np.triu_indices(K)
    matrices = np.empty((len(triangles), K, K))
    matrices[:, k, l] = triangles
    matrices[:, l, k] = triangles
    return matrices
