"""Where topics lie on the map: near each other if they use the same words."""

from __future__ import annotations

import numpy as np

from momentopic._types import FloatArray

_ROUNDS = 200  # of moving circles apart


def topic_distances(components: FloatArray) -> FloatArray:
    """Return the Jensen-Shannon distances of topics, (K, K), in [0, 1].

    Parameters
    ----------
    components : array of shape (K, M)
        Topics are rows that sum to 1.
    """
    K = len(components)
    distances = np.zeros((K, K))
    entropy = -_xlogx(components).sum(axis=1)
    for k in range(K):
        middle = -_xlogx((components[k] + components[k + 1 :]) / 2).sum(axis=1)
        divergence = middle - (entropy[k] + entropy[k + 1 :]) / 2
        distances[k, k + 1 :] = np.sqrt(np.clip(divergence / np.log(2), 0.0, 1.0))
    return distances + distances.T


def map_positions(distances: FloatArray, shares: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Place topics in the unit square: classical scaling of their distances, then circles are moved apart.

    Parameters
    ----------
    distances : array of shape (K, K)
    shares : array of shape (K,)
        Areas are proportional to these.

    Returns
    -------
    positions : array of shape (K, 2)
    radii : array of shape (K,)
    """
    K = len(distances)
    radii = np.sqrt(np.maximum(shares, 1e-4) / shares.sum()) * 0.25
    centred = distances**2
    centred = centred - centred.mean(axis=0) - centred.mean(axis=1)[:, None] + centred.mean()
    values, vectors = np.linalg.eigh(-centred / 2)
    n = min(2, K)
    axes = vectors[:, ::-1][:, :n]
    # the sign of an eigenvector is arbitrary: make its entry of largest magnitude positive
    axes = axes * np.sign(axes[abs(axes).argmax(axis=0), np.arange(n)])
    positions = np.zeros((K, 2))
    positions[:, :n] = axes * np.sqrt(np.maximum(values[::-1][:n], 0.0))
    positions = _fitted(positions, radii)
    for _ in range(_ROUNDS):
        gap = positions[:, None] - positions[None]
        length = np.sqrt((gap**2).sum(axis=2)) + np.eye(K)
        overlap = np.maximum(0.9 * (radii[:, None] + radii) - length, 0.0)
        np.fill_diagonal(overlap, 0.0)
        if overlap.max(initial=0.0) < 1e-3:
            break
        # circles in the same place part in a direction of their own
        angle = np.arange(K) * 2.4
        gap = np.where(length[..., None] > 1e-9, gap, np.stack([np.cos(angle), np.sin(angle)], axis=1)[:, None])
        length = np.maximum(length, 1e-9)
        positions = positions + 0.25 * (overlap[..., None] * gap / length[..., None]).sum(axis=1)
        positions = np.clip(positions, radii[:, None], 1 - radii[:, None])
    return positions, radii


def _fitted(positions: FloatArray, radii: FloatArray) -> FloatArray:
    """Scale each axis so that the circles fill the unit square."""
    low, high = positions.min(axis=0), positions.max(axis=0)
    span = np.where(high - low > 1e-9, high - low, 1.0)
    inside = np.where(high - low > 1e-9, (positions - low) / span, 0.5)
    margin: float = float(radii.max())
    fitted: FloatArray = margin + inside * (1 - 2 * margin)
    return fitted


def _xlogx(p: FloatArray) -> FloatArray:
    out: FloatArray = np.zeros_like(p)
    np.log(p, out=out, where=p > 0)
    return out * p
