"""Groups of documents and confidence, against literal refits of the documents that are left."""

from __future__ import annotations

import json
from functools import partial

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.optimize import minimize
from typer.testing import CliRunner

from momentopic import Corpus, DiscreteICA, load, moments, simulate
from momentopic.confidence import confidence, overlaps, solved_whole
from momentopic.engine import ThreadEngine
from momentopic.engine.threads import sum_over_ranges
from momentopic.moments import groups as grouping
from momentopic.moments import sketched_moments
from momentopic.moments.groups import GroupMoments, Replicates, document_groups, group_moments
from momentopic.report.data import prepare
from momentopic.solve import solve
from momentopic.views import Topic

from .reference import dica_dense, relative_error

G = 8


def planted(M=30, K=3, N=160, seed=0, length=40):
    rng = np.random.default_rng(seed)
    D = rng.dirichlet(np.full(M, 0.15), K).T
    c = np.linspace(0.3, 0.6, K)
    return D, c, simulate.gamma_poisson(D, c, N, mean_length=length, random_state=seed)


@pytest.fixture(scope="module")
def small():
    D, _, X = planted()
    found = moments.dica_moments(X)
    whitening = moments.whiten(found, 3)
    tensor, groups = group_moments(found, whitening, G)
    return D, X.toarray(), found, whitening, tensor, groups


def rows_of(weights, N):
    """The documents of a selection of groups, one by one."""
    belongs = document_groups(N, len(weights))
    return np.concatenate([np.repeat(np.flatnonzero(belongs == g), int(w)) for g, w in enumerate(weights)])


def dense_topics(X, W, V):
    """d̃ and the concentration of X from dense S and T in the span of W, near the rotation V: nothing of the library."""
    mean, S, T = dica_dense(X)
    values, vectors = np.linalg.eigh(W @ S @ W.T)
    A = vectors @ np.diag(values**-0.5) @ vectors.T @ W
    tensor = np.einsum("abc,ia,jb,kc->ijk", T, A, A, A, optimize=True)

    def rotated(angles):
        R = np.eye(3)
        for (p, q), angle in zip(((0, 1), (0, 2), (1, 2)), angles, strict=True):
            turn = np.eye(3)
            turn[[p, q], [p, q]] = np.cos(angle)
            turn[p, q], turn[q, p] = np.sin(angle), -np.sin(angle)
            R = turn @ R
        return R @ V

    def off(angles):
        U = rotated(angles)
        R = U @ tensor @ U.T
        return (R**2).sum() - (R.diagonal(axis1=1, axis2=2) ** 2).sum()

    V = rotated(minimize(off, np.zeros(3), method="Nelder-Mead", options={"xatol": 1e-6, "fatol": 1e-10}).x)
    return S @ A.T @ V.T, (V @ A @ mean) ** 2


WEIGHTS = {
    "all": np.ones(G),
    "one dropped": np.array([0, 1, 1, 1, 1, 1, 1, 1]),
    "half": np.array([1, 0, 0, 1, 1, 0, 1, 0]),
    "bootstrap": np.array([2, 0, 1, 3, 0, 1, 1, 0]),
}


@pytest.mark.parametrize("weights", WEIGHTS.values(), ids=WEIGHTS)
def test_replicates_are_the_dense_moments_of_the_documents_that_are_left(small, weights):
    _, X, _, whitening, _, groups = small
    W = whitening.W
    mean, S, T = dica_dense(X[rows_of(weights, len(X))])
    found = Replicates(groups).weighted(weights.astype(float))
    assert relative_error(found.mean, W @ mean) < 1e-9
    assert relative_error(found.second, W @ S @ W.T) < 1e-9
    # a ratio (1 - 1 / N) is that of the whole corpus
    assert relative_error(found.third, np.einsum("abc,ia,jb,kc->ijk", T, W, W, W)) < 1e-4
    assert relative_error(found.rows, (S @ W.T)[groups.words]) < 1e-6
    assert relative_error(found.total, (S @ W.T).sum(axis=0)) < 1e-9


def test_the_tensor_is_that_of_the_plain_pass(small):
    _, _, found, whitening, tensor, groups = small
    assert relative_error(tensor, found.third(whitening.W, whitening.unwhiten)) < 1e-6
    assert groups.n_docs.sum() == found.n_docs
    assert groups.n_docs.max() - groups.n_docs.min() <= 1


