"""The data that pyLDAvis's page draws, in the form of its ``PreparedData.to_dict()``, without pyLDAvis.

pyLDAvis numbers topics from 1 and by default renumbers them by size. Here topic k of the model is its topic k + 1.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from momentopic._types import FloatArray
from momentopic.report.layout import map_positions, topic_distances
from momentopic.report.relevance import relevant_words


def prepared_data(model: Any, corpus: Any, n_words: int = 30) -> dict[str, Any]:
    """Return the prepared data of pyLDAvis as a dictionary of lists, ready for JSON.

    Parameters
    ----------
    model : DiscreteICA
        Fitted.
    corpus : array-like, scipy sparse matrix or Corpus, shape (N, M)
        The documents that say how large the topics are and how frequent the words.
    n_words : int
        R, the number of bars.

    Returns
    -------
    dict
        mdsDat, tinfo, token.table, R, lambda.step, plot.opts and topic.order.
    """
    from momentopic.corpus.blocks import as_corpus

    corpus = as_corpus(corpus)
    theta: FloatArray = model.transform(corpus)
    lengths = corpus.document_lengths()
    totals = corpus.word_totals()
    phi: FloatArray = model.components_
    K, M = phi.shape
    words = [str(word) for word in getattr(model, "feature_names_in_", [f"word{m}" for m in range(M)])]
    tokens = theta.T @ lengths
    shares = tokens / tokens.sum()
    counts = phi * tokens[:, None]  # expected tokens of each word in each topic
    frequencies = counts.sum(axis=0)
    positions, _ = map_positions(topic_distances(phi), shares)
    probabilities = frequencies / frequencies.sum()
    shown: set[int] = set()
    info: dict[str, list[Any]] = {
        name: [] for name in ("Term", "Freq", "Total", "Category", "logprob", "loglift")
    }  # fmt: skip

    def add(term: int, frequency: float, category: str, log_probability: float, lift: float) -> None:
        values = (words[term], float(frequency), float(frequencies[term]), category, log_probability, lift)
        for column, value in zip(info.values(), values, strict=True):
            column.append(value)
        shown.add(term)

    # the words shown before a topic is chosen: those that tell topics apart, by Chuang's saliency
    parts = counts / np.maximum(frequencies, 1e-300)
    with np.errstate(divide="ignore", invalid="ignore"):
        distinct = np.where(parts > 0, parts * np.log(parts / shares[:, None]), 0.0).sum(axis=0)
    for rank, m in enumerate(np.argsort(-totals * distinct, kind="stable")[:n_words]):
        add(int(m), frequencies[m], "Default", float(n_words - rank), float(n_words - rank))
    for k in range(K):
        for m in relevant_words(phi[k], frequencies, n_words, np.linspace(0, 1, 101)):
            add(m, counts[k, m], f"Topic{k + 1}", float(np.log(phi[k, m])), float(np.log(phi[k, m] / probabilities[m])))
    terms = sorted(shown, key=lambda m: words[m])
    table = [(k + 1, float(parts[k, m]), words[m]) for m in terms for k in range(K) if counts[k, m] >= 0.5]
    return {
        "mdsDat": {
            "x": positions[:, 0].tolist(),
            "y": positions[:, 1].tolist(),
            "topics": list(range(1, K + 1)),
            "cluster": [1] * K,
            "Freq": (100 * shares).tolist(),
        },
        "tinfo": info,
        "token.table": {
            "Topic": [row[0] for row in table],
            "Freq": [row[1] for row in table],
            "Term": [row[2] for row in table],
        },
        "R": min(n_words, M),
        "lambda.step": 0.01,
        "plot.opts": {"xlab": "PC1", "ylab": "PC2"},
        "topic.order": list(range(1, K + 1)),
    }
