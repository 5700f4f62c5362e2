"""How a refinement goes about a corpus: its parts, its starts, when topics are at rest."""

from __future__ import annotations

import numpy as np
import pytest

from momentopic.refine import parts


def test_words_are_divided_into_ranges_of_as_many_tokens():
    frequencies = np.array([0.1, 0.2, 0.05, 0.15, 0.3, 0.2])
    np.testing.assert_array_equal(parts.word_boundaries(frequencies, 1), [0, 6])
    np.testing.assert_array_equal(parts.word_boundaries(frequencies, 2), [0, 4, 6])
    # a word of most tokens leaves fewer ranges
    np.testing.assert_array_equal(parts.word_boundaries(np.array([0.98, 0.01, 0.01]), 4), [0, 1, 3])
    assert parts.number_of_parts(1000, 50) == 1
    assert parts.number_of_parts(250_000, 1000) == 2
    assert parts.number_of_parts(1e9, 10_000_000) == 16
    assert parts.number_of_parts(1e9, 3) == 2


def test_large_corpora_begin_with_a_part_of_the_tokens():
    assert parts.passes_of_first_round(350_000, 1800, 50) == 1  # few tokens to a topic
    assert parts.passes_of_first_round(2e6, 16_000, 100) == 2  # short documents
    assert parts.passes_of_first_round(1.5e6, 1500, 100) == 3
    assert parts.passes_of_first_round(1e9, 100_000, 10) == 8


def test_how_much_the_first_draws_make_of_the_moments():
    assert parts.first_start(1, 100, 50) == (0.3, 3)  # all tokens
    assert parts.first_start(5, 2000, 50) == (0.3, 1)  # 40 documents to a topic
    assert parts.first_start(5, 17_000, 100) == (0.3, 3)
    assert parts.second_start(1, 2000, 50) == (0.5, 3)
    assert parts.second_start(5, 2000, 50) == (0.2, 3)
    assert parts.second_start(5, 17_000, 100) == parts.second_start(1, 17_000, 100) == (0.5, 6)


@pytest.mark.parametrize(("n_docs", "usual"), [(2800, 0.026), (1800, 0.1)])
def test_topics_of_few_tokens_are_at_rest_sooner(n_docs, usual):
    assert parts.movement_at_rest(350_000, n_docs, 50) == pytest.approx(usual)
    assert usual < parts.movement_at_rest(10_000, n_docs, 50) <= 1.5 * usual


def test_topics_of_many_tokens_are_at_rest_later_with_few_documents():
    assert parts.movement_at_rest(2e6, 4000, 50) < parts.movement_at_rest(2e6, 17_000, 50) < 0.026
    # where they leap
    assert parts.movement_at_rest(1.3e6, 2000, 50) == pytest.approx(0.1)
    assert 0.075 < parts.movement_at_rest(2e6, 2000, 50) < 0.1
    assert parts.movement_at_rest(9e6, 2000, 50) == pytest.approx(0.075)
