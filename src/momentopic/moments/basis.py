"""The subspace that documents are projected on, for moments that outlive them."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from momentopic._types import FloatArray
from momentopic.engine.blas import single_threaded_blas
from momentopic.moments.dica import DICAMoments
from momentopic.moments.eigen import largest_eigenpairs

_RESIDUAL = 1e-2


class BasisMismatchError(ValueError):
    """Two moments were made on different subspaces, or of different words, and do not add up."""


@dataclass(frozen=True, eq=False)
class Basis:
    """The subspace that documents are projected on.

    Attributes
    ----------
    vectors : array of shape (M, r)
        Q: orthonormal columns.
    center : array of shape (r,)
        a: what is taken off Q' x before it is squared and cubed; near the mean, so that little is lost to rounding.
    """

    vectors: FloatArray
    center: FloatArray

    @property
    def n_words(self) -> int:
        """M, the size of the vocabulary."""
        return len(self.vectors)

    @property
    def rank(self) -> int:
        """The number r of directions: moments on this basis give up to r topics."""
        return int(self.vectors.shape[1])

    def enlarged(self, directions: FloatArray, mean: FloatArray) -> Basis:
        """Return a basis of these vectors and what `directions` (M x p) have outside of their span.

        Parameters
        ----------
        directions : array of shape (M, p)
        mean : array of shape (M,)
            The mean counts, for the centre of the new directions.
        """
        Q = self.vectors
        with single_threaded_blas():
            new = directions - Q @ (Q.T @ directions)
            new = np.linalg.qr(new - Q @ (Q.T @ new))[0]
            return Basis(np.ascontiguousarray(np.hstack([Q, new])), np.append(self.center, new.T @ mean))

    @cached_property
    def fingerprint(self) -> str:
        """A checksum of the bits: moments can be merged if their bases have the same."""
        digest = hashlib.sha256(repr(self.vectors.shape).encode())
        for array in (self.vectors, self.center):
            digest.update(np.ascontiguousarray(array, dtype="<f8").tobytes())
        return digest.hexdigest()


def find_basis(X: Any, rank: int, *, engine: Any = "auto", random_state: int = 0) -> Basis:
    """Return the basis of the leading eigenvectors of S of a corpus.

    Parameters
    ----------
    X : array-like, scipy sparse matrix or Corpus, shape (N, M)
        The first documents of a stream, those of one site, or public ones with the same words.
    rank : int
        How many directions; at most M are taken. Twice the number of topics is a good choice.
    engine : "auto", "threads" or an Engine
    random_state : int
        Seeds the start of the eigensolver.
    """
    if rank < 1:
        raise ValueError(f"a basis needs at least 1 direction, got rank = {rank}")
    moments = DICAMoments(X, engine)
    rank = min(rank, moments.n_words)
    pairs = largest_eigenpairs(
        moments.second, moments.n_words, rank, tol=_RESIDUAL, max_products=40 * rank + 400,
        random_state=random_state, n_threads=moments.n_threads,
    )  # fmt: skip
    vectors = pairs.vectors
    if rank < moments.n_words:  # words that do not occur have no part in S: what is there is left from the start
        vectors = vectors * (moments.mean > 0)[:, None]
    with single_threaded_blas():
        vectors = np.linalg.qr(vectors)[0]
        return Basis(vectors, vectors.T @ moments.mean)
