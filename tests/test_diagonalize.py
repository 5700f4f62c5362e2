"""The three diagonalisations on exactly diagonalisable sets, against pyriemann, and at their limits."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
import scipy.linalg
from hypothesis import given, settings
from hypothesis import strategies as st
from pyriemann.geometry.ajd import rjd

from momentopic import ConvergenceWarning
from momentopic.diagonalize import joint_diagonalize, newton, random_projections, spectral, tensor_power


def orthogonal(K, seed=0):
    return np.linalg.qr(np.random.default_rng(seed).standard_normal((K, K)))[0]


def off(V, matrices):
    rotated = V @ matrices @ V.T
    return sum(((B - np.diag(np.diag(B))) ** 2).sum() for B in rotated)


def symmetric_set(P, K, seed=0):
    A = np.random.default_rng(seed).standard_normal((P, K, K))
    return A + A.transpose(0, 2, 1)


def odeco(K, seed=0, noise=0.0):
    """A symmetric tensor Σ λ_k z_k ⊗ z_k ⊗ z_k with orthonormal z_k, the rows of Z."""
    rng = np.random.default_rng(seed)
    Z, weights = orthogonal(K, seed), rng.uniform(1, 3, K)
    T = np.einsum("k,ka,kb,kc->abc", weights, Z, Z, Z)
    E = noise * rng.standard_normal((K, K, K))
    for axes in ((0, 2, 1), (1, 0, 2), (1, 2, 0), (2, 0, 1), (2, 1, 0)):
        T = T + E.transpose(axes) / 6
    return T + E / 6, Z, weights


def assert_same_up_to_order_and_sign(V, Z, atol):
    overlap = abs(V @ Z.T)
    np.testing.assert_allclose(np.sort(overlap, axis=1)[:, -1], 1, atol=atol)
    assert sorted(overlap.argmax(axis=1)) == list(range(len(Z)))


@pytest.mark.parametrize(("P", "K"), [(1, 2), (1, 6), (5, 4), (12, 12), (40, 9)])
def test_joint_diagonalisation_is_exact_on_jointly_diagonalisable_sets(P, K):
    Z = orthogonal(K, seed=P)
    diagonals = np.random.default_rng(1).standard_normal((P, K))
    matrices = np.einsum("pk,ka,kb->pab", diagonals, Z, Z)
    before = matrices.copy()
    found = joint_diagonalize(matrices)
    np.testing.assert_array_equal(matrices, before)
    assert found.converged
    assert found.off < 1e-20 * (matrices**2).sum()
    np.testing.assert_allclose(found.V @ found.V.T, np.eye(K), atol=1e-12)
    assert_same_up_to_order_and_sign(found.V, Z, atol=1e-10)
    order = abs(found.V @ Z.T).argmax(axis=1)
    np.testing.assert_allclose(found.diagonals, diagonals[:, order], atol=1e-10)


@pytest.mark.parametrize(("P", "K"), [(3, 3), (10, 5), (20, 10), (4, 15)])
@pytest.mark.parametrize("seed", range(3))
def test_joint_diagonalisation_reaches_the_criterion_of_pyriemann(P, K, seed):
    # both start at the identity and rotate in the same order, so they end in the same place
    matrices = symmetric_set(P, K, seed)
    found = joint_diagonalize(matrices)
    V, _ = rjd(matrices, eps=1e-8, n_iter_max=1000)
    assert found.converged
    assert found.off == pytest.approx(off(found.V, matrices), rel=1e-10)
    assert found.off == pytest.approx(min(off(V, matrices), off(V.T, matrices)), rel=1e-9)
    assert found.off < off(np.eye(K), matrices)


@given(P=st.integers(1, 6), K=st.integers(1, 7), seed=st.integers(0, 2**16))
@settings(deadline=None, max_examples=40)
def test_any_set_gives_an_orthogonal_matrix_and_a_criterion_that_no_rotation_improves(P, K, seed):
    matrices = symmetric_set(P, K, seed)
    found = joint_diagonalize(matrices)
    assert found.converged
    np.testing.assert_allclose(found.V @ found.V.T, np.eye(K), atol=1e-11)
    assert found.diagonals.shape == (P, K)
    for p in range(K - 1):
        for angle in (-1e-3, 1e-3):
            R = np.eye(K)
            R[p, p] = R[p + 1, p + 1] = np.cos(angle)
            R[p, p + 1], R[p + 1, p] = np.sin(angle), -np.sin(angle)
            assert off(R @ found.V, matrices) >= found.off - 1e-9 * (matrices**2).sum()


def test_stopping_at_the_sweep_limit_is_reported():
    matrices = symmetric_set(20, 15)
    with pytest.warns(ConvergenceWarning, match="stopped at 2 sweeps"):
        found = joint_diagonalize(matrices, max_sweeps=2)
    assert not found.converged
    assert found.n_sweeps == 2
    assert found.off == pytest.approx(off(found.V, matrices), rel=1e-10)
    assert found.off > joint_diagonalize(matrices).off


def test_the_criterion_never_increases_from_sweep_to_sweep():
    matrices, offs = symmetric_set(20, 12), []
    for n in range(1, 12):
        with pytest.warns(ConvergenceWarning):
            offs.append(joint_diagonalize(matrices, max_sweeps=n, tol=1e-14).off)
    assert all(later <= earlier * (1 + 1e-12) for earlier, later in zip(offs, offs[1:], strict=False))


def test_start_and_callback():
    matrices = symmetric_set(8, 6)
    first = joint_diagonalize(matrices)
    calls = []
    again = joint_diagonalize(matrices, init=first.V, callback=lambda n, largest: calls.append((n, largest)))
    assert again.n_sweeps == 1
    assert calls[0][0] == 1
    assert calls[0][1] <= 1e-7
    assert again.off == pytest.approx(first.off, rel=1e-9)
    with pytest.raises(ValueError, match="orthogonal"):
        joint_diagonalize(matrices, init=np.ones((6, 6)))


@pytest.mark.parametrize(
    ("matrices", "message"),
    [
        (np.zeros((3, 4)), "shape"),
        (np.zeros((0, 3, 3)), "shape"),
        (np.full((1, 2, 2), np.nan), "NaN"),
        (np.array([[[0.0, 1.0], [0.0, 0.0]]]), "not symmetric"),
    ],
)
@pytest.mark.parametrize("diagonalise", [joint_diagonalize, tensor_power])
def test_bad_matrices_are_refused(diagonalise, matrices, message):
    with pytest.raises(ValueError, match=message):
        diagonalise(matrices)


@pytest.mark.parametrize("K", [1, 2, 5, 20])
def test_every_algorithm_finds_the_components_of_an_orthogonal_tensor(K):
    T, Z, weights = odeco(K)
    for found in (
        joint_diagonalize(T),
        joint_diagonalize(random_projections(T, K, 3)),
        spectral(T, random_state=3),
        tensor_power(T),
    ):
        assert found.converged
        np.testing.assert_allclose(found.V @ found.V.T, np.eye(K), atol=1e-12)
        assert_same_up_to_order_and_sign(found.V, Z, atol=1e-9)
    # over the basis of R^K the diagonals are λ_k z_k
    basis = joint_diagonalize(T)
    order = abs(basis.V @ Z.T).argmax(axis=1)
    np.testing.assert_allclose(basis.diagonals, (Z * weights[:, None])[order].T, atol=1e-9)


def test_power_method_stays_close_to_joint_diagonalisation_under_noise_and_is_orthogonal():
    T, Z, _ = odeco(15, noise=0.05)
    power, joint = tensor_power(T), joint_diagonalize(T)
    np.testing.assert_allclose(power.V @ power.V.T, np.eye(15), atol=1e-12)
    assert_same_up_to_order_and_sign(power.V, Z, atol=0.05)
    assert power.off < 1.2 * joint.off


def test_power_method_reports_what_did_not_converge_and_depends_on_its_seed_alone():
    T, _, _ = odeco(10, noise=0.5)
    with pytest.warns(ConvergenceWarning, match="power method"):
        assert not tensor_power(T, max_iter=2).converged
    T, _, _ = odeco(10, noise=0.1)
    first, second = (tensor_power(T, random_state=7) for _ in range(2))
    np.testing.assert_array_equal(first.V, second.V)


def test_a_tensor_of_lower_rank_does_not_give_nan():
    T = np.zeros((4, 4, 4))
    T[0, 0, 0] = 1.0
    found = tensor_power(T)
    assert np.isfinite(found.V).all()
    np.testing.assert_allclose(found.V @ found.V.T, np.eye(4), atol=1e-12)
    assert np.isfinite(joint_diagonalize(T).V).all()


def test_spectral_of_a_given_projection():
    T, Z, _ = odeco(6)
    found = spectral(T @ Z.sum(axis=0))
    assert found.diagonals.shape == (1, 6)
    assert found.off < 1e-20
    with pytest.raises(ValueError, match="shape"):
        spectral(np.ones(3))


@pytest.mark.parametrize(
    "matrices",
    [[[[0.0, 1.0], [1.0, 0.0]]], [[[1.0, 1.0], [1.0, 1.0]]], [[[2.0, -1.0], [-1.0, 2.0]], [[0.0, 3.0], [3.0, 0.0]]]],
)
def test_a_saddle_of_the_criterion_is_left(matrices):
    # the best angle is π/4 and the criterion is stationary at 0
    found = joint_diagonalize(np.array(matrices))
    assert found.off < 1e-25
    assert found.converged


def test_directions_that_nothing_tells_apart_are_left_alone():
    """A tensor that is zero but for noise in some directions has no best angle there: no endless rotation."""
    rng = np.random.default_rng(0)
    A = np.zeros((6, 6, 6))
    A[:3, :3, :3] = odeco(3)[0]
    noise = 1e-17 * rng.standard_normal((6, 6, 6))
    A += sum(noise.transpose(axes) for axes in ((0, 1, 2), (0, 2, 1), (1, 0, 2), (1, 2, 0), (2, 0, 1), (2, 1, 0)))
    assert joint_diagonalize(A).n_sweeps < 12
    assert joint_diagonalize(np.eye(5)[None] * 3).n_sweeps == 1


def noisy(K, P, noise, seed):
    rng = np.random.default_rng(seed)
    Q = np.linalg.qr(rng.standard_normal((K, K)))[0]
    E = rng.standard_normal((P, K, K))
    return (Q * rng.standard_normal((P, 1, K))) @ Q.T + noise * (E + E.transpose(0, 2, 1))


@pytest.mark.parametrize("P", [1, 9])
def test_quasi_newton_derivatives_equal_finite_differences(P):
    K = 7
    matrices, V = noisy(K, P, 0.3, 0), np.linalg.qr(np.random.default_rng(1).standard_normal((K, K)))[0]
    pairs = np.triu_indices(K, 1)
    point = newton._point(newton._sums(matrices, V), pairs, float((matrices**2).sum()))
    assert point.off == pytest.approx(off(V, matrices))
    h = 1e-4
    for n, (i, j) in enumerate(zip(*pairs, strict=True)):
        values = []
        for angle in (-h, 0, h):
            E = np.zeros((K, K))
            E[i, j], E[j, i] = angle, -angle
            values.append(off(scipy.linalg.expm(E) @ V, matrices))
        assert point.gradient[n] == pytest.approx((values[2] - values[0]) / (2 * h), abs=1e-4)
        assert point.curvature[n] == pytest.approx((values[2] - 2 * values[1] + values[0]) / h**2, rel=1e-3, abs=1e-3)
        # the best angle of the pair alone
        angles = np.linspace(-np.pi / 4, np.pi / 4, 2001)
        c, s = np.cos(angles), np.sin(angles)
        rotated = V @ matrices @ V.T
        a, b, d = (rotated[:, k, l, None] for k, l in ((i, i), (j, j), (i, j)))
        left = (((c**2 - s**2) * d + c * s * (b - a)) ** 2).sum(axis=0)
        assert abs(abs(point.angles[n]) - abs(angles[left.argmin()])) < 2e-3


@pytest.mark.parametrize("seed", range(4))
def test_quasi_newton_ends_where_sweeps_end(monkeypatch, seed):
    matrices = noisy(20, 20, 0.15, seed)
    found = joint_diagonalize(matrices)
    monkeypatch.setattr("momentopic.diagonalize.joint._SWEEPS", 10**6)
    swept = joint_diagonalize(matrices)
    assert found.converged
    assert found.n_sweeps > 4
    assert found.off == pytest.approx(swept.off, rel=1e-12)
    np.testing.assert_allclose(abs(found.V @ swept.V.T), np.eye(20), atol=1e-5)
    np.testing.assert_allclose(found.V @ found.V.T, np.eye(20), atol=1e-13)


def test_sweeps_get_quasi_newton_off_a_saddle():
    """Every pair at its worst: the gradient is zero, and only a rotation by a large angle helps."""
    V = np.array([[1.0, 1.0], [1.0, -1.0]]) / np.sqrt(2)
    matrices = V @ np.array([np.diag([1.0, -1.0]), np.diag([2.0, -2.0])]) @ V.T
    steps = newton.quasi_newton(matrices, np.eye(2), tol=1e-8)
    assert not steps.converged
    found = joint_diagonalize(matrices)
    assert found.converged
    assert found.off == pytest.approx(0, abs=1e-20)


def symmetric_tensor(K, noise, seed):
    rng = np.random.default_rng(seed)
    Q = np.linalg.qr(rng.standard_normal((K, K)))[0]
    E = noise * rng.standard_normal((K, K, K))
    T = np.einsum("k,ka,kb,kc->abc", rng.uniform(1, 5, K), Q, Q, Q)
    return T + sum(E.transpose(order) for order in itertools.permutations(range(3)))


@pytest.mark.parametrize("K", [1, 2, 9])
def test_sums_over_a_symmetric_tensor_equal_those_over_its_slices(K):
    T, V = symmetric_tensor(K, 0.3, 0), np.linalg.qr(np.random.default_rng(1).standard_normal((K, K)))[0]
    rotated = np.einsum("ia,jb,abp->ijp", V, V, T)
    on = np.einsum("iip->ip", rotated)
    found = newton._tensor_sums(newton.packed_slices(T), V, np.zeros((K, K)))
    np.testing.assert_allclose(found.crossed, np.einsum("ip,ijp->ij", on, rotated), atol=1e-12)
    np.testing.assert_allclose(found.products, on @ on.T, atol=1e-12)


@pytest.mark.parametrize("seed", range(3))
def test_a_symmetric_tensor_ends_where_its_slices_end(monkeypatch, seed):
    T = symmetric_tensor(12, 0.25, seed)
    found = joint_diagonalize(T)
    monkeypatch.setattr(newton, "is_symmetric_tensor", lambda matrices: False)
    slowly = joint_diagonalize(T)
    assert found.n_sweeps > 4  # there were quasi-Newton steps
    assert found.converged
    np.testing.assert_allclose(found.V, slowly.V, atol=1e-6)


def test_projections_are_not_taken_for_a_symmetric_tensor():
    T = symmetric_tensor(5, 0.3, 0)
    assert newton.is_symmetric_tensor(T)
    assert not newton.is_symmetric_tensor(T[:4])
    assert not newton.is_symmetric_tensor(random_projections(T, 5))
