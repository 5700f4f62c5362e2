"""Moments that outlive their documents: merged, saved, enlarged."""

from __future__ import annotations

import json

import hypothesis.strategies as st
import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings

from momentopic import Corpus, DiscreteICA, RankError, load, metrics, simulate
from momentopic.engine import ThreadEngine, get_engine
from momentopic.moments import (
    Basis,
    BasisMismatchError,
    SketchedMoments,
    dica_moments,
    find_basis,
    lda_moments,
    pooled,
    sketched_moments,
    whiten,
)
from momentopic.moments.enlarge import enlarged
from momentopic.moments.stored import MomentsFolderError
from momentopic.moments.triples import packed, unpacked
from momentopic.solve import solve
from momentopic.stream import Stream, missed_directions

from .conftest import planted_topics, shared
from .reference import dica_dense, relative_error

D = planted_topics(150, 6, seed=5)
c = np.full(6, 0.2)
SUMS = ("_numbers", "_totals", "_products", "_pairs", "_third")


@pytest.fixture(scope="module")
def X():
    return simulate.gamma_poisson(D, c, 4000, mean_length=60, random_state=1)


@pytest.fixture(scope="module")
def basis(X):
    return find_basis(X[:800], 12)


def small_counts(N, M, seed):
    rng = np.random.default_rng(seed)
    X = rng.poisson(rng.gamma(0.5, 2.0, size=(N, M)))
    X[0] += 1
    return X


def same_bits(a, b):
    return all(getattr(a, name).tobytes() == getattr(b, name).tobytes() for name in SUMS)


@pytest.mark.filterwarnings("ignore:.*documents are empty")
@settings(deadline=None, max_examples=40)
@given(st.integers(0, 10_000), st.integers(4, 40), st.integers(2, 8), st.lists(st.integers(0, 40), max_size=4))
def test_merged_moments_are_those_of_the_whole_corpus(seed, N, M, cuts):
    X = small_counts(N, M, seed)
    rng = np.random.default_rng(seed)
    r = int(rng.integers(1, M + 1))
    basis = Basis(np.linalg.qr(rng.standard_normal((M, r)))[0], rng.standard_normal(r))
    edges = [0, *sorted(min(cut, N) for cut in cuts), N]
    parts = [SketchedMoments(basis).add(sp.csr_matrix(X[a:b])) for a, b in zip(edges, edges[1:], strict=False) if b > a]
    merged = pooled(parts)
    mean, S, T = dica_dense(X)
    W = rng.standard_normal((2, r)) @ basis.vectors.T
    assert merged.n_docs == N
    np.testing.assert_allclose(merged.mean, mean, rtol=1e-14)
    # of the mean of what is added up: T itself may be zero
    y = (X @ abs(W).T).max(axis=1)
    assert abs(merged.second(W.T) - S @ W.T).max() < 1e-10 * (X.max() * y).mean()
    scale = (y**3).mean()
    assert abs(merged.third(W) - np.einsum("abc,ia,jb,kc->ijk", T, W, W, W)).max() < 1e-10 * scale
    assert abs(merged.projected(W, W[1]) - np.einsum("abc,ia,jb,c->ij", T, W, W, W[1])).max() < 1e-10 * scale
    whole = dica_moments(X)
    assert abs(merged.third(W) - whole.third(W)).max() < 1e-10 * scale
    # in any order: the same bits
    assert same_bits(merged, pooled(parts[::-1]))


def test_merge_commutes_to_the_bit_and_associates_to_rounding(X, basis):
    a, b, d = (sketched_moments(X[i::3], basis=basis) for i in range(3))
    assert same_bits(a.merge(b), b.merge(a))
    for one, other in zip(
        (getattr(a.merge(b).merge(d), name) for name in SUMS),
        (getattr(a.merge(b.merge(d)), name) for name in SUMS),
        strict=True,
    ):
        assert relative_error(one, other) < 1e-13
    # and nothing happened to the parts
    assert same_bits(a, sketched_moments(X[0::3], basis=basis))


