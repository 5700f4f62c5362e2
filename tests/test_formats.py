"""Every format in, and every way a file can be damaged."""

from __future__ import annotations

import gzip
import json

import numpy as np
import pytest
import scipy.io
import scipy.sparse as sp

from momentopic import Corpus
from momentopic.corpus import InputFileError
from momentopic.corpus.docstrings import installed_docstrings
from momentopic.corpus.lda_c import read_lda_c
from momentopic.corpus.streams import count_batches

from .conftest import shared

read_corpus = Corpus.from_file

X = np.array([[2, 0, 1, 0], [0, 3, 0, 0], [0, 0, 0, 0], [1, 1, 0, 7]])
WORDS = ["ape", "bee", "cat", "dog"]
UCI = "4\n4\n6\n1 1 2\n1 3 1\n2 2 3\n4 1 1\n4 2 1\n4 4 7\n"
LDA_C = "2 0:2 2:1\n1 1:3\n0\n3 0:1 1:1 3:7\n"


def write(path, text):
    if path.suffix == ".gz":
        path.write_bytes(gzip.compress(text.encode()))
    else:
        path.write_text(text, encoding="utf-8")
    return path


def write_counts(folder, name):
    path = folder / name
    if name.endswith(".npz"):
        sp.save_npz(path, sp.csr_matrix(X))
    elif ".mtx" in name:
        scipy.io.mmwrite(folder / "plain.mtx", sp.coo_matrix(X))
        write(path, (folder / "plain.mtx").read_text())
    else:
        write(path, UCI if name.startswith("docword") else LDA_C)
    return path


@pytest.mark.parametrize("name", ["x.npz", "x.mtx", "x.mtx.gz", "docword.x.txt", "docword.x.txt.gz", "x.dat"])
def test_counts_in_every_format(tmp_path, name):
    path = write_counts(tmp_path, name)
    corpus = read_corpus(path)
    np.testing.assert_array_equal(corpus.counts.toarray(), X)
    assert corpus.vocabulary is None
    given = write(tmp_path / "words.txt", "\n".join(WORDS) + "\n")
    assert read_corpus(path, vocabulary=given).vocabulary == WORDS
    write(tmp_path / "vocab.txt", "\n".join(WORDS) + "\n")
    assert read_corpus(path).vocabulary == WORDS


def test_uci_vocabulary_is_found_by_its_name(tmp_path):
    write(tmp_path / "vocab.txt", "not these\n")
    write(tmp_path / "vocab.x.txt", "\n".join(WORDS))
    assert read_corpus(write(tmp_path / "docword.x.txt.gz", UCI)).vocabulary == WORDS


def test_lda_c_takes_the_number_of_words_from_the_vocabulary(tmp_path):
    path = write(tmp_path / "x.dat", LDA_C)
    words = write(tmp_path / "words.txt", "\n".join([*WORDS, "eel"]))
    assert read_corpus(path, vocabulary=words).shape == (4, 5)


@pytest.mark.parametrize("name", ["docs.jsonl", "docs.jsonl.gz", "folder"])
def test_texts(tmp_path, name):
    texts = ["The cats chase the dog", "a DOG and the cats", "bees, bees and 2 dogs", "naïve cats"]
    path = tmp_path / name
    if name == "folder":
        (path / "sub").mkdir(parents=True)
        for i, text in enumerate(texts):
            write((path if i < 3 else path / "sub") / f"{i}.txt", text)
    else:
        write(path, "".join(json.dumps({"body": text}) + "\n\n" for text in texts))
    corpus = read_corpus(path, text="body", min_df=1, max_df=1.0)
    assert corpus.vocabulary == ["bees", "cats", "chase", "dog", "dogs", "naïve"]
    np.testing.assert_array_equal(corpus.counts.toarray()[2], [2, 0, 0, 0, 1, 0])
    with pytest.warns(UserWarning, match="1 of the 4 documents of .* have none of the 2 words"):
        assert read_corpus(path, text="body", min_df=2, max_df=1.0).vocabulary == ["cats", "dog"]
    assert "the" in read_corpus(path, text="body", min_df=2, max_df=1.0, stop_words=None).vocabulary


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("docword.x.txt", UCI[:-6], "is truncated: it announces 6 entries and holds 5"),
        ("docword.x.txt", "4\nfour\n6\n", "not a UCI bag of words: its first three lines"),
        ("docword.x.txt", UCI.replace("4 4 7", "5 4 7"), "line 9: document 5 is not in 1..4"),
        ("docword.x.txt", UCI.replace("1 3 1", "1 0 1"), "line 5: word 0 is not in 1..4"),
        ("docword.x.txt", UCI.replace("4 4 7", "4 4"), "line 9 is not 'document word count' but '4 4'"),
        ("docword.x.txt", UCI.replace("4 4 7", "4 4 x"), "line 9 is not 'document word count' but '4 4 x'"),
        ("docword.x.txt", UCI.replace("4 4 7", "4 4 7 1"), "line 9 is not 'document word count'"),
        ("docword.x.txt", UCI.replace("4 4 7", f"4 4 {10**30}"), "line 9 is not 'document word count'"),
        ("docword.x.txt", UCI.replace("4 4 7", "4 4 --7"), "line 9 is not 'document word count'"),
        ("docword.x.txt", UCI.replace("4 4 7", "4 4 -7"), "counts cannot be negative"),
        ("docword.x.txt", "4\n4\n0\n", "every one of the 4 documents is empty"),
        ("x.dat", LDA_C[:-5], "line 4 announces 3 words and holds 2"),
        ("x.dat", LDA_C.replace("3:7", "3:"), "line 4: expected 'n word:count"),
        ("x.dat", LDA_C.replace("3:7", "-3:7"), "word -3 is negative"),
        ("x.dat", "", "empty"),
        ("x.mtx", "%%MatrixMarket matrix coordinate integer general\n4 4 6\n1 1 2\n", "cannot be read"),
        ("x.mtx", "nonsense", "cannot be read"),
        ("x.npz", "PK\x03\x04 cut off", "truncated|cannot be read"),
        ("x.jsonl", '{"text": "one two"}\n{"text": "thr', "line 2 is not JSON.*may be truncated"),
        ("x.jsonl", '{"body": "one"}\n', r"line 1 has no column 'text' for the text \(it has: body\).*--text"),
        ("x.jsonl", "[1, 2]\n", "line 1 is no JSON object"),
        ("x.jsonl", "[" * 100_000, "cannot be read"),
        ("x.dat", LDA_C.replace("3:7", f"3:{10**30}"), "cannot be read"),
        ("docword.x.txt", UCI.replace("4\n", f"{10**30}\n", 1), "cannot be read"),
        ("x.doc", "a,b\n", "format of .* is not known from its name"),
    ],
)
def test_damaged_files_are_named_with_the_reason(tmp_path, name, text, message):
    path = write(tmp_path / name, text)
    with pytest.raises(InputFileError, match=message) as error:
        read_corpus(path)
    assert str(path) in str(error.value)


