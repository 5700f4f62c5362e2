"""Ways to look at a fitted model: report, figures, tables. All of them keep the numbers of the topics."""

from __future__ import annotations

import contextlib
import html
import weakref
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from momentopic._types import FloatArray
from momentopic.tables import data_frame

if TYPE_CHECKING:
    from momentopic.choosing import Spectrum
    from momentopic.confidence import Confidence
    from momentopic.corpus import Corpus
    from momentopic.intensity import Intensities

_REPR_WORDS = 10
UNSTABLE = 0.4  # a topic on less than this part of which two halves of the corpus agree is marked
# what each model was fitted on, as long as somebody else holds it: models neither keep documents alive nor pickle them
_FITTED_ON: weakref.WeakKeyDictionary[Any, weakref.ref[Any]] = weakref.WeakKeyDictionary()


def remember_documents(model: Any, X: Any) -> None:
    """Note what a model was fitted on, for questions that need the documents again."""
    _FITTED_ON.pop(model, None)
    with contextlib.suppress(TypeError):  # a list cannot be referred to weakly
        _FITTED_ON[model] = weakref.ref(X)


def documents_of(model: Any, question: str) -> Any:
    """Return what a model was fitted on, if it is still in memory."""
    reference = _FITTED_ON.get(model)
    X = None if reference is None else reference()
    if X is None:
        raise ValueError(
            "a model does not hold its documents, and those it was fitted on are not in memory (a list cannot be "
            f"remembered): pass them, {question}"
        )
    return X


def is_unstable(stability: float | None) -> bool:
    """Whether a topic of this stability is marked as not reproducible."""
    return stability is not None and stability < UNSTABLE


def stability_mark(stability: float) -> str:
    """Return a stability as it is printed: with a question mark if the topic is not reproducible."""
    return f"{stability:.2f}{' ?' if is_unstable(stability) else ''}"


def _stability_cell(topic: Topic) -> str:
    return "" if topic.stability is None else f"<td>{stability_mark(topic.stability)}</td>"


class Topic(list[tuple[str, float]]):
    """The first words of a topic with their probabilities, and how far the topic can be believed.

    Attributes
    ----------
    stability : float or None
        How far two halves of the corpus agree on the topic, in [0, 1]; None where the model was fitted without
        `n_groups`.
    """

    stability: float | None = None

    @property
    def unstable(self) -> bool:
        """Whether the topic is marked as not reproducible."""
        return is_unstable(self.stability)

    def __repr__(self) -> str:
        words = super().__repr__()
        return f"<unstable, {self.stability:.2f}: {words}>" if self.unstable else words