@pytest.mark.parametrize("make", [dica_moments, lambda X, **kw: lda_moments(X, 0.8, **kw)])
def test_moments_with_their_documents_merge_too(make):
    X = small_counts(60, 7, 3)
    X[X.sum(axis=1) < 3, 0] += 3
    whole = make(X, engine=ThreadEngine(2))
    merged = make(X[:25]).merge(make(X[25:40])).merge(make(Corpus(X[40:])))
    W = np.random.default_rng(0).standard_normal((3, 7))
    assert merged.n_docs == whole.n_docs
    assert merged.mean_length == pytest.approx(whole.mean_length, rel=1e-14)
    assert relative_error(merged.second(W.T), whole.second(W.T)) < 1e-10
    assert relative_error(merged.third(W), whole.third(W)) < 1e-10
    with pytest.raises(ValueError, match=r"different numbers of words.*\[6, 7\]"):
        merged.merge(make(X[:, :6] + 1))
    with pytest.raises(ValueError, match="of different words"):
        make(Corpus(X, list("abcdefg"))).merge(make(Corpus(X, list("abcdefh"))))
    with pytest.raises(ValueError, match="of the same kind"):
        merged.merge(lda_moments(X, 0.3))


def test_the_basis_of_the_corpus_itself_gives_the_batch_solution(X):
    batch = solve(dica_moments(X), 6)
    found = solve(sketched_moments(X, rank=12), 6)
    assert metrics.recovery_error(found.D, batch.D) < 1e-5
    np.testing.assert_allclose(found.concentration, batch.concentration, rtol=1e-4)
    np.testing.assert_allclose(found.rate, batch.rate, rtol=1e-4)


def test_a_basis_of_few_documents_is_nearly_as_good(X):
    batch = metrics.recovery_error(solve(dica_moments(X), 6).D, D)
    found = solve(sketched_moments(X, basis=find_basis(X[:200], 12)), 6)
    assert metrics.recovery_error(found.D, D) < 1.2 * batch
    for algorithm in ("spectral", "tpm"):
        one = solve(sketched_moments(X, rank=12), 6, algorithm=algorithm)
        assert metrics.recovery_error(one.D, solve(dica_moments(X), 6, algorithm=algorithm).D) < 1e-3


def test_whitening_and_residual(X, basis):
    moments = sketched_moments(X, basis=basis)
    found = whiten(moments, 6)
    S = dica_moments(X)
    np.testing.assert_allclose(found.W @ S.second(found.W.T), np.eye(6), atol=1e-9)
    np.testing.assert_allclose(found.unwhiten, S.second(found.W.T), atol=1e-9)
    np.testing.assert_allclose(
        found.residuals / np.sqrt(found.eigenvalues),
        np.linalg.norm(S.second(found.W.T) - found.W.T * found.eigenvalues, axis=0),
        rtol=1e-6,
    )
    assert sketched_moments(X, rank=12).residual(6) < 1e-3 < moments.residual(6)


@settings(deadline=None, max_examples=20)
@given(st.integers(1, 9), st.integers(0, 1000))
def test_packed_arrays(K, seed):
    A = np.random.default_rng(seed).standard_normal((K, 4))
    T = np.einsum("ia,ja,ka->ijk", A, A, A)
    np.testing.assert_allclose(unpacked(packed(T), K), T)


def test_documents_that_have_gone_are_completed_on_a_larger_subspace():
    # in the limit of many documents completion is exact: it is what the sums on the larger subspace would have been
    X = simulate.gamma_poisson(D, c, 40_000, mean_length=60, random_state=3)
    rng = np.random.default_rng(0)
    Q = np.linalg.qr(np.hstack([D[:, :5] + D[:, 5:] / 3, rng.standard_normal((150, 3))]))[0]
    small = SketchedMoments(Basis(Q, Q.T @ np.asarray(X.mean(axis=0)).ravel())).add(X)
    larger = enlarged(small, D[:, 5:], 6)
    true = SketchedMoments(larger.basis).add(X)
    assert larger.n_docs == true.n_docs
    W = np.ascontiguousarray(larger.basis.vectors.T)
    # what was known is as it was
    old = W[:8]
    assert relative_error(larger.second(old.T), small.second(old.T)) < 1e-12
    assert relative_error(larger.third(old), small.third(old)) < 1e-9
    assert relative_error(larger.second(W.T)[:, 8], true.second(W.T)[:, 8]) < 0.1
    assert relative_error(larger.third(W)[8], true.third(W)[8]) < 0.1
    # and documents that are added later bring what they have
    more = simulate.gamma_poisson(D, c, 500, mean_length=60, random_state=4)
    added = larger.merge(larger.empty().add(more))
    assert added.n_docs == 40_500
    assert relative_error(added.third(W)[8], true.merge(true.empty().add(more)).third(W)[8]) < 0.1


