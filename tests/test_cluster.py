"""What goes through a cluster beside fits: folders, merged moments, sketches, clones; and what cannot go there."""

from __future__ import annotations

import gc
from copy import copy
from functools import reduce

import numpy as np
import pytest
from sklearn.base import clone

from momentopic import DiscreteICA, memory, simulate
from momentopic.coherence import coherence
from momentopic.corpus import Corpus, InputFileError, ShardWriter
from momentopic.corpus.collections import ClusterCorpus
from momentopic.engine import ThreadEngine, get_engine
from momentopic.moments import dica_moments, sketched_moments

from .conftest import planted_topics
from .corpora import chunked, written

distributed = pytest.importorskip("distributed")
# Dask's own: its event loop and its sockets are closed late
pytestmark = pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::pytest.PytestUnraisableExceptionWarning")


@pytest.fixture(scope="module")
def client():
    options = {"n_workers": 2, "threads_per_worker": 1, "processes": False, "dashboard_address": None}
    with distributed.LocalCluster(**options) as cluster, distributed.Client(cluster) as client:
        yield client


@pytest.fixture(scope="module")
def X():
    return simulate.gamma_poisson(planted_topics(150, 5), np.full(5, 0.3), 5000, mean_length=60).tocsr()


def nothing(block):
    return (np.zeros(1),)


def folders_kept(dask_worker):
    kept = getattr(dask_worker, "momentopic", None)
    return 0 if kept is None else len(kept.opened)


def test_folders_that_workers_cannot_open_are_told_and_others_are_forgotten(client, X, tmp_path):
    engine = get_engine(client)
    disk = written(tmp_path / "packed", X[:500])
    (tmp_path / "packed").rename(tmp_path / "elsewhere")
    with pytest.raises(FileNotFoundError, match="there is no folder .*packed, which every worker must see"):
        engine.sum(nothing, disk)
    (tmp_path / "elsewhere").rename(tmp_path / "packed")
    engine.sum(nothing, disk)
    assert max(client.run(folders_kept).values()) > 0
    with ShardWriter(tmp_path / "packed", append=True) as writer:
        writer.add(X[500:600])
        writer.finish(X.shape[1])
    changed = disk._with_boundaries(disk.boundaries)
    changed._shards = copy(disk._shards)  # as it was before, but not on the workers yet
    with pytest.raises(InputFileError, match="has changed since it was opened"):
        engine.sum(nothing, changed)
    del disk, changed
    gc.collect()
    engine.sum(nothing, Corpus(X[:500]))
    assert max(client.run(folders_kept).values()) == 0


def test_new_workers_are_used_for_a_folder(client, X, tmp_path):
    engine, disk = get_engine(client), written(tmp_path / "packed", X)
    engine.cluster.ready()
    everybody = dict(engine.cluster.workers)
    del engine.cluster.workers[next(iter(everybody))]  # as if it had come later
    engine.sum(nothing, disk)
    assert set(engine.cluster.workers) == set(everybody)


def test_clones_have_the_same_cluster(client):
    engine = get_engine(client)
    assert clone(DiscreteICA(2, engine=engine)).engine is engine


def test_merged_moments_and_sketches_on_a_cluster(client, X):
    parts = X[:4000], X[4000:4500], X[4500:5000]
    there, here = (
        reduce(lambda a, b: a.merge(b), [dica_moments(part, engine=engine) for part in parts])
        for engine in (client, ThreadEngine(1))
    )
    W = np.random.default_rng(0).normal(size=(3, X.shape[1]))
    assert (there.n_docs, there.n_words) == (5000, X.shape[1])
    np.testing.assert_allclose(there.mean, here.mean, rtol=1e-12)
    np.testing.assert_allclose(there.second(W.T), here.second(W.T), rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(there.third(W), here.third(W), rtol=1e-9, atol=1e-9)
    agreed = sketched_moments(X, rank=8)
    array = chunked(X, [0, 2000, 5000])
    assert sketched_moments(array, basis=agreed)._third.tobytes() == agreed._third.tobytes()
    assert sketched_moments(array, rank=8)._third.tobytes() == agreed._third.tobytes()
    found, expected = (coherence([[0, 1, 2], [3, 4]], documents) for documents in (array, X))
    assert found.per_topic.tobytes() == expected.per_topic.tobytes()


def test_blocks_on_a_cluster_are_refused_by_partial_fit(client, X):
    array = chunked(X[:500], [0, 300, 500])
    model = DiscreteICA(2, refine=None)
    for blocks in (array, ClusterCorpus(array)):
        with pytest.raises(TypeError, match=r"partial_fit .* fit the whole collection, or compute"):
            model.partial_fit(blocks)
    model.partial_fit(X[:300])
    with pytest.raises(TypeError, match=r"partial_fit .* fit the whole collection, or compute"):
        model.partial_fit(array)


def test_a_limit_of_memory_is_about_what_is_here(client, X):
    corpus = Corpus(X[:2000])
    limit = memory.moments_bytes(corpus, 5, 1) + 10
    model = DiscreteICA(5, n_sweeps=3, engine=client)
    expected = model.fit(corpus).components_.tobytes()
    assert model.set_params(memory_limit=limit).fit(corpus).components_.tobytes() == expected


def test_intensities_of_a_collection(client, X, monkeypatch):
    model = DiscreteICA(5, refine=None).fit(X[:1500])
    expected = model.intensities(X[1500:2000])
    model.set_params(engine=client)
    collection = chunked(X[1500:2000], [0, 200, 500])
    found = model.intensities(collection)
    np.testing.assert_array_equal(found.weights, expected.weights)
    monkeypatch.setattr("momentopic.intensity._MOST_TOKENS", 1000)
    with pytest.raises(TypeError, match=r"compute the collection first"):
        model.intensities(collection)
