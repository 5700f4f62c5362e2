"""The CUDA engine against the threads; skipped where there is no device."""

from __future__ import annotations

import numpy as np
import pytest

from momentopic import DiscreteICA, heldout, metrics, simulate
from momentopic.corpus import Corpus
from momentopic.engine import ThreadEngine, get_engine
from momentopic.engine.cuda import CudaEngine, device_available
from momentopic.moments import dica_moments, lda_moments, whiten
from momentopic.moments.triples import packed, unpacked
from momentopic.refine.blocks import sampled_block, taking_part
from momentopic.refine.collapsed import _Run

from .conftest import planted_topics

needs_device = pytest.mark.skipif(not device_available(), reason="no CuPy or no CUDA device")
K = 20


@pytest.fixture(scope="module")
def corpus():
    return Corpus(simulate.gamma_poisson(planted_topics(600, K), np.full(K, 0.1), 5000, mean_length=120))


@pytest.fixture(scope="module", params=["resident", "streamed"])
def engine(request):
    if request.param == "resident":
        yield CudaEngine()
        return
    from momentopic.cuda import device

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(device, "CHUNK_NONZEROS", 60_000)
        yield CudaEngine(memory=1)


def test_without_a_device_the_message_says_so():
    if device_available():
        pytest.skip("there is a device")
    with pytest.raises((ImportError, RuntimeError), match="engine='cuda'.*engine='threads'"):
        get_engine("cuda")


