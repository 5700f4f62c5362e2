"""Texts in: every container, labels and dates, settings, damage, and texts for a fitted model."""

from __future__ import annotations

import csv
import datetime
import gzip
import json
import tracemalloc
from types import SimpleNamespace

import numpy as np
import pandas as pd
import polars as pl
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st
from sklearn.feature_extraction.text import CountVectorizer

from momentopic import Corpus, DiscreteICA, load
from momentopic.corpus import Documents, InputFileError, TextSettings, readers, text
from momentopic.corpus.dates import as_dates
from momentopic.corpus.mail import message_body
from momentopic.corpus.stopwords import LANGUAGES, stop_words

ROWS = [
    {"body": "Cats chase the dog; naïve cats", "party": "A", "when": "1993-04-21", "key": "d1"},
    {"body": 'A dog said "no, cats"\nand left', "party": "B", "when": "1993", "key": "d2"},
    {"body": "bees and dogs and cats", "party": None, "when": "1994-02", "key": "d3"},
]
COLUMNS = {"text": "body", "label": "party", "date": "when", "id": "key"}
WORDS = ["bees", "cats", "chase", "dog", "dogs", "left", "naïve", "said"]


def write_rows(folder, name):
    path = folder / name
    if ".parquet" in name:
        pl.DataFrame(ROWS).write_parquet(path)
    elif "jsonl" in name:
        path.write_text("".join(json.dumps(row) + "\n" for row in ROWS), encoding="utf-8")
    else:
        with path.open("w", encoding="utf-8", newline="") as file:
            delimiter = {"c": ",", "t": "\t", "s": ";"}[name.removesuffix(".gz").split(".")[-1][0]]
            writer = csv.DictWriter(file, [*ROWS[0]], delimiter=delimiter)
            writer.writeheader()
            writer.writerows(ROWS)
    if name.endswith(".gz"):
        path.write_bytes(gzip.compress(path.read_bytes()))
    return path


def check(corpus, missing=None):
    assert corpus.vocabulary == WORDS
    np.testing.assert_array_equal(corpus.counts.toarray()[0], [0, 2, 1, 1, 0, 0, 1, 0])
    assert corpus.documents.labels == ["A", "B", missing]
    assert list(corpus.documents.dates.astype(str)) == ["1993-04-21", "1993-01-01", "1994-02-01"]
    assert corpus.documents.ids == ["d1", "d2", "d3"]
    assert corpus.documents.texts([2, 0]) == [ROWS[2]["body"], ROWS[0]["body"]]


@pytest.mark.parametrize(
    "name", ["x.jsonl", "x.jsonl.gz", "x.csv", "x.csv.gz", "x.tsv", "x.tsv.gz", "x.parquet", "X.CSV"]
)
def test_files_with_labels_dates_and_identifiers(tmp_path, name):
    path = write_rows(tmp_path, name.lower() if name == "X.CSV" else name).rename(tmp_path / name)
    seen = []
    corpus = Corpus.from_file(
        path, **COLUMNS, min_df=1, max_df=1.0, progress=lambda done, total: seen.append((done, total))
    )
    check(corpus, "" if "sv" in name.lower() else None)
    assert corpus.name == name
    assert seen
    assert all(0 <= done <= total for done, total in seen)


def test_a_csv_with_semicolons(tmp_path):
    path = write_rows(tmp_path, "x.ssv").rename(tmp_path / "x.csv")
    check(Corpus.from_file(path, **COLUMNS, min_df=1, max_df=1.0), "")


@pytest.mark.parametrize("make", [pd.DataFrame, pl.DataFrame, pl.LazyFrame])
def test_data_frames(make):
    check(Corpus.from_frame(make(ROWS), **COLUMNS, min_df=1, max_df=1.0))


