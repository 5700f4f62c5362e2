"""What the report shows, as plain numbers and strings: the page does no arithmetic beyond the relevance of words."""

from __future__ import annotations

from typing import Any

import numpy as np

from momentopic._types import FloatArray, IntArray
from momentopic.choosing import Spectrum, spectrum
from momentopic.coherence import coherence
from momentopic.corpus.blocks import Corpus
from momentopic.engine import get_engine
from momentopic.report.groups import Groups, by_label, by_time
from momentopic.report.layout import map_positions, topic_distances
from momentopic.report.relevance import relevant_words
from momentopic.views import UNSTABLE

_LAMBDAS = np.linspace(0, 1, 21)  # the steps of the slider
_SEARCHED = 20_000  # words that can be searched for, the most frequent ones
_LEAST_PART, _MOST_TOPICS = 0.03, 6  # of a word's occurrences, for a topic to be named among its topics
_EXCERPT = 700  # characters of a document
_TEXT_BUDGET = 2_500_000  # bytes of all excerpts


def prepare(
    model: Any,
    corpus: Corpus | None = None,
    *,
    title: str | None = None,
    n_words: int = 30,
    n_documents: int = 20,
    found: Spectrum | None = None,
) -> dict[str, Any]:
    """Return everything that a report shows, as JSON knows it. Topics keep their numbers.

    Parameters
    ----------
    model : DiscreteICA
        Fitted.
    corpus : Corpus, optional
        Documents of the model's words, possibly with texts, labels and dates.
    title : str, optional
    n_words : int
        Words shown of a topic.
    n_documents : int
        Documents shown of a topic.
    found : Spectrum, optional
        If it is known already; otherwise computed if there is a corpus.
    """
    components, prior = model.components_, model.concentration_
    K, M = components.shape
    words = [str(word) for word in getattr(model, "feature_names_in_", [f"word{m}" for m in range(M)])]
    shares, theta, tokens = prior / prior.sum(), None, None
    if corpus is not None:
        theta = model.transform(corpus)
        tokens = theta * corpus.document_lengths()[:, None]
        shares = tokens.sum(axis=0) / tokens.sum() if tokens.sum() > 0 else shares
        if found is None and corpus.shape[0] >= 50:
            found = spectrum(corpus, min(max(2 * K, 40), 100), engine=model.engine)
    coherent = None
    if corpus is not None and M > 1:
        coherent = coherence(components, corpus, "npmi", n_words=min(10, M), engine=get_engine(model.engine))
    stability = getattr(model, "stability_", None)
    distances = topic_distances(components)
    positions, radii = map_positions(distances, shares)
    frequencies = shares @ components
    shown, candidates = _shown_words(components, frequencies, n_words)
    number = {int(m): i for i, m in enumerate(shown)}
    topics = [
        {
            "share": _round(shares[k]),
            "prior": _round(prior[k]),
            "x": _round(positions[k, 0]),
            "y": _round(positions[k, 1]),
            "r": _round(radii[k]),
            "words": [number[int(m)] for m in candidates[k]],
            "phi": [_round(components[k, m]) for m in candidates[k]],
            "stability": None if stability is None else _round(stability[k]),
            "coherence": None if coherent is None else _round(np.nan_to_num(coherent.per_topic[k])),
        }
        for k in range(K)
    ]
    return {
        "title": title or _title(model, corpus),
        "nWords": n_words,
        "unstable": UNSTABLE,
        "topics": topics,
        "vocabulary": [words[m] for m in shown],
        "frequency": [_round(frequencies[m]) for m in shown],
        "wordTopics": _word_topics(components, shares, frequencies, shown),
        "overlap": [[round(100 * (1 - d)) for d in row] for row in distances],
        "documents": [] if corpus is None or theta is None else _documents(corpus, theta, words, n_documents, topics),
        "labels": _labels(corpus, tokens),
        "time": _time(corpus, tokens),
        "spectrum": _spectrum(model, found),
        "card": _card(model, corpus, None if coherent is None else coherent.mean),
    }


