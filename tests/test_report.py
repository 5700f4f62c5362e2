"""The report as data and as a file; tests/test_browser.py drives it in a browser."""

from __future__ import annotations

import json
import re

import numpy as np
import pytest

from momentopic import Corpus, DiscreteICA, simulate, spectrum
from momentopic.corpus import Documents
from momentopic.corpus.records import Record, RowsSource
from momentopic.report import prepare, render, write_report
from momentopic.report.groups import by_label, by_time
from momentopic.report.layout import map_positions, topic_distances
from momentopic.report.page import embedded

from .conftest import planted_topics

THEMES = [["cat", "dog", "fur", "paw"], ["star", "moon", "sky", "sun"], ["bread", "milk", "salt", "oil"]]


def corpus_of_themes(n=300, **options):
    rng = np.random.default_rng(0)
    texts = [" ".join(rng.choice(THEMES[i % 3], size=rng.integers(5, 60))) for i in range(n)]
    return Corpus.from_texts(
        texts, labels=["abc"[i % 3] for i in range(n)], dates=[1990 + i % 3 for i in range(n)], max_df=1.0, **options
    )


@pytest.fixture(scope="module")
def corpus():
    return corpus_of_themes()


@pytest.fixture(scope="module")
def model(corpus):
    return DiscreteICA(3).fit(corpus)


def read_back(page):
    return json.loads(re.search(r'<script type="application/json" id="data">(.*?)</script>', page, re.DOTALL)[1])


def test_topics_keep_their_numbers_and_words(model, corpus):
    data = prepare(model, corpus)
    assert len(data["topics"]) == 3
    for k, (topic, words) in enumerate(zip(data["topics"], model.topics(4), strict=True)):
        assert [data["vocabulary"][m] for m in topic["words"]][:4] == [word for word, _ in words]
        np.testing.assert_allclose(topic["phi"][:4], [probability for _, probability in words], rtol=1e-3)
        theme = next(i for i, theme in enumerate(THEMES) if words[0][0] in theme)
        label = int(np.argmax(data["labels"]["shares"][k]))
        assert data["labels"]["names"][label] == "abc"[theme]
        year = int(np.argmax(data["time"]["shares"][k]))
        assert data["time"]["names"][year] == str(1990 + theme)
        best = data["documents"][topic["documents"][0]]
        assert best["label"] == "abc"[theme]
        assert best["text"] == corpus.documents.texts([best["n"]])[0]
        assert topic["weights"] == sorted(topic["weights"], reverse=True)
    tokens = model.transform(corpus) * np.asarray(corpus.counts.sum(axis=1))
    np.testing.assert_allclose([t["share"] for t in data["topics"]], tokens.sum(axis=0) / tokens.sum(), rtol=1e-3)
    assert data["spectrum"]["supported"] == 3
    cat = data["vocabulary"].index("cat")
    assert data["wordTopics"][cat][0] == next(k for k in range(3) if model.topics(1)[k][0][0] in THEMES[0])
    assert data["wordTopics"][cat][1] > 950


def test_a_model_alone(model):
    data = prepare(model)
    assert data["documents"] == []
    assert data["labels"] is data["time"] is None
    assert data["spectrum"]["floor"] is None
    np.testing.assert_allclose(data["spectrum"]["eigenvalues"], model.eigenvalues_, rtol=1e-3)
    np.testing.assert_allclose(
        [topic["share"] for topic in data["topics"]], model.concentration_ / model.concentration_.sum(), rtol=1e-3
    )
    assert read_back(render(data)) == data


def test_every_position_of_the_slider_has_its_words():
    D = planted_topics(400, 4)
    model = DiscreteICA(4).fit(simulate.gamma_poisson(D, np.full(4, 0.3), 2000, mean_length=80))
    data = prepare(model, n_words=10)
    shares = model.concentration_ / model.concentration_.sum()
    p = shares @ model.components_
    for k, topic in enumerate(data["topics"]):
        kept = {data["vocabulary"][m] for m in topic["words"]}
        for weight in (0.0, 0.35, 0.6, 1.0):
            phi = model.components_[k] + 1e-300
            relevance = weight * np.log(phi) + (1 - weight) * np.log(phi / (p + 1e-300))
            assert {f"word{m}" for m in np.argsort(-relevance)[:10]} <= kept


