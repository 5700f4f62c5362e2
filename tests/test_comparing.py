"""Two models, and two groups of documents: planted changes are found, and nothing where there is none."""

from __future__ import annotations

import json

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.exceptions import NotFittedError
from typer.testing import CliRunner

import momentopic
from momentopic import Corpus, DiscreteICA, compare, compare_groups, simulate
from momentopic.cli.app import app
from momentopic.comparing_groups import _squared_influence, _Version
from momentopic.metrics import align_topics

from .conftest import planted_topics
from .test_cli import run

M, K = 300, 8
WORDS = [f"w{m}" for m in range(M)]


def model_of(topics, words=WORDS, tokens=2e5, concentration=None):
    """A fitted model with given topics (rows)."""
    model = DiscreteICA(len(topics))
    model.components_ = np.asarray(topics, dtype=np.float64)
    model.concentration_ = np.full(len(topics), 0.2) if concentration is None else concentration
    model.rate_, model.eigenvalues_ = 0.1, np.ones(len(topics))
    model.n_iter_, model.converged_, model.timings_ = 1, True, {}
    model.n_features_in_ = model.components_.shape[1]
    model.text_settings_ = None
    model._training_data = {"tokens": tokens, "documents": 100, "name": None}
    if words is not None:
        model.feature_names_in_ = np.array(words, dtype=object)
    return model


def noisy(topics, tokens, seed):
    """Topics as frequencies of so many drawn tokens each."""
    rng = np.random.default_rng(seed)
    return np.array([rng.multinomial(tokens, topic / topic.sum()) / tokens for topic in topics])


@pytest.fixture(scope="module")
def topics():
    return planted_topics(M, K).T


def test_a_model_is_what_it_is(topics):
    model = model_of(topics)
    found = compare(model, model)
    assert [topic.status for topic in found.topics] == ["matched"] * K
    assert all(topic.first == topic.second and topic.similarity == pytest.approx(1) for topic in found.topics)
    assert found.summary() == "From first to second: 8 matched, 0 changed, 0 new, 0 gone."
    assert momentopic.compare is compare  # the function, not a module of this name


def test_new_gone_changed_and_matched(topics):
    a, b = noisy(topics, 25_000, 1), topics.copy()
    order = np.argsort(-b[2], kind="stable")
    rising, falling = order[40:43], order[:3]
    b[2, rising] += 0.8 * b[2, falling]
    b[2, falling] *= 0.2
    b = noisy(b, 25_000, 2)[::-1]  # topic k is now number 7 - k
    found = compare(model_of(a[:7]), model_of(b[:7]), names=("May", "June"))
    assert found.summary() == "From May to June: 5 matched, 1 changed, 1 new, 1 gone."
    assert found.topics[0].status == "changed"
    assert (found.topics[0].first, found.topics[0].second) == (2, 5)
    first = {word.word: word for word in found.topics[0].words[:6]}
    assert set(first) == {WORDS[m] for m in [*rising, *falling]}
    assert all(word.z > 10 for name, word in first.items() if name in {WORDS[m] for m in rising})
    assert all(word.z < -10 for name, word in first.items() if name in {WORDS[m] for m in falling})
    assert [topic.second for topic in found.of("new")] == [0]
    assert [topic.first for topic in found.of("gone")] == [0]
    for topic in found.of("matched"):
        assert topic.second == 7 - topic.first
        assert abs(topic.similarity - topic.expected) < 0.05  # nothing but noise
    assert 0.8 < found.inflation < 1.5


def test_topics_that_are_not_reproducible_are_doubted(topics):
    first, second = model_of(topics[:7]), model_of(topics[1:])
    assert "not reproducible" not in compare(first, second).summary()
    first.stability_ = np.linspace(0.1, 0.9, 7)
    found = compare(first, second)
    assert found.of("gone")[0].stability[0] == pytest.approx(0.1)
    assert found.summary().endswith("Of the new and gone topics 1 are not reproducible in their own corpus.")