def test_a_corner_is_what_a_smaller_whitening_gives(small):
    _, _, found, whitening, _, groups = small
    _, expected = group_moments(found, whitening.corner(2), G)
    corner = groups.corner(2)
    for name, values in expected.arrays().items():
        assert_allclose(getattr(corner, name), values, atol=1e-6 * max(1, abs(values).max()), err_msg=name)
    assert groups.corner(3) is groups
    for k in (0, 4):
        with pytest.raises(ValueError, match="between 1 and 3"):
            groups.corner(k)


def test_topics_of_a_half_are_those_of_a_dense_refit(small):
    _, X, _, whitening, _, groups = small
    from momentopic.confidence import solved

    replicates = Replicates(groups)
    whole = solved_whole(replicates)
    for weights in (WEIGHTS["half"], 1 - WEIGHTS["half"]):
        found = solved(replicates.weighted(weights.astype(float)), whole.V)
        scaled, c = dense_topics(X[rows_of(weights, len(X))], whitening.W, whole.V)
        assert_allclose(found.scaled, scaled, atol=0.01 * abs(scaled).max())
        assert_allclose(found.deviation, scaled.sum(axis=0), rtol=0.01)
        assert_allclose(found.concentration, c, rtol=0.02)


def test_stability_is_the_overlap_of_halves_solved_apart(small):
    _, X, _, whitening, _, groups = small
    found = confidence(groups, n_splits=6, random_state=3)
    V = solved_whole(Replicates(groups)).V
    rng = np.random.default_rng(3)
    agreement = []
    for _ in range(6):
        half = rng.permutation(G) < G // 2
        sides = [dense_topics(X[rows_of(w, len(X))], whitening.W, V)[0] for w in (half, ~half)]
        agreement.append(overlaps(*sides, np.ones(len(sides[0]))))
    assert_allclose(found.stability, np.mean(agreement, axis=0), atol=0.01)


def test_words_that_are_not_kept_take_part_with_what_the_whole_corpus_has(small, monkeypatch):
    _, _, found, whitening, tensor, groups = small
    monkeypatch.setattr(grouping, "_WORDS", 12)
    monkeypatch.setattr(grouping, "_WORDS_PER_TOPIC", 0)
    monkeypatch.setattr(grouping, "_SAMPLED", 6)
    again, few = group_moments(found, whitening, G)
    assert len(few.words) < 20
    # all weights are at least one, and together they stand for about all words
    assert few.word_weights.min() >= 1
    assert 20 < few.word_weights.sum() < 45
    assert relative_error(again, tensor) < 1e-12
    whole = Replicates(few).weighted(np.ones(G))
    assert relative_error(whole.third, tensor) < 1e-6
    assert relative_error(whole.second, np.eye(3)) < 1e-6
    half = WEIGHTS["half"].astype(float)
    exact, near = Replicates(groups).weighted(half), Replicates(few).weighted(half)
    assert relative_error(near.third, exact.third) < 0.1
    assert relative_error(near.second, exact.second) < 0.05
    missing = np.setdiff1d(np.arange(30), few.words)[:1]
    result = confidence(few, words=np.tile(np.append(few.words[:1], missing), (3, 1)), n_splits=2)
    assert np.isnan(result.low[:, 1]).all()
    assert np.isfinite(result.low[:, 0]).all()


def test_intervals_hold_the_truth_and_shrink_with_the_level():
    D, _, X = planted(M=40, K=3, N=2000, seed=5)
    model = DiscreteICA(3, refine=None, n_groups=20).fit(X)
    found = model.confidence(8)
    order = np.argmax(model.components_ @ D, axis=1)
    assert sorted(order) == [0, 1, 2]
    true = np.take_along_axis(D.T[order], found.words, axis=1)
    assert 0.7 < np.mean((found.low <= true) & (true <= found.high)) <= 1
    assert (np.abs(true - found.probability) < 3 * (found.high - found.low)).all()
    assert np.mean(found.high - found.low) < 0.3 * true.mean()
    assert (found.concentration_low < found.concentration).all()
    assert_allclose(found.concentration, model.concentration_, rtol=1e-3)
    narrow = model.confidence(8, level=0.5)
    assert ((narrow.high - narrow.low) < (found.high - found.low)).all()
    assert (found.stability > 0.85).all()
    assert not found.unstable.any()
    assert_array_equal(found.words, np.argsort(-model.components_, axis=1)[:, :8])