def test_frames_that_do_not_fit():
    with pytest.raises(InputFileError, match=r"no column 'text' for the text \(it has: body, party, when, key\)"):
        Corpus.from_frame(pd.DataFrame(ROWS))
    with pytest.raises(TypeError, match="a data frame was expected"):
        Corpus.from_frame([1, 2])
    mixed = pd.DataFrame({"text": ["cats", 3.5, None]}, dtype=object)
    with pytest.raises(InputFileError, match=r"row 1, has no text in the column 'text' but 3.5 \(float\)"):
        Corpus.from_frame(mixed, min_df=1)


def test_lists_generators_and_columns():
    texts = [row["body"] for row in ROWS]
    labels, dates = ["A", "B", None], ["1993-04-21", 1993, datetime.date(1994, 2, 1)]
    check(Corpus.from_texts(texts, labels=labels, dates=dates, ids=["d1", "d2", "d3"], min_df=1, max_df=1.0))
    once = Corpus.from_texts((text for text in texts), min_df=1, max_df=1.0)
    assert once.vocabulary == WORDS
    with pytest.raises(ValueError, match="were not kept"):
        once.documents.texts([0])
    for column in (pd.Series(texts), pl.Series(texts), np.array(texts), tuple(texts)):
        assert Corpus.from_texts(column, min_df=1, max_df=1.0).vocabulary == WORDS
    with pytest.raises(ValueError, match="2 labels for 3 documents"):
        Corpus.from_texts(texts, labels=["A", "B"], min_df=1)
    with pytest.raises(TypeError, match="put it into a list"):
        Corpus.from_texts("cats")
    with pytest.raises(InputFileError, match="no documents"):
        Corpus.from_texts([])


def test_a_missing_text_is_an_empty_document():
    with pytest.warns(UserWarning, match="2 of the 3 documents of the list of texts have none of the 1 words"):
        corpus = Corpus.from_texts(["cats cats", None, float("nan")], min_df=1, max_df=1.0)
    assert corpus.shape == (3, 1)
    assert corpus.summary()["empty_documents"] == 2


def annotated(**changes):
    obs = pd.DataFrame({"cluster": ["a", "b", "a"], "day": [2001, 2002, 2003]}, index=["c0", "c1", "c2"])
    counts = sp.csr_matrix([[1, 0], [0, 2], [3, 1]])
    return SimpleNamespace(**{
        "X": counts * 0.5, "layers": {"counts": counts, "double": counts * 2}, "obs": obs, "obs_names": obs.index,
        "var_names": pd.Index(["g0", "g1"]), **changes,
    })  # fmt: skip


def test_annotated_matrices():
    corpus = Corpus.from_anndata(annotated(), label="cluster", date="day")
    np.testing.assert_array_equal(corpus.counts.toarray(), [[1, 0], [0, 2], [3, 1]])
    assert corpus.vocabulary == ["g0", "g1"]
    assert corpus.documents.labels == ["a", "b", "a"]
    assert corpus.documents.ids == ["c0", "c1", "c2"]
    assert str(corpus.documents.dates[2]) == "2003-01-01"
    assert Corpus.from_anndata(annotated(), layer="double").counts.sum() == 14
    assert Corpus.from_anndata(annotated(layers={}, X=np.eye(3, 2))).counts.sum() == 2
    with pytest.raises(ValueError, match="whole numbers.*raw counts layer"):
        Corpus.from_anndata(annotated(layers={}))
    with pytest.raises(InputFileError, match=r"no layer 'raw' \(there are: counts, double\)"):
        Corpus.from_anndata(annotated(), layer="raw")
    with pytest.raises(InputFileError, match=r"obs has no column 'batch' \(it has: cluster, day\)"):
        Corpus.from_anndata(annotated(), label="batch")
    with pytest.raises(TypeError, match="AnnData-like object was expected, but DataFrame has no attribute X"):
        Corpus.from_anndata(pd.DataFrame({"layers": [1]}))


