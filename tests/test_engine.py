"""The sum over blocks: right, in order, and the same bits whatever the threads do."""

from __future__ import annotations

import itertools
import os
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import scipy.sparse as sp
from threadpoolctl import threadpool_info, threadpool_limits

from momentopic import DiscreteICA, simulate
from momentopic.corpus import Corpus
from momentopic.diagonalize import joint_diagonalize, random_projections, spectral, tensor_power
from momentopic.engine import OrderedSum, ThreadEngine, available_cores, get_engine, single_threaded_blas
from momentopic.moments import dica_moments, lda_moments, vocabulary_projections, whiten

from .conftest import planted_topics


@pytest.fixture(scope="module")
def corpus():
    D = planted_topics(150, 5)
    X = simulate.gamma_poisson(D, np.full(5, 0.3), 12_000, mean_length=60)
    corpus = Corpus(X)
    assert corpus.n_blocks >= 8
    return corpus


def totals(block, scale):
    return np.bincount(block.indices, block.counts * scale, minlength=block.n_words), np.array([block.n_docs * 1.0])


def failing(block, where):
    if block.first == where:
        raise ZeroDivisionError("block failed")
    return (np.zeros(1),)


def staggered(block, delays, seen):
    time.sleep(delays[block.first])
    seen.append(block.first)
    # sums of such numbers depend on the order of the additions
    return (np.full(3, 1.1 ** (block.first % 97) / 3),)


@pytest.mark.parametrize("n_threads", [1, 2, 5])
def test_sum_is_the_sum_over_all_documents(corpus, n_threads):
    words, n_docs = ThreadEngine(n_threads).sum(totals, corpus, 0.5)
    np.testing.assert_allclose(words, np.asarray(corpus.counts.sum(axis=0)).ravel() / 2)
    assert n_docs[0] == 12_000


def test_ordered_sum_gives_the_same_bits_for_every_order_of_arrival():
    parts = [np.array([10.0**p, 1 / (p + 4)]) for p in (16, 0, -3, 15, 2)]
    expected = (((parts[0] + parts[1]) + (parts[2] + parts[3])) + parts[4]).tobytes()
    naive = set()
    for order in itertools.permutations(range(5)):
        ordered = OrderedSum()
        for i in order:
            ordered.add(i, (parts[i].copy(),))
        assert ordered.result()[0].tobytes() == expected
        naive.add(sum((parts[i] for i in order), np.zeros(2)).tobytes())
    assert len(naive) > 1  # the order does matter, or this test would prove nothing


def test_a_missing_part_is_noticed():
    ordered = OrderedSum()
    ordered.add(1, (np.ones(1),))
    with pytest.raises(RuntimeError, match="missing"):
        ordered.result()


def test_shuffled_completion_order_gives_the_same_bits(corpus):
    firsts = [corpus.block(i).first for i in range(corpus.n_blocks)]
    reference = ThreadEngine(1).sum(staggered, corpus, dict.fromkeys(firsts, 0.0), [])
    orders = set()
    for seed in range(3):
        delays = dict(zip(firsts, np.random.default_rng(seed).uniform(0, 0.03, len(firsts)), strict=True))
        seen: list[int] = []
        result = ThreadEngine(4).sum(staggered, corpus, delays, seen)
        orders.add(tuple(seen))
        assert result[0].tobytes() == reference[0].tobytes()
    assert len(orders | {tuple(firsts)}) > 1  # the blocks did complete out of order


class Shuffled:
    """An engine that computes the blocks in a random order."""

    def __init__(self, seed):
        self.seed = seed

    def sum(self, function, corpus, *args, **kwargs):
        ordered = OrderedSum(double=True)
        with single_threaded_blas():
            for i in np.random.default_rng(self.seed).permutation(corpus.n_blocks):
                ordered.add(i, function(corpus.block(i), *args, **kwargs))
        return ordered.result()

    def update(self, function, corpus, states, *args, **kwargs):
        ordered, states = OrderedSum(), list(states)
        for i in np.random.default_rng(self.seed).permutation(corpus.n_blocks):
            part, states[i] = function(corpus.block(i), states[i], *args, **kwargs)
            ordered.add(i, part)
        return ordered.result(), states

    def turn(self, function, corpus, states, words, turn, *args, **kwargs):
        ordered, states, words = OrderedSum(), list(states), list(words)
        for i in np.random.default_rng(self.seed).permutation(corpus.n_blocks):
            j = (i + turn) % len(words)
            part, states[i], words[j] = function(corpus.block(i), states[i], words[j], *args, **kwargs)
            ordered.add(i, part)
        return ordered.result(), states, words