def test_the_noise_is_that_of_the_tokens(topics):
    """Where nothing changed, the words' z are standard normal, and doubts are as large as they are said to be."""
    found = compare(model_of(noisy(topics, 25_000, 3)), model_of(noisy(topics, 25_000, 4)), n_words=M)
    z = np.array([word.z for topic in found.topics for word in topic.words if word.first > 0.002])
    assert len(z) > 100
    assert 0.8 < np.sqrt((z**2).mean()) < 1.3
    drawn = [compare(model_of(noisy(topics, 5000, s)), model_of(noisy(topics, 5000, s + 50)[::-1])) for s in range(12)]
    of_one = [next(topic for topic in found.topics if topic.first == 4) for found in drawn]
    assert np.std([topic.similarity for topic in of_one]) == pytest.approx(of_one[0].similarity_stderr, rel=0.6)


def test_different_vocabularies_are_aligned_on_the_common_words(topics):
    shuffled = np.random.default_rng(0).permutation(M)
    other = model_of(topics[:, shuffled], [WORDS[m] for m in shuffled])
    found = compare(model_of(topics), other)
    assert all(topic.similarity == pytest.approx(1) for topic in found.topics)
    kept = np.arange(50, M)
    some = topics[:, kept] / topics[:, kept].sum(axis=1, keepdims=True)
    padded = np.hstack([0.5 * some, np.full((K, 10), 0.05)])
    found = compare(model_of(topics), model_of(padded, [*(WORDS[m] for m in kept), *(f"other{i}" for i in range(10))]))
    assert (found.n_common, found.n_only_first, found.n_only_second) == (250, 50, 10)
    assert all(topic.similarity == pytest.approx(1) for topic in found.topics)
    assert found.coverage[1] == pytest.approx(0.5)
    assert "compared on the 250 words that both have (50 are only in first, 10 only in second)" in found.summary()


def test_topics_without_common_words_share_nothing():
    """A topic that is wholly on words of its own model: not half like every topic, nor the same as another such one."""
    common = np.kron(np.eye(2), [0.6, 0.4])
    rows = np.vstack([np.hstack([common, np.zeros((2, 1))]), [[0, 0, 0, 0, 1.0]]])
    found = compare(model_of(rows, [*"abcd", "onlyfirst"]), model_of(rows, [*"abcd", "onlysecond"]))
    assert found.threshold == 0
    assert {(t.status, t.first, t.second) for t in found.topics} == {
        ("matched", 0, 0), ("matched", 1, 1), ("gone", 2, None), ("new", None, 2),
    }  # fmt: skip
    assert [(topic.similarity, topic.top_words[0]) for topic in found.of("gone")] == [(0, "onlyfirst")]
    assert [(topic.similarity, topic.top_words[0]) for topic in found.of("new")] == [(0, "onlysecond")]


def test_single_topics_are_the_same_if_they_share_more_than_half():
    first = model_of([[0.5, 0.5, 0, 0]], list("abcd"))
    assert (
        compare(first, model_of([[0.0, 0.1, 0.4, 0.5]], list("abcd")))
        .summary()
        .endswith("0 matched, 0 changed, 1 new, 1 gone.")
    )
    assert len(compare(first, model_of([[0.2, 0.4, 0.4, 0.0]], list("abcd"))).of("matched")) == 1


def test_models_that_cannot_be_compared(topics):
    with pytest.raises(ValueError, match=r"the vocabulary of second has 1 word\(s\) more than once, 'w0' for one"):
        compare(model_of(topics), model_of(topics, [*WORDS[:-1], "w0"]))
    with pytest.raises(ValueError, match=r"no word in common \(300 and 300 words\)"):
        compare(model_of(topics), model_of(topics, [f"x{m}" for m in range(M)]))
    with pytest.raises(ValueError, match="the model of second does not know its words"):
        compare(model_of(topics), model_of(topics, None))
    with pytest.raises(ValueError, match="the model of first and second does not know"):
        compare(model_of(topics[:, :200], None), model_of(topics, None))
    assert len(compare(model_of(topics, None), model_of(topics, None)).of("matched")) == K
    with pytest.raises(NotFittedError):
        compare(DiscreteICA(2), model_of(topics))
    with pytest.raises(ValueError, match="n_words"):
        compare(model_of(topics), model_of(topics), n_words=0)


