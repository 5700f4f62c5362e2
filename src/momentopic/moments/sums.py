"""The sums over documents that the moments are made of: one function a sum, each of one block.

`order` says how a document is weighted: 0 weighs every document 1 (the DICA cumulants), 1, 2 and 3 weigh it by
[δ_order]_n, one over the number of ordered tuples of `order` tokens in it (the LDA moments, appendix "Asymptotically
unbiased finite sample estimators for the LDA moments"). With order > 0, documents of fewer than 3 tokens weigh 0.
"""

from __future__ import annotations

import threading
from typing import Any

import numpy as np

from momentopic import kernels
from momentopic._types import FloatArray
from momentopic.corpus.blocks import Block
from momentopic.moments.triples import packed_size, padded_rows

_PAGE = 1 << 21
_DOCUMENTS = 2048  # to a product in `whitened_projections`: they stay in the second-level cache


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
    """Return X' w for the weights of each order, each of shape (M,), then some sums over the documents that weigh.

    These are their number, their tokens and the cubes of their lengths; and the number of empty ones.
    """
    totals = np.zeros((len(orders), block.n_words))
    for total, order in zip(totals, orders, strict=True):
        weights = document_weights(block, order)
        kernels.sparse.totals(block.indptr, block.indices, block.counts, weights, total)
    L = block.lengths()
    used = L >= 3 if max(orders) else np.ones(block.n_docs, dtype=bool)
    return *totals, np.array([used.sum(), L[used].sum(), (L[used] ** 3).sum(), (L == 0).sum()], dtype=np.float64)


def tiled(V: Any) -> Any:
    """Return V (M x r) with columns of zeros added until they fill whole register tiles; its dtype is kept."""
    tile = kernels.tiles.TILE_BYTES // V.itemsize
    padded = on_large_pages((V.shape[0], -(-V.shape[1] // tile) * tile), V.dtype)
    padded[:, : V.shape[1]] = V
    padded[:, V.shape[1] :] = 0
    return padded


def on_large_pages(shape: tuple[int, ...], dtype: Any) -> Any:
    """Return an empty array for rows that are looked up at random, on pages of 2 MB where the system has them.

    An array of a few megabytes has hundreds of ordinary pages, more than the processor remembers the places of: sparse
    products take 1.4 times as long. numpy asks for large pages for arrays from 4 MB on; they are large where aligned.
    """
    size = int(np.prod(shape)) * np.dtype(dtype).itemsize
    buffer = np.empty(max(size, 2 * _PAGE) + _PAGE, dtype=np.uint8)
    start = -buffer.ctypes.data % _PAGE
    return buffer[start : start + size].view(dtype).reshape(shape)


class _Scratch(threading.local):
    array: Any = None


_scratch = _Scratch()


def second_product(block: Block, V: Any, center: Any, order: int) -> tuple[FloatArray]:
    """Return the sum of w_n x_n (x_n' V - center), of shape (M, r), for a tiled V, in its precision."""
    # asking for large pages takes its time: each thread keeps a small array and gives away copies
    small = V.nbytes <= 2 * _PAGE
    out = _scratch.array if small else None
    if out is None or out.shape != V.shape or out.dtype != V.dtype:
        out = on_large_pages(V.shape, V.dtype)
    if small:
        _scratch.array = out
    out[:] = 0
    kernels.tiles.second_product(
        block.indptr, block.indices, block.counts, document_weights(block, order).astype(V.dtype), V, center, out
    )
    return (out.copy() if small else out,)


def projected_documents(block: Block, V: Any, center: Any) -> Any:
    """Return X V - center in the precision of a tiled V, of which as many columns count as center has."""
    Y = np.empty((block.n_docs, V.shape[1]), dtype=V.dtype)
    kernels.tiles.project(block.indptr, block.indices, block.counts, V, Y)
    return Y[:, : len(center)] - center.astype(V.dtype)


def third_tensor(block: Block, V: Any, center: FloatArray, order: int) -> tuple[FloatArray]:
    """Return the sum of w_n y_n ⊗ y_n ⊗ y_n with y_n = V' x_n - center, packed (`moments.triples`).

    In single precision if V is (M x r, of which the first K = len(center) columns count): the products, not their sum.
    """
    K = len(center)
    Y = projected_documents(block, V, center)
    rows = padded_rows(Y.T)
    weighted = rows if order == 0 else padded_rows((Y * document_weights(block, order).astype(V.dtype)[:, None]).T)
    packed = np.zeros(packed_size(K))
    kernels.triples.add_triples(packed, (weighted,), (rows,), rows, K)
    return (packed,)


def third_projection(
    block: Block, V: FloatArray, center: FloatArray, v: FloatArray, v_center: float, order: int
) -> tuple[FloatArray]:
    """Return the sum of w_n (v' x_n - v_center) y_n y_n' with y_n = V' x_n - center, of shape (K, K)."""
    K = V.shape[1]
    Y = projected_documents(block, tiled(np.column_stack([V, v])), np.append(center, v_center))
    return ((Y[:, :K] * (Y[:, K:] * document_weights(block, order)[:, None])).T @ Y[:, :K],)


def whitened_projections(block: Block, V: Any, center: FloatArray, U: FloatArray) -> tuple[FloatArray]:
    """Return Σ_n (u_p' y_n) y_n y_n' with y_n = V' x_n - center for the rows u_p of U, of shape (P, K, K).

    In the precision of a tiled V, as in `third_tensor`.
    """
    K = len(center)
    Y = np.ascontiguousarray(projected_documents(block, V, center).T)
    along = U.astype(V.dtype) @ Y
    total = np.zeros((len(U), K, K))
    scaled, product = np.empty((K, _DOCUMENTS), dtype=V.dtype), np.empty((K, K), dtype=V.dtype)
    for first in range(0, Y.shape[1], _DOCUMENTS):
        y, factors = (rows[:, first : first + _DOCUMENTS] for rows in (Y, along))
        for p, factor in enumerate(factors):
            part = np.multiply(y, factor, out=scaled[:, : len(factor)])
            total[p] += np.matmul(y, part.T, out=product)
    return (total,)


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
    k, l = np.triu_indices(V.shape[1])
    Y = projected_documents(block, tiled(V), center)
    weights = document_weights(block, order)
    shifted = block.indices - words[0]
    width = kernels.tiles.WIDE_BYTES // V.itemsize
    products, total = on_large_pages((len(V), width), V.dtype), on_large_pages((words[1] - words[0], width), V.dtype)
    documents = np.zeros((block.n_docs, width), V.dtype)
    out = np.empty((len(total), len(k)))
    for first in range(0, len(k), width):  # in tiles that stay in the cache, unlike whole rows of `out`
        pairs = slice(first, first + width)
        kernels.tiles.pair_products(V, k[pairs], l[pairs], products)
        kernels.tiles.pair_products(Y, k[pairs], l[pairs], documents)
        documents *= (scales[0] * weights[:, None]).astype(V.dtype)
        total[:] = 0
        kernels.tiles.third_words(
            block.indptr,
            block.indices,
            shifted,
            block.counts,
            (scales[1] * weights).astype(V.dtype),
            documents,
            products,
            len(total),
            total,
        )
        out[:, pairs] = total[:, : len(k[pairs])]
    return (out,)