@pytest.mark.parametrize("name", ["x.npz", "x.mtx.gz", "docword.x.txt.gz"])
def test_truncated_archives(tmp_path, name):
    path = write_counts(tmp_path, name)
    path.write_bytes(path.read_bytes()[:-20])
    with pytest.raises(InputFileError, match="truncated"):
        read_corpus(path)


def test_binary_where_text_should_be(tmp_path):
    for name in ("x.dat", "x.jsonl"):
        (tmp_path / name).write_bytes(b"\xff\xfe\x00\x01")
        with pytest.raises(InputFileError, match="not UTF-8"):
            read_corpus(tmp_path / name)
    (tmp_path / "texts").mkdir()
    (tmp_path / "texts" / "a.txt").write_bytes(b"caf\xe9")
    with pytest.raises(InputFileError, match="a.txt is not UTF-8"):
        read_corpus(tmp_path / "texts")


def test_vocabularies_that_do_not_fit(tmp_path):
    path = write_counts(tmp_path, "x.npz")
    write(tmp_path / "vocab.txt", "one\ntwo\n")
    with pytest.raises(InputFileError, match=r"the vocabulary has 2 words but the counts have 4 columns.*vocab\.txt"):
        read_corpus(path)
    with pytest.raises(InputFileError, match="word 3 is not in the vocabulary of 2 words"):
        read_corpus(write(tmp_path / "x.dat", LDA_C))
    with pytest.raises(FileNotFoundError, match="no vocabulary file"):
        read_corpus(path, vocabulary=tmp_path / "absent.txt")
    texts = write(tmp_path / "t.jsonl", '{"text": "two four"}\n{"text": "two"}')
    assert read_corpus(texts, vocabulary=tmp_path / "vocab.txt").counts.toarray().tolist() == [[0, 1], [0, 1]]
    with pytest.raises(ValueError, match="'one' is in the vocabulary more than once"):
        read_corpus(texts, vocabulary=["one", "two", "one"])


def test_nothing_there_and_nothing_left(tmp_path):
    with pytest.raises(FileNotFoundError, match="there is no file or folder"):
        read_corpus(tmp_path / "absent.npz")
    (tmp_path / "empty").mkdir()
    with pytest.raises(InputFileError, match=r"has no \.txt files"):
        read_corpus(tmp_path / "empty")
    path = write(tmp_path / "x.jsonl", '{"text": "lonely words"}\n')
    with pytest.raises(ValueError, match="the 1 text of .* cannot be counted with min_df=5.*"):
        read_corpus(path)


def test_real_counts_and_their_words():
    corpus = read_corpus(shared("datasets", "ap", "counts.npz"))
    assert corpus.shape == (2243, 10473)
    assert corpus.counts.nnz == 302_025
    assert len(corpus.vocabulary) == 10473