@pytest.fixture(scope="module")
def with_an_outlier():
    """Three topics of many documents, and one that is a single long document with words of its own."""
    _, _, X = planted(M=60, K=3, N=400, seed=2)
    X = np.hstack([X.toarray(), np.zeros((400, 8), dtype=int)])
    X[7, 60:] = 40
    corpus = Corpus(X, [f"w{m}" for m in range(68)])
    return corpus, DiscreteICA(4, refine=None, n_groups=16).fit(corpus)


def test_a_topic_of_one_document_is_unstable(with_an_outlier):
    _, model = with_an_outlier
    alone = int(np.argmax(model.components_[:, 60:].sum(axis=1)))
    assert model.components_[alone, 60:].sum() > 0.9
    assert model.stability_[alone] < 0.1
    assert np.delete(model.stability_, alone).min() > 0.6
    assert [topic.unstable for topic in model.topics(3)] == [k == alone for k in range(4)]


@pytest.fixture(scope="module")
def refined():
    _, _, X = planted(M=50, K=4, N=300, seed=1)
    return X, DiscreteICA(4, n_groups=16, n_sweeps=5).fit(X)


def test_refined_topics_are_those_of_their_start(refined):
    X, model = refined
    start = DiscreteICA(4, refine=None, n_groups=16).fit(X)
    found = model.confidence(5, n_splits=10)
    nearest = np.argmin(np.abs(model.components_[:, None] - start.components_).sum(axis=2), axis=1)
    assert sorted(nearest) == [0, 1, 2, 3]
    assert_allclose(found.stability, start.confidence(5, n_splits=10).stability[nearest], atol=1e-2)
    assert_array_equal(found.words, np.argsort(-model.components_, axis=1, kind="stable")[:, :5])
    assert (np.abs(found.probability[:, 0] - model.components_.max(axis=1)) < 0.1).all()


def test_topics_from_splits_are_not_reproducible():
    _, _, X = planted(M=12, K=2, N=200, seed=3)
    with pytest.warns(UserWarning, match="start from splits"):
        model = DiscreteICA(12, n_groups=10, n_sweeps=2).fit(X)
    origin = model._evidence.origin
    assert (origin < 0).any()
    assert (model.stability_[origin < 0] == 0).all()
    found = model.confidence(3, n_splits=2)
    assert np.isnan(found.low[origin < 0]).all()
    assert np.isfinite(found.low[origin >= 0]).all()


def test_the_same_bits_with_any_number_of_threads(monkeypatch):
    _, _, X = planted(N=300)
    found = []
    for n in (1, 3):
        monkeypatch.setattr("momentopic.confidence.sum_over_ranges", partial(sum_over_ranges, n_threads=n))
        model = DiscreteICA(3, refine=None, n_groups=10, engine=ThreadEngine(n)).fit(X)
        found.append((model.components_, model.stability_, *vars(model.confidence(n_splits=9)).values()))
    for one, three in zip(*found, strict=True):
        assert_array_equal(one, three)


def test_stability_does_not_outlive_its_topics():
    _, _, X = planted(N=300)
    model = DiscreteICA(3, refine=None, n_groups=10).fit(X)
    assert len(model.stability_) == 3
    model.set_params(n_groups=None).fit_moments(sketched_moments(X, rank=10))
    assert not hasattr(model, "stability_")


@pytest.mark.parametrize(("n_docs", "enough"), [(5, False), (7, False), (9, False), (10, True)])
def test_halves_of_groups_have_documents_enough(n_docs, enough):
    _, _, X = planted(N=10)
    if enough:
        assert len(DiscreteICA(1, refine=None, n_groups=5).fit(X[:n_docs]).stability_) == 1
    else:
        with pytest.raises(ValueError, match=f"{n_docs} documents in 5 groups leave 2 to a half"):
            DiscreteICA(1, refine=None, n_groups=5).fit(X[:n_docs])


def test_groups_do_not_follow_the_order_of_the_documents():
    belongs = document_groups(1000, 20)
    assert_array_equal(np.bincount(belongs), 50)
    assert len(set(belongs[:50])) > 10
    assert_array_equal(belongs, document_groups(1000, 20))


