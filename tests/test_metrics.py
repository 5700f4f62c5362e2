"""Recovery error and alignment against brute force over permutations."""

from __future__ import annotations

from itertools import permutations

import numpy as np
import pytest

from momentopic.metrics import align_topics, recovery_error

from .conftest import planted_topics


@pytest.mark.parametrize("norm", [1, 2])
@pytest.mark.parametrize("seed", range(4))
def test_equals_the_best_permutation(norm, seed):
    A, B = planted_topics(12, 4, seed), planted_topics(12, 4, seed + 100)
    if norm == 1:
        costs = np.array([[abs(a - t).sum() / 2 for t in B.T] for a in A.T])
    else:
        unit = [Y / np.linalg.norm(Y, axis=0) for Y in (A, B)]
        costs = np.array([[np.linalg.norm(a - t) / np.sqrt(2) for t in unit[1].T] for a in unit[0].T])
    best = min(costs[range(4), list(order)].mean() for order in permutations(range(4)))
    assert recovery_error(A, B, norm=norm) == pytest.approx(best)


def test_rows_and_columns_may_be_mixed():
    D = planted_topics(30, 5)
    shuffled = D[:, [3, 1, 4, 0, 2]]
    for estimated in (shuffled, shuffled.T):
        for true in (D, D.T):
            assert recovery_error(estimated, true) == 0
            assert recovery_error(estimated, true, norm=2) == pytest.approx(0, abs=1e-7)


def test_disjoint_topics_are_at_distance_one():
    A, B = np.zeros((4, 2)), np.zeros((4, 2))
    A[[0, 1], [0, 1]] = 1
    B[[2, 3], [0, 1]] = 1
    assert recovery_error(A, B) == 1
    assert recovery_error(A, B, norm=2) == pytest.approx(1)


def test_alignment_of_models_of_different_size():
    D = planted_topics(30, 5).T
    found = align_topics(D[[4, 0, 2]], D)
    assert list(found.first) == [0, 1, 2]
    assert list(found.second) == [4, 0, 2]
    np.testing.assert_allclose(found.distances, 0)
    back = align_topics(D, D[[4, 0, 2]])
    assert list(back.first) == [0, 2, 4]
    assert list(back.second) == [1, 2, 0]

    class Model:
        components_ = D

    assert list(align_topics(Model(), D[::-1]).second) == [4, 3, 2, 1, 0]


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: align_topics(np.ones((2, 5)), np.ones((2, 6))), "different vocabularies: 5 and 6 words"),
        (lambda: align_topics(np.ones(3), np.ones((2, 3))), "shape"),
        (lambda: recovery_error(planted_topics(9, 2), planted_topics(9, 3)), "as many topics"),
        (lambda: recovery_error(np.ones(3), np.ones(3)), "2-D"),
        (lambda: recovery_error(np.eye(2), np.eye(2), norm=3), "norm must be 1 or 2"),
    ],
)
def test_what_cannot_be_compared(call, message):
    with pytest.raises(ValueError, match=message):
        call()
