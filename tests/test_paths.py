"""The path: every K from one pass against separate fits, its evidence, its suggestion, its flow and its page."""

from __future__ import annotations

import base64
import csv
import hashlib
import html.parser
import itertools
import json
import re

import numpy as np
import pytest
import scipy.sparse as sp
from typer.testing import CliRunner

import momentopic
from momentopic import Corpus, DiscreteICA, heldout, metrics, simulate
from momentopic.cli.app import app
from momentopic.cli.path import parsed_ks
from momentopic.exceptions import RankError
from momentopic.flow import Level, drawing, flow
from momentopic.heldout import HeldOut
from momentopic.suggest import suggest

from .conftest import planted_topics
from .test_cli import run

KS = (2, 3, 5, 8)


@pytest.fixture(scope="module")
def planted():
    return simulate.gamma_poisson(planted_topics(200, 5), np.full(5, 0.3), 1500, mean_length=80, random_state=1)


@pytest.fixture(scope="module")
def found(planted):
    words = [f"w{m}" for m in range(planted.shape[1])]
    words[planted.sum(axis=0).argmax()] = "<b>&\"'"
    return momentopic.path(Corpus(planted, words), KS)


@pytest.mark.parametrize("k", KS)
def test_topics_equal_a_separate_fit(found, planted, k):
    alone = DiscreteICA(k, refine=None).fit(planted)
    model = found.models[k]
    np.testing.assert_allclose(model.components_, alone.components_, atol=1e-6)
    np.testing.assert_allclose(model.concentration_, alone.concentration_, rtol=1e-5)
    np.testing.assert_allclose(model.intensity_third_cumulant_, alone.intensity_third_cumulant_, rtol=1e-3)
    assert model.rate_ == pytest.approx(alone.rate_, rel=1e-6)
    assert model.n_components == k
    assert model.get_params()["refine"] is None


def test_the_same_bits_for_any_number_of_threads(planted):
    from momentopic.engine import ThreadEngine

    paths = [momentopic.path(planted, KS, engine=ThreadEngine(n)) for n in (1, 2, 3)]
    for k in KS:
        for other in paths[1:]:
            assert (paths[0].models[k].components_ == other.models[k].components_).all()


def test_seeds_matter_only_within_the_tolerance(found, planted):
    other = momentopic.path(planted, KS, random_state=7)
    for k in KS:
        np.testing.assert_allclose(found.models[k].components_, other.models[k].components_, atol=1e-6)


def test_a_refined_path_starts_each_k_from_its_moments(planted):
    few = planted[:300]
    refined = momentopic.path(few, (2, 5), refine="collapsed", heldout=0)
    alone = DiscreteICA(5, refine="collapsed").fit(few)
    # the starts differ in their last digits, so the draws differ: other chains, about the same topics
    assert metrics.recovery_error(refined.models[5].components_, alone.components_.T) < 0.05
    assert refined.models[5].n_iter_ > 10
    assert refined.scores == {}


