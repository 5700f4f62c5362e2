"""Sampled sweeps that leap along their trend: when, how far, and to the same bits every time."""

import numpy as np
import pytest

from momentopic import Corpus, DiscreteICA, checkpoint, simulate
from momentopic.engine.threads import ThreadEngine
from momentopic.refine import collapsed, parts
from momentopic.refine.blocks import WordCounts
from momentopic.refine.collapsed import refine_collapsed
from momentopic.refine.samples import Samples

from .conftest import planted_topics
from .test_checkpoint import Stopped, stop_after

K = 4


@pytest.fixture(scope="module")
def few():
    """Fewer than fifty documents to a topic."""
    return Corpus(simulate.gamma_poisson(planted_topics(150, K), np.full(K, 0.3), 150, mean_length=60))


def leaps_of(monkeypatch, corpus, n_sweeps, **options):
    """The sweeps after which a refinement leaps."""
    found, leap = [], collapsed._Run.leap

    def counted(self, done, *args):
        found.append(done.n)
        leap(self, done, *args)

    with monkeypatch.context() as patch:
        patch.setattr(collapsed._Run, "leap", counted)
        refined = refine_collapsed(corpus, planted_topics(150, K).T, ThreadEngine(), n_sweeps=n_sweeps, **options)
    return found, refined


def test_the_trend_is_that_of_least_squares():
    rng = np.random.default_rng(0)
    counts = rng.random((30, 6, 16)).astype(np.float32)
    done = Samples(n=50, stretch_begun=50)
    taken = []
    for sweep, sample in enumerate(counts, 1):
        done.n += 1
        if done.due():
            done.add([WordCounts(0, sample[:2]), WordCounts(2, sample[2:])], 5, done.weight(30))
            taken.append(sweep)
    assert taken == [12, 16, 20, 24, 28]
    samples = counts[np.array(taken) - 1][:, :, :5]
    slopes = np.polyfit(taken, samples.reshape(len(taken), -1), 1)[0].reshape(6, 5)
    np.testing.assert_allclose(done.beyond(70, 30), 70 * slopes, atol=1e-5)
    np.testing.assert_allclose(done.mean(), samples.mean(axis=0), rtol=1e-6)
    assert done.trend == []
    # after a leap tokens are drawn from sharp topics, and there is less to forget
    done.n_leaps = 1
    assert list(done.times(14)) == [4, 8, 12]


def test_a_leap_goes_on_as_the_sweeps_before_it_went(few, monkeypatch):
    seen, starts = {}, []
    sweep, start = collapsed._Run.sweep, collapsed._Run.start

    def watched(self, *args):
        found = sweep(self, *args)
        seen[self.n_done + 1] = self.counts().copy()
        return found

    def started(self, topics, random_state, how=None):
        starts.append((self.n_done, np.array(topics), random_state, how, self.eta))
        start(self, topics, random_state, how)

    monkeypatch.setattr(collapsed._Run, "sweep", watched)
    monkeypatch.setattr(collapsed._Run, "start", started)
    refined = refine_collapsed(few, planted_topics(150, K).T, ThreadEngine(), n_sweeps=150, random_state=7)
    assert [(n, seed) for n, _, seed, _, _ in starts] == [(0, 7), (30, 8), (70, 9), (110, 10)]
    for (n, topics, _, how, eta), first in zip(starts[2:], (12, 4), strict=True):
        times = np.arange(first, 41, 4)
        samples = np.array([seen[n - 40 + t] for t in times]).reshape(len(times), -1)
        slopes = np.polyfit(times, samples, 1)[0].reshape(150, K)
        expected = np.maximum(seen[n] + 160 * slopes, 0) + eta
        expected[np.asarray(few.word_totals()) == 0] = 0
        np.testing.assert_allclose(topics, (expected / expected.sum(axis=0)).T, atol=1e-5)
        assert how == parts.AFTER_LEAP
    # what was sampled before the first leap is not in the mean
    mean = np.mean([seen[n] for n in (*range(74, 111, 4), *range(114, 151, 4))], axis=0) + refined.smoothing
    mean[np.asarray(few.word_totals()) == 0] = 0
    np.testing.assert_allclose(refined.topics, (mean / mean.sum(axis=0)).T, atol=1e-6)


def test_leaps_are_a_stretch_apart_and_leave_one_at_the_end(few, monkeypatch):
    assert leaps_of(monkeypatch, few, 190)[0] == [72, 114]
    assert leaps_of(monkeypatch, few, 198)[0] == [72, 114, 156]
    assert leaps_of(monkeypatch, few, 119)[0] == []
    assert leaps_of(monkeypatch, few, 10)[0] == []


@pytest.mark.usefixtures("no_room")
def test_sweeps_that_leap_end_after_a_stretch_by_themselves(few, monkeypatch):
    found, refined = leaps_of(monkeypatch, few, None, tol=1.0)
    assert (found, refined.n_sampled, refined.converged) == ([72, 114, 156], 198, True)
    found, refined = leaps_of(monkeypatch, few, None, tol=1e-9)
    assert len(found) > 10
    assert (refined.n_sampled, refined.converged) == (1000, False)


def test_with_many_documents_to_a_topic_there_are_none(monkeypatch):
    many = Corpus(simulate.gamma_poisson(planted_topics(150, K), np.full(K, 0.3), 210, mean_length=20))
    assert leaps_of(monkeypatch, many, 200)[0] == []
    assert parts.few_documents(2499, 50)
    assert not parts.few_documents(2500, 50)


def test_the_same_bits_for_any_number_of_threads(few, monkeypatch):
    monkeypatch.setattr("momentopic.refine.parts._TOKENS_PER_PART", 200)
    start = np.random.default_rng(0).dirichlet(np.ones(150), size=K)
    results = [refine_collapsed(few, start, ThreadEngine(n), n_sweeps=130) for n in (1, 2, 5)]
    assert len({(found.topics.tobytes(), found.concentration.tobytes()) for found in results}) == 1


@pytest.mark.parametrize("n_sweeps_done", [64, 65, 66, 98])
def test_a_fit_goes_on_around_a_leap(few, tmp_path, monkeypatch, n_sweeps_done):
    monkeypatch.setattr(checkpoint, "_EVERY", 0.0)
    options = {"n_components": K, "n_sweeps": 135}  # leaps after 65 and 100
    whole = DiscreteICA(**options).fit(few)
    with monkeypatch.context() as patch:
        stop_after(patch, 2 + n_sweeps_done)  # whitening and tensor are saved too
        with pytest.raises(Stopped):
            DiscreteICA(**options, checkpoint=tmp_path / "state").fit(few)
    again = DiscreteICA(**options, checkpoint=tmp_path / "state").fit(few)
    assert again.components_.tobytes() == whole.components_.tobytes()
    assert again.concentration_.tobytes() == whole.concentration_.tobytes()
