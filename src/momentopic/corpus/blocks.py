"""A corpus is a list of row blocks whose boundaries depend on the corpus alone.

Everything the library asks of a corpus is a sum over documents. The sums are taken block by block and added in a fixed
order, so the boundaries below, never the number of workers, decide the order of every floating-point addition: a fit
gives the same bits on one thread, on many, and on a cluster.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.sparse as sp

from momentopic._types import FloatArray, IntArray
from momentopic.corpus.records import Columns, Documents, Progress
from momentopic.corpus.validate import as_counts, document_lengths

if TYPE_CHECKING:
    from momentopic.corpus.text import TextSettings

# A partial sum is a dense M x K array, so a block must hold many more nonzeros than words for the additions of the
# partial sums to cost little; and there should be enough blocks for all cores to stay busy.
_BLOCKS = 16
_LEAST_NONZEROS = 1 << 15
_NONZEROS_PER_WORD = 4
# A block of a corpus on disk is held in memory as a whole, with some numbers for each of its documents.
_MOST_NONZEROS = 1 << 23
_MOST_DOCUMENTS = 1 << 18


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

    Texts, tables and annotated matrices are read by `from_texts`, `from_file`, `from_frame` and `from_anndata`; `open`
    gives a corpus that stays on disk.

    Parameters
    ----------
    X : array-like or scipy sparse matrix, shape (N, M)
        Counts, documents x words. Canonical CSR input of int32 counts is used without a copy.
    vocabulary : sequence of str, optional
        The M words. `DiscreteICA.fit` takes its feature names from here.
    empty_ok : bool
        Whether all documents may be empty: nothing can be learned from them, but they can be asked about.
    documents : Documents, optional
        Labels, dates and identifiers of the documents, and where their texts can be read again.
    settings : TextSettings, optional
        How the counts were made of texts. `DiscreteICA.fit` keeps it, so that texts can be transformed.
    name : str, optional
        What the corpus is called in a report.

    Raises
    ------
    momentopic.corpus.CountsError
        If `X` is not a matrix of counts.
    """

    def __init__(
        self,
        X: Any,
        vocabulary: Sequence[str] | None = None,
        *,
        empty_ok: bool = False,
        documents: Documents | None = None,
        settings: TextSettings | None = None,
        name: str | None = None,
    ) -> None:
        self.counts = as_counts(X, empty_ok=empty_ok)
        self.shape: tuple[int, int] = self.counts.shape
        if vocabulary is not None and len(vocabulary) != self.shape[1]:
            raise ValueError(
                f"the vocabulary has {len(vocabulary)} words but the counts have {self.shape[1]} columns: "
                "they must come from the same vectorizer or the same dataset."
            )
        self.vocabulary = None if vocabulary is None else [str(word) for word in vocabulary]
        if documents is not None:
            documents.check(self.shape[0])
        self.documents = documents
        self.settings = settings
        self.name = name
        self.boundaries = block_boundaries(self.counts.indptr, self.shape[1])

    @classmethod
    def open(cls, folder: str | Path) -> Corpus:
        """Open a corpus that `momentopic pack` (`momentopic.corpus.pack`) wrote: its blocks are read when asked for.

        Parameters
        ----------
        folder : str or Path

        Returns
        -------
        DiskCorpus
            With the blocks, and so the topics, that the same corpus would have in memory.
        """
        from momentopic.corpus.disk import DiskCorpus

        return DiskCorpus(folder)

    @classmethod
    def from_texts(
        cls,
        texts: Iterable[str],
        *,
        labels: Sequence[Any] | None = None,
        dates: Sequence[Any] | None = None,
        ids: Sequence[Any] | None = None,
        vocabulary: Sequence[str] | None = None,
        **settings: Any,
    ) -> Corpus:
        """Count the words of texts.

        Parameters
        ----------
        texts : iterable of str
            One document each. A generator is read once and its texts are not kept.
        labels, dates, ids : sequences, optional
            One for each document.
        vocabulary : sequence of str, optional
            Count these words and no others.
        **settings
            Of `momentopic.corpus.TextSettings`: `stop_words`, `min_df`, `max_df`, `ngram_range`, ...
        """
        from momentopic.corpus.formats import count_source
        from momentopic.corpus.frames import list_source
        from momentopic.corpus.text import TextSettings

        records, source = list_source(texts)
        corpus = count_source(records, source, TextSettings(**settings), vocabulary, "the list of texts")
        if labels is not None or dates is not None or ids is not None:
            corpus.documents = Documents.of(labels, dates, ids, source)
            corpus.documents.check(corpus.shape[0])
        return corpus

    @classmethod
    def from_file(
        cls,
        path: str | Path,
        *,
        text: str = "text",
        label: str | None = None,
        date: str | None = None,
        id: str | None = None,
        vocabulary: str | Path | Sequence[str] | None = None,
        encoding: str = "utf-8",
        progress: Progress | None = None,
        **settings: Any,
    ) -> Corpus:
        """Read texts or counts from a file or folder; the format follows from the name.

        Texts are read one after another: no more than the counts is held in memory.

        Parameters
        ----------
        path : str or Path
            Texts: .jsonl, .csv, .tsv (also .gz), .parquet, a folder of .txt files. Counts: .npz, .mtx, docword*.txt
            (UCI), .dat (lda-c), a folder that `momentopic pack` wrote.
        text, label, date, id : str
            The columns (fields of .jsonl objects) to read.
        vocabulary : str, Path or sequence of str, optional
            The words, or a file with one word a line.
        encoding : str
            Of files of texts.
        progress : callable, optional
            Called as ``progress(done, total)`` now and then.
        **settings
            Of `momentopic.corpus.TextSettings`: `stop_words`, `min_df`, `max_df`, `ngram_range`, `email`, ...
        """
        from momentopic.corpus.formats import read_corpus
        from momentopic.corpus.text import TextSettings

        columns = Columns(text, label, date, id)
        return read_corpus(
            path, vocabulary=vocabulary, columns=columns, settings=TextSettings(**settings), encoding=encoding,
            progress=progress,
        )  # fmt: skip

    @classmethod
    def from_frame(
        cls,
        frame: Any,
        *,
        text: str = "text",
        label: str | None = None,
        date: str | None = None,
        id: str | None = None,
        vocabulary: Sequence[str] | None = None,
        **settings: Any,
    ) -> Corpus:
        """Count the words of a column of a data frame: pandas, polars, or any other that narwhals knows.

        Parameters
        ----------
        frame : data frame
        text, label, date, id : str
            The names of the columns.
        vocabulary : sequence of str, optional
            Count these words and no others.
        **settings
            Of `momentopic.corpus.TextSettings`.
        """
        from momentopic.corpus.formats import count_source
        from momentopic.corpus.frames import frame_source
        from momentopic.corpus.text import TextSettings

        source = frame_source(frame, Columns(text, label, date, id))
        return count_source(source.records(), source, TextSettings(**settings), vocabulary, source.name)

    @classmethod
    def from_anndata(
        cls, adata: Any, *, layer: str | None = None, label: str | None = None, date: str | None = None
    ) -> Corpus:
        """Take the counts of an annotated matrix: cells are documents, genes are words.

        Parameters
        ----------
        adata : AnnData, or anything with its X, layers, obs, obs_names and var_names
        layer : str, optional
            The layer of raw counts. By default "counts", if there is such a layer, else X.
        label, date : str, optional
            Columns of `obs`.
        """
        from momentopic.corpus.frames import annotated_counts

        counts, words, documents = annotated_counts(adata, layer, label, date)
        return cls(counts, words, documents=documents, name="the annotated matrix")

    def summary(self) -> dict[str, Any]:
        """Return what a model remembers of the corpus it was fitted on: numbers, name, and columns."""
        columns = getattr(self.documents.source, "columns", None) if self.documents is not None else None
        return {
            "name": self.name,
            "documents": self.shape[0],
            "empty_documents": int((np.diff(self.indptr) == 0).sum()),
            "tokens": self.tokens,
            "nonzeros": self.nonzeros,
            "columns": None if columns is None else columns.names(),
        }

    @property
    def indptr(self) -> IntArray:
        """The row pointers of the CSR counts, of shape (N + 1,)."""
        pointers: IntArray = self.counts.indptr
        return pointers

    @property
    def nonzeros(self) -> int:
        """The number of counts above zero."""
        return int(self.indptr[-1])

    @cached_property
    def tokens(self) -> float:
        """The sum of all counts."""
        return float(self.counts.sum(dtype=np.float64))

    def document_lengths(self) -> FloatArray:
        """Return L_n, the number of tokens of each document."""
        return document_lengths(self.counts)

    def word_totals(self) -> FloatArray:
        """Return how often each word occurs in all documents."""
        return np.asarray(self.counts.sum(axis=0, dtype=np.float64)).ravel()

    def rows(self, documents: Sequence[int] | IntArray) -> sp.csr_matrix:
        """Return the counts of some documents, by their numbers."""
        return self.counts[documents]

    def fingerprint(self) -> str:
        """Return a checksum of shape and counts: equal for equal corpora."""
        digest = hashlib.sha256(repr((self.shape, str(self.counts.dtype))).encode())
        for array in (self.indptr.astype(np.int64), self.counts.indices, self.counts.data):
            digest.update(np.ascontiguousarray(array).data)
        return digest.hexdigest()

    @property
    def memory(self) -> int:
        """The bytes of memory that the counts take for as long as the corpus is there."""
        return int(self.counts.data.nbytes + self.counts.indices.nbytes + self.counts.indptr.nbytes)

    @property
    def block_memory(self) -> int:
        """The bytes that a thread needs to hold the largest block, beyond `memory`."""
        return 0

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
        return self._with_boundaries(_equal_parts(self.indptr, n_blocks))

    def _with_boundaries(self, boundaries: IntArray) -> Corpus:
        copy = object.__new__(type(self))
        vars(copy).update(vars(self))
        copy.boundaries = boundaries.astype(np.int64)
        return copy

    def __repr__(self) -> str:
        return f"Corpus({self.shape[0]} documents x {self.shape[1]} words, {self.nonzeros} nonzeros)"


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
    size = max(_LEAST_NONZEROS, _NONZEROS_PER_WORD * n_words, min(-(-nnz // _BLOCKS), _MOST_NONZEROS))
    n_blocks = max(1, min(n_docs, round(nnz / size)), n_docs // _MOST_DOCUMENTS)
    return _equal_parts(indptr, n_blocks)


def _equal_parts(indptr: IntArray, n_parts: int) -> IntArray:
    cuts = np.searchsorted(indptr, np.arange(1, n_parts) * (int(indptr[-1]) / n_parts))
    return np.unique(np.concatenate(([0], cuts, [len(indptr) - 1]))).astype(np.int64)


def as_corpus(X: Any, *, empty_ok: bool = False) -> Corpus:
    """Return `X` itself if it is a Corpus, else a Corpus made of it."""
    if hasattr(X, "__dask_graph__"):
        from momentopic.corpus.collections import ClusterCorpus

        return ClusterCorpus(X, empty_ok=empty_ok)
    return X if isinstance(X, Corpus) else Corpus(X, empty_ok=empty_ok)