@pytest.mark.parametrize(
    "options",
    [
        {"refine": "collapsed", "n_sweeps": 15},
        {"refine": "variational"},
        {},
        {"algorithm": "tpm"},
        {"algorithm": "spectral"},
        {"projections": "vocabulary"},
        {"moments": "lda", "c0": 1.5},
    ],
)
def test_a_fit_gives_the_same_bits_for_any_number_of_threads_and_any_order(corpus, options):
    models = [
        DiscreteICA(5, engine=engine, **({"refine": None} | options)).fit(corpus)
        for engine in (ThreadEngine(1), ThreadEngine(2), ThreadEngine(7), Shuffled(0), Shuffled(1), "auto")
    ]
    for model in models[1:]:
        assert model.components_.tobytes() == models[0].components_.tobytes()
        assert model.concentration_.tobytes() == models[0].concentration_.tobytes()
        assert model.eigenvalues_.tobytes() == models[0].eigenvalues_.tobytes()


@pytest.fixture(scope="module")
def wide_corpus():
    """Large enough for BLAS to use its threads: with them free, these bits do change."""
    return Corpus(simulate.gamma_poisson(planted_topics(8000, 40), np.full(40, 0.05), 1500, mean_length=100))


@pytest.mark.parametrize(
    "options",
    [
        {"refine": "collapsed", "n_sweeps": 15},
        {},
        {"projections": "random"},
        {"algorithm": "spectral"},
        {"algorithm": "tpm"},
        {"moments": "lda", "c0": 2.0},
    ],
)
def test_the_bits_of_a_fit_do_not_depend_on_how_many_threads_blas_has(wide_corpus, options):
    bits = []
    for limit in (1, 2):
        with threadpool_limits(limit, user_api="blas"):
            model = DiscreteICA(30, **({"refine": None} | options)).fit(wide_corpus)
        bits.append({name: np.array(value).tobytes() for name, value in vars(model).items() if name.endswith("_")})
        del bits[-1]["timings_"]
    assert bits[0] == bits[1]


def test_the_bits_of_the_steps_do_not_depend_on_how_many_threads_blas_has(wide_corpus):
    rng = np.random.default_rng(0)
    v, bits = rng.standard_normal(8000), []
    for limit in (1, 2):
        with threadpool_limits(limit, user_api="blas"):
            for moments in (dica_moments(wide_corpus), lda_moments(wide_corpus, 2.0)):
                white = whiten(moments, 12)
                tensor = moments.third(white.W)
                parts = [
                    moments.second(v),
                    white.W,
                    moments.projected(white.W, v),
                    *vocabulary_projections(moments, white),
                    random_projections(tensor, 30),
                    joint_diagonalize(tensor).V,
                    tensor_power(tensor).V,
                    spectral(tensor).diagonals,
                ]
                bits.append([part.tobytes() for part in parts])
    assert bits[0] == bits[2]
    assert bits[1] == bits[3]


def test_fits_in_several_threads_at_once_leave_blas_as_it_was(corpus):
    def threads():
        return [library["num_threads"] for library in threadpool_info() if library["user_api"] == "blas"]

    with threadpool_limits(2, user_api="blas"), ThreadPoolExecutor(4) as pool:
        before = threads()
        models = list(pool.map(lambda _: DiscreteICA(5, n_sweeps=10).fit(corpus), range(8)))
        assert threads() == before
    assert len({model.components_.tobytes() for model in models}) == 1


def test_blas_is_held_to_one_thread_and_put_back():
    def threads():
        return [library["num_threads"] for library in threadpool_info() if library["user_api"] == "blas"]

    before = threads()
    with single_threaded_blas():
        assert set(threads()) == {1}
    assert threads() == before


def blas_threads(block):
    return (np.array([max(library["num_threads"] for library in threadpool_info() if library["user_api"] == "blas")]),)


@pytest.mark.parametrize("n_threads", [1, 2])
def test_blas_is_held_to_one_thread_inside_the_blocks(corpus, n_threads):
    assert ThreadEngine(n_threads).sum(blas_threads, corpus)[0][0] == corpus.n_blocks


