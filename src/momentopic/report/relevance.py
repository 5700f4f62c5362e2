"""Relevance of words to a topic (Sievert and Shirley, 2014): λ log p(w | topic) + (1 - λ) log [p(w | topic) / p(w)]."""

from __future__ import annotations

import numpy as np

from momentopic._types import FloatArray


def relevant_words(phi: FloatArray, frequencies: FloatArray, n_words: int, weights: FloatArray) -> list[int]:
    """Return the words that are among the most relevant ones for some weight, the most probable first.

    Parameters
    ----------
    phi : array of shape (M,)
        The probabilities of the words in the topic; words of probability zero are never relevant.
    frequencies : array of shape (M,)
        Their probabilities over all topics.
    n_words : int
        How many words for each weight.
    weights : array
        Values of λ in [0, 1].
    """
    there = np.flatnonzero(phi > 0)
    probability = np.log(phi[there])
    lift = probability - np.log(frequencies[there])
    taken: set[int] = set()
    for weight in weights:
        relevance = weight * probability + (1 - weight) * lift
        best = np.argpartition(-relevance, n_words)[:n_words] if n_words < len(there) else slice(None)
        taken.update(there[best].tolist())
    return sorted(taken, key=lambda m: (-phi[m], m))
