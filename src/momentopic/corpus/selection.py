"""Some of the documents of a corpus as a corpus of their own."""

from __future__ import annotations

import itertools

import numpy as np
import scipy.sparse as sp

from momentopic._types import IntArray
from momentopic.corpus.blocks import Corpus


def some_documents(corpus: Corpus, rows: IntArray) -> Corpus:
    """Return documents by their ascending numbers; they may all be empty.

    A corpus on disk is read block by block: no more than these documents and one block are in memory.
    """
    begins = np.searchsorted(rows, corpus.boundaries)
    parts = [
        corpus.block(i).matrix()[rows[begin:end] - corpus.boundaries[i]]
        for i, (begin, end) in enumerate(itertools.pairwise(begins))
        if end > begin
    ]
    counts = sp.vstack(parts, format="csr") if parts else sp.csr_matrix((0, corpus.shape[1]), dtype=np.int32)
    return Corpus(counts, corpus.vocabulary, empty_ok=True)
