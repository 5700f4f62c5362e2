"""From the DICA cumulants to a model: `momentopic.solve` with M x K arrays that stay on the device."""

from __future__ import annotations

from functools import cached_property
from typing import Any

import cupy as cp
import numpy as np

from momentopic import recover
from momentopic._types import FloatArray
from momentopic.cuda import products
from momentopic.cuda.device import DeviceCorpus
from momentopic.cuda.eigen import largest_eigenpairs
from momentopic.diagonalize import joint_diagonalize
from momentopic.moments.dica import DICAMoments
from momentopic.moments.eigen import Eigenpairs
from momentopic.moments.whiten import Whitening, check_pairs
from momentopic.progress import Steps
from momentopic.solve import Solution, precise_enough

_GOOD_ENOUGH = 1e-5  # as in moments.whiten: residuals that products in single precision may leave
_PROBES = 8


class DeviceWhitening(Whitening):
    """A whitening whose M x K arrays are fetched from the device when somebody asks for them."""

    def __init__(self, pairs: Eigenpairs) -> None:
        values = pairs.values, pairs.residuals, pairs.n_products, pairs.converged
        names = "eigenvalues", "residuals", "n_products", "converged"
        vars(self).update(zip(names, values, strict=True), _vectors=pairs.vectors)

    def _scaled(self, power: float) -> Any:
        return vars(self)["_vectors"] * cp.asarray(self.eigenvalues**power)

    @cached_property
    def W(self) -> FloatArray:
        """Σ^{-1/2} U'."""
        return self._scaled(-0.5).T.get(order="C")  # type: ignore[no-any-return]

    @cached_property
    def unwhiten(self) -> FloatArray:
        """U Σ^{1/2}."""
        return self._scaled(0.5).get(order="C")  # type: ignore[no-any-return]


def solve(
    moments: DICAMoments, corpus: DeviceCorpus, K: int, *, tol: float, gain: float, random_state: int, steps: Steps
) -> Solution:
    """Return the solution of joint diagonalisation on the canonical basis, as `momentopic.solve.solve`.

    Parameters
    ----------
    moments : DICAMoments
    corpus : DeviceCorpus
        Its documents.
    K : int
    tol, gain : float
        Where the eigensolver and the joint diagonalisation stop.
    random_state : int
    steps : Steps
    """
    mean = cp.asarray(moments.mean)
    with steps.step("whitening"):
        pairs = _eigenpairs(moments, corpus, mean, K, tol, random_state)
        check_pairs(pairs, K, tol)
        U = pairs.vectors
        U *= cp.where(U.max(axis=0) >= -U.min(axis=0), 1.0, -1.0)
        U[mean == 0] = 0.0
    root = cp.asarray(np.sqrt(pairs.values))
    with steps.step("tensor"):
        W = cp.ascontiguousarray(U / root)  # words are rows
        projected_mean = (mean @ W).get()
        T = _third(moments, corpus, mean, W, cp.ascontiguousarray(U * root)).get()
    with steps.step("diagonalisation"):
        found = joint_diagonalize(T, gain=gain, callback=steps.sweep)
    with steps.step("recovery"):
        V = found.V[np.argsort(-((found.V @ projected_mean) ** 2), kind="stable")]
        scaled = cp.asarray(V) @ (U * root).T  # K x M: topics are rows, as they are kept
        signs = cp.where((scaled * abs(scaled)).sum(axis=1) >= 0, 1.0, -1.0)
        scaled *= signs[:, None]
        Z = V * signs.get()[:, None]
        unmixed = Z @ projected_mean
        c = np.maximum(unmixed**2, np.finfo(np.float64).tiny)
        deviation = scaled.sum(axis=1).get()
        skew = np.einsum("abc,ka,kb,kc->k", T, Z, Z, Z, optimize=True)
        intensity = recover.IntensityMoments(deviation * unmixed, deviation**2, skew * deviation**3)
        cp.maximum(scaled, 0, out=scaled)
        scaled /= scaled.sum(axis=1, keepdims=True)
        topics = scaled.get(order="C")
    return Solution(topics.T, c, recover.rate(c, moments.mean_length), intensity, DeviceWhitening(pairs), found, Z)


def _second(moments: DICAMoments, corpus: DeviceCorpus, mean: Any, V: Any) -> Any:
    """Return S V, as `DICAMoments.second`."""
    wide = products.padded(V, V.dtype)
    product = products.second_product(corpus, wide, (mean.astype(V.dtype) @ wide), 0)[:, : V.shape[1]]
    product /= moments.n_docs - 1
    product -= mean[:, None] * V
    return product


def _eigenpairs(
    moments: DICAMoments, corpus: DeviceCorpus, mean: Any, K: int, tol: float, random_state: int
) -> Eigenpairs:
    def found(dtype: Any) -> Eigenpairs:
        return largest_eigenpairs(
            lambda V: _second(moments, corpus, mean, V.astype(dtype)),
            len(mean),
            K,
            tol=tol,
            max_products=20_000,
            random_state=random_state,
        )

    pairs = found(np.float32)
    if not pairs.converged:
        return pairs
    if pairs.values[-1] > 0:
        signs = np.random.default_rng(random_state).choice([-1.0, 1.0], size=(K, _PROBES))
        probes = pairs.vectors @ cp.asarray(signs / pairs.values[:, None])
        left = _second(moments, corpus, mean, probes) - pairs.vectors @ cp.asarray(signs)
        if float(cp.sqrt((left**2).sum() / signs.size)) <= max(tol, _GOOD_ENOUGH):
            return pairs
    return found(np.float64)


def _third(moments: DICAMoments, corpus: DeviceCorpus, mean: Any, W: Any, second: Any) -> Any:
    """Return T(W', W', W'), as `DICAMoments.third`."""
    K = W.shape[1]
    wide = products.padded(W, precise_enough(moments))
    center = cp.zeros(wide.shape[1], dtype=wide.dtype)
    center[:K] = mean @ W
    T = products.third_tensor(corpus, wide, center, K)
    N = moments.n_docs
    return N / ((N - 1) * (N - 2)) * T - products.word_sum(W, second + (mean / 3)[:, None] * W)