def test_scores_are_those_of_documents_no_topic_has_seen(found, planted):
    N = planted.shape[0]
    order = np.random.default_rng(0).permutation(N)
    held, others = np.sort(order[: N // 10]), np.sort(order[N // 10 :])
    model = DiscreteICA(5, refine=None).fit(planted[others])
    expected = heldout.completion(planted[held], model.components_, model.concentration_, smoothing=0.01)
    assert found.scores[5].bits_per_token == pytest.approx(expected.bits_per_token, abs=1e-6)
    assert found.scores[5].stderr == pytest.approx(expected.stderr, abs=1e-6)


def test_table(found):
    rows = found.table
    assert [row["k"] for row in rows] == list(KS)
    noise = momentopic.spectrum(found._corpus, KS[-1])
    for row in rows:
        k = row["k"]
        assert row["eigenvalue"] == noise.eigenvalues[k - 1]
        assert row["floor"] == noise.floor
        assert row["bits_per_token"] == found.scores[k].bits_per_token
        assert 0 < row["stability"] <= 1
    coherences = [row["coherence"] for row in rows]
    assert coherences.index(max(coherences)) == KS.index(5)
    assert list(found.to_frame()["k"]) == list(KS)


def test_suggestion_of_planted_topics(found):
    assert found.suggestion.k == 5
    assert "5 directions are found again" in found.suggestion.reason
    assert str(found.suggestion).startswith("5 topics. ")


def test_independent_words_have_no_topics():
    X = sp.csr_matrix(np.random.default_rng(0).poisson(0.3, size=(600, 150)))
    noise = momentopic.path(X, (2, 5))
    assert noise.suggestion.k is None
    assert "no topics to find" in str(noise.suggestion)


class Noise:
    def __init__(self, supported, open_ended=False):
        self.supported, self.open_ended = supported, open_ended


def scores(**bits):
    """Scores of two documents whose difference between any two K has a standard error of 0.1 bits or so."""
    tokens = np.array([50.0, 50.0])
    return {
        int(name[1:]): HeldOut(np.log(2) * (value * tokens + [5, -5] * np.array(int(name[1:]) % 2)), tokens, 0)
        for name, value in bits.items()
    }


@pytest.mark.parametrize(
    ("supported", "bits", "refined", "expected"),
    [
        (7, None, False, 6),  # the nearest, the smaller of two
        (5, None, False, 4),
        (100, None, False, 8),
        (8, {"k2": -9, "k4": -8, "k6": -7, "k8": -6}, False, 8),
        (6, {"k2": -9, "k4": -8, "k6": -7, "k8": -6}, False, 6),  # the moments do not support more
        (8, {"k2": -9, "k4": -8, "k6": -5, "k8": -6}, False, 6),
        (2, {"k2": -9, "k4": -8, "k6": -7, "k8": -6}, True, 8),  # the refinement does
        (1, {"k2": -9, "k4": -8, "k6": -7, "k8": -6}, True, None),
    ],
)
def test_rule(supported, bits, refined, expected):
    found = suggest((2, 4, 6, 8), Noise(supported), bits and scores(**bits), refined=refined)
    assert found.k == expected


def test_of_scores_within_one_standard_error_the_smaller_k_is_taken():
    # documents 6 and 7 differ by ±0.1 bits a token around a mean of 0.05 bits: one standard error is 0.1
    pair = scores(k6=-7.05, k7=-7.0)
    difference = HeldOut(pair[7].nats - pair[6].nats, pair[6].tokens, 0)
    assert difference.stderr == pytest.approx(0.1)
    assert suggest((6, 7), Noise(7), pair).k == 6
    assert suggest((6, 7), Noise(7), scores(k6=-7.15, k7=-7.0)).k == 7


def test_fewer_directions_than_the_smallest_k():
    found = suggest((10, 20), Noise(3))
    assert found.k == 3
    assert "fewer than the smallest K" in found.reason


@pytest.mark.parametrize(
    ("ks", "message"),
    [
        ((), "ks is empty"),
        ((5, 5), "must increase, but 5 comes after 5"),
        ((10, 5), "must increase, but 5 comes after 10"),
        ((0, 5), "at least 1"),
        ((2.5, 5), "whole numbers"),
        ((5, 500), "cannot be told apart with 200 words"),
        ((5, 199), "positive eigenvalues"),
    ],
)
def test_bad_ks(planted, ks, message):
    with pytest.raises(ValueError, match=message):
        momentopic.path(planted, ks)


def test_ks_beyond_the_positive_spectrum_say_how_many_there_are(planted):
    X = planted.toarray()
    S = np.cov(X.T) - np.diag(X.mean(axis=0))
    n_positive = int((np.linalg.eigvalsh(S) > 1e-10).sum())
    with pytest.raises(RankError, match=f"only {n_positive} positive eigenvalues.*leaves 1 of these 2"):
        momentopic.path(planted, (5, 199))


@pytest.mark.parametrize(("option", "message"), [({"heldout": 1.0}, "below 1"), ({"refine": "vi"}, "refine must be")])
def test_bad_options(planted, option, message):
    with pytest.raises(ValueError, match=message):
        momentopic.path(planted, KS, **option)


def test_a_data_frame_keeps_its_words(planted):
    pd = pytest.importorskip("pandas")
    words = [f"w{m}" for m in range(planted.shape[1])]
    some = momentopic.path(pd.DataFrame(planted[:200].toarray(), columns=words), (2,), heldout=0)
    assert some.models[2].topics(1)[0][0][0] in words
    assert "word" not in str(some.flow)


def test_models_have_the_engine_and_the_documents_they_were_given(planted):
    """An engine that still shows its progress would start a bar that nobody stops."""
    from momentopic.engine import ThreadEngine

    plain = ThreadEngine(2)
    some = momentopic.path(planted[:300], (2, 3), engine=plain, heldout=0, verbose=1)
    assert all(model.engine is plain for model in some.models.values())
    assert some._moments.engine is plain
    assert some.stability is not None
    assert some._moments.engine is plain
    assert momentopic.path(planted[:300], (2,), heldout=0).models[2].engine == "auto"
    assert some.models[2].intensities().n_documents == 300


class Summing:
    """An engine that does no more than sums."""

    def __init__(self):
        from momentopic.engine import ThreadEngine

        self.sum, self.map = ThreadEngine().sum, ThreadEngine().map

    def __repr__(self):
        return "Summing()"


def test_an_engine_of_sums_alone(planted):
    few = planted[:200]
    for fit in (
        DiscreteICA(2, engine=Summing()).fit,
        lambda X: momentopic.path(X, (2,), refine="collapsed", engine=Summing()),
    ):
        with pytest.raises(ValueError, match=r"Summing\(\) has no methods update and turn, which a refinement needs"):
            fit(few)
    some = momentopic.path(few, (2,), engine=Summing())
    assert some.table[0]["coherence"] is not None
    with pytest.raises(ValueError, match=r"Summing\(\) has no method update, which intensities need"):
        some.models[2].intensities()


@pytest.mark.parametrize("M", [1, 2, 7])
def test_few_words(M):
    X = np.random.default_rng(0).negative_binomial(1, 0.3, size=(40, 1)) * np.ones((1, M), dtype=int)
    X = X + np.random.default_rng(1).poisson(0.5, size=(40, M)) + 1
    some = momentopic.path(X, (1,))
    assert (some.table[0]["coherence"] is None) == (M == 1)


def test_few_documents(tmp_path):
    pyplot = pytest.importorskip("matplotlib.pyplot")
    pyplot.switch_backend("Agg")
    X = np.array([[5, 4, 0, 0], [3, 6, 0, 1], [0, 0, 7, 3], [0, 1, 4, 6], [9, 5, 0, 0]])
    some = momentopic.path(X, (1, 2))
    assert some.spectrum is None
    assert some.table[0]["eigenvalue"] is None
    assert some.suggestion.k is None
    assert "too few documents" in str(some.suggestion)
    some.plot()
    some.report(tmp_path / "path.html")
    pyplot.close("all")
    with pytest.raises(ValueError, match="setting aside 1 of 3 documents leaves fewer than 3"):
        momentopic.path(X[:3], (1,))
    assert momentopic.path(X[:3], (1,), heldout=0).table[0]["bits_per_token"] is None


def test_numbers_of_topics_that_fewer_documents_do_not_support_have_no_score(planted, tmp_path):
    """Words that are in few documents are directions of their own, until one of those is set aside."""
    pyplot = pytest.importorskip("matplotlib.pyplot")
    pyplot.switch_backend("Agg")
    N = 40
    aside = np.sort(np.random.default_rng(0).permutation(N)[:4])
    X = np.zeros((N, 8), dtype=int)
    X[:, :4] = np.random.default_rng(1).poisson([[6, 6, 0, 0], [0, 0, 6, 6]] * (N // 2))
    for m, n in zip(range(4, 8), aside, strict=True):
        X[n, m] = 20
    some = momentopic.path(X, (1, 5))
    assert set(some.scores) == {1}
    assert [row["bits_per_token"] is None for row in some.table] == [False, True]
    assert some.suggestion is not None
    some.plot()
    some.report(tmp_path / "path.html")
    pyplot.close("all")


def test_a_k_without_a_score_is_not_suggested():
    bits = scores(k2=-9, k4=-8)
    assert suggest((2, 4, 6, 8), Noise(8), bits).k == 4
    assert suggest((2, 4, 6, 8), Noise(8), bits, refined=True).k == 4
    assert suggest((6, 8), Noise(8), bits).k == 8


def test_nothing_is_counted_before_the_rest_is_checked(monkeypatch):
    monkeypatch.setattr(Corpus, "from_texts", lambda *_, **__: pytest.fail("texts were counted"))
    for options in ({"ks": (5, 2)}, {"heldout": 2}, {"refine": "vi"}):
        with pytest.raises(ValueError, match="must|heldout"):
            momentopic.path(["a text", "another"], **{"ks": (2,), **options})


def test_flow_joins_topics_to_those_whose_words_they_share():
    first = np.array([[0.5, 0.5, 0, 0, 0], [0, 0, 0.5, 0.5, 0]])
    second = np.array([[0, 0, 0, 1.0, 0], [0.5, 0.5, 0, 0, 0], [0, 0, 1.0, 0, 0], [0, 0.01, 0, 0, 0.99]])
    levels = flow({2: first, 4: second}, {2: np.array([0.4, 0.6]), 4: np.array([0.1, 0.5, 0.2, 0.2])})
    assert list(levels[0].order) == [1, 0]
    assert list(levels[1].parent) == [1, 0, 1, 0]
    np.testing.assert_allclose(levels[1].similarity, [np.sqrt(0.5), 1, np.sqrt(0.5), np.sqrt(0.005)])
    assert levels[1].split() == {1: [0, 2]}
    assert levels[1].new == [3]
    assert list(levels[1].order) == [2, 0, 1, 3]  # under their parents, the larger first


def test_drawing_keeps_bars_apart_and_ribbons_at_their_bars(found):
    bars, ribbons = drawing(found.flow)
    assert len(bars) == sum(KS)
    assert len(ribbons) == sum(KS[1:])
    edges = {(bar.x, bar.top): bar for bar in bars}
    for k in KS:
        column = [bar for bar in bars if bar.k == k]
        for upper, lower in itertools.pairwise(column):
            assert upper.bottom < lower.top
        assert column[-1].bottom == pytest.approx(1)
    for ribbon in ribbons:
        bar = edges[ribbon.right[0], ribbon.right[1]]
        assert ribbon.right[2] == bar.bottom
    # the ribbons that leave a topic fill its edge
    for left, level in zip(found.flow, found.flow[1:], strict=False):
        for parent in set(level.parent):
            (bar,) = (bar for bar in bars if bar.k == left.k and bar.topic == parent)
            leaving = sorted(r.left[1:] for r in ribbons if r.left[0] == bar.x and bar.top <= r.left[1] < bar.bottom)
            assert leaving[0][0] == pytest.approx(bar.top)
            assert leaving[-1][1] == pytest.approx(bar.bottom)
            for upper, lower in itertools.pairwise(leaving):
                assert upper[1] == pytest.approx(lower[0])


def test_one_level_has_no_ribbons():
    level = Level(2, np.array([0.5, 0.5]), np.full(2, -1), np.full(2, np.nan), np.arange(2))
    bars, ribbons = drawing([level])
    assert (len(bars), ribbons) == (2, [])


class Page(html.parser.HTMLParser):
    def __init__(self):
        super().__init__()
        self.tags, self.text, self.open = [], [], []

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))

    def handle_data(self, data):
        self.text.append(data)


def test_page(found, tmp_path):
    written = found.report(tmp_path / "path.html", title="A <b>title</b>")
    page = Page()
    page.feed(written.read_text(encoding="utf-8"))
    tags = [tag for tag, _ in page.tags]
    assert "b" not in tags
    assert "script" not in tags
    assert tags.count("rect") == sum(KS)
    text = " ".join(page.text)
    assert str(found.suggestion) in text
    assert "A <b>title</b>" in text
    assert "<b>&\"'" in text  # the word that looks like markup
    drawings = [attrs for tag, attrs in page.tags if tag == "svg"]
    assert all(attrs["role"] == "img" and attrs["aria-label"] for attrs in drawings)
    assert not any("style" in attrs for _, attrs in page.tags)  # the policy would not have it
    assert [file.name for file in tmp_path.iterdir()] == ["path.html"]


def test_a_report_has_the_path_too(found, planted, tmp_path):
    model = found.models[5]
    plain = model.report(tmp_path / "plain.html").read_text()
    both = model.report(tmp_path / "both.html", topic_path=found).read_text()
    assert str(found.suggestion) in both
    assert str(found.suggestion) not in plain
    assert "{{" not in plain
    for page in (plain, both):
        style = re.search(r"<style>(.*?)</style>", page, re.DOTALL)[1]
        assert base64.b64encode(hashlib.sha256(style.encode()).digest()).decode() in page  # its policy allows it
        ids = re.findall(r' id="([^"]+)"', page)
        assert len(ids) == len(set(ids))


def test_pictures(found):
    pyplot = pytest.importorskip("matplotlib.pyplot")
    pyplot.switch_backend("Agg")
    table, joined = found.plot(), found.plot_flow()
    assert [panel.get_title() for panel in table.axes][1] == "bits per token of documents set aside"
    assert len(joined.axes[0].patches) == sum(KS) + sum(KS[1:])
    pyplot.close("all")


@pytest.mark.parametrize(
    ("text", "expected"),
    [("5:15:5", [5, 10, 15]), ("5:16:5", [5, 10, 15]), ("3:5", [3, 4, 5]), ("10,20,50", [10, 20, 50]), ("7", [7])],
)
def test_ks_of_the_command(text, expected):
    assert parsed_ks(text) == expected


@pytest.mark.parametrize("text", ["", "a", "5:b:1", "1:2:3:4", "5:10:0", "10:5:1"])
def test_bad_ks_of_the_command(text):
    with pytest.raises(ValueError, match="--k"):
        parsed_ks(text)


def test_command(planted, tmp_path):
    sp.save_npz(tmp_path / "counts.npz", planted)
    arguments = ["path", str(tmp_path / "counts.npz"), "--k", "2,5,8", "-o", str(tmp_path / "out"), "--json"]
    result = json.loads(CliRunner().invoke(app, arguments).stdout)
    assert result["suggestion"] == 5
    with (tmp_path / "out" / "table.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert [int(row["k"]) for row in rows] == [2, 5, 8]
    assert float(rows[1]["bits_per_token"]) == result["table"][1]["bits_per_token"]
    assert {"table.csv", "path.html"} <= {file.name for file in (tmp_path / "out").iterdir()}


def test_command_refuses_in_one_line(planted, tmp_path):
    sp.save_npz(tmp_path / "counts.npz", planted)
    done = run("path", tmp_path / "counts.npz", "--k", "10,5", code=2)
    assert "must increase" in done.stderr
    assert len(done.stderr.splitlines()) == 1