def test_docstrings_of_a_package(tmp_path):
    package = tmp_path / "pack" / "sub"
    package.mkdir(parents=True)
    (tmp_path / "pack" / "tests").mkdir()
    long = " ".join(f"word{i}" for i in range(30))
    (package / "a.py").write_text(
        f'r"""{long} module."""\nx = """{long} not a docstring\n"""\n\ndef f():\n    """{long} function."""\n'
        f'def g():\n    """Too short."""\n'
    )
    (package / "b.py").write_text(f'"""{long} module."""\n')  # a copy
    (tmp_path / "pack" / "tests" / "c.py").write_text(f'"""{long} test."""\n')
    (tmp_path / "single.py").write_text(f'"""{long} single."""\n')
    (tmp_path / "latin.py").write_bytes(b'"""caf\xe9"""')
    found = installed_docstrings([tmp_path])
    assert found.texts == [f"{long} module.", f"{long} function.", f"{long} single."]
    assert found.modules == ["pack.sub", "pack.sub", "single"]
    assert len(installed_docstrings([tmp_path], most_of_a_module=1).texts) == 2
    assert installed_docstrings([tmp_path], most_files=0).texts == []


def test_an_array_that_is_not_a_sparse_matrix(tmp_path):
    np.save(tmp_path / "x.npy", X)
    (tmp_path / "x.npy").rename(tmp_path / "x.npz")
    with pytest.raises(InputFileError, match="cannot be read"):
        read_corpus(tmp_path / "x.npz")


def test_byte_order_marks_line_ends_and_capitals(tmp_path):
    mark = "\ufeff"
    write(tmp_path / "vocab.txt", mark + "\r\n".join(WORDS) + "\r\n\r\n")
    for name, text in (("docword.x.txt", UCI), ("x.dat", LDA_C)):
        path = tmp_path / name
        path.write_bytes((mark + text.replace("\n", "\r\n")).encode())
        corpus = read_corpus(path)
        np.testing.assert_array_equal(corpus.counts.toarray(), X)
        assert corpus.vocabulary == WORDS
    write(tmp_path / "X.JSONL", mark + '{"text": "ape bee"}\n{"text": "ape"}\n')
    assert read_corpus(tmp_path / "X.JSONL", min_df=1, max_df=1.0).vocabulary == ["ape", "bee"]
    (tmp_path / "texts" / "odd.txt").mkdir(parents=True)
    write(tmp_path / "texts" / "odd.txt" / "a.txt", mark + "ape")
    assert read_corpus(tmp_path / "texts", min_df=1, max_df=1.0).vocabulary == ["ape"]


def test_an_lda_c_file_in_many_chunks(tmp_path, monkeypatch):
    rng = np.random.default_rng(0)
    dense = rng.integers(0, 2, size=(60, 40)) * rng.integers(1, 100_000, size=(60, 40))
    dense[[3, 59]] = 0
    lines = [" ".join([str((row > 0).sum()), *(f"{m}:{row[m]}" for m in np.flatnonzero(row))]) for row in dense]
    for chunk in (1 << 23, 1000, 37):
        monkeypatch.setattr("momentopic.corpus.uci._CHUNK", chunk)
        for separator in ("\n", "\r\n", " \n\n", "\t\n"):
            for end in ("", separator):
                path = write(tmp_path / "x.dat", separator.join(lines) + end)
                np.testing.assert_array_equal(read_lda_c(path, 40).toarray(), dense)
                for skip in (0, 1, 41, 60):
                    _, batches = count_batches(path, 40, skip, ordered=True)
                    found = [batch.toarray() for batch in batches]
                    np.testing.assert_array_equal(np.concatenate([np.empty((0, 40)), *found]), dense[skip:])
        narrow = read_lda_c(write(tmp_path / "x.dat", "1 2:5\n" + "0\n" * 50 + "1 7:1\n0"), None)
        assert narrow.shape == (53, 8)
        assert narrow.sum() == 6
        wrongs = "2 1:1|1 1:1 2:1|1 1|1 1:|1 :1|1 1:1:1|1 1: 1|1 1 :1|1 1;1|x|- 1:1|-1"
        for wrong in wrongs.split("|"):
            path = write(tmp_path / "x.dat", "\n".join([*lines, wrong, *lines]))
            with pytest.raises(InputFileError, match="line 61"):
                read_lda_c(path, 40)


def test_a_uci_file_in_many_chunks_unsorted_and_without_a_last_newline(tmp_path, monkeypatch):
    rng = np.random.default_rng(0)
    dense = rng.integers(0, 3, size=(60, 40)) * rng.integers(1, 1000, size=(60, 40))
    d, w = np.nonzero(dense)
    lines = [f"{i + 1} {j + 1} {dense[i, j]}" for i, j in zip(d, w, strict=True)]
    for chunk in (1 << 23, 37):
        monkeypatch.setattr("momentopic.corpus.uci._CHUNK", chunk)
        for entries in (lines, list(rng.permutation(lines))):
            text = "\n".join(["60", "40", str(len(lines)), *entries])
            for ending in ("", "\n", "\n\n"):
                path = write(tmp_path / "docword.y.txt", text + ending)
                np.testing.assert_array_equal(read_corpus(path).counts.toarray(), dense)
    lines[500] = "1 41 1"
    path = write(tmp_path / "docword.y.txt", "\n".join(["60", "40", str(len(lines)), *lines]))
    with pytest.raises(InputFileError, match="line 504: word 41 is not in 1..40"):
        read_corpus(path)