def test_counts_without_texts_are_shown_by_their_words():
    X = simulate.gamma_poisson(planted_topics(30, 2), np.full(2, 0.3), 200, mean_length=40)
    corpus = Corpus(X, documents=Documents(labels=["x", "y"] * 100, ids=[f"d{i}" for i in range(200)]))
    data = prepare(DiscreteICA(2).fit(corpus), corpus, n_documents=3)
    first = data["documents"][0]
    row = X[first["n"]].toarray().ravel()
    assert first["text"].startswith(f"word{row.argmax()} {row.max()}")
    assert first["id"] == f"d{first['n']}"
    assert all(len(topic["documents"]) == 3 for topic in data["topics"])


def test_large_reports_stay_small(tmp_path):
    rng = np.random.default_rng(0)
    K, M, N = 100, 20_000, 20_000
    D = rng.dirichlet(np.full(M, 0.02), size=K).T
    X = simulate.gamma_poisson(D, np.full(K, 0.02), N, mean_length=60, random_state=0)
    words = [f"{'longword'[: rng.integers(2, 9)]}{m}" for m in range(M)]
    texts = ["ünïcode text of a document, rather long " * 40] * N
    corpus = Corpus(X, words, empty_ok=True)
    source = RowsSource("texts", lambda: (Record(text) for text in texts))
    corpus.documents = Documents(labels=[f"label {i % 500}" for i in range(N)], dates=range(1700, 1700 + N),
                                 source=source)  # fmt: skip
    model = DiscreteICA(K)
    small = vars(DiscreteICA(2).fit(corpus_of_themes()))
    vars(model).update({name: value for name, value in small.items() if "_" in (name[0], name[-1])})
    model.components_, model.concentration_ = np.ascontiguousarray(D.T), np.full(K, 0.02)
    model.n_features_in_, model.feature_names_in_ = M, np.array(words, dtype=object)
    page = tmp_path / "r.html"
    write_report(model, page, corpus, found=spectrum(X[:400, X[:400].getnnz(axis=0) > 3], 100, n_splits=1))
    assert page.stat().st_size < 5_000_000
    data = read_back(page.read_text(encoding="utf-8"))
    assert len(data["labels"]["names"]) == 40
    assert data["labels"]["names"][-1] == "(461 others)"
    assert len(data["documents"]) > 1000


HOSTILE = "</script><img src=x onerror=alert(1)><!-- <script> ]]> & \u2028 \u2029 \" ' ` ${1}"


def test_hostile_strings_are_no_markup(tmp_path):
    texts = [f"cat dog {HOSTILE} {i}" for i in range(30)] + ["moon star " * 3] * 30
    corpus = Corpus.from_texts(texts, labels=[HOSTILE, "b"] * 30, ids=[HOSTILE] * 60, max_df=1.0, token_pattern=r"\S+",
                               lowercase=False, stop_words=None, min_df=1)  # fmt: skip
    model = DiscreteICA(2).fit(corpus)
    page = write_report(model, tmp_path / "r.html", corpus, title=HOSTILE).read_text(encoding="utf-8")
    assert page.count("<script") == 2
    assert page.count("</script>") == 2
    assert "<img" not in page
    assert "\u2028" not in page.partition('id="data"')[2]
    assert "&lt;/script&gt;&lt;img" in page  # the title
    data = read_back(page)
    assert data["title"] == HOSTILE
    assert any(HOSTILE.split(maxsplit=1)[0] in word for word in data["vocabulary"])
    assert json.loads(embedded({"a": HOSTILE})) == {"a": HOSTILE}
    lonely = write_report(model, tmp_path / "s.html", title="half a pair: \ud800")
    assert lonely.exists()


