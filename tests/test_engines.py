"""One suite for all engines: the same moments, the same bits, whoever does the sums and wherever the documents are."""

from __future__ import annotations

import gc
import os
import signal
import sys

import numpy as np
import pytest
import scipy.sparse as sp

from momentopic import DiscreteICA, heldout, simulate
from momentopic.corpus import Corpus, CountsError, TextSettings
from momentopic.corpus.collections import ClusterCorpus
from momentopic.engine import OrderedSum, ThreadEngine, get_engine
from momentopic.engine.cuda import device_available
from momentopic.moments import dica_moments, lda_moments

from .conftest import planted_topics
from .corpora import chunked, written
from .reference import dica_dense, lda_dense, relative_error

# Dask's own: its event loop and its sockets are closed late
pytestmark = pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::pytest.PytestUnraisableExceptionWarning")

EXACT = ("one thread", "two threads", "dask")  # engines with the same bits
ENGINES = (*EXACT, "cuda")


# Where the documents are: a function from counts and a folder to a corpus.
CORPORA = {"memory": lambda X, folder: Corpus(X), "disk": lambda X, folder: written(folder / "packed", X)}


@pytest.fixture(scope="module")
def client():
    distributed = pytest.importorskip("distributed")
    with (
        distributed.LocalCluster(n_workers=2, threads_per_worker=1, processes=True, dashboard_address=":0") as cluster,
        distributed.Client(cluster) as client,
    ):
        yield client


def make_engine(name, request):
    if name == "dask":
        return get_engine(request.getfixturevalue("client"))
    if name == "cuda":
        if not device_available():
            pytest.skip("there is no CUDA device on this machine, or no CuPy")
        return get_engine("cuda")
    return ThreadEngine({"one thread": 1, "two threads": 2}[name])


@pytest.fixture(params=ENGINES)
def engine(request):
    return make_engine(request.param, request)


@pytest.fixture(params=EXACT[1:])
def exact(request):
    """An engine whose bits are those of one thread."""
    return make_engine(request.param, request)


@pytest.fixture(scope="module")
def X():
    return simulate.gamma_poisson(planted_topics(150, 5), np.full(5, 0.3), 12_000, mean_length=60).tocsr()


@pytest.fixture(params=sorted(CORPORA))
def corpus(request, X, tmp_path):
    made = CORPORA[request.param](X, tmp_path)
    assert made.n_blocks >= 8
    return made


@pytest.fixture(scope="module")
def local(X):
    """What one thread makes of the corpus, by the options of the fit."""
    made = {}

    def model(**options):
        key = repr(sorted(options.items()))
        if key not in made:
            made[key] = DiscreteICA(5, engine=ThreadEngine(1), **options).fit(Corpus(X))
        return made[key]

    return model


def bits(model):
    return [getattr(model, name).tobytes() for name in ("components_", "concentration_", "eigenvalues_")]


# the moments


@pytest.mark.parametrize("kind", ["dica", "lda"])
def test_moments_are_those_of_the_dense_definitions(engine, kind):
    rng = np.random.default_rng(0)
    X = rng.poisson(0.8, size=(40, 7)) * (rng.random((40, 7)) < 0.7)
    X[X.sum(axis=1) < 3, 0] += 3
    corpus = Corpus(sp.csr_matrix(X))
    corpus.boundaries = np.array([0, 3, 10, 11, 25, 40])  # as large corpora have
    c0 = 1.7
    moments = dica_moments(corpus, engine=engine) if kind == "dica" else lda_moments(corpus, c0, engine=engine)
    mean, S, T = dica_dense(X) if kind == "dica" else lda_dense(X, c0)
    V, W, v = rng.standard_normal((7, 3)), rng.standard_normal((4, 7)), rng.standard_normal(7)
    expected = {
        "mean": (moments.mean, mean),
        "second": (moments.second(V), S @ V),
        "third": (moments.third(W), np.einsum("abc,ia,jb,kc->ijk", T, W, W, W)),
        "projected": (moments.projected(W, v), np.einsum("abc,ia,jb,c->ij", T, W, W, v)),
    }
    for name, (found, wanted) in expected.items():
        assert relative_error(found, wanted) < 1e-10, name


