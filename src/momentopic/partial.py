"""What `DiscreteICA` does without a whole corpus: blocks that arrive once, and moments that were made elsewhere."""

from __future__ import annotations

import warnings
from copy import copy
from numbers import Integral
from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.base import _fit_context
from sklearn.utils import check_random_state

from momentopic import __version__
from momentopic.corpus.blocks import Corpus
from momentopic.corpus.frames import is_texts
from momentopic.engine import get_engine
from momentopic.exceptions import RankError
from momentopic.progress import Steps
from momentopic.recover import rate
from momentopic.refine.collapsed import START_SMOOTHING

if TYPE_CHECKING:
    from momentopic.moments import SketchedMoments
    from momentopic.stream import Stream

_MUTABLE = ("_stream", "_stream_summary", "_folded")  # what a block changes in place


class PartialFit:
    """The methods `partial_fit` and `fit_moments` of an estimator."""

    @_fit_context(prefer_skip_nested_validation=True)  # type: ignore[untyped-decorator]
    def partial_fit(self: Any, X: Any, y: Any = None) -> Any:
        """Take in a block of documents that will not come again; the model is that of all blocks so far.

        The first 5,000 documents are held, and the model is `fit` on them. Then they go: every block adds to the sums
        that the moments are made of, on a subspace (`momentopic.stream`). With ``refine=None`` the topics are those
        that match the moments of all documents; with ``refine="collapsed"`` those of the first documents, refined,
        into which every further block is folded once (`momentopic.refine.folding`).

        Parameters
        ----------
        X : array-like, scipy sparse matrix, DataFrame or Corpus, shape (N, M), or list of str
            Counts of the words of the first block. Of texts, the first block decides the words: a Corpus with a
            vocabulary that was agreed on before is better. Blocks of a thousand documents and more are quickest.
        y : ignored

        Returns
        -------
        self
            Without topics, and with a warning, as long as the documents are too few for them. After an error the model
            is that of the blocks before: the block can be given again.
        """
        self._check_combinations()
        _check_streamable(self)
        before = {name: copy(value) if name in _MUTABLE else value for name, value in vars(self).items()}
        try:
            self._take_in(X)
        except BaseException:
            vars(self).clear()
            vars(self).update(before)
            raise
        return self

    def _take_in(self: Any, X: Any) -> None:
        first = getattr(self, "_stream", None) is None
        corpus = _first_block(self, X) if first else _further_block(self, X)
        if self.n_components > corpus.shape[1]:
            raise ValueError(
                f"n_components={self.n_components} topics cannot be told apart with {corpus.shape[1]} words "
                f"(n_features = {corpus.shape[1]}): ask for fewer."
            )
        if first:
            from momentopic.stream import Stream

            _forget(self)
            self._stream = Stream(self.n_components, get_engine(self.engine, corpus), random_state=seed_of(self))
            self._stream_summary = corpus.summary()
            self.text_settings_ = corpus.settings
        else:
            summary = corpus.summary()
            for name in ("documents", "empty_documents", "tokens", "nonzeros"):
                self._stream_summary[name] += summary[name]
        if self._stream.began:
            _continue(self, corpus)
        else:
            _begin(self, corpus)

    def fit_moments(self: Any, moments: SketchedMoments) -> Any:
        """Find the topics that match moments which were made elsewhere; there are no documents to refine them on.

        Parameters
        ----------
        moments : SketchedMoments
            Of one place, or of several (`momentopic.moments.pooled`).

        Returns
        -------
        self
            What ``refine=None`` gives.
        """
        self._validate_params()
        self._check_combinations()
        _check_streamable(self)
        vars(self).pop("_stream", None)
        _match(self, moments)
        self.n_features_in_ = moments.n_words
        vars(self).pop("feature_names_in_", None)
        if moments.vocabulary is not None:
            self.feature_names_in_ = np.array(moments.vocabulary, dtype=object)
        self.text_settings_ = moments.settings
        self._training_data = {
            "name": "pooled moments", "documents": moments.n_docs, "empty_documents": moments.n_empty,
            "tokens": moments.n_tokens, "nonzeros": None, "columns": None, "momentopic_version": __version__,
        }  # fmt: skip
        return self


def _check_streamable(model: Any) -> None:
    if model.moments != "dica":
        raise ValueError(
            "moments='lda' needs the documents at hand: sums that outlive them are kept of the DICA cumulants alone. "
            "Use moments='dica', or fit on all documents."
        )
    if model.projections == "vocabulary":
        raise ValueError("projections='vocabulary' needs the documents at hand: use projections='basis', or fit")
    if model.refine == "variational":
        raise ValueError("refine='variational' needs all documents at hand: use 'collapsed' or None, or fit")
    if model.n_groups is not None:
        raise ValueError("n_groups needs the documents at hand, to sum over groups of them: leave it out, or fit")
    for name in ("checkpoint", "memory_limit"):
        if getattr(model, name) is not None:
            raise ValueError(f"{name} is for fit, which has all documents at hand: leave it out")


