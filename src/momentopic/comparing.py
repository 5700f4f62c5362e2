"""What changed between two models, or two groups of documents: topics matched, changed, new and gone.

Two models (`compare`) are aligned on the words that both have, and their topics are matched one to one so that the sum
of the similarities is largest. The similarity of two topics is the probability that they share, 1 - ½ ‖d - d'‖_1.
Which pairs are the same topic, and which of those have changed, is judged by what the models themselves show:

*The threshold.* A pair is a match if it is more alike than different topics usually are: above the 95 % quantile of
how much the topics of either model resemble the nearest other topic of the same model; above one half for two models
of one topic each. A topic without a match is gone, or new.

*The noise.* A topic of T tokens is known with a standard error of √(p (1 - p) / T) for each word at best. Matched
topics differ more than this says, because words come in bursts and because two fits end in different places; how many
times more the usual pair differs, the median over the matches, scales the errors. A pair that differs by far more than
the usual one, three robust standard deviations, has changed.

Where the documents are at hand, `momentopic.compare_groups` needs none of this: it keeps one set of topics and
estimates each group's version of them, with errors taken over documents.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, Literal

import numpy as np
from scipy.optimize import linear_sum_assignment
from scipy.spatial.distance import cdist

from momentopic._types import FloatArray, IntArray
from momentopic.tables import data_frame
from momentopic.views import UNSTABLE

Status = Literal["matched", "changed", "new", "gone"]
_QUANTILE = 0.95
_WITHOUT_SIBLINGS = 0.5  # the threshold for two models of one topic each, which show no different topics
_DEVIATIONS = 3.0
_LEAST_SPREAD = 0.1  # of the log ratio of differences to noise: with few topics their own spread says little
_HALF_NORMAL = np.sqrt(2 / np.pi)  # E|Z| of a standard normal variable


@dataclass(frozen=True)
class WordChange:
    """A word of a topic: its probability in both, and the standard error of the difference."""

    word: str
    first: float
    second: float
    stderr: float

    @property
    def z(self) -> float:
        """The change in standard errors."""
        return (self.second - self.first) / self.stderr if self.stderr > 0 else 0.0


@dataclass(frozen=True)
class TopicChange:
    """What became of a topic.

    Attributes
    ----------
    status : {"matched", "changed", "new", "gone"}
    first, second : int or None
        The numbers of the topic; None where it is not there.
    similarity : float
        The probability that both versions share; for a topic without a match, with the nearest topic of the other.
    similarity_stderr : float
    expected : float
        The similarity that noise alone would leave of a topic that is the same in both; NaN without a match.
    shares : (float, float)
        Of the tokens.
    shares_stderr : (float, float)
        NaN where only models are known.
    top_words : tuple of str
        The most probable words, in both together; of a new or gone topic, among all words of its model.
    words : tuple of WordChange
        The words that changed most, in standard errors and in probability, most surely changed first.
    stability : (float, float)
        How far two halves of its corpus agree on the topic (`DiscreteICA.stability_`), for models fitted with
        `n_groups`; else NaN. Of a new or gone topic that is not reproducible there is no saying that it is new or gone.
    """

    status: Status
    first: int | None
    second: int | None
    similarity: float
    similarity_stderr: float
    expected: float
    shares: tuple[float, float]
    shares_stderr: tuple[float, float]
    top_words: tuple[str, ...]
    words: tuple[WordChange, ...] = ()
    stability: tuple[float, float] = (float("nan"), float("nan"))


@dataclass(frozen=True, eq=False)
class Comparison:
    """What changed between a first and a second model or group of documents.

    Attributes
    ----------
    topics : list of TopicChange
        Changed ones first, those that changed most before the others; then new, gone and matched ones.
    names : (str, str)
    n_common, n_only_first, n_only_second : int
        Words. Topics are compared on the common ones.
    coverage : (float, float)
        The part of the topics' probability that is on the common words, a mean over topics.
    threshold : float
        The similarity above which a pair of topics is a match; NaN for groups, which have the same topics.
    inflation : float
        How many times more the usual match differs than by counting noise; 1 for groups.
    """

    topics: list[TopicChange]
    names: tuple[str, str]
    n_common: int
    n_only_first: int
    n_only_second: int
    coverage: tuple[float, float]
    threshold: float
    inflation: float

    def of(self, status: Status) -> list[TopicChange]:
        """Return the topics of a status."""
        return [topic for topic in self.topics if topic.status == status]

    def summary(self) -> str:
        """Return a sentence or two: how many topics of each status, and on which words they were compared."""
        counts = ", ".join(f"{len(self.of(status))} {status}" for status in ("matched", "changed", "new", "gone"))
        text = f"From {self.names[0]} to {self.names[1]}: {counts}."
        if self.n_only_first or self.n_only_second:
            text += (
                f" The vocabularies differ: compared on the {self.n_common} words that both have "
                f"({self.n_only_first} are only in {self.names[0]}, {self.n_only_second} only in {self.names[1]}), "
                f"which hold {self.coverage[0]:.0%} and {self.coverage[1]:.0%} of the topics' probability."
            )
        doubtful = sum(t.status in ("new", "gone") and any(s < UNSTABLE for s in t.stability) for t in self.topics)
        if doubtful:
            text += f" Of the new and gone topics {doubtful} are not reproducible in their own corpus."
        return text

    def to_dict(self) -> dict[str, Any]:
        """Return everything as what JSON knows, with null for what is not known."""
        found = _plain(asdict(self))
        assert isinstance(found, dict)
        return {**found, "summary": self.summary()}

    def to_frame(self) -> Any:
        """Return the topics as a pandas DataFrame, one a row."""
        rows = [
            {
                "status": t.status, "first": t.first, "second": t.second, "similarity": t.similarity,
                "similarity_stderr": t.similarity_stderr, "expected": t.expected, "share_first": t.shares[0],
                "share_second": t.shares[1], "top_words": " ".join(t.top_words),
                "rising": " ".join(w.word for w in t.words if w.second > w.first),
                "falling": " ".join(w.word for w in t.words if w.second < w.first),
            }
            for t in self.topics
        ]  # fmt: skip
        return data_frame(rows)

    def plot(self, topics: Any = None, n_words: int = 8) -> Any:
        """Draw the words that changed, a panel a topic. See `momentopic.plots.plot_comparison`."""
        from momentopic.plots import plot_comparison

        return plot_comparison(self, topics, n_words)


def compare(first: Any, second: Any, *, n_words: int = 10, names: tuple[str, str] = ("first", "second")) -> Comparison:
    """Compare the topics of two models.

    Parameters
    ----------
    first, second : fitted DiscreteICA
        Fitted or loaded. They need not have the same words or as many topics.
    n_words : int
        Words to a topic.
    names : (str, str)
        What to call them.

    Returns
    -------
    Comparison

    Raises
    ------
    ValueError
        If a model has no words, unless neither has and they are of the same number, if it has a word twice, or if no
        word is common.
    """
    if n_words < 1:
        raise ValueError(f"n_words must be at least 1, got {n_words}")
    words, places = common_words(first, second, names)
    whole = [np.asarray(model.components_, dtype=np.float64) for model in (first, second)]
    kept = [rows[:, place] for rows, place in zip(whole, places, strict=True)]
    masses = [rows.sum(axis=1) for rows in kept]
    P, Q = (
        np.divide(rows, mass[:, None], out=np.zeros_like(rows), where=mass[:, None] > 0)
        for rows, mass in zip(kept, masses, strict=True)
    )
    similarity = _shared(P, Q)
    siblings = np.concatenate([_nearest_sibling(P), _nearest_sibling(Q)])
    threshold = float(np.quantile(siblings, _QUANTILE)) if len(siblings) else _WITHOUT_SIBLINGS
    rows, columns = linear_sum_assignment(-similarity)
    good = similarity[rows, columns] > threshold
    pairs = list(zip(rows[good].tolist(), columns[good].tolist(), strict=True))
    shares = [model.concentration_ / model.concentration_.sum() for model in (first, second)]
    tokens = [
        np.maximum(share * mass * _tokens(model), 1.0)
        for model, share, mass in zip((first, second), shares, masses, strict=True)
    ]
    variances = [P * (1 - P) / tokens[0][:, None], Q * (1 - Q) / tokens[1][:, None]]
    noise = {(i, j): float(_HALF_NORMAL * np.sqrt(variances[0][i] + variances[1][j]).sum() / 2) for i, j in pairs}
    ratios = np.array([(1 - similarity[pair]) / max(noise[pair], 1e-300) for pair in pairs])
    usual = float(np.median(ratios)) if pairs else 1.0
    inflation = max(usual, 1.0)
    logs = np.log(np.maximum(ratios, 1e-300) / max(usual, 1e-300))
    spread = max(1.4826 * float(np.median(abs(logs))) if pairs else 0.0, _LEAST_SPREAD)
    topics = []
    for (i, j), log in zip(pairs, logs, strict=True):
        changed = log > _DEVIATIONS * spread and (1 - similarity[i, j]) > noise[i, j]
        stderr = inflation * np.sqrt(variances[0][i] + variances[1][j])
        sign = np.sign(Q[j] - P[i])
        error = sum(((p @ sign**2) - (p @ sign) ** 2) / T for p, T in ((P[i], tokens[0][i]), (Q[j], tokens[1][j])))
        topics.append(
            TopicChange(
                "changed" if changed else "matched", i, j, float(similarity[i, j]),
                inflation * float(np.sqrt(max(error, 0.0))) / 2,
                max(0.0, 1 - inflation * noise[i, j]), (float(shares[0][i]), float(shares[1][j])), (np.nan, np.nan),
                top_words(words, P[i] + Q[j], n_words), changed_words(words, P[i], Q[j], stderr, n_words),
            )
        )  # fmt: skip
    own = [getattr(model, "feature_names_in_", words) for model in (first, second)]
    for j in sorted(set(range(len(Q))) - {j for _, j in pairs}):
        near = float(similarity[:, j].max(initial=0.0))
        share, shown = (0.0, float(shares[1][j])), top_words(own[1], whole[1][j], n_words)
        topics.append(TopicChange("new", None, j, near, np.nan, np.nan, share, (np.nan,) * 2, shown))
    for i in sorted(set(range(len(P))) - {i for i, _ in pairs}):
        near = float(similarity[i].max(initial=0.0))
        share, shown = (float(shares[0][i]), 0.0), top_words(own[0], whole[0][i], n_words)
        topics.append(TopicChange("gone", i, None, near, np.nan, np.nan, share, (np.nan,) * 2, shown))
    known = [getattr(m, "stability_", np.full(len(m.components_), np.nan)) for m in (first, second)]
    topics = [replace(t, stability=(_at(known[0], t.first), _at(known[1], t.second))) for t in topics]
    M = [rows.shape[1] for rows in whole]
    return Comparison(
        in_order(topics), names, len(words), M[0] - len(words), M[1] - len(words),
        (float(masses[0].mean()), float(masses[1].mean())), threshold, inflation,
    )  # fmt: skip


def common_words(first: Any, second: Any, names: tuple[str, str]) -> tuple[list[str], tuple[IntArray, IntArray]]:
    """Return the words that two models share, in the order of the first, and where each model has them."""
    from sklearn.utils.validation import check_is_fitted

    vocabularies = []
    for model in (first, second):
        check_is_fitted(model)
        found = getattr(model, "feature_names_in_", None)
        vocabularies.append(None if found is None else [str(word) for word in found])
    a, b = vocabularies
    if a is None or b is None:
        sizes = [model.components_.shape[1] for model in (first, second)]
        if a is None and b is None and sizes[0] == sizes[1]:
            place = np.arange(sizes[0])
            return [f"word{m}" for m in place], (place, place)
        without = " and ".join(name for name, words in zip(names, vocabularies, strict=True) if words is None)
        raise ValueError(
            f"the model of {without} does not know its words, so it cannot be said which of the {sizes[0]} and "
            f"{sizes[1]} words are the same: fit on texts, or on a Corpus or DataFrame with a vocabulary"
        )
    for name, known in zip(names, (a, b), strict=True):
        twice = [word for word, n in Counter(known).items() if n > 1]
        if twice:
            raise ValueError(
                f"the vocabulary of {name} has {len(twice)} word(s) more than once, {twice[0]!r} for one, and nothing "
                "says which of them is which: add up their counts, or give them different names, and fit again"
            )
    where = {word: m for m, word in enumerate(b)}
    common = [m for m, word in enumerate(a) if word in where]
    if not common:
        raise ValueError(
            f"{names[0]} and {names[1]} have no word in common ({len(a)} and {len(b)} words): "
            "were their texts counted in the same way, in the same language?"
        )
    words = [a[m] for m in common]
    return words, (np.array(common), np.array([where[word] for word in words]))


def changed_words(
    words: Sequence[str], first: FloatArray, second: FloatArray, stderr: FloatArray, n_words: int
) -> tuple[WordChange, ...]:
    """Return the words that changed most: of those with the largest differences, the most certain ones first."""
    difference = second - first
    # a rare word may have changed surely, but so little that nobody would care; a frequent one greatly, by chance
    largest = np.argsort(-abs(difference), kind="stable")[: 3 * n_words]
    z = np.divide(abs(difference[largest]), stderr[largest], out=np.zeros(len(largest)), where=stderr[largest] > 0)
    chosen = largest[np.argsort(-z, kind="stable")[:n_words]]
    return tuple(WordChange(str(words[m]), float(first[m]), float(second[m]), float(stderr[m])) for m in chosen)


def top_words(words: Sequence[str], topic: FloatArray, n_words: int) -> tuple[str, ...]:
    """Return the most probable words of a topic."""
    return tuple(str(words[m]) for m in np.argsort(-topic, kind="stable")[:n_words])


def in_order(topics: list[TopicChange]) -> list[TopicChange]:
    """Return changed topics, new ones, gone ones, then the others; those that changed most, or are largest, first."""
    rank = {"changed": 0, "new": 1, "gone": 2, "matched": 3}

    def key(topic: TopicChange) -> tuple[int, float]:
        paired = topic.status in ("changed", "matched")
        return rank[topic.status], topic.similarity - topic.expected if paired else -max(topic.shares)

    return sorted(topics, key=key)


def _shared(P: FloatArray, Q: FloatArray) -> FloatArray:
    """Return the probability that rows of P and Q share, Σ min(p, q); 0 for a topic that has no common word."""
    shared: FloatArray = (P.sum(axis=1)[:, None] + Q.sum(axis=1) - cdist(P, Q, "cityblock")) / 2
    return shared


def _nearest_sibling(topics: FloatArray) -> FloatArray:
    """Return how alike each topic is to the nearest other one of its model; nothing for a single topic."""
    if len(topics) < 2:
        return np.zeros(0)
    similarity = _shared(topics, topics)
    np.fill_diagonal(similarity, -1.0)
    nearest: FloatArray = similarity.max(axis=1)
    return nearest


def _at(values: FloatArray, i: int | None) -> float:
    return float("nan") if i is None else float(values[i])


def _tokens(model: Any) -> float:
    return float(model.training_data_.get("tokens") or 1e5)


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    return None if isinstance(value, float) and np.isnan(value) else value