def _shown_words(components: FloatArray, frequencies: FloatArray, n_words: int) -> tuple[IntArray, list[Any]]:
    """Return the words that can be seen or searched for, and for each topic those of some position of the slider."""
    candidates = [np.array(relevant_words(phi, frequencies, n_words, _LAMBDAS), dtype=np.int64) for phi in components]
    frequent = np.argsort(-frequencies, kind="stable")[:_SEARCHED]
    shown = np.unique(np.concatenate([frequent, *candidates]))
    return shown[np.argsort(-frequencies[shown], kind="stable")], candidates


def _word_topics(
    components: FloatArray, shares: FloatArray, frequencies: FloatArray, shown: IntArray
) -> list[list[int]]:
    """Return for each word the topics it is used by: topic, part of its occurrences in thousandths, topic, ..."""
    parts = (shares[:, None] * components[:, shown] / np.maximum(frequencies[shown], 1e-300)).T
    first = np.argsort(-parts, axis=1, kind="stable")[:, :_MOST_TOPICS]
    found = []
    for row, topics in zip(parts, first, strict=True):
        used = [k for i, k in enumerate(topics) if row[k] >= _LEAST_PART or i == 0]
        found.append([number for k in used for number in (int(k), round(1000 * row[k]))])
    return found


def _documents(
    corpus: Corpus, theta: FloatArray, words: list[str], n_documents: int, topics: list[dict[str, Any]]
) -> list[dict[str, Any]]:
    """Return the documents that show some topic most; the topics are told their numbers."""
    filled = np.diff(corpus.indptr) > 0
    best = [
        [int(n) for n in np.argsort(-column, kind="stable")[: n_documents + int((~filled).sum())] if filled[n]][
            :n_documents
        ]
        for column in theta.T
    ]
    rows = sorted({n for column in best for n in column})
    number = {n: i for i, n in enumerate(rows)}
    for k, topic in enumerate(topics):
        topic["documents"] = [number[n] for n in best[k]]
        topic["weights"] = [_round(theta[n, k]) for n in best[k]]
    excerpts = _excerpts(corpus, rows, words)
    kept = corpus.documents
    found = []
    for n, excerpt in zip(rows, excerpts, strict=True):
        document: dict[str, Any] = {"n": n, "text": excerpt}
        if kept is not None and kept.ids is not None:
            document["id"] = kept.ids[n]
        if kept is not None and kept.labels is not None:
            document["label"] = kept.labels[n]
        if kept is not None and kept.dates is not None and not np.isnat(kept.dates[n]):
            document["date"] = str(kept.dates[n])
        found.append(document)
    return found


def _excerpts(corpus: Corpus, rows: list[int], words: list[str]) -> list[str]:
    if corpus.documents is not None and corpus.documents.source is not None:
        texts = corpus.documents.texts(rows)
        if corpus.settings is not None:
            texts = [corpus.settings.shown(text) for text in texts]
        texts = [" ".join(text.split()) for text in texts]
    else:  # counts alone: the most frequent words stand for the document
        texts = [_most_frequent(corpus, n, words) for n in rows]
    size = sum(len(text[:_EXCERPT].encode("utf-8", "replace")) for text in texts)
    most = _EXCERPT if size <= _TEXT_BUDGET else max(80, int(_EXCERPT * _TEXT_BUDGET / size))
    return [text if len(text) <= most else text[:most].rstrip() + "…" for text in texts]


def _most_frequent(corpus: Corpus, n: int, words: list[str]) -> str:
    row = corpus.rows([n])
    order = np.argsort(-row.data, kind="stable")[:20]
    entries = ((words[row.indices[i]], row.data[i]) for i in order)
    return ", ".join(f"{word} {count:g}" for word, count in entries)


def _labels(corpus: Corpus | None, tokens: FloatArray | None) -> dict[str, Any] | None:
    if corpus is None or tokens is None or corpus.documents is None or corpus.documents.labels is None:
        return None
    return _groups(by_label(corpus.documents.labels, tokens))