def test_nothing_half_written(model, tmp_path, monkeypatch):
    with pytest.raises(FileNotFoundError, match="there is no folder"):
        model.report(tmp_path / "no" / "r.html")
    with pytest.raises(IsADirectoryError, match="it is a folder"):
        model.report(tmp_path)
    (tmp_path / "r.html").write_text("old")

    def fail(*args):
        raise OSError("disk full")

    monkeypatch.setattr("pathlib.Path.replace", fail)
    with pytest.raises(OSError, match="disk full"):
        model.report(tmp_path / "r.html")
    assert [path.name for path in tmp_path.iterdir()] == ["r.html"]
    assert (tmp_path / "r.html").read_text() == "old"


def test_the_page_allows_no_network_and_no_other_script(model):
    page = render(prepare(model))
    policy = re.search(r'Content-Security-Policy" content="([^"]*)"', page)[1]
    assert policy.startswith("default-src 'none'; style-src 'sha256-")
    assert "unsafe" not in policy
    assert not re.findall(r"(?:src|href)=\"(?:https?:)?//", page)
    assert "http://www.w3.org/2000/svg" in page  # a name, not an address
    assert len(re.findall(r"https?://", page)) == 1


def test_distances_and_positions():
    topics = np.array([[1.0, 0, 0], [0, 1, 0], [0.5, 0.5, 0], [1, 0, 0]])
    distances = topic_distances(topics)
    assert distances[0, 1] == pytest.approx(1)
    assert distances[0, 3] == pytest.approx(0, abs=1e-7)
    assert 0 < distances[0, 2] < 1
    np.testing.assert_array_equal(distances, distances.T)
    positions, radii = map_positions(distances, np.array([0.4, 0.3, 0.2, 0.1]))
    assert ((positions >= radii[:, None] - 1e-9) & (positions <= 1 - radii[:, None] + 1e-9)).all()
    assert np.linalg.norm(positions[0] - positions[3]) > 0.05  # moved apart
    np.testing.assert_allclose(radii**2 / radii[0] ** 2, np.array([0.4, 0.3, 0.2, 0.1]) / 0.4)
    one, _ = map_positions(np.zeros((1, 1)), np.ones(1))
    np.testing.assert_allclose(one, [[0.5, 0.5]])


def test_groups():
    tokens = np.array([[1.0, 0], [1, 2], [0, 4]])
    groups = by_label(["b", None, "b"], tokens)
    assert groups.names == ["b", "(none)"]
    np.testing.assert_allclose(groups.shares, [[0.2, 0.8], [1 / 3, 2 / 3]])
    assert by_label(list("abcde"), np.ones((5, 1)), most=3).names == ["a", "b", "(3 others)"]
    years = np.array(["1790", "1801", "NaT"], dtype="datetime64[D]")
    assert by_time(years, tokens).names == [str(year) for year in range(1790, 1802)]
    assert by_time(np.array(["1790", "2020"], dtype="datetime64[D]"), tokens[:2]).names[:2] == [
        "1790–1794",
        "1795–1799",
    ]
    assert by_time(np.array(["1993-04-21", "1993-04-23"], dtype="datetime64[D]"), tokens[:2]).names[0] == "1993-04-21"
    assert by_time(np.array(["1993-04", "1994-04"], dtype="datetime64[D]"), tokens[:2]).names[0] == "1993-04"
    assert by_time(np.array(["1983-05", "1996-04"], dtype="datetime64[D]"), tokens[:2]).names[:2] == [
        "1983 Q2",
        "1983 Q3",
    ]
    assert by_time(np.array(["NaT"], dtype="datetime64[D]"), tokens[:1]) is None
    empty = by_time(np.array(["1990", "1992"], dtype="datetime64[D]"), tokens[:2])
    np.testing.assert_array_equal(empty.shares[1], 0)
