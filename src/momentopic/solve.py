"""From moments to a model: whiten, diagonalise, recover (Algorithm 1, and its spectral and power-method variants)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, NamedTuple

import numpy as np

from momentopic import recover
from momentopic._types import FloatArray
from momentopic.checkpoint import Checkpoint
from momentopic.diagonalize import Diagonalization, joint_diagonalize, random_projections, spectral, tensor_power
from momentopic.diagonalize.joint import random_directions
from momentopic.engine.blas import single_threaded_blas
from momentopic.engine.threads import sum_over_ranges
from momentopic.moments.base import AnyMoments
from momentopic.moments.dica import DICAMoments
from momentopic.moments.groups import GroupMoments, group_moments
from momentopic.moments.vocabulary import vocabulary_projections
from momentopic.moments.whiten import Whitening, whiten
from momentopic.progress import Steps

_RESIDUAL = 1e-6
_ROUGH_RESIDUAL, _ROUGH_GAIN = 0.2, 0.03
# A rough solution diagonalises so many random projections of the tensor instead of it, where there are so many topics
# that these take less time.
_ROUGH_PROJECTIONS, _MANY_TOPICS, _ROUGH_SHARE = 32, 64, 0.99
_LARGEST_SKEW = 1000.0


@dataclass(frozen=True, eq=False)
class Solution:
    """The model that matches the moments; topics in the order of descending concentration.

    Attributes
    ----------
    D : array of shape (M, K)
        Topics are columns.
    concentration : array of shape (K,)
    rate : float or None
        None for LDA moments.
    intensity : IntensityMoments or None
        None for LDA moments, and where a rough solution does without the tensor.
    whitening : Whitening
    diagonalization : Diagonalization
    Z : array of shape (K, K)
        The rotation with its rows in the order of the topics, and with their signs.
    groups : GroupMoments or None
        If they were asked for.
    """

    D: FloatArray
    concentration: FloatArray
    rate: float | None
    intensity: recover.IntensityMoments | None
    whitening: Whitening
    diagonalization: Diagonalization
    Z: FloatArray
    groups: GroupMoments | None = None

    def without_words(self) -> Solution:
        """Return this solution without its arrays over words, which take much memory where there are many."""
        return replace(self, D=self.D[:0].copy(), whitening=self.whitening.without_words())


class _Diagonalized(NamedTuple):
    result: Diagonalization
    skew: FloatArray | None  # t̃_k of the rows of V as they are; None without the tensor
    groups: GroupMoments | None = None


def solve(
    moments: AnyMoments,
    K: int,
    *,
    algorithm: Literal["jd", "spectral", "tpm"] = "jd",
    projections: Literal["basis", "random", "vocabulary"] = "basis",
    n_projections: int | None = None,
    rough: bool = False,
    n_groups: int | None = None,
    random_state: int = 0,
    steps: Steps | None = None,
    checkpoint: Checkpoint | None = None,
) -> Solution:
    """Find the topics, their prior and the document-length rate that match the moments.

    Parameters
    ----------
    moments : DICAMoments, LDAMoments or PopulationMoments
    K : int
        The number of topics.
    algorithm, projections, n_projections
        As in `DiscreteICA`.
    rough : bool
        Stop early where a refinement follows, which makes up for it: in the eigensolver when residuals are below 20 %,
        in the joint diagonalisation when a sweep gains less than 3 %; and where topics are many, diagonalise
        some random projections of the tensor (option (a) of Algorithm 1) without making it.
    n_groups : int, optional
        Keep the moments of so many groups of documents (`momentopic.moments.groups`), from the pass that makes the
        tensor: for DICA moments of a corpus and joint diagonalisation on the canonical basis.
    random_state : int
    steps : Steps, optional
        Times the steps and shows their progress.
    checkpoint : Checkpoint, optional
        Where whitening and tensor are kept, and taken from if they are there.

    Returns
    -------
    Solution
    """
    steps = steps or Steps()
    with single_threaded_blas():
        return _solve(
            moments, K, algorithm, projections, n_projections, rough, n_groups, random_state, steps, checkpoint
        )


def _solve(
    moments: AnyMoments,
    K: int,
    algorithm: str,
    projections: str,
    n_projections: int | None,
    rough: bool,
    n_groups: int | None,
    random_state: int,
    steps: Steps,
    checkpoint: Checkpoint | None,
) -> Solution:
    tol, gain = (_ROUGH_RESIDUAL, _ROUGH_GAIN) if rough else (_RESIDUAL, 0.0)
    engine: Any = getattr(moments, "engine", None)
    plain = (algorithm, projections, n_groups) == ("jd", "basis", None) and isinstance(moments, DICAMoments)
    if plain and hasattr(engine, "solve"):
        # a device does all of it: M x K arrays would take longer to come and go than to compute
        found_there: Solution = engine.solve(moments, K, tol=tol, gain=gain, random_state=random_state, steps=steps)
        return found_there
    with steps.step("whitening"):
        whitening = _whitened(moments, K, tol, random_state, checkpoint)
    if algorithm == "spectral":
        found = _spectral(moments, whitening, random_state, steps)
    elif projections == "vocabulary":
        found = _joint_over_vocabulary(moments, whitening, steps)
    elif plain and rough and len(whitening.W) >= _MANY_TOPICS:
        found = _roughly(moments, whitening, gain, random_state, steps, checkpoint)
    else:
        groups = None
        with steps.step("tensor"):
            if n_groups is not None and isinstance(moments, DICAMoments):
                W: Any = whitening.W.astype(precise_enough(moments), copy=False)
                tensor, groups = group_moments(moments, whitening, n_groups, W=W)
            else:
                tensor = _tensor(moments, whitening, tol, checkpoint)
        with steps.step("diagonalisation"):
            if algorithm == "tpm":
                result = tensor_power(tensor, random_state=random_state)
            elif projections == "random":
                result = joint_diagonalize(
                    random_projections(tensor, n_projections or K, random_state), gain=gain, callback=steps.sweep
                )
            else:
                result = joint_diagonalize(tensor, gain=gain, callback=steps.sweep)
            found = _Diagonalized(result, _contracted(tensor, result.V), groups)
    with steps.step("recovery"):
        return _recovered(moments, whitening, found)


def precise_enough(moments: AnyMoments) -> Any:
    """Return single precision, unless a few long documents would drown the others in its rounding errors."""
    return np.float32 if getattr(moments, "length_skew", np.inf) < _LARGEST_SKEW else np.float64


def _whitened(moments: AnyMoments, K: int, tol: float, random_state: int, checkpoint: Checkpoint | None) -> Whitening:
    K = int(K)  # of numpy's integers, a checkpoint could not tell
    saved = None if checkpoint is None else checkpoint.load("whitening", K=K, tol=tol)
    if saved is not None:
        return Whitening(**saved.arrays, **saved.values)
    whitening = whiten(moments, K, tol=tol, random_state=random_state)
    if checkpoint is not None:
        fields = vars(whitening)
        arrays = {name: value for name, value in fields.items() if isinstance(value, np.ndarray)}
        values = {name: value for name, value in fields.items() if name not in arrays}
        checkpoint.save("whitening", arrays, values, K=K, tol=tol)
    return whitening


def _tensor(moments: AnyMoments, whitening: Whitening, tol: float, checkpoint: Checkpoint | None) -> FloatArray:
    K = len(whitening.W)
    saved = None if checkpoint is None else checkpoint.load("tensor", K=K, tol=tol)
    if saved is not None:
        stored: FloatArray = saved.arrays["T"]
        return stored
    W: Any = whitening.W.astype(precise_enough(moments), copy=False)
    T = moments.third(W, whitening.unwhiten)
    if checkpoint is not None:
        checkpoint.save("tensor", {"T": T}, K=K, tol=tol)
    return T


def _roughly(
    moments: Any, whitening: Whitening, gain: float, random_state: int, steps: Steps, checkpoint: Checkpoint | None
) -> _Diagonalized:
    K = len(whitening.W)
    with steps.step("tensor"):
        saved = None if checkpoint is None else checkpoint.load("projections", K=K)
        if saved is not None:
            matrices = saved.arrays["B"]
        else:
            U = random_directions(_ROUGH_PROJECTIONS, K, random_state)
            W: Any = whitening.W.astype(precise_enough(moments), copy=False)
            matrices = moments.projections(W, U, whitening.unwhiten, _ROUGH_SHARE)
            if checkpoint is not None:
                checkpoint.save("projections", {"B": matrices}, K=K)
    with steps.step("diagonalisation"):
        return _Diagonalized(joint_diagonalize(matrices, gain=gain, callback=steps.sweep), None)


def solve_every(
    moments: AnyMoments, ks: Sequence[int], *, random_state: int = 0, steps: Steps | None = None
) -> list[Solution]:
    """Find the topics for every K of `ks` by joint diagonalisation, from the moments of the largest.

    The whitening matrix of K topics is the first K rows of that for the largest K, and the whitened tensor the corner
    T[:K, :K, :K]. Each K starts its own diagonalisation, from where `solve` would: on real corpora there are several
    optima, and a start from the topics of a neighbouring K could end in another one. The values of K share the threads.

    Parameters
    ----------
    moments : DICAMoments, LDAMoments or PopulationMoments
    ks : sequence of int
        The numbers of topics, in increasing order.
    random_state : int
    steps : Steps, optional

    Returns
    -------
    list of Solution
        Those of `solve(moments, K)` up to the tolerance of the eigensolver. Their whitenings share their arrays.
    """
    steps = steps or Steps()
    n_threads = getattr(moments, "n_threads", None)
    with single_threaded_blas():
        with steps.step("whitening"):
            whitening = whiten(moments, ks[-1], tol=_RESIDUAL, random_state=random_state)
        with steps.step("tensor"):
            tensor = _tensor(moments, whitening, _RESIDUAL, None)
        found: dict[int, Solution] = {}
        with steps.step("diagonalisation"):
            sum_over_ranges(_solve_corner, len(ks), 1, moments, whitening, tensor, ks, found, n_threads=n_threads)
        return [found[k] for k in ks]


def _solve_corner(
    part: slice,
    moments: AnyMoments,
    whitening: Whitening,
    tensor: FloatArray,
    ks: Sequence[int],
    found: dict[int, Solution],
) -> tuple[FloatArray]:
    """Find the topics of one K, the largest K first: then the threads end at about the same time."""
    k = ks[len(ks) - 1 - part.start]
    corner = np.ascontiguousarray(tensor[:k, :k, :k])
    result = joint_diagonalize(corner)
    found[k] = _recovered(moments, whitening.corner(k), _Diagonalized(result, _contracted(corner, result.V)))
    return (np.zeros(1),)


def _spectral(moments: AnyMoments, whitening: Whitening, random_state: int, steps: Steps) -> _Diagonalized:
    # one projection is all it needs: N K² multiplications instead of N K³ / 3
    with steps.step("tensor"):
        u = random_directions(1, len(whitening.W), random_state)
        matrix = moments.projected(whitening.W, whitening.W.T @ u[0], whitening.unwhiten)
    with steps.step("diagonalisation"):
        result = spectral(matrix)
        return _Diagonalized(result, recover.skewness(result.V, result.diagonals, u))


def _joint_over_vocabulary(moments: AnyMoments, whitening: Whitening, steps: Steps) -> _Diagonalized:
    with steps.step("tensor"):
        matrices, tensor = vocabulary_projections(moments, whitening, precise_enough(moments))
    with steps.step("diagonalisation"):
        result = joint_diagonalize(matrices, callback=steps.sweep)
        return _Diagonalized(result, _contracted(tensor, result.V))


def _contracted(tensor: FloatArray, V: FloatArray) -> FloatArray:
    """Return T(z_k, z_k, z_k) for the rows z_k of V."""
    result: FloatArray = np.einsum("abc,ka,kb,kc->k", tensor, V, V, V, optimize=True)
    return result


def _recovered(moments: AnyMoments, whitening: Whitening, found: _Diagonalized) -> Solution:
    V, skew = found.result.V, found.skew
    # the order of descending concentration, which does not depend on signs: nothing of size M x K is permuted
    order = np.argsort(-((V @ (whitening.W @ moments.mean)) ** 2), kind="stable")
    V, skew = V[order], None if skew is None else skew[order]
    directions = recover.directions(whitening, V, getattr(moments, "n_threads", None))
    c = recover.concentration(directions, moments.mean, c0=moments.c0)
    rate, intensity = None, None
    if moments.c0 is None:
        rate = recover.rate(c, moments.mean_length)
        if skew is not None:
            # a row of V and its direction may differ by a sign, and then so do their t̃
            signs = np.sign((directions.Z * V).sum(axis=1))
            intensity = recover.intensity_moments(directions, moments.mean, skew * signs)
    D = recover.topics(directions.scaled, out=directions.scaled)  # where words are many, a copy is as large as a corpus
    return Solution(D, c, rate, intensity, whitening, found.result, directions.Z, found.groups)
