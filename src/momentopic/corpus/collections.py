"""A corpus whose documents are on a Dask cluster: arrays of sparse chunks, bags of texts.

The documents never come here: what does is the length of each, and how often each word occurs. Blocks are cut by the
rule of `corpus.blocks`, whatever the chunks are, so the topics have the bits that the same counts have in memory.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

from momentopic._types import FloatArray, IntArray
from momentopic.corpus.blocks import Block, Corpus, block_boundaries
from momentopic.corpus.text import PLAIN, TextSettings, count_words, frequent_words
from momentopic.corpus.validate import CountsError, as_counts, document_lengths


class Chunk(NamedTuple):
    """What is known here of a chunk."""

    entries: IntArray  # of each document
    lengths: FloatArray
    totals: FloatArray  # of each word
    largest: float


class RemoteCounts:
    """Stands for the counts of a `ClusterCorpus`: what is known of them, and how to make them again.

    Attributes
    ----------
    shape : (int, int)
    indptr : int64 array of shape (N + 1,)
    chunks : list of Delayed
        Each a sparse matrix of documents.
    starts : int64 array
        The number of the first document of each chunk, and N.
    dtype : dtype
        That of all counts in memory.
    futures : list
        The chunks, on the workers that computed them, until these keep documents of their own.
    """

    def __init__(self, chunks: list[Any], known: list[Chunk], futures: list[Any]) -> None:
        self.chunks, self.futures = chunks, futures
        self.starts = np.cumsum([0, *(len(chunk.entries) for chunk in known)])
        self.lengths = np.concatenate([chunk.lengths for chunk in known])
        self.totals = np.sum([chunk.totals for chunk in known], axis=0)
        self.indptr = np.concatenate(([0], np.cumsum(np.concatenate([chunk.entries for chunk in known]))))
        self.shape = (len(self.lengths), len(self.totals))
        self.nnz = int(self.indptr[-1])
        exact = max(chunk.largest for chunk in known) <= np.iinfo(np.int32).max
        self.dtype = np.dtype(np.int32 if exact else np.float64)

    def sum(self, axis: int | None = None, dtype: Any = None) -> Any:
        """Return the tokens of all documents, of each word (axis 0) or of each document (axis 1)."""
        return self.lengths.sum() if axis is None else (self.totals, self.lengths)[axis]

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        raise AttributeError(f"the documents are on a cluster, which has no {name} for the client to see: {_CURE}")

    def __getitem__(self, key: Any) -> Any:
        raise TypeError(f"the documents are on a cluster and cannot be looked up one by one: {_CURE}")


_CURE = "compute the collection first (X.compute()), if it fits into memory"


class ClusterCorpus(Corpus):
    """Documents on a Dask cluster; made of a collection.

    Parameters
    ----------
    collection : dask.array.Array or dask.bag.Bag
        Counts, documents x words, in chunks that hold all words: scipy sparse matrices or arrays. Or texts.
    vocabulary : sequence of str, optional
        The words. Of texts, these words and no others are counted; without them the texts are read twice.
    client : distributed.Client, str or None
        The cluster, as for `engine.DaskEngine`.
    settings : TextSettings, optional
        For texts: how their words are counted.
    empty_ok : bool
        Whether all documents may be empty.

    Attributes
    ----------
    engine : DaskEngine
    """

    def __init__(
        self,
        collection: Any,
        vocabulary: Sequence[str] | None = None,
        *,
        client: Any = None,
        settings: TextSettings | None = None,
        empty_ok: bool = False,
    ) -> None:
        from momentopic.engine.dask import DaskEngine

        kind = type(collection).__module__
        if not kind.startswith(("dask.array", "dask.bag")):
            raise TypeError(f"a Dask array of counts or a Dask bag of texts was expected, got {kind}")
        self.engine = DaskEngine(client)
        self.settings = None
        n_words = None if vocabulary is None else len(vocabulary)
        if kind.startswith("dask.bag"):
            self.settings = settings or TextSettings()
            counted = _counted(collection, self.settings, vocabulary, self.engine.client)
            chunks, vocabulary, self._words_there = counted  # for as long as chunks may be counted again
        else:
            chunks = _array_chunks(collection)
        self.counts = self.engine.cluster.measure(chunks)
        self.shape = self.counts.shape
        if n_words not in (None, self.shape[1]):
            raise ValueError(f"the vocabulary has {n_words} words but the counts have {self.shape[1]} columns")
        if self.shape[0] == 0 or (self.counts.nnz == 0 and not empty_ok):
            raise CountsError(f"every one of the {self.shape[0]} documents is empty: there is nothing to learn from.")
        self.vocabulary = None if vocabulary is None else [str(word) for word in vocabulary]
        self.documents = None
        self.name = "the Dask collection"
        self.boundaries = block_boundaries(self.counts.indptr, self.shape[1])

    def block(self, i: int) -> Block:
        """Raise an error: blocks do not come here."""
        raise ValueError(f"the documents are on a cluster: use engine='dask' or engine='auto', or {_CURE}")

    @property
    def tokens(self) -> float:
        """The sum of all counts."""
        return float(self.counts.lengths.sum())

    def document_lengths(self) -> FloatArray:
        """Return L_n, the number of tokens of each document."""
        return np.array(self.counts.lengths)

    def word_totals(self) -> FloatArray:
        """Return how often each word occurs in all documents."""
        return np.array(self.counts.totals)

    def fingerprint(self) -> str:
        """Raise an error: a fit of documents that are elsewhere cannot be resumed."""
        raise ValueError(f"a checkpoint needs the documents here, but they are on a cluster: {_CURE}")

    @property
    def memory(self) -> int:
        """The bytes of memory that the corpus takes here."""
        return int(self.counts.indptr.nbytes + self.counts.lengths.nbytes + self.counts.totals.nbytes)

    def _with_boundaries(self, boundaries: IntArray) -> Corpus:
        copy = object.__new__(ClusterCorpus)
        vars(copy).update(vars(self))
        copy.boundaries = boundaries.astype(np.int64)
        return copy


def collection_corpus(collection: Any, engine: Any, model: Any = None) -> ClusterCorpus:
    """Return the corpus of a Dask collection, on the cluster that an `engine` parameter names.

    Parameters
    ----------
    collection : dask.array.Array or dask.bag.Bag
    engine : "auto", "dask", an address, a distributed.Client or a DaskEngine
    model : DiscreteICA, optional
        Fitted: texts are counted with its words.
    """
    if isinstance(engine, str):
        if engine not in ("auto", "dask") and "://" not in engine:
            raise ValueError(f"the documents are on a cluster: use engine='auto' or engine='dask', not {engine!r}")
        client = engine if "://" in engine else None
    else:
        client = getattr(engine, "client", engine)
        if not hasattr(client, "scatter"):
            raise ValueError(f"the documents are on a cluster: use engine='auto' or engine='dask', not {engine!r}")
    if model is None:
        return ClusterCorpus(collection, client=client)
    words = None if hasattr(collection, "dtype") else getattr(model, "feature_names_in_", None)
    if words is None and not hasattr(collection, "dtype"):
        raise ValueError("texts were given, but the model knows no words: fit it on texts")
    return ClusterCorpus(collection, words, client=client, settings=model.text_settings_ or PLAIN, empty_ok=True)


def measured(chunk: Any) -> Chunk:
    """Return what the client wants to know of a chunk; a CountsError where it is not one of counts."""
    counts = as_counts(chunk, empty_ok=True) if chunk.shape[0] else sp.csr_matrix(chunk.shape, dtype=np.int32)
    totals = np.asarray(counts.sum(axis=0, dtype=np.float64)).ravel()
    return Chunk(np.diff(counts.indptr), document_lengths(counts), totals, float(counts.data.max(initial=0)))


def _array_chunks(X: Any) -> list[Any]:
    if X.ndim != 2:
        raise CountsError(f"the Dask array has {X.ndim} dimensions; counts have two, documents x words")
    if X.numblocks[1] != 1:
        raise CountsError(
            f"the words of the Dask array are cut into {X.numblocks[1]} chunks: each chunk must have all words, "
            "X.rechunk({1: -1})"
        )
    chunks: list[Any] = X.to_delayed().ravel().tolist()
    return chunks


def _counted(
    bag: Any, settings: TextSettings, vocabulary: Sequence[str] | None, client: Any
) -> tuple[list[Any], Sequence[str], Any]:
    """Return the counts of the texts of each partition, not computed yet, the words, and their future."""
    from dask import delayed

    partitions = bag.to_delayed()
    if vocabulary is None:
        found = [delayed(_frequencies)(partition, settings) for partition in partitions]
        while len(found) > 1:  # neighbours: the words stay in the order in which they first occur
            found = [delayed(_joined)(*found[i : i + 2]) for i in range(0, len(found), 2)]
        n_docs, words = client.compute(found[0]).result()
        vocabulary = frequent_words(words, n_docs, settings, "the bag of texts")
    # a task of its own: sent once, and done again where it is lost
    words_there = client.submit(_Words, list(vocabulary), pure=False)
    return [delayed(_count)(partition, settings, words_there) for partition in partitions], vocabulary, words_there


class _Words:
    """Words that travel as one object."""

    def __init__(self, words: Sequence[str]) -> None:
        self.words = list(words)


def _count(texts: Any, settings: TextSettings, vocabulary: _Words) -> sp.csr_matrix:
    texts = list(texts)
    if not texts:
        return sp.csr_matrix((0, len(vocabulary.words)), dtype=np.int32)
    return count_words(texts, settings, vocabulary.words)[0]


def _frequencies(texts: Any, settings: TextSettings) -> tuple[int, dict[str, tuple[int, int]]]:
    """Return the number of documents, and for each word in how many it is and how often."""
    analyze = settings.analyzer()
    found: dict[str, tuple[int, int]] = {}
    n_docs = 0
    for text in texts:
        n_docs += 1
        counts: dict[str, int] = {}
        for word in analyze(text):
            counts[word] = counts.get(word, 0) + 1
        for word, count in counts.items():
            documents, total = found.get(word, (0, 0))
            found[word] = documents + 1, total + count
    return n_docs, found


def _joined(*parts: tuple[int, dict[str, tuple[int, int]]]) -> tuple[int, dict[str, tuple[int, int]]]:
    joined: dict[str, tuple[int, int]] = {}
    for _, words in parts:
        for word, (documents, total) in words.items():
            before = joined.get(word, (0, 0))
            joined[word] = before[0] + documents, before[1] + total
    return sum(n_docs for n_docs, _ in parts), joined
