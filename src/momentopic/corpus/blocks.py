"""A corpus is a list of row blocks whose boundaries depend on the corpus alone.

Everything the library asks of a corpus is a sum over documents. The sums are taken block by block and added in block
order, so the boundaries below, never the number of workers, decide the order of every floating-point addition: a fit
gives the same bits on one thread, on many, and on a cluster.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp

from momentopic._types import FloatArray, IntArray
from momentopic.corpus.validate import as_counts, document_lengths

# A partial sum is a dense M x K array, so a block must hold many more nonzeros than words for the additions of the
# partial sums to cost little; and there should be enough blocks for all cores to stay busy.
_BLOCKS = 16
_LEAST_NONZEROS = 1 << 15
_NONZEROS_PER_WORD = 4


@dataclass(frozen=True, eq=False)
class Block:
    """Consecutive documents of a corpus, as the three arrays of a CSR matrix.

    Attributes
    ----------
    indptr : int64 array of shape (n_docs + 1,), starting at 0
    indices : int32 array, the words of each document in ascending order
    counts : int32 (or float64) array, the positive count of each of those words
    n_words : int
        M, the size of the vocabulary.
    first : int
        The number of the block's first document in the corpus.
    """

    indptr: IntArray
    indices: IntArray
    counts: IntArray | FloatArray
    n_words: int
    first: int = 0

    @property
    def n_docs(self) -> int:
        """The number of documents in the block."""
        return len(self.indptr) - 1

    def lengths(self) -> FloatArray:
        """Return L_n, the number of tokens of each document."""
        return document_lengths(self.matrix())

    def matrix(self) -> sp.csr_matrix:
        """Return the block as a scipy matrix that shares its arrays."""
        return sp.csr_matrix((self.counts, self.indices, self.indptr), shape=(self.n_docs, self.n_words), copy=False)


class Corpus:
    """A count matrix in memory, cut into row blocks.

    Parameters
    ----------
    X : array-like or scipy sparse matrix, shape (N, M)
        Counts, documents x words. Canonical CSR input of int32 counts is used without a copy.
    vocabulary : sequence of str, optional
        The M words. `DiscreteICA.fit` takes its feature names from here.
    empty_ok : bool
        Whether all documents may be empty: nothing can be learned from them, but they can be asked about.

    Raises
    ------
    momentopic.corpus.CountsError
        If `X` is not a matrix of counts.
    """

    def __init__(self, X: Any, vocabulary: Sequence[str] | None = None, *, empty_ok: bool = False) -> None:
        self.counts = as_counts(X, empty_ok=empty_ok)
        self.shape: tuple[int, int] = self.counts.shape
        if vocabulary is not None and len(vocabulary) != self.shape[1]:
            raise ValueError(
                f"the vocabulary has {len(vocabulary)} words but the counts have {self.shape[1]} columns: "
                "they must come from the same vectorizer or the same dataset."
            )
        self.vocabulary = None if vocabulary is None else [str(word) for word in vocabulary]
        self.boundaries = block_boundaries(self.counts.indptr, self.shape[1])

    @property
    def n_blocks(self) -> int:
        """The number of row blocks."""
        return len(self.boundaries) - 1

    def block(self, i: int) -> Block:
        """Return block number `i`, sharing the memory of the corpus."""
        first, last = int(self.boundaries[i]), int(self.boundaries[i + 1])
        indptr = self.counts.indptr[first : last + 1].astype(np.int64)
        begin, end = indptr[0], indptr[-1]
        return Block(indptr - begin, self.counts.indices[begin:end], self.counts.data[begin:end], self.shape[1], first)

    def cut(self, documents: int) -> Corpus:
        """Return the same corpus in blocks of so many documents, for work that is done document by document."""
        return self._with_boundaries(np.append(np.arange(0, self.shape[0], documents), self.shape[0]))

    def divided(self, n_blocks: int) -> Corpus:
        """Return the same corpus in so many blocks (or fewer, where one document is long) of as many nonzeros."""
        return self._with_boundaries(_equal_parts(self.counts.indptr, n_blocks))

    def _with_boundaries(self, boundaries: IntArray) -> Corpus:
        copy = object.__new__(Corpus)
        vars(copy).update(vars(self))
        copy.boundaries = boundaries.astype(np.int64)
        return copy

    def __repr__(self) -> str:
        return f"Corpus({self.shape[0]} documents x {self.shape[1]} words, {self.counts.nnz} nonzeros)"


def block_boundaries(indptr: IntArray, n_words: int) -> IntArray:
    """Cut rows into blocks of about equally many nonzeros, by a rule that depends on the corpus alone.

    Parameters
    ----------
    indptr : int array of shape (N + 1,)
        Row pointers of the CSR counts.
    n_words : int
        M.

    Returns
    -------
    int64 array
        First rows of the blocks, then N. No block is without documents.
    """
    n_docs = len(indptr) - 1
    nnz = int(indptr[-1])
    size = max(_LEAST_NONZEROS, _NONZEROS_PER_WORD * n_words, -(-nnz // _BLOCKS))
    n_blocks = max(1, min(n_docs, round(nnz / size)))
    return _equal_parts(indptr, n_blocks)


def _equal_parts(indptr: IntArray, n_parts: int) -> IntArray:
    cuts = np.searchsorted(indptr, np.arange(1, n_parts) * (int(indptr[-1]) / n_parts))
    return np.unique(np.concatenate(([0], cuts, [len(indptr) - 1]))).astype(np.int64)


def as_corpus(X: Any, *, empty_ok: bool = False) -> Corpus:
    """Return `X` itself if it is a Corpus, else a Corpus made of it."""
    return X if isinstance(X, Corpus) else Corpus(X, empty_ok=empty_ok)
