"""Sums over the documents of a corpus on the device: sparse products in both directions, and third-order sums."""

from __future__ import annotations

import itertools
from typing import Any

import cupy as cp
import numpy as np

from momentopic.cuda.device import Chunk, DeviceCorpus, kernel

_THREADS = 256
_C_NAMES = {"float32": "float", "float64": "double"}
_VECTOR_BYTES = 16
_PAIR_BYTES = 1 << 28  # of products of pairs at a time
_GROUPS = 4  # of topics: for a pair a <= b only c >= b is wanted


def padded(V: Any, dtype: Any) -> Any:
    """Return V (M x r) on the device, with columns of zeros added until rows are whole vectors."""
    multiple = _VECTOR_BYTES // np.dtype(dtype).itemsize
    width = -(-V.shape[1] // multiple) * multiple
    out = cp.zeros((V.shape[0], width), dtype=dtype)
    out[:, : V.shape[1]] = cp.asarray(V)
    return out


def _project(rows: tuple[Any, Any, Any], weights: Any, V: Any, center: Any, n_rows: int) -> Any:
    """Return w (X V - center) for rows of a sparse matrix, V being padded."""
    indptr, indices, counts = rows
    vector = _VECTOR_BYTES // V.itemsize
    name = f"project<{_C_NAMES[V.dtype.name]}, {vector}, {_C_NAMES[counts.dtype.name]}>"
    width = V.shape[1]
    Y = cp.empty((n_rows, width), dtype=V.dtype)
    shape = (width // vector, max(1, _THREADS // (width // vector)))
    nothing = np.intp(0)
    kernel(name)(
        (-(-n_rows // shape[1]),),
        shape,
        (
            indptr,
            indices,
            counts,
            nothing if weights is None else weights,
            V,
            nothing if center is None else center,
            Y,
            np.int64(n_rows),
            np.int32(width),
        ),
    )
    return Y


def document_weights(chunk: Chunk, order: int, dtype: Any) -> Any:
    """Return the weight of each document, as `moments.sums.document_weights`; None if all weigh 1."""
    if order == 0:
        return None
    L = lengths(chunk)
    tuples = cp.ones(chunk.n_docs)
    for taken in range(order):
        tuples *= L - taken
    return cp.where(L >= 3, 1 / cp.where(L >= 3, tuples, 1), 0).astype(dtype)


def lengths(chunk: Chunk) -> Any:
    """Return the number of tokens of each document."""
    ones = padded(cp.ones((chunk.n_words, 1)), np.float64)
    return _project((chunk.indptr, chunk.indices, chunk.counts), None, ones, None, chunk.n_docs)[:, 0]


def projected(chunk: Chunk, V: Any, center: Any, weights: Any = None) -> Any:
    """Return w (X V - center) of shape (documents, columns of V), in the precision of a padded V."""
    return _project((chunk.indptr, chunk.indices, chunk.counts), weights, V, center, chunk.n_docs)


def add_words(out: Any, chunk: Chunk, Y: Any) -> None:
    """Add X' Y to `out`, of shape (M, columns of Y), in double precision."""
    begins, documents, counts, first_part = chunk.transposed
    parts = _project((begins, documents, counts), None, Y, None, len(begins) - 1)
    kernel(f"combine<{_C_NAMES[Y.dtype.name]}>")(
        (-(-out.size // _THREADS),), (_THREADS,), (first_part, parts, out, np.int64(out.shape[0]), np.int32(Y.shape[1]))
    )


def second_product(corpus: DeviceCorpus, V: Any, center: Any, order: int = 0) -> Any:
    """Return Σ w_n x_n (x_n' V - center), in double, for a padded V."""
    out = cp.zeros(V.shape)
    for chunk in corpus.chunks():
        weights = document_weights(chunk, order, V.dtype)
        add_words(out, chunk, projected(chunk, V, center, weights))
    return out


def word_totals(corpus: DeviceCorpus, orders: tuple[int, ...]) -> tuple[Any, Any]:
    """Return what `moments.sums.word_totals` returns, summed: X' w for each order, and four sums over documents."""
    totals = cp.zeros((corpus.shape[1], 4))  # as wide as rows of whole vectors for up to four orders
    some = cp.zeros(4)
    for chunk in corpus.chunks():
        L = lengths(chunk)
        weights = cp.zeros((chunk.n_docs, 4))
        for column, order in enumerate(orders):
            found = document_weights(chunk, order, np.float64)
            weights[:, column] = 1 if found is None else found
        add_words(totals, chunk, weights)
        used = L[L >= 3] if max(orders) else L
        some += cp.stack([cp.asarray(float(len(used))), used.sum(), (used**3).sum(), (L == 0).sum().astype(float)])
    return totals[:, : len(orders)].T, some


class Triples:
    """Sums of y_a y_b z_c over rows, for a <= b.

    Parameters
    ----------
    K : int
    symmetric : bool
        Whether z is y: then only c >= b is wanted, and a third of the work is needed.
    """

    def __init__(self, K: int, symmetric: bool) -> None:
        self.K = K
        edges = np.linspace(0, K, (_GROUPS if symmetric and K >= 4 * _GROUPS else 1) + 1).astype(int)
        self._groups = []
        for low, high in itertools.pairwise(edges):
            b = np.repeat(np.arange(low, high), np.arange(low, high) + 1)
            a = np.concatenate([np.arange(j + 1) for j in range(low, high)])
            c = low if symmetric else 0
            sums = cp.zeros((len(a), K - c))
            self._groups.append((cp.asarray(a, dtype=cp.int32), cp.asarray(b, dtype=cp.int32), c, sums))

    def add(self, Y: Any, Z: Any, weights: Any = None) -> None:
        """Add the sums over some rows, of which the first K columns count."""
        largest = max(len(a) for a, *_ in self._groups)
        size = max(1, _PAIR_BYTES // (largest * Y.itemsize))
        name = f"pairs<{_C_NAMES[Y.dtype.name]}>"
        for first in range(0, len(Y), size):
            y, z = Y[first : first + size], Z[first : first + size]
            n = len(y)
            w = np.intp(0) if weights is None else weights[first : first + size]
            for a, b, c, sums in self._groups:
                P = cp.empty((n, len(a)), dtype=Y.dtype)
                kernel(name)(
                    (-(-len(a) // _THREADS), min(n, 4096)),
                    (_THREADS,),
                    (y, w, a, b, P, np.int32(n), np.int32(len(a)), np.int32(Y.shape[1])),
                )
                cp.add(sums, P.T @ cp.ascontiguousarray(z[:, c : self.K]), out=sums)

    def full(self) -> Any:
        """Return the sums as a (K, K, K) array in which the first two indices are exchangeable, for c as added."""
        T = cp.zeros((self.K, self.K, self.K))
        for a, b, c, sums in self._groups:
            T[a, b, c:] = sums
            T[b, a, c:] = sums
        return T


def third_tensor(corpus: DeviceCorpus, V: Any, center: Any, K: int, order: int = 0) -> Any:
    """Return Σ w_n y_n ⊗ y_n ⊗ y_n with y_n = V' x_n - center, of shape (K, K, K), of a padded V."""
    triples = Triples(K, symmetric=True)
    for chunk in corpus.chunks():
        Y = projected(chunk, V, center)
        triples.add(Y, Y, document_weights(chunk, order, V.dtype))
    return _symmetric(triples.full())


def _symmetric(T: Any) -> Any:
    """Return a symmetric array of one that has its entries for a <= b <= c."""
    K = len(T)
    a, b, c = cp.ogrid[:K, :K, :K]
    low, high = cp.minimum(cp.minimum(a, b), c), cp.maximum(cp.maximum(a, b), c)
    return T[low, a + b + c - low - high, high]


def word_sum(W: Any, F: Any) -> Any:
    """Return A_ijk + A_ikj + A_jki with A_ijk = Σ_m W_im W_jm F_mk, as `moments.base.word_sum`.

    Parameters
    ----------
    W : array of shape (M, K)
        Here words are rows.
    F : array of shape (M, K)
    """
    triples = Triples(W.shape[1], symmetric=False)
    triples.add(W, F)
    A = triples.full()
    return A + A.transpose(0, 2, 1) + A.transpose(2, 0, 1)
