"""Coherence against plain Python, against gensim, and by hand."""

from __future__ import annotations

import pickle
from math import log, sqrt

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp

import momentopic
from momentopic import simulate
from momentopic.coherence import Coherence, co_document_counts, coherence
from momentopic.corpus import Corpus
from momentopic.engine import ThreadEngine

from .conftest import planted_topics

MEASURES = ["umass", "npmi", "cv"]
GENSIM_NAMES = {"umass": "u_mass", "npmi": "c_npmi", "cv": "c_v"}

# word 5 is in no document, word 0 in all but one; the last document is empty
TINY = np.array(
    [
        [3, 1, 0, 0, 2, 0],
        [1, 0, 1, 0, 0, 0],
        [1, 1, 1, 0, 0, 0],
        [2, 0, 0, 4, 1, 0],
        [1, 1, 0, 1, 0, 0],
        [0, 0, 0, 0, 0, 0],
    ]
)


def simulated(N=400, M=200, K=6, seed=0):
    topics = planted_topics(M, K, seed)
    return simulate.gamma_poisson(topics, np.full(K, 0.3), N, mean_length=30, random_state=seed), topics.T


def brute_force(words, documents, measure):
    """The definitions, pair by pair, over documents that are sets of words."""
    N, eps = len(documents), 1e-12

    def p(*some):
        return sum(all(w in document for w in some) for document in documents) / N

    def npmi(v, w):
        return log((p(v, w) + eps) / (p(v) * p(w))) / -log(p(v, w) + eps) if p(v) and p(w) else 0.0

    def cosine(a, b):
        norms = sqrt(sum(x * x for x in a)) * sqrt(sum(y * y for y in b))
        return sum(x * y for x, y in zip(a, b, strict=True)) / norms if norms else 0.0

    if measure == "umass":
        pairs = [(v, w) for i, v in enumerate(words) for w in words[:i]]
        return sum(log((p(v, w) + eps) / p(w)) if p(w) else 0.0 for v, w in pairs) / len(pairs)
    if measure == "npmi":
        pairs = [(v, w) for v in words for w in words if v != w]
        return sum(npmi(v, w) for v, w in pairs) / len(pairs)
    vectors = [[npmi(v, w) for w in words] for v in words]
    total = [sum(column) for column in zip(*vectors, strict=True)]
    return sum(cosine(vector, total) for vector in vectors) / len(words)


def sets_of_words(X):
    return [set(np.flatnonzero(row)) for row in np.asarray(X)]


@pytest.mark.parametrize("measure", MEASURES)
def test_equals_the_definition_pair_by_pair(measure):
    topics = [[0, 1], [1, 0, 2], [4, 3, 2, 1, 0], [2, 3], [0, 5, 1], [5, 2, 3]]
    found = coherence(topics, TINY, measure)
    expected = [brute_force(words, sets_of_words(TINY), measure) for words in topics]
    np.testing.assert_allclose(found.per_topic, expected, rtol=1e-12)
    assert found.mean == pytest.approx(np.mean(expected))
    assert found.measure == measure

    X, topics = simulated(N=60, M=30, K=3)
    order = np.argsort(-topics, axis=1, kind="stable")[:, :7]
    found = coherence(topics, X, measure, n_words=7)
    expected = [brute_force(list(words), sets_of_words(X.toarray()), measure) for words in order]
    np.testing.assert_allclose(found.per_topic, expected, rtol=1e-12)


def test_worked_by_hand():
    # four documents; a is in 2, b in 2, c in 1; a and b meet in 1, a and c in 1, b and c never
    X = np.array([[1, 1, 0], [5, 0, 2], [0, 1, 0], [0, 0, 0]])
    umass = (log(1 / 2) + log(1 / 2) + log(4e-12 / 2)) / 3  # (b | a), (c | a), (c | b)
    ab, ac, bc = 0.0, log(2) / log(4), (log(1e-12) - log(1 / 8)) / -log(1e-12)
    for measure, expected in (("umass", umass), ("npmi", (ab + ac + bc) / 3)):
        assert coherence([[0, 1, 2]], X, measure).mean == pytest.approx(expected, abs=1e-11)
    # c_v of two words: NPMI(a, a) = NPMI(c, c) = 1, NPMI(a, c) = 1/2; the sum of (1, 1/2) and (1/2, 1) is (3/2, 3/2)
    assert coherence([[0, 2]], X, "cv").mean == pytest.approx(1.5 / sqrt(1.25) / sqrt(2), abs=1e-11)


