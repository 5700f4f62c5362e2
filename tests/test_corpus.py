"""What counts as counts, and what is said of the rest."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp

from momentopic import Corpus
from momentopic.corpus import CountsError, as_corpus, as_counts

X = np.array([[1, 0, 2], [0, 3, 0], [4, 0, 0], [0, 1, 1]])


def spoiled(value, dtype=np.float64):
    Y = X.astype(dtype)
    Y[2, 1] = value
    return Y


@pytest.mark.parametrize("container", [np.asarray, sp.csr_matrix, sp.csc_array, sp.coo_matrix])
@pytest.mark.parametrize(
    ("value", "message"),
    [
        (np.nan, r"contain NaN \(the entry at row 2, column 1\)"),
        (np.inf, r"contain infinity \(the entry at row 2, column 1\)"),
        (-1, r"counts cannot be negative, but the entry at row 2, column 1 is -1"),
        (0.25, r"must be whole numbers, but the entry at row 2, column 1 is 0.25.*tf-idf.*CountVectorizer"),
    ],
)
def test_values_that_are_not_counts(container, value, message):
    with pytest.raises(CountsError, match=message):
        Corpus(container(spoiled(value)))


@pytest.mark.parametrize(
    ("bad", "message"),
    [
        (np.empty((0, 3)), r"empty: its shape is \(0, 3\)"),
        (np.empty((3, 0)), r"empty: its shape is \(3, 0\)"),
        (sp.csr_matrix((0, 0), dtype=int), "empty"),
        (np.zeros((4, 3)), "every one of the 4 documents is empty.*vocabulary"),
        (sp.csr_matrix((5, 2)), "every one of the 5 documents is empty"),
        (np.arange(3), "2-D matrix.*got 1 dimension"),
        (np.ones((2, 2, 2)), "2-D matrix.*got 3 dimension"),
        (X.astype(complex), "Complex data not supported"),
        (np.array([["a", "b"], ["c", "d"]]), "counts must be numbers.*CountVectorizer"),
    ],
)
def test_what_is_not_a_matrix_of_counts(bad, message):
    with pytest.raises(CountsError, match=message):
        Corpus(bad)


def test_canonical_counts_are_not_copied():
    Y = sp.csr_matrix(X.astype(np.int32))
    counts = Corpus(Y).counts
    assert np.shares_memory(counts.data, Y.data)
    assert np.shares_memory(counts.indices, Y.indices)


def test_explicit_zeros_are_dropped_without_touching_the_input():
    Y = sp.csr_matrix(X)
    Y.data[1] = 0
    counts = as_counts(Y)
    assert counts.nnz == Y.nnz - 1
    assert Y.data[1] == 0
    np.testing.assert_array_equal(counts.toarray(), Y.toarray())


@pytest.mark.parametrize("dtype", [np.uint8, np.int8, bool])
def test_repeated_entries_of_a_narrow_type_do_not_wrap_around(dtype):
    value = dtype(100)
    Y = sp.coo_matrix((np.full(3, value), ([0, 0, 0], [1, 1, 1])), shape=(1, 2))
    csr = sp.csr_matrix((np.full(3, value), [1, 1, 1], [0, 3]), shape=(1, 2))
    for matrix in (Y, csr):
        assert as_counts(matrix).toarray()[0, 1] == 3 * int(value)


def test_dtypes_of_the_canonical_form():
    assert as_counts(X.astype(np.int64)).data.dtype == np.int32
    assert as_counts(X.astype(np.float32)).indices.dtype == np.int32
    huge = as_counts(X.astype(np.int64) * 10**10)
    assert huge.data.dtype == np.float64
    np.testing.assert_array_equal(huge.toarray(), X * 1e10)


def test_vocabulary():
    corpus = Corpus(X, ["a", "b", "c"])
    assert corpus.vocabulary == ["a", "b", "c"]
    assert as_corpus(corpus) is corpus
    assert "4 documents x 3 words" in repr(corpus)
    with pytest.raises(ValueError, match="the vocabulary has 2 words but the counts have 3 columns"):
        Corpus(X, ["a", "b"])


@pytest.mark.parametrize(("indices", "indptr"), [([0, 5], [0, 1, 2]), ([0, -1], [0, 1, 2]), ([0, 1], [0, 2, 1])])
def test_damaged_sparse_matrices(indices, indptr):
    Y = sp.csr_matrix((2, 3), dtype=np.int32)
    Y.data, Y.indices, Y.indptr = np.ones(2, np.int32), np.array(indices, np.int32), np.array(indptr, np.int32)
    with pytest.raises(CountsError, match="damaged: its indices do not fit its shape"):
        Corpus(Y)


def test_blocks_of_so_many_documents():
    corpus = Corpus(np.repeat(X, 3, axis=0), ["a", "b", "c"])
    cut = corpus.cut(5)
    assert list(cut.boundaries) == [0, 5, 10, 12]
    assert cut.vocabulary == corpus.vocabulary
    assert [cut.block(i).first for i in range(cut.n_blocks)] == [0, 5, 10]
    assert corpus.n_blocks == 1
