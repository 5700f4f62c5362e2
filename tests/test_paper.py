"""The paper's setting and real corpora, reduced to seconds. benchmarks/recovery.py is the whole of it."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp

from momentopic import DiscreteICA, metrics, simulate

from .conftest import planted_topics, shared


@pytest.fixture(scope="module")
def figure_1():
    """One corpus of Figure 1: AP K = 50, GP sampling, c0 = 0.5, mean length 200, N = 10,000."""
    with np.load(shared("paper", "params_ap_K50.npz")) as file:
        D, c = file["D"], 0.5 * file["c"] / file["c"].sum()
    return D, c, simulate.gamma_poisson(D, c, 10_000, mean_length=200, random_state=0)


@pytest.mark.parametrize(
    ("options", "low", "high"),
    [
        ({}, 0.13, 0.165),  # the authors: 0.152
        ({"projections": "random"}, 0.13, 0.168),  # 0.155
        ({"algorithm": "tpm"}, 0.13, 0.165),  # 0.152
        ({"algorithm": "spectral"}, 0.20, 0.28),  # 0.241
        ({"moments": "lda", "c0": 0.5}, 0.61, 0.68),  # 0.647
    ],
)
def test_recovery_error_of_figure_1(figure_1, options, low, high):
    D, _, X = figure_1
    assert low < metrics.recovery_error(DiscreteICA(50, refine=None, **options).fit(X).components_, D) < high


def test_power_method_is_within_0003_of_joint_diagonalisation(figure_1):
    D, _, X = figure_1
    errors = [
        metrics.recovery_error(DiscreteICA(50, refine=None, algorithm=a).fit(X).components_, D) for a in ("jd", "tpm")
    ]
    assert abs(errors[0] - errors[1]) < 0.003


def test_concentration_and_rate(authors_parameters):
    D, c = authors_parameters("ap_K10", 1.0)
    X = simulate.gamma_poisson(D, c, 50_000, mean_length=200, random_state=0)
    model = DiscreteICA(10, refine=None).fit(X)
    matched = metrics.align_topics(D.T, model.components_)
    assert np.corrcoef(c[matched.first], model.concentration_[matched.second])[0, 1] > 0.95
    assert model.concentration_.sum() == pytest.approx(1.0, rel=0.25)
    assert model.rate_ == pytest.approx(1.0 / 200, rel=0.25)


def test_error_falls_with_the_number_of_documents_without_any_data_of_others():
    D, c = planted_topics(1000, 20, seed=6), np.full(20, 0.05)
    errors = [
        metrics.recovery_error(
            DiscreteICA(20, refine=None)
            .fit(simulate.gamma_poisson(D, c, N, mean_length=100, random_state=1))
            .components_,
            D,
        )
        for N in (1500, 6000, 24_000)
    ]
    # the estimation error falls as 1/√N: by half for four times the documents
    assert errors[0] > 1.5 * errors[1] > 1.5**2 * errors[2]
    assert errors[2] < 0.05


@pytest.mark.parametrize("name", ["ap", "kos"])
def test_real_corpora_give_sensible_topics(name):
    X = sp.load_npz(shared("datasets", name, "counts.npz"))
    words = shared("datasets", name, "vocab.txt").read_text().splitlines()
    model = DiscreteICA(20, refine=None).fit(X)
    assert model.converged_
    assert np.isfinite(model.components_).all()
    assert (model.concentration_ > 0).all()
    found = {word for topic in model.topics(10, feature_names=words) for word, _ in topic}
    expected = {
        "ap": {"bush", "soviet", "court", "police", "stock"},
        "kos": {"bush", "kerry", "iraq", "senate", "poll"},
    }
    assert expected[name] <= found


def test_counts_in_the_millions():
    X = sp.load_npz(shared("datasets", "pcawg_sbs96", "counts.npz"))
    model = DiscreteICA(8, refine=None).fit(X)
    assert np.isfinite(model.components_).all()
    np.testing.assert_allclose(model.components_.sum(axis=1), 1)
    assert np.isfinite(model.concentration_).all()