@pytest.mark.parametrize("n_threads", [1, 3])
def test_an_error_in_a_block_reaches_the_caller_and_the_threads_work_on(corpus, n_threads):
    for _ in range(3):
        with pytest.raises(ZeroDivisionError, match="block failed"):
            ThreadEngine(n_threads).sum(failing, corpus, corpus.block(2).first)
    ours = [thread for thread in threading.enumerate() if thread.name.startswith("momentopic")]
    words, _ = ThreadEngine(n_threads).sum(totals, corpus, 0.5)
    np.testing.assert_allclose(words, np.asarray(corpus.counts.sum(axis=0)).ravel() / 2)
    assert [thread for thread in threading.enumerate() if thread.name.startswith("momentopic")] == ours


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system cannot fork")
@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_a_forked_process_has_threads_of_its_own(corpus):
    expected = ThreadEngine(2).sum(totals, corpus, 0.5)[0]
    child = os.fork()
    if child == 0:
        try:
            found = ThreadEngine(2).sum(totals, corpus, 0.5)[0]
            os._exit(0 if (found == expected).all() else 1)
        except BaseException:
            os._exit(2)
    for _ in range(300):
        done, status = os.waitpid(child, os.WNOHANG)
        if done:
            break
        time.sleep(0.1)
    else:
        os.kill(child, 9)
        os.waitpid(child, 0)
        pytest.fail("the child waits for threads that it does not have")
    assert os.waitstatus_to_exitcode(status) == 0


def holder(block, state, words, weight):
    words += weight * (block.first + 1)
    return (np.array([words[0]]),), state + 1, words


@pytest.mark.parametrize("n_threads", [1, 2, 5])
def test_in_each_turn_every_block_holds_another_part(n_threads):
    corpus = Corpus(np.ones((6, 4), dtype=int)).divided(3)
    assert corpus.n_blocks == 3
    states, words = [0, 10, 20], [np.zeros(2) for _ in range(4)]
    engine = ThreadEngine(n_threads)
    for turn in range(4):
        (total,), states, words = engine.turn(holder, corpus, states, words, turn, 10.0**turn)
        # block i, which begins with document 2 i, holds part (i + turn) % 4
        held = [int(words[(i + turn) % 4][0]) for i in range(3)]
        assert total[0] == sum(held)
    assert states == [4, 14, 24]
    expected = np.zeros(4)
    for turn in range(4):
        for i in range(3):
            expected[(i + turn) % 4] += 10**turn * (2 * i + 1)
    np.testing.assert_array_equal([part[0] for part in words], expected)
    with pytest.raises(ValueError, match="3 blocks cannot hold 2 parts"):
        engine.turn(holder, corpus, states, words[:2], 0, 1.0)


@pytest.mark.parametrize("n_threads", [1, 2])
def test_progress_is_told_after_each_block(corpus, n_threads):
    calls = []
    ThreadEngine(n_threads, progress=lambda done, total: calls.append((done, total))).sum(totals, corpus, 1.0)
    assert calls == [(i + 1, corpus.n_blocks) for i in range(corpus.n_blocks)]


@pytest.mark.parametrize("refine", [None, "collapsed"])
def test_one_thread_is_one_thread(wide_corpus, monkeypatch, refine):
    def no_threads(n):
        raise AssertionError(f"{n} threads were asked for")

    expected = DiscreteICA(30, refine=refine, n_sweeps=3, engine=ThreadEngine(2)).fit(wide_corpus)
    monkeypatch.setattr("momentopic.engine.threads._pool", no_threads)
    found = DiscreteICA(30, refine=refine, n_sweeps=3, engine=ThreadEngine(1)).fit(wide_corpus)
    assert found.components_.tobytes() == expected.components_.tobytes()


class OnlySums:
    """An engine of the first verb alone, which must not be asked for anything before it is refused."""

    def sum(self, *args, **kwargs):
        raise AssertionError("work was begun")


def test_an_engine_that_cannot_refine_is_refused_before_any_work(corpus):
    with pytest.raises(ValueError, match="has no methods update and turn, which a refinement needs: use refine=None"):
        DiscreteICA(3, engine=OnlySums()).fit(corpus)


def test_engines_by_name():
    assert isinstance(get_engine("auto"), ThreadEngine)
    assert isinstance(get_engine("threads"), ThreadEngine)
    engine = Shuffled(0)
    assert get_engine(engine) is engine
    for bad in ("gpu", 3, None, np.ones(2)):
        with pytest.raises(ValueError, match="engine must be 'auto', 'threads', .* or an object with a method sum"):
            get_engine(bad)
    with pytest.raises(ValueError, match="n_threads must be at least 1"):
        ThreadEngine(0)
    assert available_cores() >= 1


