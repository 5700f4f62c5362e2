"""The scikit-learn estimator: a thin conductor of moments, whitening, diagonalisation and recovery."""

from __future__ import annotations

import contextlib
from numbers import Integral, Real
from pathlib import Path
from typing import Any, ClassVar, Literal

import numpy as np
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin, _fit_context
from sklearn.utils._param_validation import HasMethods, Interval, StrOptions
from sklearn.utils.validation import check_is_fitted, validate_data

from momentopic import __version__, documents, heldout
from momentopic._types import FloatArray
from momentopic.checkpoint import Checkpoint, fit_task
from momentopic.confidence import Evidence, confidence
from momentopic.corpus.blocks import Corpus
from momentopic.corpus.frames import is_texts
from momentopic.engine import get_engine
from momentopic.engine.states import check_keeps_states
from momentopic.fitting import engine_of, refined, solved, start_of, within_limit
from momentopic.moments import Moments, dica_moments, lda_moments
from momentopic.moments.groups import check_groups
from momentopic.partial import PartialFit, seed_of
from momentopic.progress import Steps
from momentopic.recover import rate
from momentopic.refine import Refined
from momentopic.solve import Solution
from momentopic.views import Views, remember_documents

_SPLITS = 24  # of the documents, for the stability of topics: each takes two small diagonalisations