@pytest.fixture(scope="module")
def eras():
    """Two groups: topic 0 has other words in the second, 3 is nearly gone, 1 and 2 have other shares."""
    D = planted_topics(250, 4, seed=6)
    later = D.copy()
    order = np.argsort(-D[:, 0], kind="stable")
    later[order[30:33], 0] += 0.8 * D[order[:3], 0]
    later[order[:3], 0] *= 0.2
    A = simulate.gamma_poisson(D, np.array([0.4, 0.2, 0.4, 0.4]), 1200, mean_length=60, random_state=1)
    B = simulate.gamma_poisson(later, np.array([0.4, 0.5, 0.2, 0.005]), 1200, mean_length=60, random_state=2)
    return (
        D,
        order,
        Corpus(sp.vstack([A, B]).tocsr(), [f"w{m}" for m in range(250)]),
        ["early"] * 1200 + ["late"] * 1200,
    )


def test_groups_of_documents(eras):
    D, order, corpus, groups = eras
    model = DiscreteICA(4, n_sweeps=40).fit(corpus)
    found = compare_groups(corpus, groups, model=model)
    aligned = align_topics(model, D.T)
    true = dict(zip(aligned.first.tolist(), aligned.second.tolist(), strict=True))
    assert found.names == ("early", "late")
    status = {true[topic.second if topic.first is None else topic.first]: topic for topic in found.topics}
    assert {k: topic.status for k, topic in status.items()} == {0: "changed", 1: "matched", 2: "matched", 3: "gone"}
    assert {word.word for word in status[0].words[:6]} == {f"w{m}" for m in [*order[:3], *order[30:33]]}
    assert all(abs(word.z) > 5 for word in status[0].words[:6])
    for k in (1, 2):  # no change but of the shares
        assert abs(status[k].similarity - status[k].expected) < 0.02
    for k, (first, second) in enumerate([(0.4 / 1.4, 0.4 / 1.105), (0.2 / 1.4, 0.5 / 1.105), (0.4 / 1.4, 0.2 / 1.105)]):
        for share, error, truth in zip(status[k].shares, status[k].shares_stderr, (first, second), strict=True):
            assert abs(share - truth) < 4 * error + 0.01
    random = compare_groups(corpus, list(np.random.default_rng(0).permutation(groups)), model=model)
    assert len(random.of("matched")) == 4


def test_errors_are_taken_over_units(eras):
    """Every document four times: with units the errors stay as they are, without they are halved."""
    D, _, corpus, _ = eras
    X = corpus.counts[:300]
    four = sp.vstack([X] * 4).tocsr()
    once = _Version(Corpus(X), np.arange(300), D.T, 0, None)
    units = _Version(Corpus(four), np.tile(np.arange(300), 4), D.T, 0, None)
    alone = _Version(Corpus(four), np.arange(1200), D.T, 0, None)
    np.testing.assert_allclose(units.shares_stderr, once.shares_stderr, rtol=0.1)
    np.testing.assert_allclose(alone.shares_stderr, once.shares_stderr / 2, rtol=0.1)