# the same bits


OPTIONS = [
    {"refine": None},
    {"refine": None, "moments": "lda", "c0": 1.5},
    {"refine": None, "projections": "vocabulary"},
    {"refine": "collapsed"},
    {"refine": "collapsed", "n_sweeps": 5},
    {"refine": "variational"},
]


@pytest.mark.parametrize("options", OPTIONS, ids=repr)
def test_topics_have_the_same_bits(exact, corpus, local, options):
    assert bits(DiscreteICA(5, engine=exact, **options).fit(corpus)) == bits(local(**options))


@pytest.mark.usefixtures("short_rounds")
def test_a_refinement_that_begins_with_a_part_of_the_tokens_has_the_same_bits(exact, corpus):
    found, expected = (DiscreteICA(5, engine=engine, n_sweeps=7).fit(corpus) for engine in (exact, ThreadEngine(1)))
    assert bits(found) == bits(expected)


def test_many_topics_have_the_same_bits(exact, corpus, monkeypatch):
    monkeypatch.setattr("momentopic.solve._MANY_TOPICS", 5)
    found, expected = (DiscreteICA(5, engine=engine).fit(corpus) for engine in (exact, ThreadEngine(1)))
    assert bits(found) == bits(expected)


def test_documents_and_scores_have_the_same_bits(exact, corpus, local):
    expected = local(refine=None)
    model = DiscreteICA(5, engine=exact, refine=None).fit(corpus)
    assert model.transform(corpus).tobytes() == expected.transform(corpus).tobytes()
    few = corpus.counts[:300]
    assert model.score(few) == expected.score(few)
    nats = [
        heldout.chib(few[:20], expected.components_, expected.concentration_, 50, engine=engine).nats
        for engine in (exact, ThreadEngine(1))
    ]
    assert nats[0].tobytes() == nats[1].tobytes()


@pytest.mark.parametrize("n_blocks", [1, 2, 5, 8, 13, 16])
def test_the_tree_does_not_depend_on_who_adds_which_blocks(n_blocks):
    from momentopic.engine.worker import merged

    rng = np.random.default_rng(n_blocks)
    parts = (rng.standard_normal((n_blocks, 4)) * 10.0 ** rng.integers(-6, 6, (n_blocks, 4))).astype(np.float32)
    together = OrderedSum(double=True)
    for i in rng.permutation(n_blocks):
        together.add(int(i), (parts[i].copy(),))
    expected = together.result()[0].tobytes()
    for n_runs in range(1, n_blocks + 1):
        runs = []
        for numbers in np.array_split(np.arange(n_blocks), n_runs):
            run = OrderedSum(double=True)
            for i in numbers:
                run.add(int(i), (parts[i].copy(),))
            runs.append(run.nodes)
        final = OrderedSum(double=True)
        for node, part in merged(True, *runs).items():
            final.add_node(node, part)
        assert final.result()[0].tobytes() == expected


# the verbs


class Part:
    """A part of the words that remembers which blocks held it."""

    def __init__(self, number):
        self.number = number
        self.held = []


def remembering(block, state, scale):
    # sums of such numbers depend on the order of the additions
    part = np.full(3, scale * 1.1 ** (block.first % 97) / 3 + state[0])
    state += 1.0  # in its own memory, as block functions may
    return (part, part.astype(np.float32)), state


def holding(block, state, part, scale):
    (sums, _), state = remembering(block, state, scale)
    part.held.append((block.first, float(state[0])))
    return (sums * (1 + part.number / 7),), state, part