def test_folders_are_labels(tmp_path):
    for name, words in (("sport/a", "ball goal"), ("sport/b", "ball"), ("war/c", "gun")):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / f"{name}.txt").write_text(words)
    corpus = Corpus.from_file(tmp_path, min_df=1, max_df=1.0)
    assert corpus.documents.labels == ["sport", "sport", "war"]
    assert corpus.documents.ids == ["sport/a.txt", "sport/b.txt", "war/c.txt"]
    assert Corpus.from_file(tmp_path / "sport", min_df=1, max_df=1.0).documents.labels is None


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("x.csv", b"", "is empty: it should begin with a line of column names"),
        ("x.csv", b"id,body\n1,cats\n", r"no column 'text' for the text \(it has: id, body\).*--text"),
        ("x.csv", b'id,text\n1,"cats and', "line 2 is not well-formed CSV .*truncated"),
        ("x.csv", b"id,text\n1,cats\n2\n", "line 3 has 1 fields, but the header has 2.*truncated"),
        ("x.csv", b"id,text\n", "there are no documents in"),
        ("x.csv", b"text\ncaf\xe9\n", "is not UTF-8 text .*--encoding"),
        ("x.jsonl", "\ufeffnonsense".encode("utf-16"), "is not UTF-8 text .*utf-16"),
        (
            "x.jsonl",
            b'{"text": "cats", "id": 1}\n{"text": ["cats"]}\n',
            r"line 2 has no text .* but \['cats'\] \(list\)",
        ),
        ("x.jsonl", b'{"text": 7}\n', r"line 1 has no text in the column 'text' but 7 \(int\)"),
        ("x.jsonl.gz", gzip.compress(b'{"text": "cats"}\n' * 500)[:-9], "truncated or damaged"),
        ("x.parquet", b"PAR1 nonsense", "cannot be read"),
        ("x.jsonl", b'{"text": "' + b"x" * 4000 + b'"}\n', "line 1 is longer than 1000 characters"),
        ("x.csv", b"text\n" + b"x" * 4000, "line 2 is longer than 1000 characters"),
    ],
)
def test_damaged_texts(tmp_path, monkeypatch, name, content, message):
    monkeypatch.setattr(readers, "_LONGEST_LINE", 1000)
    (tmp_path / name).write_bytes(content)
    with pytest.raises(InputFileError, match=message):
        Corpus.from_file(tmp_path / name, min_df=1)


def test_other_encodings(tmp_path):
    (tmp_path / "x.csv").write_bytes("text\ncafé\ncafé noir\n".encode("latin-1"))
    assert Corpus.from_file(tmp_path / "x.csv", encoding="latin-1", min_df=1, max_df=1.0).vocabulary == ["café", "noir"]
    (tmp_path / "x.jsonl").write_bytes('{"text": "café"}\n'.encode("utf-16"))
    assert Corpus.from_file(tmp_path / "x.jsonl", encoding="utf-16", min_df=1, max_df=1.0).vocabulary == ["café"]
    with pytest.raises(InputFileError, match="unknown encoding: klingon"):
        Corpus.from_file(tmp_path / "x.jsonl", encoding="klingon")


def test_a_missing_column_in_the_middle_of_a_file(tmp_path):
    (tmp_path / "x.jsonl").write_text('{"text": "cats", "year": 1}\n{"text": "dogs"}\n')
    with pytest.raises(InputFileError, match="line 2 has no column 'year' for the date"):
        Corpus.from_file(tmp_path / "x.jsonl", date="year", min_df=1)


def test_dates_that_cannot_be_read_are_counted(tmp_path):
    (tmp_path / "x.jsonl").write_text('{"text": "cats", "year": 1999}\n{"text": "cats", "year": "last week"}\n')
    with pytest.warns(UserWarning, match="the dates of 1 of the 2 documents"):
        corpus = Corpus.from_file(tmp_path / "x.jsonl", date="year", min_df=1, max_df=1.0)
    assert list(np.isnat(corpus.documents.dates)) == [False, True]


