"""From the orthogonal matrix back to the model (appendix "Estimation of the model parameters").

With A = V W, the columns of its pseudo-inverse are d̃_k = √s_k d_k up to sign. Everything else follows from there.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np

from momentopic._types import FloatArray
from momentopic.engine.threads import sum_over_ranges
from momentopic.moments.whiten import Whitening

_WORDS = 1024  # at a time, each part on a thread

ConcentrationMethod = Literal["mean-variance", "skewness", "projections-mean", "projections-median"]


@dataclass(frozen=True, eq=False)
class Directions:
    """The rescaled topics, with their signs made right.

    Attributes
    ----------
    Z : array of shape (K, K)
        V with the sign of each row chosen: the z_k of equation (orthT).
    scaled : array of shape (M, K)
        The columns d̃_k = √s_k d_k, before truncation: they may have negative entries.
    W : array of shape (K, M)
        The whitening matrix: A = Z W, A d̃_k = e_k.
    """

    Z: FloatArray
    scaled: FloatArray
    W: FloatArray

    def unmixed(self, mean: FloatArray) -> FloatArray:
        """Return A mean."""
        return self.Z @ (self.W @ mean)


@dataclass(frozen=True, eq=False)
class IntensityMoments:
    """Mean, variance and third cumulant of each topic's intensity α_k, whatever its distribution.

    Each is an array of shape (K,). Noise can leave the mean or the third cumulant of a weak topic negative.
    """

    mean: FloatArray
    variance: FloatArray
    third_cumulant: FloatArray


def directions(whitening: Whitening, V: FloatArray, n_threads: int | None = None) -> Directions:
    """Return the columns of pinv(V W), each with the sign under which its positive part has the larger squared mass.

    The paper counts entries instead; on sparse topics, where most entries are noise around zero, that is ruinous.

    Parameters
    ----------
    whitening : Whitening
    V : array of shape (K, K)
        Orthogonal.
    n_threads : int, optional
        By default, the cores this process may use.
    """
    scaled = np.empty(whitening.unwhiten.shape, order="F")  # topics are asked for by rows later
    (excess,) = sum_over_ranges(_rotated, len(scaled), _WORDS, whitening.unwhiten, V, scaled, n_threads=n_threads)
    signs = np.where(excess >= 0, 1.0, -1.0)
    Z = V * signs[:, None]
    scaled *= signs
    return Directions(Z, scaled, whitening.W)


def _rotated(words: slice, unwhiten: FloatArray, V: FloatArray, out: FloatArray) -> tuple[FloatArray]:
    """Write unwhiten @ V' into `out`; return by how much its positive entries outweigh the others, squared."""
    part = np.matmul(V, unwhiten[words].T, out=out.T[:, words]).T
    return ((part * abs(part)).sum(axis=0),)


def topics(scaled: FloatArray, out: FloatArray | None = None) -> FloatArray:
    """Return D: the columns truncated at zero and normalised to sum to 1, of shape (M, K); `out` may be `scaled`."""
    D: FloatArray = np.maximum(scaled, 0, out=out)
    D /= D.sum(axis=0)
    return D


def skewness(Z: FloatArray, diagonals: FloatArray, u: FloatArray) -> FloatArray:
    """Estimate t̃_k = t_k / s_k^{3/2} from the diagonals: [a_p]_k = t̃_k <z_k, u_p>, equation (ap_tk), least squares.

    Over a whole basis of vectors u_p this is the contraction T(z_k, z_k, z_k).

    Parameters
    ----------
    Z : array of shape (K, K)
        Signed directions.
    diagonals : array of shape (P, K)
    u : array of shape (P, K)
    """
    inner = u @ Z.T
    result: FloatArray = (diagonals * inner).sum(axis=0) / (inner**2).sum(axis=0)
    return result


def intensity_moments(found: Directions, mean: FloatArray, skew: FloatArray) -> IntensityMoments:
    """Return the first three cumulants of the intensities of the DICA model.

    Topics sum to 1, so √s_k is the sum of d̃_k; E x = D E α gives E α_k = √s_k (A E x)_k; and t_k = t̃_k s_k^{3/2}.

    Parameters
    ----------
    found : Directions
    mean : array of shape (M,)
        The mean counts.
    skew : array of shape (K,)
        t̃_k.
    """
    deviation = found.scaled.sum(axis=0)
    return IntensityMoments(deviation * found.unmixed(mean), deviation**2, skew * deviation**3)


def concentration(
    found: Directions,
    mean: FloatArray,
    *,
    c0: float | None = None,
    method: ConcentrationMethod = "mean-variance",
    skew: FloatArray | None = None,
    diagonals: FloatArray | None = None,
    v: FloatArray | None = None,
) -> FloatArray:
    """Estimate c, the gamma shapes of the GP model or the Dirichlet parameters of LDA.

    Parameters
    ----------
    found : Directions
    mean : array of shape (M,)
        Mean counts (DICA) or M1 (LDA).
    c0 : float, optional
        The c0 of the LDA moments; None means DICA.
    method : {"mean-variance", "skewness", "projections-mean", "projections-median"}
        "mean-variance", the default and the most accurate, uses the first two orders only: the shape of a gamma is
        mean² / variance, which is (A mean)_k². "skewness" is 4 / t̃_k². The others are equation (ck_estimate) of the
        paper and its median, which divide by the diagonal of every projection, however close to zero.
    skew : array of shape (K,), for "skewness"
        t̃_k.
    diagonals : array of shape (P, K), for the projections
        The a_p of the joint diagonalisation.
    v : array of shape (P, M), for the projections
        v_p = W' u_p, or e_m.

    Returns
    -------
    array of shape (K,)
        Positive.
    """
    if method == "mean-variance":
        c = found.unmixed(mean) ** 2
        if c0 is not None:
            c *= c0 / (c0 + 1)
    else:
        if method == "skewness":
            if skew is None:
                raise ValueError("method 'skewness' needs skew")
            c = 4 / skew**2
        else:
            if diagonals is None or v is None:
                raise ValueError(f"method {method!r} needs the diagonals and the vectors v of the projections")
            estimates = 4 * (v @ np.maximum(found.scaled, 0)) ** 2 / diagonals**2
            c = np.median(estimates, axis=0) if method == "projections-median" else estimates.mean(axis=0)
        if c0 is not None:
            c = c * c0 * (c0 + 1) / (c0 + 2) ** 2
    return np.maximum(c, np.finfo(np.float64).tiny)


def rate(c: FloatArray, mean_length: float) -> float:
    """Return b = c0 / L, equation (b_estimate): the rate of the gamma intensities of the GP model."""
    return float(c.sum() / mean_length)