@pytest.mark.parametrize("extra", [0, 3])
def test_update_and_turn_do_what_the_plain_loop_does(exact, corpus, extra):
    corpus = corpus.divided(8)
    n_parts = corpus.n_blocks + extra

    def passes(engine):
        sums = []
        total, states = engine.update(remembering, corpus, [np.full(2, 0.1 * i) for i in range(corpus.n_blocks)], 0.3)
        sums.append(total)
        words = [Part(j) for j in range(n_parts)]
        for turn in range(n_parts + 2):
            total, states, words = engine.turn(holding, corpus, states, words, turn, scale=0.7)
            sums.append(total)
            if turn == 4:
                total, states = engine.update(remembering, corpus, states, scale=0.1)
                sums.append(total)
                assert words[0].number == 0  # looking at them does not change them
        # out of turn
        total, states, words = engine.turn(holding, corpus, states, words, 1, scale=0.7)
        return [*sums, total], [(part.number, part.held) for part in words]

    class Plain:
        def update(self, function, corpus, states, *args, **kwargs):
            ordered = OrderedSum()
            for i in range(corpus.n_blocks):
                part, states[i] = function(corpus.block(i), states[i], *args, **kwargs)
                ordered.add(i, part)
            return ordered.result(), states

        def turn(self, function, corpus, states, words, turn, **kwargs):
            ordered = OrderedSum()
            for i in range(corpus.n_blocks):
                j = (i + turn) % len(words)
                part, states[i], words[j] = function(corpus.block(i), states[i], words[j], **kwargs)
                ordered.add(i, part)
            return ordered.result(), states, words

    expected_sums, expected_words = passes(Plain())
    sums, words = passes(exact)
    for found, wanted in zip(sums, expected_sums, strict=True):
        assert [a.tobytes() for a in found] == [a.tobytes() for a in wanted]
        assert [a.dtype for a in found] == [a.dtype for a in wanted]
    assert words == expected_words


def test_used_states_and_words_are_refused(client, X):
    engine, corpus = get_engine(client), Corpus(X).divided(4)
    _, states = engine.update(remembering, corpus, [np.zeros(1)] * 4, 1.0)
    _, after, words = engine.turn(holding, corpus, states, [Part(j) for j in range(4)], 0, 1.0)
    with pytest.raises(RuntimeError, match="these states were used by an earlier pass"):
        engine.update(remembering, corpus, states, 1.0)
    engine.turn(holding, corpus, after, words, 1, 1.0)
    with pytest.raises(RuntimeError, match="changed by a later turn"):
        _ = words[0].number
    with pytest.raises(ValueError, match="4 blocks cannot hold 3 parts"):
        engine.turn(holding, corpus, [np.zeros(1)] * 4, [Part(j) for j in range(3)], 0, 1.0)


def failing(block, where):
    if block.first == where:
        raise ZeroDivisionError("block failed")
    return (np.zeros(1),)


def test_an_error_in_a_block_is_raised_as_it_is(exact, corpus):
    with pytest.raises(ZeroDivisionError, match="block failed"):
        exact.sum(failing, corpus, int(corpus.boundaries[3]))
    (total,) = exact.sum(failing, corpus, -1)
    assert total[0] == 0


def test_progress_counts_blocks(engine, corpus):
    seen = []
    engine.with_progress(lambda done, total: seen.append((done, total))).sum(failing, corpus, -1)
    assert seen[-1] == (corpus.n_blocks, corpus.n_blocks)
    assert [done for done, _ in seen] == sorted({done for done, _ in seen})


# the cluster


def workers_asked(cluster, monkeypatch):
    """The names of the functions that workers are asked to do from now on."""
    asked = []
    submit = cluster.submit

    def spied(address, function, *args):
        asked.append(function.__name__)
        return submit(address, function, *args)

    monkeypatch.setattr(cluster, "submit", spied)
    return asked


def test_documents_travel_once(client, X, monkeypatch):
    engine, corpus = get_engine(client), Corpus(X)
    asked = workers_asked(engine.cluster, monkeypatch)
    for _ in range(3):
        engine.sum(failing, corpus, -1)
    assert asked.count("keep_rows") == 2
    get_engine(client).map(failing_rows, corpus.cut(256))  # other blocks: the rows between the cuts at most
    assert asked.count("keep_rows") <= 4
    have = engine.cluster._have[engine.cluster.name(corpus)]
    travelled = sum(end - first for ranges in have.values() for first, end in ranges)
    assert X.shape[0] <= travelled <= X.shape[0] + 256