def _time(corpus: Corpus | None, tokens: FloatArray | None) -> dict[str, Any] | None:
    if corpus is None or tokens is None or corpus.documents is None or corpus.documents.dates is None:
        return None
    groups = by_time(corpus.documents.dates, tokens)
    return None if groups is None else _groups(groups)


def _groups(groups: Groups) -> dict[str, Any]:
    return {
        "names": groups.names,
        "documents": groups.documents.tolist(),
        "shares": [[_round(share) for share in column] for column in groups.shares.T],
    }


def _spectrum(model: Any, found: Spectrum | None) -> dict[str, Any]:
    if found is None:
        return {"eigenvalues": [_round(v) for v in model.eigenvalues_], "floor": None, "advice": None}
    return {
        "eigenvalues": [_round(v) for v in found.eigenvalues],
        "heldout": [_round(v) for v in found.heldout],
        "floor": _round(found.floor),
        "certain": found.certain,
        "supported": found.supported,
        "advice": found.advice(),
    }


def _title(model: Any, corpus: Corpus | None) -> str:
    name = model.training_data_.get("name") or (corpus.name if corpus is not None else None)
    return f"Topics of {name}" if name else "Topics"


def _card(model: Any, corpus: Corpus | None, coherent: float | None) -> list[list[Any]]:
    from momentopic import __version__

    data = model.training_data_
    K, M = model.components_.shape
    fitted = [
        ["corpus", data.get("name") or "not named"],
        ["documents", data.get("documents", "not recorded")],
        ["of them without words", data.get("empty_documents", "not recorded")],
        ["tokens", data.get("tokens", "not recorded")],
        ["words in the vocabulary", M],
    ]
    params = {
        name: value
        for name, value in model.get_params().items()
        if name not in ("engine", "verbose", "random_state", "checkpoint")
    }
    settings = [[name, "none" if value is None else value] for name, value in params.items()]
    seed = model.random_state
    how = [
        ["topics", K],
        *[row for row in settings if row[0] != "n_components"],
        ["seed", seed if isinstance(seed, int | np.integer) or seed is None else "a RandomState"],
        ["momentopic of the fit", data.get("momentopic_version", "not recorded")],
        ["momentopic of this report", __version__],
    ]
    scores = [
        ["came to rest", "yes" if model.converged_ else "no"],
        ["iterations", model.n_iter_],
        ["seconds of the fit", round(sum(model.timings_.values()), 2)],
        ["rate of the document lengths", "none" if model.rate_ is None else _round(model.rate_)],
        ["sum of the prior", _round(model.concentration_.sum())],
    ]
    if coherent is not None:
        scores.append(["mean NPMI coherence on the documents shown", _round(coherent)])
    card: list[list[Any]] = [["Fitted on", fitted]]
    if corpus is not None:
        N, nonzeros = corpus.shape[0], corpus.nonzeros
        shown = [
            ["corpus", corpus.name or "not named"], ["documents", N], ["tokens", corpus.tokens], ["nonzeros", nonzeros]
        ]  # fmt: skip
        card.append(["Documents shown", shown])
    if model.text_settings_ is not None:
        settings = model.text_settings_.to_json()
        settings.pop("version")
        card.append(["Texts", [[name, _setting(value)] for name, value in settings.items()]])
    return [
        [name, [[row, _plain(value)] for row, value in rows]]
        for name, rows in [*card, ["Model", how], ["Scores", scores]]
    ]


def _setting(value: Any) -> Any:
    if isinstance(value, list | tuple):
        return f"{len(value)} words" if value and isinstance(value[0], str) else " to ".join(map(str, value))
    return "none" if value is None else value


def _plain(value: Any) -> Any:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float) and value.is_integer():
        return int(value)
    return value.item() if isinstance(value, np.generic) else value


def _round(value: Any) -> float:
    """Four digits are what a reader can use, and keep the file small."""
    return float(f"{float(value):.4g}")
