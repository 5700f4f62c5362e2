"""Figures, tables and what a notebook shows."""

from __future__ import annotations

import json
import sys

import numpy as np
import pytest
from sklearn.exceptions import NotFittedError

from momentopic import Corpus, DiscreteICA, simulate, spectrum
from momentopic.exceptions import MissingPackageError
from momentopic.plots import save_figure

from .conftest import planted_topics

matplotlib = pytest.importorskip("matplotlib")
matplotlib.use("Agg")


@pytest.fixture(scope="module")
def corpus():
    X = simulate.gamma_poisson(planted_topics(60, 3), np.full(3, 0.3), 1000, mean_length=40)
    return Corpus(X, [f"<b>$w_{m}$" for m in range(60)])


@pytest.fixture(scope="module")
def model(corpus):
    return DiscreteICA(3).fit(corpus)


def test_topics_as_a_frame(model):
    frame = model.to_frame(5)
    assert list(frame.columns) == ["topic", "share", "rank", "word", "probability"]
    assert len(frame) == 15
    for k, words in enumerate(model.topics(5)):
        part = frame[frame.topic == k]
        assert list(zip(part.word, part.probability, strict=True)) == words
        assert list(part["rank"]) == [1, 2, 3, 4, 5]
    assert frame.groupby("topic").share.first().sum() == pytest.approx(1)


def test_figures(model, corpus, tmp_path):
    figure = model.plot_topics(4)
    panels = [panel for panel in figure.axes if panel.get_visible()]
    assert [panel.get_title().split(" (")[0] for panel in panels] == ["topic 0", "topic 1", "topic 2"]
    shown = [label.get_text().replace("\\$", "$") for label in panels[1].get_yticklabels()]
    assert shown == [word for word, _ in model.topics(4)[1]]
    assert len(model.plot_topics(4, topics=[2]).axes) == 1
    bars = model.plot_spectrum().axes[0].patches
    np.testing.assert_allclose([bar.get_height() for bar in bars], model.eigenvalues_)
    measured = spectrum(corpus, 10)
    assert model.plot_spectrum(measured).axes[0].get_title() == measured.advice()
    assert len(model.plot_map().axes[0].patches) == 3
    save_figure(model.plot_map(), tmp_path / "map.png")
    assert (tmp_path / "map.png").read_bytes().startswith(b"\x89PNG")
    assert len(list(tmp_path.iterdir())) == 1
    matplotlib.pyplot.close("all")


def test_notebooks_show_topics_and_no_markup_of_words(model):
    shown = model._repr_mimebundle_(include=None)
    assert "&lt;b&gt;$w_" in shown["text/html"]
    assert "<b>" not in shown["text/html"]
    assert shown["text/html"].count("<tr>") == 4
    assert shown["text/plain"] == "DiscreteICA(n_components=3)"
    assert "DiscreteICA(n_components=2)" in DiscreteICA(2)._repr_html_()


def test_the_prepared_data_of_pyldavis(model, corpus):
    data = model.to_pyldavis(corpus, n_words=10)
    assert json.loads(json.dumps(data, allow_nan=False)) == data
    assert set(data) == {"mdsDat", "tinfo", "token.table", "R", "lambda.step", "plot.opts", "topic.order"}
    assert data["mdsDat"]["topics"] == data["topic.order"] == [1, 2, 3]
    assert sum(data["mdsDat"]["Freq"]) == pytest.approx(100)
    info = data["tinfo"]
    assert len({len(column) for column in info.values()}) == 1
    assert info["Category"].count("Default") == 10
    for k in range(3):
        rows = [i for i, name in enumerate(info["Category"]) if name == f"Topic{k + 1}"]
        assert [info["Term"][i] for i in rows[:5]] == [word for word, _ in model.topics(5)[k]]
        np.testing.assert_allclose(np.exp(info["logprob"][rows[0]]), model.components_[k].max())
    table = data["token.table"]
    assert set(table["Term"]) <= set(info["Term"])
    word = info["Term"][0]
    parts = [f for f, term in zip(table["Freq"], table["Term"], strict=True) if term == word]
    assert sum(parts) == pytest.approx(1, abs=0.05)


def test_views_want_a_fitted_model_and_their_packages(model, monkeypatch, tmp_path):
    for look in (lambda m: m.plot_topics(), lambda m: m.plot_map(), lambda m: m.to_frame(), lambda m: m.plot_spectrum(),
                 lambda m: m.report(tmp_path / "r.html"), lambda m: m.to_pyldavis(np.eye(3))):  # fmt: skip
        with pytest.raises(NotFittedError):
            look(DiscreteICA(2))
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(
        MissingPackageError, match=r"matplotlib is needed to draw figures: pip install 'momentopic\[plot\]"
    ):
        model.plot_topics()
    with pytest.raises(MissingPackageError, match="pandas is needed"):
        model.to_frame()