def _refuse_cluster(X: Any) -> None:
    if hasattr(X, "__dask_graph__") or (isinstance(X, Corpus) and hasattr(X, "engine")):
        raise TypeError(
            "partial_fit takes blocks of documents that are here, but these are on a cluster: fit the whole "
            "collection, or compute a block first (X.compute())"
        )


def seed_of(model: Any) -> int:
    """Return the seed that the `random_state` of an estimator means."""
    state = model.random_state
    return int(state) if isinstance(state, Integral) else int(check_random_state(state).randint(2**31 - 1))


def _forget(model: Any) -> None:
    """Remove what an earlier fit has left: a stream begins anew."""
    model.__dict__.pop("_folded", None)
    for name in list(vars(model)):
        if name.endswith("_") and not name.startswith("_") and name not in ("n_features_in_", "feature_names_in_"):
            delattr(model, name)


def _first_block(model: Any, X: Any) -> Corpus:
    _refuse_cluster(X)
    corpus: Corpus = model._as_corpus(X)
    return _named(model, corpus)


def _further_block(model: Any, X: Any) -> Corpus:
    _refuse_cluster(X)
    if is_texts(X):
        from momentopic.corpus.known import count_known

        X = count_known(model, X)
    corpus: Corpus = model._as_known_corpus(X)
    if hasattr(corpus, "folder"):  # a stream holds its documents for a while: they are read once
        corpus = Corpus(corpus.counts, corpus.vocabulary, empty_ok=True, settings=corpus.settings, name=corpus.name)
    return _named(model, corpus)


def _named(model: Any, corpus: Corpus) -> Corpus:
    """Give a corpus of a data frame its words: the documents that are held are fitted as a corpus."""
    if corpus.vocabulary is None and hasattr(model, "feature_names_in_"):
        corpus.vocabulary = [str(name) for name in model.feature_names_in_]
    return corpus


def _begin(model: Any, corpus: Corpus) -> None:
    """Fit the model on all documents so far, which are still there; then let the stream have them."""
    from momentopic.model import DiscreteICA
    from momentopic.stream import stacked

    stream: Stream = model._stream
    summary = model._stream_summary
    documents = stacked([*stream.held, corpus])
    if documents.shape[0] < 3:
        _warn_of_no_topics(f"{documents.shape[0]} documents so far, and the third-order cumulants need at least 3")
    else:
        try:
            DiscreteICA.fit(model, documents)
        except RankError as error:
            _warn_of_no_topics(str(error))
        model._stream, model._stream_summary = stream, summary  # fit begins anew, and lets go of them
    stream.add(corpus)
    if hasattr(model, "components_"):
        model._training_data = {**summary, "momentopic_version": __version__}
        if stream.began and model.refine is not None:
            from momentopic.refine.folding import FoldedTopics

            model._folded = FoldedTopics(model.components_, model.concentration_, model.smoothing or START_SMOOTHING)
            model._folded.add(documents, stream.engine)


def _continue(model: Any, corpus: Corpus) -> None:
    """Add a block to the sums, and bring the model up to date."""
    stream: Stream = model._stream
    stream.add(corpus)
    moments: Any = stream.moments()
    if model.refine is not None and hasattr(model, "_folded"):
        model._folded.add(corpus, stream.engine)
        model.components_ = model._folded.topics
        model.rate_ = rate(model.concentration_, moments.mean_length)
        model.eigenvalues_ = moments.ritz(model.n_components)[0]
    else:
        try:
            _match(model, moments)
        except RankError as error:
            _warn_of_no_topics(str(error))
            return
    model._training_data = {**model._stream_summary, "momentopic_version": __version__}


def _match(model: Any, moments: SketchedMoments) -> None:
    from momentopic.solve import solve

    with Steps(model.verbose) as steps:
        solution = solve(
            moments, model.n_components, algorithm=model.algorithm, projections=model.projections,
            n_projections=model.n_projections, random_state=seed_of(model), steps=steps,
        )  # fmt: skip
    model._keep(solution, None, moments.mean_length)
    vars(model).pop("stability_", None)  # of an earlier fit
    model.timings_ = steps.seconds


def _warn_of_no_topics(reason: str) -> None:
    warnings.warn(f"no new topics yet: {reason}", UserWarning, stacklevel=5)