def test_dates():
    days = ["1993/04/21", "1993-04-21T10:00:00Z", " 1993-04-21 10:00 ", datetime.datetime(1993, 4, 21, 5)]
    days += [pd.Timestamp("1993-04-21"), np.datetime64("1993-04-21T05", "h")]
    values = [1790, 1790.0, np.int64(1790), "1993", "1993-4", *days]
    expected = ["1790-01-01"] * 3 + ["1993-01-01", "1993-04-01"] + ["1993-04-21"] * 6
    assert list(as_dates(values).astype(str)) == expected
    bad = [None, "soon", "1993-13-01", "1993-02-30", float("nan"), pd.NaT, 10**9, 3.5, "199", "12/04/1993"]
    assert np.isnat(as_dates(bad)).all()


@pytest.mark.parametrize(
    "settings",
    [
        {"stop_words": None, "min_df": 1, "max_df": 1.0},
        {"stop_words": "english", "min_df": 2, "max_df": 0.8},
        {"stop_words": ["cats"], "min_df": 0.4, "max_df": 3, "ngram_range": (1, 2)},
        {"stop_words": None, "min_df": 1, "max_df": 1.0, "lowercase": False, "token_pattern": r"\w", "max_features": 5},
        {"stop_words": None, "min_df": 1, "max_df": 1.0, "strip_accents": "unicode"},
    ],
)
def test_counts_are_those_of_the_count_vectorizer(monkeypatch, settings):
    monkeypatch.setattr(text, "_CHUNK", 10)  # many chunks
    texts = [row["body"] for row in ROWS] + ["", "dog dog DOG dogs", "the bees and the cats left"]
    with pytest.warns(UserWarning, match="documents"):
        corpus = Corpus.from_texts(texts, **settings)
    vectorizer = CountVectorizer(**{"token_pattern": text.WORD, **settings})
    np.testing.assert_array_equal(corpus.counts.toarray(), vectorizer.fit_transform(texts).toarray())
    assert corpus.vocabulary == list(vectorizer.get_feature_names_out())


def test_settings_go_through_json_and_refuse_nonsense():
    settings = TextSettings(stop_words=["a", "b"], ngram_range=[1, 3], min_df=0.1, email=True)
    assert TextSettings.from_json(json.loads(json.dumps(settings.to_json()))) == settings
    for value, message in (({"version": 2}, "of version 2"), ({"version": 1, "zeal": 3}, "hold zeal")):
        with pytest.raises(ValueError, match=message):
            TextSettings.from_json(value)
    for options, message in (({"min_df": 2.5}, "min_df must be"), ({"max_df": -1}, "max_df must be"),
                             ({"ngram_range": (2, 1)}, "ngram_range must be")):  # fmt: skip
        with pytest.raises(ValueError, match=message):
            TextSettings(**options)
    with pytest.raises(ValueError, match="no list of stop words for 'klingon': give one of english, dutch"):
        Corpus.from_texts(["cats"], stop_words="klingon")


def test_stop_words_of_languages():
    for language in LANGUAGES:
        words = stop_words(language.upper())
        assert len(words) > 100
        assert all(word == word.lower() for word in words)
    assert "und" in stop_words("german")
    assert "avec" in stop_words("french")


def test_texts_are_streamed():
    def texts():
        for n in range(3000):
            yield " ".join(f"w{'abcdefghij'[(n + i) % 10] * 3}" for i in range(1000))

    tracemalloc.start()
    corpus = Corpus.from_texts(texts(), max_df=1.0)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert corpus.shape == (3000, 10)
    assert peak < 3_000_000  # of 15 MB of text


MESSAGE = """From: someone@example.org
Subject: Re: engines
Article-I.D.: usenet.C5t0
X-Long: one
 two

In article <1@x> other@example.org writes:
> quoted words here
Jim> more quoted words
The engine hums.

: also quoted
Indeed.
--
Some One, Ltd.
"""


def test_the_body_of_a_message():
    assert message_body(MESSAGE) == "The engine hums.\n\nIndeed."
    assert message_body("No header here: it\njust begins.") == "No header here: it\njust begins."
    long_rule = "\n".join(["Above", "---", *["still the text"] * 20])
    assert message_body(long_rule) == long_rule
    assert message_body("") == ""
    corpus = Corpus.from_texts([MESSAGE, "The engine"], email=True, min_df=1, max_df=1.0)
    assert corpus.vocabulary == ["engine", "hums"]


