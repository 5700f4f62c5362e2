"""Moments on a larger subspace, when the documents of the smaller one have gone.

The sums of those documents along a new direction u are not known, but S Q is, in all of its M rows, and with it u' S Q.
Let β solve (Q' S Q) β = Q' S u. Then u - Q β is a direction that S does not connect with the subspace. If every topic
of those documents shows in the subspace (Q' D has the rank of D), that means that no topic has a part along u - Q β:
their second and third cumulants vanish there, and u may be replaced by Q β wherever a sum is missing:

    S u = S Q β,    T(u, ·, ·) = T(Q β, ·, ·).

So old documents are completed by what their own S says of the new direction, which is exact but for noise; documents to
come bring what they have. A topic that old documents had and the subspace did not show stays unknown for them: it is
why documents are searched before they go.
"""

from __future__ import annotations

import numpy as np

from momentopic._types import FloatArray
from momentopic.engine.blas import single_threaded_blas
from momentopic.moments.base import outer_terms, word_sum
from momentopic.moments.sketched import SketchedMoments
from momentopic.moments.triples import packed, unpacked

_ZERO = 1e-10  # of the largest eigenvalue of S on the subspace: below it nothing is divided by


def enlarged(moments: SketchedMoments, directions: FloatArray, K: int) -> SketchedMoments:
    """Return the moments of the same documents on a larger subspace; what is not known of them is completed.

    Parameters
    ----------
    moments : SketchedMoments
    directions : array of shape (M, p)
        What they have outside of the subspace is added to it.
    K : int
        The number of topics: β is found in the leading K directions of S, where it is more than noise.
    """
    with single_threaded_blas():
        return _enlarged(moments, directions, K)


def _enlarged(moments: SketchedMoments, directions: FloatArray, K: int) -> SketchedMoments:
    basis = moments.basis.enlarged(directions, moments.mean)
    larger = moments.empty(basis)
    N, Q, mean, r = moments.n_docs, basis.vectors, moments.mean, moments.basis.rank
    old, new = Q[:, :r], Q[:, r:]

    image = moments.second_of_basis()
    H = old.T @ image
    values, U = np.linalg.eigh((H + H.T) / 2)
    values, U = values[::-1][:K], U[:, ::-1][:, :K]
    U = U[:, values > _ZERO * values[0]]
    values = values[values > _ZERO * values[0]]
    known = image.T @ new  # Q' S u
    beta = U @ ((U.T @ known) / values[:, None])
    completed = image @ beta
    completed += old @ (known - old.T @ completed)  # what is known of S u stays as it is
    second = np.hstack([image, completed])

    # back to the sums that would have given this
    shift = np.append(moments.shift(), np.zeros(new.shape[1]))
    products = (N - 1) * (second + mean[:, None] * Q) + np.outer(N * mean, shift)
    products[:, :r] = moments._products
    pairs = Q.T @ products - np.outer(basis.center, N * shift)
    pairs = np.tril(pairs) + np.tril(pairs, -1).T
    pairs[:r, :r] = moments._pairs

    # the entries of T that are new: T(B', B', B') with B = (I, β)'
    tensor = moments.third(np.ascontiguousarray(old.T), image)
    B = np.hstack([np.eye(r), beta])
    for _ in range(3):
        tensor = np.ascontiguousarray(np.moveaxis(tensor @ B, -1, 0))
    tensor += word_sum(np.ascontiguousarray(Q.T), second, moments.n_threads, diagonal=mean / 3)
    tensor *= (N - 1) * (N - 2) / N
    tensor += outer_terms(shift, pairs) - 2 * N * shift[:, None, None] * shift[:, None] * shift
    tensor[:r, :r, :r] = unpacked(moments._third, r)

    larger._numbers = moments._numbers.copy()
    larger._totals = moments._totals.copy()
    larger._products, larger._pairs, larger._third = products, pairs, packed(tensor)
    return larger
