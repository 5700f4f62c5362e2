"""Some documents of a corpus, in memory and on disk."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp

from momentopic import Corpus
from momentopic.corpus import pack
from momentopic.corpus.disk import DiskCorpus
from momentopic.corpus.selection import some_documents


@pytest.fixture
def X():
    return sp.csr_matrix(np.random.default_rng(0).poisson(0.3, size=(300, 40)))


@pytest.mark.parametrize("rows", [np.arange(300), np.array([0]), np.array([299]), np.arange(7, 300, 3)])
@pytest.mark.parametrize("on_disk", [False, True])
def test_rows_of_blocks_are_rows_of_the_corpus(X, rows, on_disk, tmp_path, monkeypatch):
    corpus = Corpus(X, [f"w{m}" for m in range(40)])
    if on_disk:
        sp.save_npz(tmp_path / "counts.npz", X)
        (tmp_path / "words.txt").write_text("\n".join(corpus.vocabulary))
        pack(tmp_path / "counts.npz", tmp_path / "packed", vocabulary=tmp_path / "words.txt")
        monkeypatch.setattr(DiskCorpus, "counts", property(lambda _: pytest.fail("the whole corpus was read")))
        corpus = Corpus.open(tmp_path / "packed")
    found = some_documents(corpus.divided(9), rows)
    assert (found.counts != X[rows]).nnz == 0
    assert found.vocabulary == corpus.vocabulary