def test_block_boundaries_depend_on_the_corpus_alone_and_cover_it():
    rng = np.random.default_rng(0)
    for n_docs, n_words, density in ((3, 5, 1.0), (5000, 50, 0.9), (20_000, 300, 0.05), (4, 100_000, 0.01)):
        X = sp.random(n_docs, n_words, density, format="csr", random_state=rng)
        X.data = np.ceil(X.data * 5)
        corpus = Corpus(X)
        assert corpus.boundaries[0] == 0
        assert corpus.boundaries[-1] == n_docs
        assert (np.diff(corpus.boundaries) > 0).all()
        blocks = [corpus.block(i) for i in range(corpus.n_blocks)]
        assert (sp.vstack([block.matrix() for block in blocks]) != X).nnz == 0
        np.testing.assert_allclose(
            np.concatenate([block.lengths() for block in blocks]), np.asarray(X.sum(axis=1)).ravel()
        )


def test_a_huge_document_does_not_make_an_empty_block():
    X = np.zeros((50, 2000), dtype=np.int64)
    X[:, 0] = 1
    X[3] = 1
    corpus = Corpus(np.repeat(X, 40, axis=0))
    assert (np.diff(corpus.boundaries) > 0).all()


def waiting_for_the_first(block, release, started):
    started.append(block.first)
    if block.first == 0:
        release.wait(10)
    return (np.array([float(block.first)]),)


def test_a_slow_block_does_not_let_the_others_pile_up(corpus):
    """Parts that wait to be added are dense arrays: their number is bounded however slow the first block is."""
    release, started = threading.Event(), []
    timer = threading.Timer(0.5, release.set)
    timer.start()
    ThreadEngine(2).sum(waiting_for_the_first, corpus, release, started)
    timer.join()
    assert len(started) == corpus.n_blocks
    started.clear()
    release.clear()
    thread = threading.Thread(target=ThreadEngine(2).sum, args=(waiting_for_the_first, corpus, release, started))
    thread.start()
    time.sleep(0.3)
    pending = len(started)
    release.set()
    thread.join()
    assert pending <= 4 < corpus.n_blocks


def rows(block, factor):
    return block.lengths() * factor, np.arange(block.first, block.first + block.n_docs)


@pytest.mark.parametrize("n_threads", [1, 3])
def test_map_gives_a_row_for_each_document_in_order(corpus, n_threads):
    lengths, numbers = ThreadEngine(n_threads).map(rows, corpus.cut(700), 2.0)
    np.testing.assert_array_equal(numbers, np.arange(12_000))
    np.testing.assert_array_equal(lengths, 2 * np.asarray(corpus.counts.sum(axis=1)).ravel())


class Counting(ThreadEngine):
    calls = 0

    def sum(self, *args, **kwargs):
        type(self).calls += 1
        return super().sum(*args, **kwargs)


def test_an_engine_of_the_users_own_is_used_as_it_is(corpus):
    DiscreteICA(3, engine=Counting(2)).fit(corpus)
    assert Counting.calls > 3


def remembering(block, state, step):
    total = (state or 0) + step * block.n_docs
    return (np.array([float(total)]),), total


@pytest.mark.parametrize("n_threads", [1, 3])
def test_update_keeps_a_state_for_each_block(corpus, n_threads):
    engine, states = ThreadEngine(n_threads), [None] * corpus.n_blocks
    (first,), states = engine.update(remembering, corpus, states, 1)
    (second,), states = engine.update(remembering, corpus, states, step=2)
    assert first[0] == 12_000
    assert second[0] == 36_000
    assert states == [3 * corpus.block(i).n_docs for i in range(corpus.n_blocks)]


def test_single_precision_parts_are_added_in_double():
    parts = [(np.full(3, 2.0**24 if i == 0 else 1.0, dtype=np.float32),) for i in range(9)]
    ordered = OrderedSum(double=True)
    for i in (3, 0, 1, 2, 8, 7, 6, 5, 4):
        ordered.add(i, parts[i])
    (total,) = ordered.result()
    assert total.dtype == np.float64
    np.testing.assert_array_equal(total, 2.0**24 + 8)