@given(st.text(max_size=300))
def test_any_text_has_a_body(message):
    assert len(message_body(message)) <= len(message)


@pytest.fixture
def themes():
    rng = np.random.default_rng(0)
    words = [["cat", "dog", "fur"], ["star", "moon", "sky"]]
    return [" ".join(rng.choice(words[i % 2], size=rng.integers(3, 40))) for i in range(200)]


def test_models_take_texts_and_remember_how(themes, tmp_path):
    model = DiscreteICA(2).fit(Corpus.from_texts(themes, max_df=1.0, stop_words=["moon"], ngram_range=(1, 2)))
    model.save(tmp_path / "m")
    again = load(tmp_path / "m")
    assert again.text_settings_ == model.text_settings_
    assert again.training_data_ == model.training_data_
    assert again.training_data_["documents"] == 200
    new = ["Cat DOG zebra", "star MOON sky"]
    counted = again.count(new)
    words = list(again.feature_names_in_)
    assert counted.counts[0, words.index("cat dog")] == 1
    assert counted.counts[1, words.index("star sky")] == 1
    for texts in (new, tuple(new), pd.Series(new), np.array(new)):
        np.testing.assert_array_equal(again.transform(texts), model.transform(counted))
    assert isinstance(again.score(new), float)
    with pytest.warns(UserWarning, match="1 of the 2 documents"):
        theta = again.transform(["zebra", "cat"])
    np.testing.assert_allclose(theta[0], again.concentration_ / again.concentration_.sum())


def test_models_are_fitted_on_lists_of_texts(themes):
    model = DiscreteICA(2).fit([text + " filler" for text in themes])
    assert "filler" not in model.feature_names_in_  # in more than half of the documents
    with pytest.raises(ValueError, match="knows no words"):
        DiscreteICA(2).fit(model.count(themes).counts).transform(["cat"])


def test_model_folders_of_the_first_format_are_read(themes, tmp_path):
    DiscreteICA(2).fit(Corpus.from_texts(themes, max_df=1.0)).save(tmp_path / "m")
    file = tmp_path / "m" / "model.json"
    description = json.loads(file.read_text())
    del description["text_settings"], description["training_data"]
    description["format_version"] = 1
    file.write_text(json.dumps(description))
    old = load(tmp_path / "m")
    assert old.text_settings_ is None
    assert old.transform(["cat dog fur cat"]).max() > 0.8
    old.save(tmp_path / "again")
    assert load(tmp_path / "again").training_data_ == {}


def test_columns_of_the_fit_are_used_and_may_be_missing_later(themes, tmp_path):
    rows = [{"body": text, "side": str(i % 2)} for i, text in enumerate(themes)]
    (tmp_path / "x.jsonl").write_text("\n".join(map(json.dumps, rows)))
    model = DiscreteICA(2).fit(Corpus.from_file(tmp_path / "x.jsonl", text="body", label="side", max_df=1.0))
    assert model.training_data_["columns"] == {"text": "body", "label": "side", "date": None, "id": None}
    assert model.count(tmp_path / "x.jsonl").documents.labels == [str(i % 2) for i in range(200)]
    (tmp_path / "new.csv").write_text("body\ncat dog\n")
    assert model.count(str(tmp_path / "new.csv")).documents.labels is None


def test_documents_beside_counts():
    documents = Documents(labels=["a", "b"], dates=[2001, 2002])
    corpus = Corpus(np.eye(2), documents=documents)
    assert corpus.cut(1).documents.labels == ["a", "b"]
    with pytest.raises(ValueError, match="there are 2 labels for 3 documents"):
        Corpus(np.eye(3), documents=documents)
    texts = ["cat", "dog"]
    changed = Corpus.from_texts(texts, min_df=1)
    texts.pop()
    with pytest.raises(InputFileError, match="has changed since it was counted"):
        changed.documents.texts([1])