def gensim_values(tops, X, measure):
    """What gensim says, its window larger than any document: per topic and in the mean."""
    models = pytest.importorskip("gensim.models.coherencemodel")
    corpora = pytest.importorskip("gensim.corpora")
    names = [f"w{m}" for m in range(X.shape[1])]
    dictionary = corpora.Dictionary()
    dictionary.token2id = {name: m for m, name in enumerate(names)}
    dictionary.id2token = dict(enumerate(names))
    X = sp.csr_matrix(X)
    rows = [X[n] for n in range(X.shape[0])]
    model = models.CoherenceModel(
        topics=[[names[m] for m in top] for top in tops],
        texts=[[names[m] for m in row.indices] for row in rows],
        corpus=[[(int(m), int(x)) for m, x in zip(row.indices, row.data, strict=True)] for row in rows],
        dictionary=dictionary,
        coherence=GENSIM_NAMES[measure],
        window_size=10 * X.shape[1],
        topn=max(map(len, tops)),
        processes=1,
    )
    return np.array(model.get_coherence_per_topic()), model.get_coherence()


@pytest.mark.parametrize("measure", MEASURES)
@pytest.mark.parametrize("n_words", [2, 5, 10, 30])
def test_agrees_with_gensim(measure, n_words):
    X, topics = simulated()
    order = np.argsort(-topics, axis=1, kind="stable")[:, :n_words]
    per_topic, mean = gensim_values(order, X, measure)
    found = coherence(topics, X, measure, n_words=n_words)
    np.testing.assert_allclose(found.per_topic, per_topic, rtol=0, atol=1e-12)
    assert found.mean == pytest.approx(mean, abs=1e-12)
    assert len(set(per_topic)) == len(topics)  # topics that differ, or the order would not be checked


@pytest.mark.parametrize("measure", MEASURES)
def test_agrees_with_gensim_on_words_that_never_meet_or_are_everywhere_and_on_empty_documents(measure):
    X = np.vstack([TINY[:5], TINY])
    for reference in (X, X[:5]):  # in the second, word 0 is in every document
        tops = [[2, 3, 4], [4, 0, 3, 1, 2], [0, 1, 2]]
        np.testing.assert_allclose(
            coherence(tops, reference, measure).per_topic, gensim_values(tops, reference, measure)[0], atol=1e-12
        )
    everywhere = np.ones((4, 2), dtype=int)
    assert coherence([[0, 1]], everywhere, measure).mean == pytest.approx(
        gensim_values([[0, 1]], everywhere, measure)[1], abs=1e-12
    )


def test_words_in_no_document_count_as_gensim_counts_them_for_umass():
    tops = [[0, 5, 1], [5, 0, 1], [5, 0]]
    found = coherence(tops, TINY, "umass")
    np.testing.assert_allclose(found.per_topic, gensim_values(tops, TINY, "umass")[0], atol=1e-12)


@pytest.mark.parametrize("measure", MEASURES)
def test_words_in_no_document_give_finite_values_and_are_counted(measure):
    X = np.hstack([TINY, np.zeros((6, 2), dtype=int)])
    found = coherence([[0, 1, 2], [0, 5, 1], [5, 6, 7]], X, measure)
    assert list(found.absent) == [0, 1, 3]
    assert np.isfinite(found.per_topic).all()
    assert found.per_topic[2] == 0
    if measure == "npmi":  # a third of the pairs are left, the others count as independent
        assert found.per_topic[1] == pytest.approx(coherence([[0, 1]], X).mean / 3)
    if measure == "cv":  # one cosine of three is that with a vector of zeros
        assert found.per_topic[1] == pytest.approx(coherence([[0, 1]], X, "cv").mean * 2 / 3)


@pytest.mark.parametrize("measure", MEASURES)
def test_the_same_bits_for_any_threads_container_and_blocks(measure):
    X, topics = simulated(N=3000, M=150, K=5)
    reference = coherence(topics, X, measure, engine=ThreadEngine(1))
    corpus = Corpus(X)
    assert corpus.n_blocks > 1
    containers = [corpus, corpus.cut(7), corpus.cut(10_000), X.toarray(), sp.coo_array(X), X.tocsc().astype(np.float32)]
    containers += [pd.DataFrame(X.toarray()), X * 3]
    for container in containers:
        for engine in ("auto", ThreadEngine(2), ThreadEngine(5)):
            again = coherence(topics, container, measure, engine=engine)
            assert again.per_topic.tobytes() == reference.per_topic.tobytes()
            np.testing.assert_array_equal(again.absent, reference.absent)