def failing_rows(block):
    return (np.zeros(block.n_docs),)


def documents_kept(dask_worker):
    return set(dask_worker.momentopic.rows)


def test_documents_are_forgotten_with_their_corpus(client, X):
    engine = get_engine(client)
    before = set(engine.cluster._names.values())
    for _ in range(4):
        engine.sum(failing, Corpus(X.copy()), -1)
    kept = Corpus(X.copy())
    gc.collect()  # a wait for slow workers leaves errors whose frames still refer to the corpus
    engine.sum(failing, kept, -1)
    alive = set(engine.cluster._names.values())
    assert len(alive - before) == 1
    for names in client.run(documents_kept).values():
        assert names <= alive


class Killer:
    """Kills a worker when so many passes are done."""

    def __init__(self, client, passes):
        self.client, self.passes, self.killed = client, passes, 0

    def __call__(self, done, total):
        self.passes -= done == total
        if self.passes == 0 and not self.killed:
            self.killed = next(iter(self.client.run(os.getpid).values()))
            os.kill(self.killed, signal.SIGKILL)


@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="this system has no SIGKILL")
@pytest.mark.parametrize("passes", [3, 40])
def test_a_fit_ends_with_the_same_bits_when_a_worker_is_killed(client, X, local, passes, monkeypatch):
    from momentopic.engine import session

    if passes > 20:  # in the refinement, whose states were copied before
        monkeypatch.setattr(session, "_COPY_AFTER_BYTES", 20_000)
    engine = get_engine(client)
    killer = Killer(client, passes)
    options = {"refine": "collapsed", "n_sweeps": 15}
    asked = workers_asked(engine.cluster, monkeypatch)
    model = DiscreteICA(5, engine=engine.with_progress(killer), **options).fit(Corpus(X))
    assert killer.killed
    assert killer.killed not in client.run(os.getpid).values()
    assert bits(model) == bits(local(**options))
    assert asked.count("keep_rows") >= 4
    assert asked.count("states_of") >= (2 if passes > 20 else 0)


def test_a_refinement_is_done_again_from_its_beginning(client, X, local, monkeypatch):
    options = {"refine": "collapsed", "n_sweeps": 5}
    engine = get_engine(client)
    asked = workers_asked(engine.cluster, monkeypatch)
    lost = []

    def lose(done, total):
        if asked.count("turn_run") > 4 and not lost:
            lost.append(asked.count("begin"))
            client.run(forget_all)

    model = DiscreteICA(5, engine=engine.with_progress(lose), **options).fit(Corpus(X))
    assert lost == [2]
    assert asked.count("begin") == 4
    assert bits(model) == bits(local(**options))


def forget_all(dask_worker):
    from momentopic.engine.worker import clear

    clear(dask_worker)


def deadly(block):
    os._exit(1)


def test_a_pass_that_kills_workers_is_given_up(client, X, monkeypatch):
    from momentopic.engine import cluster

    monkeypatch.setattr(cluster, "_LOSSES", 1)
    with pytest.raises(RuntimeError, match="lost 1 times in one pass .* memory"):
        get_engine(client).sum(deadly, Corpus(X))
    assert get_engine(client).sum(failing, Corpus(X), -1)[0][0] == 0


def test_engines_by_name_and_address(client, monkeypatch):
    assert get_engine("dask").client is client
    assert get_engine(client.scheduler.address).client is client
    assert client.scheduler.address in repr(get_engine(client))
    from momentopic.engine import dask

    monkeypatch.setattr(dask, "_PATIENCE", 0.5)
    with pytest.raises(ConnectionError, match=r"no Dask scheduler at tcp://127.0.0.1:9"):
        get_engine("tcp://127.0.0.1:9")
    with pytest.raises(ValueError, match="engine must be 'auto', 'threads', 'cuda', 'dask'"):
        DiscreteICA(2, engine="spark").fit(np.eye(4, dtype=int))