def test_errors_are_those_of_a_jackknife(eras):
    D, _, corpus, _ = eras
    version = _Version(Corpus(corpus.counts[:200]), np.arange(200) // 2, D.T, 0, None)
    p, C, t = version.topic(1)
    stderr = np.sqrt(_squared_influence(C, t, p))
    counts = np.zeros((100, D.shape[0]))
    dense = version._matrix(1).toarray()
    for n in range(200):
        counts[n // 2] += dense[n]
    left_out = np.array([(counts.sum(axis=0) - unit) / (counts.sum() - unit.sum()) for unit in counts])
    slow = np.sqrt(99 / 100 * ((left_out - left_out.mean(axis=0)) ** 2).sum(axis=0))
    common = p > 0.01
    assert common.sum() > 10
    np.testing.assert_allclose(stderr[common], slow[common], rtol=0.01)


def test_a_topic_without_tokens_in_a_group_shares_nothing():
    rng = np.random.default_rng(0)
    X = np.zeros((60, 6), dtype=int)
    X[:, :4] = rng.poisson(3, (60, 4))
    X[30:, 4:] = rng.poisson(5, (30, 2))
    topics = np.array([[0.25, 0.25, 0.25, 0.25, 0, 0], [0, 0, 0, 0, 0.5, 0.5]])
    found = compare_groups(X, ["early"] * 30 + ["late"] * 30, model=model_of(topics, None))
    (new,) = found.of("new")
    assert (new.second, new.shares[0], new.similarity) == (1, 0, 0)


def test_a_data_frame_keeps_its_words(eras):
    pd = pytest.importorskip("pandas")
    _, _, corpus, groups = eras
    frame = pd.DataFrame(corpus.counts[::8].toarray(), columns=corpus.vocabulary)
    found = compare_groups(frame, groups[::8], n_components=2, n_words=3)
    assert set(found.topics[0].top_words) <= set(corpus.vocabulary)


def test_groups_that_cannot_be_compared(eras, monkeypatch):
    _, _, corpus, groups = eras
    for second in ("late", "zzz"):
        with pytest.raises(ValueError, match=f"second='{second}' is given without first"):
            compare_groups(corpus, groups, second=second)
    with pytest.raises(ValueError, match="n_words"):
        compare_groups(corpus, groups, n_words=0)
    with monkeypatch.context() as patched:
        patched.setattr("momentopic.intensity._MOST_DRAWN", 1000)
        patched.setattr(DiscreteICA, "fit", lambda self, X: pytest.fail("a fit before the check"))
        with pytest.raises(ValueError, match="Compare a sample of the documents"):
            compare_groups(corpus, groups)
    with pytest.raises(ValueError, match="2400 documents, but groups are given for 3"):
        compare_groups(corpus, ["a", "b", "c"])
    three = ["x", "y", "z"] * 800
    with pytest.raises(ValueError, match="in 3 groups: say which two"):
        compare_groups(corpus, three)
    with pytest.raises(ValueError, match="no document is in group 'q'; there are 'x', 'y', 'z'"):
        compare_groups(corpus, three, first="x", second="q")
    with pytest.raises(ValueError, match="cannot be compared with itself"):
        compare_groups(corpus, three, first="x", second="x")
    with pytest.raises(ValueError, match="has 5 units of documents, too few"):
        compare_groups(corpus, ["few"] * 5 + ["many"] * 2395)
    with pytest.raises(ValueError, match="units are given for 2"):
        compare_groups(corpus, groups, units=[1, 2])


def test_tables_and_pictures(topics):
    found = compare(model_of(noisy(topics, 5000, 5)), model_of(noisy(topics, 5000, 6)[1:]), names=("a$", "b"))
    data = json.loads(json.dumps(found.to_dict(), allow_nan=False))
    assert data["topics"][0]["status"] == "gone"
    assert data["topics"][0]["expected"] is None
    pytest.importorskip("pandas")
    frame = found.to_frame()
    assert list(frame.status) == [topic.status for topic in found.topics]
    pyplot = pytest.importorskip("matplotlib.pyplot")
    pyplot.switch_backend("Agg")
    figure = found.plot(topics=[2, 3], n_words=5)
    shown = [label.get_text() for label in figure.axes[0].get_yticklabels()]
    assert set(shown) == {word.word for word in found.topics[2].words[:5]}
    assert len(figure.axes) == 2
    with pytest.raises(ValueError, match="nothing to draw"):
        compare(model_of(topics[:2]), model_of(topics[2:4])).plot()
    pyplot.close("all")


def test_the_command(topics, tmp_path):
    model_of(noisy(topics, 25_000, 1)).save(tmp_path / "may")
    model_of(noisy(topics, 25_000, 2)[1:, 20:], WORDS[20:]).save(tmp_path / "june")
    model_of(topics, [f"x{m}" for m in range(M)]).save(tmp_path / "foreign")
    both = ["compare", str(tmp_path / "may"), str(tmp_path / "june")]
    done = CliRunner().invoke(app, [*both, "-o", str(tmp_path / "changes.png")])
    assert "From may to june: 7 matched, 0 changed, 0 new, 1 gone." in done.stdout
    assert "compared on the 280 words that both have (20 are only in may, 0 only in june)" in done.stdout
    assert (tmp_path / "changes.png").read_bytes().startswith(b"\x89PNG")
    data = json.loads(CliRunner().invoke(app, [*both, "--json"]).stdout)
    assert data["n_common"] == 280
    done = run("compare", tmp_path / "may", tmp_path / "foreign", code=2)
    assert done.stderr.startswith("momentopic: may and foreign have no word in common (300 and 300 words)")
    assert done.stderr.count("\n") == 1