def test_missed_directions_are_those_of_a_new_topic_and_of_no_noise(X):
    old = simulate.gamma_poisson(D[:, :5], c[:5], 2000, mean_length=60, random_state=6)
    Q = find_basis(old, 10).vectors
    least = float(whiten(dica_moments(old), 5).eigenvalues[-1])
    engine = get_engine("auto")
    assert missed_directions(Q, Corpus(old), least, most=20, engine=engine).shape[1] == 0
    found = missed_directions(Q, Corpus(X), least, most=20, engine=engine)
    assert 1 <= found.shape[1] <= 2
    new = D[:, 5] - Q @ (Q.T @ D[:, 5])
    assert np.linalg.norm(found.T @ new) > 0.9 * np.linalg.norm(new)
    np.testing.assert_allclose(found.T @ found, np.eye(found.shape[1]), atol=1e-10)
    np.testing.assert_allclose(Q.T @ found, 0, atol=1e-10)
    assert missed_directions(Q, Corpus(X), least, most=10, engine=engine).shape[1] == 0  # no room


def test_a_stream_finds_a_topic_that_comes_late():
    # it has words of its own, which earlier documents do not show
    T = np.zeros((200, 6))
    T[:150, :5], T[150:, 5] = D[:, :5], planted_topics(50, 1, seed=8)[:, 0]
    old = simulate.gamma_poisson(T[:, :5], c[:5], 1500, mean_length=50, random_state=6)
    new = simulate.gamma_poisson(T, c, 4000, mean_length=60, random_state=7)
    stream = Stream(6, get_engine("auto"), batch=500)
    for block in (old[:500], old[500:1000], old[1000:], *(new[i : i + 500] for i in range(0, 4000, 500))):
        stream.add(Corpus(block))
    assert stream.n_docs == stream.moments().n_docs == 5500
    error = metrics.recovery_error(solve(stream.moments(), 6).D, T)
    batch = metrics.recovery_error(solve(dica_moments(sp.vstack([old, new])), 6).D, T)
    assert error < batch + 0.02


def test_saved_and_loaded_moments_have_the_same_bits(X, basis, tmp_path):
    words = [f"w{m}" for m in range(150)]
    moments = sketched_moments(Corpus(X, words), basis=basis)
    moments.save(tmp_path / "moments")
    moments.save(tmp_path / "moments")  # replaces
    again = SketchedMoments.load(tmp_path / "moments")
    assert same_bits(moments, again)
    assert again.vocabulary == words
    assert again.basis.fingerprint == basis.fingerprint
    assert repr(again) == "SketchedMoments(4000 documents x 150 words on 12 directions)"
    assert same_bits(again.merge(moments), moments.merge(moments))
    assert solve(again, 6).D.tobytes() == solve(moments, 6).D.tobytes()
    assert [entry.name for entry in tmp_path.iterdir()] == ["moments"]


def test_folders_that_hold_no_whole_moments(X, basis, tmp_path):
    folder = tmp_path / "moments"
    sketched_moments(X, basis=basis).save(folder)
    with pytest.raises(FileNotFoundError, match="there is no folder of moments"):
        SketchedMoments.load(tmp_path / "none")
    arrays = (folder / "arrays.safetensors").read_bytes()
    (folder / "arrays.safetensors").write_bytes(arrays[:-9])
    with pytest.raises(MomentsFolderError, match="not as it was written"):
        SketchedMoments.load(folder)
    (folder / "arrays.safetensors").write_bytes(arrays)
    description = (folder / "moments.json").read_text()
    for change, message in (
        ({"format_version": 9}, "in format 9; this version reads formats up to 1: upgrade"),
        ({"format": "x"}, "describes something else"),
        ({"format_version": "1"}, "format version is '1'"),
        ({"vocabulary": ["a"]}, "is not whole"),
    ):
        (folder / "moments.json").write_text(json.dumps(json.loads(description) | change))
        with pytest.raises(MomentsFolderError, match=message):
            SketchedMoments.load(folder)
    (folder / "moments.json").write_text(description[:40])
    with pytest.raises(MomentsFolderError, match="cannot be read"):
        SketchedMoments.load(folder)
    with pytest.raises(FileExistsError, match="will not be replaced"):
        sketched_moments(X, basis=basis).save(folder)
    (folder / "moments.json").unlink()
    with pytest.raises(MomentsFolderError, match=r"it has no moments\.json"):
        SketchedMoments.load(folder)
    with pytest.raises(FileNotFoundError, match="there is no folder"):
        sketched_moments(X, basis=basis).save(tmp_path / "no" / "moments")


