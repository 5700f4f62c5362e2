"""The spectral algorithm (section 4): the eigenvectors of a single projection of the tensor."""

from __future__ import annotations

import numpy as np
import scipy.linalg

from momentopic._types import FloatArray
from momentopic.diagonalize.joint import random_projections
from momentopic.diagonalize.result import Diagonalization, diagonalized, symmetric_matrices
from momentopic.engine.blas import single_threaded_blas


def spectral(tensor: FloatArray, *, random_state: int = 0) -> Diagonalization:
    """Diagonalise one random projection T(u) of the whitened tensor, or a projection that is given.

    The cheapest of the algorithms and the least stable: topics whose eigenvalues t_k <z_k, u> happen to be close are
    not told apart, and which ones depends on the draw of u.

    Parameters
    ----------
    tensor : array of shape (K, K, K) or (K, K)
        The whitened tensor, or W T(v) W' for a v of your choice.
    random_state : int
        Seeds u, uniform on the unit sphere; not used for a (K, K) matrix.

    Returns
    -------
    Diagonalization
    """
    tensor = np.asarray(tensor, dtype=np.float64)
    if tensor.ndim == 2:
        matrices = symmetric_matrices(tensor[None])
    else:
        matrices = random_projections(symmetric_matrices(tensor), 1, random_state)
    with single_threaded_blas():
        _, vectors = scipy.linalg.eigh(matrices[0])
        return diagonalized(np.ascontiguousarray(vectors.T), matrices, 1, True)