def test_the_same_for_every_form_of_topics():
    X, topics = simulated()
    reference = coherence(topics, X, n_words=8).per_topic
    order = np.argsort(-topics, axis=1, kind="stable")

    class Model:
        components_ = topics

    for form in (Model(), topics.tolist(), pd.DataFrame(topics), 5 * topics, order, order.tolist(), order.astype("u8")):
        np.testing.assert_array_equal(coherence(form, X, n_words=8).per_topic, reference)
    # shorter lists are used as they are, also beside longer ones
    np.testing.assert_array_equal(coherence(order[:, :8], X, n_words=20).per_topic, reference)
    ragged = coherence([order[0, :3], order[1]], X, n_words=8).per_topic
    assert list(ragged) == [coherence(order[:1, :3], X).mean, reference[1]]
    assert ragged[0] != reference[0]


def test_equally_probable_words_are_taken_in_the_order_of_the_vocabulary():
    topic = np.array([[0.1, 0.3, 0.1, 0.1, 0.3, 0.1]])
    for measure in MEASURES:
        for n_words, top in ((2, [1, 4]), (3, [1, 4, 0]), (5, [1, 4, 0, 2, 3])):
            assert coherence(topic, TINY, measure, n_words=n_words).mean == coherence([top], TINY, measure).mean


def test_words_of_probability_zero_are_no_words_of_a_topic():
    topics = np.array([[0, 0, 0.4, 0, 0.6, 0], [0.1, 0.5, 0.1, 0.1, 0.1, 0.1]])
    found = coherence(topics, TINY, "umass", n_words=4).per_topic
    assert list(found) == list(coherence([[4, 2], [1, 0, 2, 3]], TINY, "umass").per_topic)


def test_planted_topics_are_more_coherent_than_shuffled_words():
    X, topics = simulated(N=2000)
    shuffled = np.random.default_rng(1).permuted(topics, axis=1)
    for measure in MEASURES:
        assert coherence(topics, X, measure).mean > coherence(shuffled, X, measure).mean


def test_counts_of_a_block_are_of_pairs_of_a_topic():
    block = Corpus(TINY).block(0)
    (counts,) = co_document_counts(block, np.array([0, 1, 3]), [np.array([2, 0]), np.array([0, 1, 2])])
    np.testing.assert_array_equal(counts[0], [[2, 2, 0], [2, 5, 0], [0, 0, 0]])
    np.testing.assert_array_equal(counts[1], [[5, 3, 2], [3, 3, 1], [2, 1, 2]])
    np.testing.assert_array_equal(block.matrix().toarray(), TINY)  # which shares its memory with the caller


def test_public_names():
    assert momentopic.coherence.coherence is coherence
    assert momentopic.metrics.coherence is coherence
    assert momentopic.metrics.Coherence is Coherence
    assert pickle.loads(pickle.dumps(coherence([[0, 1]], TINY))).measure == "npmi"


@pytest.mark.parametrize(
    ("arguments", "options", "message"),
    [
        ((np.full((2, 6), 1 / 6), TINY, "c_uci"), {}, "measure must be 'umass', 'npmi' or 'cv', got 'c_uci'"),
        ((np.full((2, 6), 1 / 6), TINY), {"n_words": 1}, "n_words must be at least 2"),
        ((np.full((2, 6), 1 / 6), TINY), {"n_words": 7}, "n_words is 7, but the corpus has only 6 words"),
        ((np.full((2, 5), 1 / 5), TINY), {"n_words": 2}, "topic 0 is over 5 words, but the corpus has 6"),
        ((np.full((2, 6), np.nan), TINY), {"n_words": 2}, "negative, NaN"),
        ((-np.eye(6), TINY), {"n_words": 2}, "negative, NaN"),
        ((np.eye(6), TINY), {"n_words": 2}, r"topic 0 has 1 word\(s\) of positive probability"),
        (([[0, 1], [2]], TINY), {}, r"topic 1 has 1 word\(s\), and"),
        (([[0, 1], [2, 6]], TINY), {}, "topic 1 contains word number 6, .* 0 to 5"),
        (([[0, -1]], TINY), {}, "topic 0 contains word number -1"),
        ((np.eye(6, dtype=int), TINY), {}, "topic 0 contains a word twice. .* floating-point"),
        (([["river", "bank"]], TINY), {}, "topics must be a fitted model"),
        (([], TINY), {}, "at least one"),
        ((None, TINY), {}, "topics must be a fitted model"),
        ((np.ones(6), TINY), {"n_words": 2}, "topics must be a fitted model"),
        ((sp.eye(6).tocsr(), TINY), {"n_words": 2}, "topics must be a fitted model"),
        (([[0, 1]], TINY - 1), {}, "Negative values"),
        (([[0, 1]], 0 * TINY), {}, "documents is empty"),
        (([[0, 1]], TINY), {"engine": "gpu"}, "engine must be"),
    ],
)
def test_what_cannot_be_measured(arguments, options, message):
    with pytest.raises(ValueError, match=message):
        coherence(*arguments, **options)