class Views:
    """What `DiscreteICA` has for people to look at; whatever it needs is imported when it is first asked for."""

    components_: FloatArray
    stability_: FloatArray
    concentration_: FloatArray
    engine: Any
    verbose: int
    training_data_: Any
    _as_known_corpus: Callable[[Any], Corpus]

    def topics(self, n_words: int = 10, *, feature_names: Sequence[str] | None = None) -> list[Topic]:
        """Return the most probable words of each topic with their probabilities.

        Each topic is a list of pairs. Where the model was fitted with `n_groups`, it also has its `stability`, and is
        marked as `unstable` if it is not reproducible.

        Parameters
        ----------
        n_words : int
            Words to a topic, most probable first.
        feature_names : sequence of str, optional
            The M words, as from ``CountVectorizer.get_feature_names_out()``. By default `feature_names_in_`, or
            "word0", "word1", ... where the model has seen no names.
        """
        self._check_fitted()
        components = self.components_
        M = components.shape[1]
        names = feature_names if feature_names is not None else getattr(self, "feature_names_in_", None)
        if names is None:
            names = [f"word{m}" for m in range(M)]
        if len(names) != M:
            raise ValueError(f"{len(names)} feature names were given, but the model was fitted on {M} words")
        if n_words < 1:
            raise ValueError(f"n_words must be at least 1, got {n_words}")
        # a stable sort: equally probable words stay in the order of the vocabulary
        order = np.argsort(-components, axis=1, kind="stable")[:, :n_words]
        topics = [
            Topic((str(names[m]), float(topic[m])) for m in words)
            for topic, words in zip(components, order, strict=True)
        ]
        for topic, stability in zip(topics, getattr(self, "stability_", ()), strict=False):
            topic.stability = float(stability)
        return topics

    def confidence(
        self, n_words: int = 10, *, level: float = 0.9, n_splits: int = 100, random_state: int = 0
    ) -> Confidence:
        """Return how sure the topics are: stability, and intervals for the first words and the concentration.

        For a model fitted with `n_groups`. See `momentopic.confidence.confidence`.
        """
        from momentopic.confidence import confidence

        self._check_fitted()
        return confidence(self, n_words=n_words, level=level, n_splits=n_splits, random_state=random_state)

    def report(self, path: str | Path, corpus: Corpus | None = None, **options: Any) -> Path:
        """Write the model as one HTML file to look at and send around. See `momentopic.report.write_report`."""
        from momentopic.report import write_report

        self._check_fitted()
        return write_report(self, path, corpus, **options)

    def plot_topics(self, n_words: int = 8, topics: Any = None) -> Any:
        """Draw the most probable words of topics with matplotlib. See `momentopic.plots.plot_topics`."""
        from momentopic.plots import plot_topics

        self._check_fitted()
        return plot_topics(self, n_words, topics)

    def plot_spectrum(self, spectrum: Spectrum | None = None) -> Any:
        """Draw the eigenvalues of S, with the noise floor if a `momentopic.spectrum` is given."""
        from momentopic.plots import plot_spectrum

        self._check_fitted()
        return plot_spectrum(self if spectrum is None else spectrum)

    def plot_map(self, n_words: int = 3) -> Any:
        """Draw the topics on a map: near each other if they use the same words. See `momentopic.plots.plot_map`."""
        from momentopic.plots import plot_map

        self._check_fitted()
        return plot_map(self, n_words)

    def intensities(self, X: Any = None, *, random_state: int = 0) -> Intensities:
        """Estimate the distribution of each topic's intensity (tokens a document) beyond the gamma.

        See `momentopic.intensity`, which also says which topics are not gamma-like.

        Parameters
        ----------
        X : array-like, scipy sparse matrix, DataFrame or Corpus, shape (N, M), or list of str, optional
            Documents. By default those that the model was fitted on, as long as they are still in memory (lists cannot
            be remembered: pass them). For those, passed or not, the topics follow the tokens of the sampler; for others
            they stay as they are.
        random_state : int
            Seeds the sampler.

        Returns
        -------
        Intensities
        """
        from momentopic.engine import get_engine
        from momentopic.engine.states import check_keeps_states
        from momentopic.intensity import estimate_intensities
        from momentopic.progress import Steps

        self._check_fitted()
        corpus = self._as_known_corpus(documents_of(self, "model.intensities(X)") if X is None else X)
        engine = get_engine(self.engine, corpus)
        check_keeps_states(engine, ("update",), "intensities need", "use set_params(engine='threads')")
        with Steps(self.verbose) as steps, steps.step("intensities"):
            return estimate_intensities(
                corpus,
                self.components_,
                engine,
                learned=self._fitted_on(corpus),
                random_state=random_state,
                steps=steps,
            )

    def _fitted_on(self, corpus: Corpus) -> bool:
        """Whether this is, by its numbers, the corpus of the fit."""
        numbers, known = corpus.summary(), self.training_data_
        return all(numbers[name] == known.get(name) for name in ("documents", "tokens", "nonzeros"))

    def to_pyldavis(self, corpus: Corpus, n_words: int = 30) -> dict[str, Any]:
        """Return the prepared data of pyLDAvis as its dictionary. See `momentopic.pyldavis.prepared_data`."""
        from momentopic.pyldavis import prepared_data

        self._check_fitted()
        return prepared_data(self, corpus, n_words)

    def to_frame(self, n_words: int = 10) -> Any:
        """Return the most probable words of the topics as a pandas DataFrame.

        Parameters
        ----------
        n_words : int
            Words to a topic.

        Returns
        -------
        pandas.DataFrame
            With columns topic, share (of the prior), rank (from 1), word and probability.
        """
        self._check_fitted()
        shares = self.concentration_ / self.concentration_.sum()
        rows = [
            (k, float(shares[k]), rank, word, probability)
            for k, words in enumerate(self.topics(n_words))
            for rank, (word, probability) in enumerate(words, start=1)
        ]
        return data_frame(rows, columns=["topic", "share", "rank", "word", "probability"])

    def _repr_html_(self) -> str:
        """Show the topics of a fitted model in a notebook."""
        if not hasattr(self, "components_"):
            return f"<pre>{html.escape(repr(self))}</pre>"
        shares = self.concentration_ / self.concentration_.sum()
        rows = "".join(
            f"<tr><th>{k}</th><td>{share:.1%}</td>{_stability_cell(words)}"
            f"<td style='text-align: left'>{html.escape(' '.join(word for word, _ in words))}</td></tr>"
            for k, (share, words) in enumerate(zip(shares, self.topics(_REPR_WORDS), strict=True))
        )
        stability = "<th>stability</th>" if hasattr(self, "stability_") else ""
        return (
            f"<p><code>{html.escape(repr(self))}</code></p>"
            f"<table><thead><tr><th>topic</th><th>share</th>{stability}<th>words</th></tr></thead><tbody>{rows}</tbody></table>"
        )

    def _repr_mimebundle_(self, **_: Any) -> dict[str, str]:
        return {"text/plain": repr(self), "text/html": self._repr_html_()}

    def _check_fitted(self) -> None:
        from sklearn.utils.validation import check_is_fitted

        check_is_fitted(self)