def test_packing_is_the_inverse_of_unpacking():
    numbers = np.random.default_rng(0).standard_normal(7 * 8 * 9 // 6)
    assert (packed(unpacked(numbers, 7)) == numbers).all()


@needs_device
@pytest.mark.parametrize("make", [dica_moments, lambda X, engine: lda_moments(X, 2.0, engine=engine)])
def test_moments_in_double_precision(corpus, engine, make):
    device, threads = make(corpus, engine=engine), make(corpus, engine=ThreadEngine())
    rng = np.random.default_rng(0)
    V, W = rng.standard_normal((600, 7)), rng.standard_normal((K, 600))
    np.testing.assert_allclose(device.mean, threads.mean, rtol=1e-13)
    assert device.mean_length == pytest.approx(threads.mean_length, rel=1e-13)
    assert device.length_skew == pytest.approx(threads.length_skew, rel=1e-13)
    for found, wanted in [
        (device.second(V), threads.second(V)),
        (device.third(W), threads.third(W)),
        (device.third(W[:3]), threads.third(W[:3])),
        (device.projected(W, V[:, 0]), threads.projected(W, V[:, 0])),
    ]:
        assert abs(found - wanted).max() < 1e-10 * abs(wanted).max()
    for found, wanted in [
        (device.second(V.astype(np.float32)), threads.second(V)),
        (device.third(W.astype(np.float32)), threads.third(W)),
    ]:
        assert abs(found - wanted).max() < 1e-5 * abs(wanted).max()


@needs_device
def test_a_fit_finds_the_topics_of_the_threads_and_the_same_bits_twice(corpus, engine):
    options = {"n_components": K, "refine": None}
    first, again = (DiscreteICA(**options, engine=engine).fit(corpus) for _ in range(2))
    threads = DiscreteICA(**options).fit(corpus)
    assert first.components_.tobytes() == again.components_.tobytes()
    assert abs(first.components_ - threads.components_).sum(axis=1).max() < 1e-4
    np.testing.assert_allclose(first.concentration_, threads.concentration_, rtol=1e-4)
    np.testing.assert_allclose(first.eigenvalues_, threads.eigenvalues_, rtol=1e-6)
    np.testing.assert_allclose(first.intensity_third_cumulant_, threads.intensity_third_cumulant_, rtol=1e-3)


@needs_device
def test_the_whitening_of_a_device_solution_is_a_whitening(corpus):
    from momentopic.solve import solve

    found = solve(dica_moments(corpus, engine=CudaEngine()), K).whitening
    wanted = whiten(dica_moments(corpus), K)
    np.testing.assert_allclose(abs((found.W * wanted.unwhiten.T).sum(axis=1)), 1.0, atol=1e-4)
    np.testing.assert_allclose(found.W @ found.unwhiten, np.eye(K), atol=1e-10)


@needs_device
def test_counts_of_a_sweep_are_those_of_its_topics(corpus):
    run = _Run(corpus, CudaEngine(), K, None, None, None, sample=True)
    run.start(np.ascontiguousarray(planted_topics(600, K).T), 0)
    for _ in range(2):
        run.sweep(sampled_block)
    state = run.states[0]
    z = np.concatenate([part.z.get() for part in state.chunks]).astype(int)
    X = corpus.counts
    words = np.repeat(X.indices, X.data)
    rows = np.repeat(np.repeat(np.arange(X.shape[0]), np.diff(X.indptr)), X.data)
    F, N = state.F.get(), np.concatenate([part.N.get() for part in state.chunks])
    counted_F, counted_N = np.zeros_like(F), np.zeros_like(N)
    np.add.at(counted_F, (words, z), 1)
    np.add.at(counted_N, (rows, z), 1)
    assert (counted_F == F).all()
    assert (counted_N == N).all()
    assert (run.totals == F[:, :K].sum(axis=0)).all()


@needs_device
def test_a_part_of_the_tokens_on_the_device(corpus):
    run = _Run(corpus, CudaEngine(), K, None, None, None, sample=True)
    run.divide(3)
    run.start(np.ascontiguousarray(planted_topics(600, K).T), 0)
    part = taking_part(run.corpus, run.states).counts
    run.sweep(sampled_block)
    state = run.states[0]
    np.testing.assert_array_equal(state.F.get().sum(axis=1), np.asarray(part.sum(axis=0)).ravel())
    N = np.concatenate([chunk.N.get() for chunk in state.chunks])
    np.testing.assert_array_equal(N.sum(axis=1), np.asarray(part.sum(axis=1)).ravel())
    run.estimate_prior()
    done = run.nothing_sampled()
    done.add(run.words, run.K)
    run.begin_again(done, 0)
    run.sweep(sampled_block)
    assert run.states[0].F.get().sum() == corpus.counts.sum()


@needs_device
@pytest.mark.parametrize("rounds", [1, 2])
def test_the_refinement_is_as_good_as_that_of_the_threads(corpus, request, rounds):
    if rounds == 2:
        request.getfixturevalue("short_rounds")
    D = planted_topics(600, K)
    test = simulate.gamma_poisson(D, np.full(K, 0.1), 300, mean_length=120, random_state=9)
    device, again, threads = (
        DiscreteICA(K, engine=name, n_sweeps=60).fit(corpus) for name in ("cuda", "cuda", "threads")
    )
    assert device.components_.tobytes() == again.components_.tobytes()
    bits = [heldout.chib(test, m.components_, m.concentration_, 100).bits_per_token for m in (device, threads)]
    assert bits[0] == pytest.approx(bits[1], abs=0.02)
    errors = [metrics.recovery_error(m.components_, D) for m in (device, threads)]
    assert errors[0] == pytest.approx(errors[1], abs=0.02)


@needs_device
def test_more_topics_than_the_sweeps_know_are_left_to_the_threads(corpus):
    from momentopic.cuda import sweeps

    assert sweeps.can_sweep(512)
    assert not sweeps.can_sweep(513)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sweeps, "_MOST_TOPICS", 8)
        device = DiscreteICA(K, engine="cuda", n_sweeps=5).fit(corpus)
    small = DiscreteICA(K, engine=CudaEngine(memory=1000), n_sweeps=5).fit(corpus)  # no room for the documents
    assert np.isfinite(device.components_).all()
    assert np.isfinite(small.components_).all()


@needs_device
def test_an_engine_keeps_one_corpus(corpus):
    engine = CudaEngine()
    engine.place(corpus)
    first = engine._on_device(corpus)
    assert engine._on_device(corpus.divided(3)) is first
    engine.place(Corpus(corpus.counts[:50]))
    assert engine._on_device(corpus) is not first
    assert len(engine._placed) == 1