def test_a_plain_fit_keeps_nothing_and_is_the_same(small):
    _, X, *_ = small
    plain = DiscreteICA(3, refine=None).fit(X)
    grouped = DiscreteICA(3, refine=None, n_groups=G).fit(X)
    assert_allclose(plain.components_, grouped.components_, atol=1e-6)
    assert not hasattr(plain, "stability_")
    with pytest.raises(ValueError, match=r"no group moments.*n_groups=32.*--confidence"):
        plain.confidence()
    assert grouped.set_params(n_groups=None).fit(X)._evidence is None
    assert not hasattr(grouped, "stability_")
    assert repr(plain.topics(2)[0]).startswith("[('word")


def test_bad_requests(small):
    _, X, _, _, _, groups = small
    with pytest.raises(ValueError, match="160 documents cannot be cut into 200 groups: there are fewer documents"):
        DiscreteICA(3, n_groups=200).fit(X)
    for options in ({"moments": "lda", "c0": 1.0}, {"algorithm": "tpm"}, {"projections": "vocabulary"}):
        with pytest.raises(ValueError, match="n_groups is for moments='dica'"):
            DiscreteICA(3, n_groups=G, refine=None, **options).fit(X)
    with pytest.raises(ValueError, match="n_groups must be between 5 and 255"):
        group_moments(moments.dica_moments(X), moments.whiten(moments.dica_moments(X), 2), 3)
    with pytest.raises(ValueError, match="level must be between 0 and 1"):
        confidence(groups, level=90)
    with pytest.raises(ValueError, match="n_splits must be at least 2"):
        confidence(groups, n_splits=1)
    model = DiscreteICA(3, refine=None, n_groups=G).fit(X)
    for other in ({"K": 99}, {"V": np.eye(3)}):
        with pytest.raises(ValueError, match="K and V are for group moments"):
            confidence(model, **other)


def test_saved_models_keep_their_groups(refined, tmp_path):
    _, model = refined
    model.save(tmp_path / "model")
    again = load(tmp_path / "model")
    a, b = model.confidence(n_splits=4), again.confidence(n_splits=4)
    for name in ("stability", "low", "high", "concentration_low"):
        assert_array_equal(getattr(a, name), getattr(b, name))
    assert_array_equal(again.stability_, model.stability_)
    assert again.n_groups == 16
    # a model of format 2 knows nothing of groups
    description = json.loads((tmp_path / "model" / "model.json").read_text())
    assert description["format_version"] == 3
    DiscreteICA(4, refine=None).fit(refined[0]).save(tmp_path / "old")
    description = json.loads((tmp_path / "old" / "model.json").read_text())
    description["format_version"] = 2
    del description["params"]["n_groups"]
    (tmp_path / "old" / "model.json").write_text(json.dumps(description))
    with pytest.raises(ValueError, match="no group moments"):
        load(tmp_path / "old").confidence()


def test_marks_are_seen(with_an_outlier, tmp_path):
    from momentopic.cli import app

    corpus, model = with_an_outlier
    data = prepare(model, corpus)
    assert [topic["stability"] < data["unstable"] for topic in data["topics"]] == [t.unstable for t in model.topics()]
    assert prepare(DiscreteICA(3, refine=None).fit(corpus), corpus)["topics"][0]["stability"] is None
    marked = [k for k, topic in enumerate(model.topics()) if topic.unstable]
    assert repr(model.topics(1)[marked[0]]).startswith("<unstable, 0.")
    assert "<th>stability</th>" in model._repr_html_()
    assert model._repr_html_().count(" ?</td>") == len(marked)
    model.save(tmp_path / "model")
    run = CliRunner()
    result = run.invoke(app, ["topics", str(tmp_path / "model")])
    assert result.exit_code == 0
    assert "stability" in result.output
    assert [" ?" in line for line in result.output.splitlines() if line.split()[0].isdigit()] == [
        topic.unstable for topic in model.topics()
    ]
    result = run.invoke(app, ["topics", str(tmp_path / "model"), "--json"])
    assert [t["unstable"] for t in json.loads(result.stdout)["topics"]] == [t.unstable for t in model.topics()]


def test_a_topic_is_a_list():
    topic = Topic([("a", 0.5)])
    assert topic == [("a", 0.5)]
    assert not topic.unstable
    assert isinstance(solve(moments.dica_moments(planted()[2]), 3, n_groups=G).groups, GroupMoments)