def test_without_dask_the_error_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "distributed", None)
    with pytest.raises(ImportError, match=r"momentopic\[dask\]"):
        get_engine("dask")


# collections


@pytest.mark.parametrize("options", [{"refine": None}, {"refine": "collapsed", "n_sweeps": 5}], ids=repr)
def test_an_array_of_chunks_has_the_topics_of_the_counts(client, X, local, options):
    array = chunked(X, [0, 1000, 1007, 5000, 9001, 12_000])
    model = DiscreteICA(5, **options).fit(array)
    assert bits(model) == bits(local(**options))
    assert model.transform(array[:5000]).tobytes() == local(**options).transform(X[:5000]).tobytes()
    assert model.training_data_["nonzeros"] == X.nnz


def test_an_array_is_computed_again_after_a_loss(client, X, local):
    killer = Killer(client, 3)
    engine = get_engine(client).with_progress(killer)
    model = DiscreteICA(5, refine=None, engine=engine).fit(chunked(X, [0, 7000, 12_000]))
    assert killer.killed
    assert bits(model) == bits(local(refine=None))


def test_a_bag_of_texts_has_the_topics_of_the_texts(client):
    import dask.bag as db

    rng = np.random.default_rng(0)
    words = [f"{a}{b}{c}" for a in "bcdfg" for b in "aeiou" for c in "lmnrst"]
    topics = planted_topics(len(words), 3)
    texts = [" ".join(rng.choice(words, size=30, p=topics[:, n % 3])) for n in range(300)]
    settings = TextSettings(min_df=3, max_df=0.9, max_features=100)
    bag = db.from_sequence(texts, npartitions=7)
    corpus = ClusterCorpus(bag, settings=settings)
    known = Corpus.from_texts(texts, min_df=3, max_df=0.9, max_features=100)
    assert corpus.vocabulary == known.vocabulary
    model, expected = (DiscreteICA(3, n_sweeps=3).fit(documents) for documents in (corpus, known))
    assert bits(model) == bits(expected)
    few = db.from_sequence(texts[:40], npartitions=3)
    assert model.transform(few).tobytes() == expected.transform(texts[:40]).tobytes()
    assert list(DiscreteICA(3, refine=None).fit(bag).feature_names_in_) == Corpus.from_texts(texts).vocabulary
    with pytest.raises(ValueError, match="there are no documents in the bag|every one of the 1 documents is empty"):
        ClusterCorpus(db.from_sequence(["zzz"], npartitions=1), ["xyz"])


def test_collections_that_cannot_be_taken(client, X):
    import dask.array as da
    import dask.bag as db

    array = chunked(X[:100], [0, 50, 100])
    with pytest.raises(ValueError, match="the documents are on a cluster: use engine='auto'"):
        DiscreteICA(2, engine="threads").fit(array)
    with pytest.raises(ValueError, match="the documents are on a cluster: use engine='auto'"):
        DiscreteICA(2, engine=ThreadEngine(1)).fit(array)
    with pytest.raises(CountsError, match="rechunk"):
        DiscreteICA(2).fit(da.ones((10, 4), chunks=(5, 2)))
    with pytest.raises(CountsError, match="dimensions"):
        DiscreteICA(2).fit(da.ones(10))
    with pytest.raises(CountsError, match="whole"):
        DiscreteICA(2).fit(da.full((10, 4), 0.5, chunks=(5, 4)))
    with pytest.raises(ValueError, match="the model knows no words"):
        DiscreteICA(2, refine=None).fit(X).transform(db.from_sequence(["a text"], npartitions=1))
    with pytest.raises(ValueError, match="has 5 words but the counts have 150"):
        ClusterCorpus(array, list("abcde"))
    with pytest.raises(ValueError, match="use engine='dask'"):
        ClusterCorpus(array).block(0)