def test_moments_that_do_not_fit_together(X, basis):
    moments = sketched_moments(X, basis=basis)
    with pytest.raises(BasisMismatchError, match=r"different subspaces \(of 12 and 8 directions\).*--basis FOLDER"):
        moments.merge(sketched_moments(X, rank=8))
    with pytest.raises(BasisMismatchError, match="different words.*150 words and 149"):
        moments.merge(sketched_moments(X[:, :149], rank=12))
    named = sketched_moments(Corpus(X, [f"w{m}" for m in range(150)]), basis=basis)
    other = sketched_moments(Corpus(X, [f"v{m}" for m in range(150)]), basis=basis)
    with pytest.raises(BasisMismatchError, match="word 0 is 'w0' here and 'v0' there"):
        named.merge(other)
    assert named.merge(moments).vocabulary == moments.merge(named).vocabulary == named.vocabulary
    with pytest.raises(ValueError, match="the documents have 149 words, but these moments are of 150"):
        moments.empty().add(X[:, :149])
    with pytest.raises(ValueError, match="other words than these moments"):
        named.add(Corpus(X, [f"v{m}" for m in range(150)]))
    with pytest.raises(TypeError, match="only SketchedMoments"):
        moments.merge(dica_moments(X))
    with pytest.raises(ValueError, match="nothing to pool"):
        pooled([])


def test_what_moments_on_a_subspace_cannot_say(X, basis):
    moments = sketched_moments(X, basis=basis)
    with pytest.raises(ValueError, match="this vector does not lie in it"):
        moments.second(np.eye(150)[:, 0])
    with pytest.raises(ValueError, match="expected 150 numbers"):
        moments.third(np.ones((2, 3)))
    with pytest.raises(ValueError, match="basis of 12 directions: ask for at most 12"):
        whiten(moments, 13)
    with pytest.raises(ValueError, match="projections='vocabulary'"):
        solve(moments, 3, projections="vocabulary")
    with pytest.raises(ValueError, match="at least 3 documents, got n_samples = 2 so far"):
        whiten(moments.empty().add(X[:2]), 2)
    with pytest.raises(ValueError, match="at least 1 direction"):
        find_basis(X, 0)


def test_pooled_moments_make_a_model_that_can_be_used(X, basis, tmp_path):
    words = [f"w{m}" for m in range(150)]
    parts = [sketched_moments(Corpus(X[i::2], words), basis=basis) for i in range(2)]
    model = DiscreteICA(6).fit_moments(pooled(parts))
    assert metrics.recovery_error(model.components_, D) < 0.1
    assert model.transform(Corpus(X[:3], words)).shape == (3, 6)
    assert model.training_data_["documents"] == 4000
    assert model.training_data_["tokens"] == X.sum()
    model.save(tmp_path / "model")
    assert load(tmp_path / "model").topics(3) == model.topics(3)
    assert model.topics(1)[0][0][0].startswith("w")
    with pytest.raises(RankError):
        DiscreteICA(2).fit_moments(sketched_moments(np.ones((5, 4), dtype=int), rank=3))
    with pytest.raises(ValueError, match="moments='lda' needs the documents"):
        DiscreteICA(2, moments="lda", c0=1.0).fit_moments(parts[0])


def test_two_hospitals_find_the_signatures_of_all_tumours():
    X = sp.load_npz(shared("datasets", "pcawg_sbs96", "counts.npz")).astype(np.int64)
    first = sketched_moments(X[::2], rank=96)
    together = pooled([first, sketched_moments(X[1::2], basis=first.basis)])
    batch = solve(dica_moments(X), 6)
    assert metrics.recovery_error(solve(together, 6).D, batch.D) < 1e-5
