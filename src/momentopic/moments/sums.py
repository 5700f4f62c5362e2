"""The sums over documents that the moments are made of: one function a sum, each of one block.

`order` says how a document is weighted: 0 weighs every document 1 (the DICA cumulants), 1, 2 and 3 weigh it by
[δ_order]_n, one over the number of ordered tuples of `order` tokens in it (the LDA moments, appendix "Asymptotically
unbiased finite sample estimators for the LDA moments"). With order > 0, documents of fewer than 3 tokens weigh 0.
"""

from __future__ import annotations

import numpy as np

from momentopic import kernels
from momentopic._types import FloatArray
from momentopic.corpus.blocks import Block

# Rows of the projected documents to a matrix product: K of these rows stay in the second-level cache.
_ROWS = 1024


def document_weights(block: Block, order: int) -> FloatArray:
    """Return the weight of each document of the block: 1 for order 0, else [δ_order]_n."""
    if order == 0:
        return np.ones(block.n_docs)
    L = block.lengths()
    tuples = np.ones(block.n_docs)
    for taken in range(order):
        tuples *= L - taken
    weights = np.zeros(block.n_docs)
    np.divide(1.0, tuples, out=weights, where=L >= 3)
    return weights


def word_totals(block: Block, orders: tuple[int, ...]) -> tuple[FloatArray, ...]:
    """Return X' w for the weights of each order, each of shape (M,), then (documents that weigh, their tokens)."""
    repeats = np.diff(block.indptr)
    totals = []
    for order in orders:
        weights = block.counts * np.repeat(document_weights(block, order), repeats)
        totals.append(np.bincount(block.indices, weights=weights, minlength=block.n_words).astype(np.float64))
    L = block.lengths()
    used = L >= 3 if max(orders) else np.ones(block.n_docs, dtype=bool)
    return *totals, np.array([used.sum(), L[used].sum(), (L == 0).sum()], dtype=np.float64)


def second_product(block: Block, V: FloatArray, center: FloatArray, order: int) -> tuple[FloatArray]:
    """Return the sum of w_n x_n (x_n' V - center), of shape (M, r)."""
    out = np.zeros_like(V)
    kernels.sparse.second_product(
        block.indptr, block.indices, block.counts, document_weights(block, order), V, center, out
    )
    return (out,)


def projected_documents(block: Block, V: FloatArray, center: FloatArray) -> FloatArray:
    """Return X V - center, of shape (n, r)."""
    Y = np.empty((block.n_docs, V.shape[1]))
    kernels.sparse.project(block.indptr, block.indices, block.counts, V, Y)
    Y -= center
    return Y


def third_tensor(block: Block, V: FloatArray, center: FloatArray, order: int) -> tuple[FloatArray]:
    """Return the sum of w_n y_n ⊗ y_n ⊗ y_n with y_n = V' x_n - center, of shape (K, K, K).

    Only the entries with i <= j, k are summed (N K³ / 3 multiplications, all in matrix products); the rest is zero
    and is filled in by `symmetrise_tensor` once, after the sum over blocks.
    """
    K = V.shape[1]
    Y = projected_documents(block, V, center)
    weights = document_weights(block, order)
    T = np.zeros((K, K, K))
    for first in range(0, block.n_docs, _ROWS):
        rows = np.ascontiguousarray(Y[first : first + _ROWS].T)
        weighted = rows * weights[first : first + _ROWS]
        for i in range(K):
            T[i, i:, i:] += (weighted[i:] * rows[i]) @ rows[i:].T
    return (T,)


def symmetrise_tensor(T: FloatArray) -> FloatArray:
    """Fill in the entries of a symmetric tensor of which only T[i, j, k] with i <= j, k is there."""
    K = len(T)
    full = np.empty_like(T)
    for i in range(K):
        full[i, i:, i:] = T[i, i:, i:]
        full[i:, i, i:] = T[i, i:, i:]
        full[i:, i:, i] = T[i, i:, i:]
    return full


def third_projection(
    block: Block, V: FloatArray, center: FloatArray, v: FloatArray, v_center: float, order: int
) -> tuple[FloatArray]:
    """Return the sum of w_n (v' x_n - v_center) y_n y_n' with y_n = V' x_n - center, of shape (K, K)."""
    K = V.shape[1]
    Y = projected_documents(block, np.column_stack([V, v]), np.append(center, v_center))
    return ((Y[:, :K] * (Y[:, K:] * document_weights(block, order)[:, None])).T @ Y[:, :K],)


def third_words(
    block: Block,
    V: FloatArray,
    center: FloatArray,
    order: int,
    scales: tuple[float, float],
    words: tuple[int, int],
) -> tuple[FloatArray]:
    """Return Σ_n w_n x_nm (a y_n y_n' - b Σ_i x_ni V_i V_i') for a range of words m, (a, b) being the scales.

    Returns
    -------
    array of shape (words, K (K + 1) / 2)
        The upper triangles of the K x K matrices, in the order of `numpy.triu_indices`.
    """
    K = V.shape[1]
    out = np.zeros((words[1] - words[0], K * (K + 1) // 2))
    kernels.sparse.third_words(
        block.indptr,
        block.indices,
        block.counts,
        document_weights(block, order),
        V,
        projected_documents(block, V, center),
        scales[0],
        scales[1],
        words[0],
        words[1],
        out,
    )
    return (out,)