class DiscreteICA(PartialFit, Views, ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator):
    """Topics of a corpus by the method of moments (Podosinnikova, Bach and Lacoste-Julien, NIPS 2015).

    A topic model is a discrete independent component analysis: the second- and third-order cumulants of the counts,
    whitened and jointly diagonalised, give the topics in one deterministic pass, without sampling or restarts.

    `fit` takes a whole corpus; `partial_fit` blocks that arrive once, and `fit_moments` sums that were made elsewhere.

    Parameters
    ----------
    n_components : int, default=10
        K, the number of topics.
    moments : {"dica", "lda"}, default="dica"
        The GP/DICA cumulants, or the LDA moments, which need `c0` and converge more slowly.
    algorithm : {"jd", "spectral", "tpm"}, default="jd"
        Orthogonal joint diagonalisation, the spectral algorithm (one random projection), or the tensor power method.
    projections : {"basis", "random", "vocabulary"}, default="basis"
        For `algorithm="jd"`, the projections of the tensor that are diagonalised together: on the canonical basis of
        R^K (the paper's JD), on `n_projections` random vectors (JD(k)), or on every word (JD(f), slow).
    n_projections : int, default=None
        For `projections="random"`; None means K.
    c0 : float, default=None
        The sum of the Dirichlet parameters: required by `moments="lda"`, refused otherwise.
    refine : {"collapsed", "variational"} or None, default="collapsed"
        "collapsed" refines the moment solution by sweeps over the corpus (`momentopic.refine.refine_collapsed`): topics
        and prior as good as a long-run sampler's, in a fraction of its time. "variational" is the paper's VI-JD
        (`momentopic.refine.variational_lda`). None is the moment solution as it is. Where the moments support fewer
        than K topics, a refinement starts the others from splits of the largest, with a warning; None refuses.
    n_sweeps : int, default=None
        Sampled sweeps of a collapsed refinement. None and 0 do some 40 to 90 expected ones instead, in rounds over more
        and more of the tokens: as good or better on most corpora, in a quarter to an eighth of the time. Where these
        would take more than half a gigabyte of memory, None samples until the averaged topics come to rest, usually for
        190 to 250 sweeps.
    smoothing : float, default=None
        The Dirichlet parameter of the topics in a collapsed refinement; None takes 0.03 in expected sweeps, and
        estimates it in sampled ones.
    engine : "auto", "threads", "cuda", "dask", an address, a distributed.Client or an Engine, default="auto"
        Who does the sums over documents: the threads of this machine, its CUDA device, or a Dask cluster. The result
        has the same bits for any number of threads or workers; on a device, the same bits on every run. "auto" takes a
        device where there is one and the corpus has 20 million nonzeros.
    n_groups : int, default=None
        Keep the moments of so many random groups of documents, 32 say, for `confidence`, and mark the topics that are
        not reproducible (`stability_`). For `moments="dica"` with `algorithm="jd"` on the basis.
    random_state : int, RandomState or None, default=0
        Seeds the start of the eigensolver (which matters only within its tolerance), random projections and restarts.
    verbose : int, default=0
        1 shows a progress bar for fits of more than two seconds.
    memory_limit : int or str, default=None
        Bytes that the process may take during `fit`, "3GB" say: fewer threads are used, and the form of a collapsed
        refinement that remembers least, where that is needed; what cannot be done under the limit is refused before it
        begins. The corpus should be on disk (`Corpus.open`).
    checkpoint : str or Path, default=None
        A folder to keep the state of `fit` in: after whitening, after the tensor, and every minute of a refinement. A
        fit of the same corpus that was killed goes on from there and ends with the same bits. Delete it afterwards.

    Attributes
    ----------
    components_ : array of shape (K, M)
        The topics: rows are probability vectors over the words (the paper's D, transposed), the most prominent
        topic first.
    concentration_ : array of shape (K,)
        c: the gamma shapes of the GP model, which are the Dirichlet parameters of LDA.
    rate_ : float or None
        b: the rate of the gamma intensities, Σ c over the mean document length. None for LDA moments.
    intensity_mean_, intensity_variance_, intensity_third_cumulant_ : arrays of shape (K,)
        The first three cumulants of each topic's intensity (tokens a document), whatever its distribution. For
        `moments="dica"` without refinement only.
    eigenvalues_ : array of shape (K,)
        The largest eigenvalues of S, descending; before a collapsed refinement the last of them to about 1 %.
    stability_ : array of shape (K,)
        With `n_groups`: how far two halves of the corpus agree on each topic, in [0, 1]. See `confidence`.
    n_iter_ : int
        Sweeps of the refinement; without one, Jacobi sweeps or iterations of the longest run of the power method.
    converged_ : bool
        Whether the refinement came to rest; without one, whether eigensolver and diagonalisation did.
    timings_ : dict of str to float
        Seconds each step took.
    n_features_in_ : int
        M, the number of words.
    feature_names_in_ : array of str
        The words, if X was a DataFrame or a Corpus with a vocabulary.
    text_settings_ : TextSettings or None
        How the counts were made of texts, if they were: `transform` then takes texts.
    training_data_ : dict
        What it was fitted on (the name and the numbers of documents and tokens), and by which version.

    Examples
    --------
    >>> import numpy as np
    >>> from momentopic import DiscreteICA, simulate
    >>> D = np.kron(np.eye(3), np.full((4, 1), 0.25))  # three topics of four words each
    >>> X = simulate.gamma_poisson(D, np.full(3, 0.3), 2000, mean_length=50)
    >>> model = DiscreteICA(n_components=3).fit(X)
    >>> model.components_.shape
    (3, 12)
    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "n_components": [Interval(Integral, 1, None, closed="left")],
        "moments": [StrOptions({"dica", "lda"})],
        "algorithm": [StrOptions({"jd", "spectral", "tpm"})],
        "projections": [StrOptions({"basis", "random", "vocabulary"})],
        "n_projections": [Interval(Integral, 1, None, closed="left"), None],
        "c0": [Interval(Real, 0, None, closed="neither"), None],
        "refine": [StrOptions({"collapsed", "variational"}), None],
        "n_sweeps": [Interval(Integral, 0, None, closed="left"), None],
        "smoothing": [Interval(Real, 0, None, closed="neither"), None],
        "n_groups": [Interval(Integral, 5, 255, closed="both"), None],
        "engine": [str, HasMethods("sum"), HasMethods(["submit", "scatter"])],
        "random_state": ["random_state"],
        "verbose": ["verbose"],
        "memory_limit": [Interval(Integral, 1, None, closed="left"), str, None],
        "checkpoint": [str, Path, None],
    }

    def __init__(
        self,
        n_components: int = 10,
        *,
        moments: Literal["dica", "lda"] = "dica",
        algorithm: Literal["jd", "spectral", "tpm"] = "jd",
        projections: Literal["basis", "random", "vocabulary"] = "basis",
        n_projections: int | None = None,
        c0: float | None = None,
        refine: Literal["collapsed", "variational"] | None = "collapsed",
        n_sweeps: int | None = None,
        smoothing: float | None = None,
        n_groups: int | None = None,
        engine: Any = "auto",
        random_state: Any = 0,
        verbose: int = 0,
        memory_limit: int | str | None = None,
        checkpoint: str | Path | None = None,
    ) -> None:
        self.n_components = n_components
        self.moments = moments
        self.algorithm = algorithm
        self.projections = projections
        self.n_projections = n_projections
        self.c0 = c0
        self.refine = refine
        self.n_sweeps = n_sweeps
        self.smoothing = smoothing
        self.n_groups = n_groups
        self.engine = engine
        self.random_state = random_state
        self.verbose = verbose
        self.memory_limit = memory_limit
        self.checkpoint = checkpoint

    @_fit_context(prefer_skip_nested_validation=True)  # type: ignore[untyped-decorator]
    def fit(self, X: Any, y: Any = None) -> DiscreteICA:
        """Find the topics of a corpus.

        Parameters
        ----------
        X : array-like, scipy sparse matrix, DataFrame or Corpus, shape (N, M), or list of str
            Counts, documents x words: whole numbers, at least 3 documents. Texts are counted by `Corpus.from_texts`.
        y : ignored

        Returns
        -------
        self
        """
        self._check_combinations()
        self.__dict__.pop("_stream", None)  # of an earlier partial_fit
        corpus = self._as_corpus(X)
        if self.n_components > corpus.shape[1]:
            raise ValueError(
                f"n_components={self.n_components} topics cannot be told apart with {corpus.shape[1]} words "
                f"(n_features = {corpus.shape[1]}): ask for fewer."
            )
        if self.n_groups is not None:
            check_groups(self.n_groups, corpus.shape[0])
        seed = seed_of(self)
        with Steps(self.verbose) as steps:
            engine = engine_of(self, corpus)
            if self.refine is not None:
                check_keeps_states(engine, ("update", "turn"), "a refinement needs", "use refine=None")
            if self.checkpoint is not None and hasattr(engine, "solve"):
                raise ValueError(f"{engine!r} keeps no checkpoints: use engine='threads', or leave checkpoint out")
            if self.memory_limit is not None and hasattr(engine, "solve"):
                raise ValueError(
                    f"memory_limit is for the memory of this machine, not that of {engine!r}: use engine='threads', "
                    "or leave memory_limit out"
                )
            if hasattr(engine, "with_progress"):
                engine = engine.with_progress(steps.block)
            engine = within_limit(self, corpus, engine)
            checkpoint = None if self.checkpoint is None else Checkpoint(self.checkpoint, fit_task(self, corpus, seed))
            with steps.step("mean"):
                moments: Moments = (
                    dica_moments(corpus, engine=engine)
                    if self.c0 is None
                    else lda_moments(corpus, self.c0, engine=engine)
                )
            solution = solved(self, moments, seed, steps, checkpoint)
            better = None
            if self.refine is not None:
                with steps.step("refinement"):
                    start = start_of(self, solution, seed)
                    solution = solution.without_words()
                    better = refined(self, corpus, start, engine, seed, steps, checkpoint)
            self._keep(solution, better, moments.mean_length)
            with steps.step("confidence") if self._evidence is not None else contextlib.nullcontext():
                self._keep_stability(steps)
        remember_documents(self, X)
        return self._finished(corpus, steps.seconds)

    def _finished(self, corpus: Corpus, seconds: dict[str, float]) -> DiscreteICA:
        self.text_settings_ = corpus.settings
        self._training_data = {**corpus.summary(), "momentopic_version": __version__}
        self.timings_ = seconds
        return self

    def transform(self, X: Any) -> FloatArray:
        """Return the posterior mean proportions of the topics in documents, of shape (N, K); rows sum to 1.

        Collapsed variational inference under the fitted topics and prior. A document's row depends on its counts
        alone: not on the other documents, their order, the container or the number of threads. A document that is
        empty, or has only words that no topic produces, gets the prior mean.

        Parameters
        ----------
        X : array-like, scipy sparse matrix, DataFrame or Corpus, shape (N, M), or list of str
            Counts of the words the model was fitted on, or texts, which are counted as those of the fit were.
        """
        return self._proportions(X)[0]

    def transform_intensities(self, X: Any) -> FloatArray:
        """Return the posterior mean intensities α of the GP model, of shape (N, K): the tokens of each topic.

        Parameters
        ----------
        X : array-like, scipy sparse matrix, DataFrame or Corpus, shape (N, M), or list of str
            Counts of the words the model was fitted on, or texts, which are counted as those of the fit were.
        """
        check_is_fitted(self)
        if self.rate_ is None:
            raise ValueError("intensities need the rate of the document lengths, which LDA moments do not give")
        theta, lengths = self._proportions(X)
        return documents.intensities(theta, lengths, self.concentration_, self.rate_)

    def score(self, X: Any, y: Any = None) -> float:
        """Return the held-out score of documents in bits per token: higher is better.

        Document completion (`momentopic.heldout.completion`): half of the tokens of each document are scored given
        the topics inferred from the other half. Topics are mixed with 1 % of the uniform distribution, so that words
        never seen in training are scored too.

        Parameters
        ----------
        X : array-like, scipy sparse matrix, DataFrame or Corpus, shape (N, M)
        y : ignored
        """
        check_is_fitted(self)
        corpus = self._as_known_corpus(X)
        result = heldout.completion(
            corpus, self.components_, self.concentration_, smoothing=0.01, engine=get_engine(self.engine, corpus)
        )
        return result.bits_per_token

    def count(self, texts: Any) -> Corpus:
        """Count the model's words in texts, with the settings of the texts it was fitted on.

        Parameters
        ----------
        texts : iterable of str, str or Path
            Texts, or the path of a file or folder of texts or counts (see `Corpus.from_file`), which is read with the
            columns of the fit.

        Returns
        -------
        Corpus
        """
        from momentopic.corpus.known import count_known, read_known

        check_is_fitted(self)
        return read_known(self, texts) if isinstance(texts, str | Path) else count_known(self, texts)

    def save(self, path: str | Path) -> None:
        """Write the fitted model to a folder; `momentopic.load` reads it. See `momentopic.persist`."""
        from momentopic.persist import save

        save(self, path)

    def _check_combinations(self) -> None:
        if self.moments == "lda" and self.c0 is None:
            raise ValueError(
                "moments='lda' needs c0, the sum of the Dirichlet parameters: pass c0=1.0, say, "
                "or use moments='dica', which does without."
            )
        if self.moments == "dica" and self.c0 is not None:
            raise ValueError(
                f"c0={self.c0} was given, but the DICA cumulants do not use it: leave it out or use moments='lda'."
            )
        if self.algorithm != "jd" and self.projections != "basis":
            raise ValueError(f"projections={self.projections!r} is for algorithm='jd', not {self.algorithm!r}")
        if self.n_groups is not None and (self.c0, self.algorithm, self.projections) != (None, "jd", "basis"):
            raise ValueError(
                "n_groups is for moments='dica', algorithm='jd' and projections='basis': "
                "confidence solves for the topics of groups of documents in that way alone."
            )
        if self.n_projections is not None and self.projections != "random":
            raise ValueError("n_projections is for projections='random'")

    def _as_corpus(self, X: Any) -> Corpus:
        if hasattr(X, "__dask_graph__"):
            from momentopic.corpus.collections import collection_corpus

            X = collection_corpus(X, self.engine)
        if is_texts(X):
            X = Corpus.from_texts(X)
        if isinstance(X, Corpus):
            self.n_features_in_ = X.shape[1]
            if X.vocabulary is not None:
                self.feature_names_in_ = np.array(X.vocabulary, dtype=object)
            elif hasattr(self, "feature_names_in_"):
                del self.feature_names_in_
            return X
        # finiteness, signs and whole numbers are checked by Corpus, with messages that speak of counts
        X = validate_data(self, X, accept_sparse=True, dtype="numeric", ensure_all_finite=False)
        return Corpus(X)

    def _as_known_corpus(self, X: Any) -> Corpus:
        """Return documents to be asked about: of the words of the fit, and possibly all empty."""
        if hasattr(X, "__dask_graph__"):
            from momentopic.corpus.collections import collection_corpus

            X = collection_corpus(X, self.engine, self)
        if is_texts(X):
            X = self.count(X)
        if not isinstance(X, Corpus):
            X = validate_data(self, X, accept_sparse=True, dtype="numeric", ensure_all_finite=False, reset=False)
            return Corpus(X, empty_ok=True)
        if X.shape[1] != self.n_features_in_:
            raise ValueError(
                f"X has {X.shape[1]} features, but DiscreteICA is expecting {self.n_features_in_} features"
            )
        names = getattr(self, "feature_names_in_", None)
        if X.vocabulary is not None and names is not None and X.vocabulary != list(names):
            raise ValueError(
                "these documents have other words than those of the model, or in another order: count the same "
                "vocabulary (Corpus.from_texts(texts, vocabulary=model.feature_names_in_), or model.count(texts))"
            )
        return X

    def _proportions(self, X: Any) -> tuple[FloatArray, FloatArray]:
        check_is_fitted(self)
        corpus = self._as_known_corpus(X)
        return documents.proportions(corpus, self.components_, self.concentration_, get_engine(self.engine, corpus))

    def _keep(self, solution: Solution, refined: Refined | None, mean_length: float) -> None:
        self.concentration_ = solution.concentration
        self.rate_ = solution.rate
        for name in ("intensity_mean_", "intensity_variance_", "intensity_third_cumulant_", "stability_"):
            self.__dict__.pop(name, None)  # of an earlier fit
        if solution.intensity is not None and refined is None:
            self.intensity_mean_ = solution.intensity.mean
            self.intensity_variance_ = solution.intensity.variance
            self.intensity_third_cumulant_ = solution.intensity.third_cumulant
        self._evidence = None
        if solution.groups is not None:
            self._evidence = Evidence(solution.groups, solution.Z, np.arange(len(solution.Z)))
        self.eigenvalues_ = solution.whitening.eigenvalues
        self.n_iter_ = solution.diagonalization.n_sweeps
        self.converged_ = bool(solution.whitening.converged and solution.diagonalization.converged)
        if refined is None:
            self.components_ = np.ascontiguousarray(solution.D.T)
        else:
            order = np.argsort(-refined.concentration, kind="stable")
            self.components_ = np.ascontiguousarray(refined.topics[order])
            self.concentration_ = refined.concentration[order]
            self.rate_ = None if solution.rate is None else rate(self.concentration_, mean_length)
            self.n_iter_ = refined.n_expected + refined.n_sampled
            self.converged_ = refined.converged
            if self._evidence is not None:
                self._evidence = self._evidence.of(np.where(order < len(solution.Z), order, -1))

    def _keep_stability(self, steps: Steps) -> None:
        if self._evidence is not None:
            self.stability_ = confidence(self, n_words=1, n_splits=_SPLITS, callback=steps.part).stability

    @property
    def training_data_(self) -> dict[str, Any]:
        """What the model was fitted on, and by which version."""
        return self._training_data

    @property
    def _n_features_out(self) -> int:
        return len(self.components_)

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "components_")

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.input_tags.positive_only = True
        return tags
