"""The path: topics for every K from the moments of one, what speaks for each, and a suggestion.

The whitened tensor for every K is a corner of the one for the largest K, so the corpus is read as often as for one fit.
What is measured besides (held-out documents, noise floor, coherence, stability) is measured when it is first asked for.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Literal, TypeAlias

import numpy as np

from momentopic import fitting
from momentopic import heldout as scoring
from momentopic._types import FloatArray, IntArray
from momentopic.choosing import LEAST_DOCUMENTS, Spectrum, spectrum
from momentopic.coherence import coherence
from momentopic.confidence import confidence
from momentopic.corpus.blocks import Corpus
from momentopic.corpus.selection import some_documents
from momentopic.engine import Engine, get_engine
from momentopic.engine.states import check_keeps_states
from momentopic.exceptions import RankError
from momentopic.flow import Level, flow
from momentopic.heldout import HeldOut
from momentopic.model import DiscreteICA
from momentopic.moments import dica_moments
from momentopic.moments.dica import DICAMoments
from momentopic.moments.groups import N_GROUPS, group_moments
from momentopic.partial import _named
from momentopic.progress import Steps
from momentopic.solve import Solution, solve_every
from momentopic.suggest import Suggestion, suggest
from momentopic.tables import data_frame
from momentopic.views import UNSTABLE, remember_documents

Refinement: TypeAlias = Literal["collapsed", "variational"] | None
Row: TypeAlias = dict[str, float | int | None]

_SMOOTHING = 0.01  # of topics that are scored, as in `DiscreteICA.score`
_MOST_SET_ASIDE = 1000  # documents: more would make the scores slow, not the choice better
_COHERENT_WORDS = 10
_SPLITS = 10  # into halves, for the mean stability of the topics of a K


@dataclass(frozen=True, eq=False)
class TopicPath:
    """The topics of a corpus for every K, made by `path`.

    `table`, `suggestion`, `scores`, `spectrum` and `stability` are measured when they are first asked for, which takes
    longer than the topics themselves, and kept.

    Attributes
    ----------
    ks : tuple of int
        The numbers of topics, increasing.
    models : dict of int to DiscreteICA
        A fitted model for each K.
    timings : dict of str to float
        Seconds each step of the path took.
    """

    ks: tuple[int, ...]
    models: dict[int, DiscreteICA]
    timings: dict[str, float]
    _corpus: Corpus
    _moments: DICAMoments
    _solutions: list[Solution]
    _refine: Refinement
    _heldout: float
    _engine: Engine
    _seed: int
    _verbose: int

    @property
    def shape(self) -> tuple[int, int]:
        """The numbers of documents and words."""
        return self._corpus.shape

    @cached_property
    def flow(self) -> list[Level]:
        """Which topics split into which from each K to the next; see `momentopic.flow`."""
        models = self.models
        return flow(
            {k: models[k].components_ for k in self.ks},
            {k: models[k].concentration_ / models[k].concentration_.sum() for k in self.ks},
        )

    @cached_property
    def spectrum(self) -> Spectrum | None:
        """The eigenvalues against the noise of the corpus; see `momentopic.spectrum`. None below 12 documents."""
        if self._corpus.shape[0] < LEAST_DOCUMENTS:
            return None
        with Steps(self._verbose) as steps, steps.step("measuring the noise on halves of the corpus"):
            return spectrum(self._corpus, self.ks[-1], engine=_watched(self._engine, steps), random_state=self._seed)

    @cached_property
    def scores(self) -> dict[int, HeldOut]:
        """The score by document completion of documents set aside, for each K; empty if none were.

        Topics are found again without those documents, in the same way. A K that the other documents have not enough
        positive eigenvalues for has no score.
        """
        if not self._heldout:
            return {}
        aside, others = _set_aside(self._corpus.shape[0], self._heldout, self._seed)
        held, training = (some_documents(self._corpus, rows) for rows in (aside, others))
        with Steps(self._verbose) as steps:
            models: dict[int, DiscreteICA] = {}
            ks = self.ks
            while ks and not models:
                try:
                    _, _, models = _found(training, ks, self._refine, self._engine, self._engine, self._seed, steps)
                except RankError as error:
                    ks = tuple(k for k in ks[:-1] if k <= error.n_positive)
            engine = _watched(self._engine, steps)
            with steps.step("scoring documents set aside"):
                return {
                    k: scoring.completion(
                        held, model.components_, model.concentration_, self._seed, smoothing=_SMOOTHING, engine=engine
                    )
                    for k, model in models.items()
                }

    @cached_property
    def stability(self) -> dict[int, FloatArray] | None:
        """The stability of the topics of each K; None where there are too few documents for groups of them.

        Of the moment solution each K starts from, in the order of its concentrations: a refinement has its own.
        """
        if self._corpus.shape[0] < 3 * N_GROUPS:
            return None
        with Steps(self._verbose) as steps, steps.step("drawing documents again"):
            largest = self._solutions[-1].whitening
            with _watching(self._moments, self._engine, steps):
                _, groups = group_moments(self._moments, largest)
            found = {}
            for n, (k, solution) in enumerate(zip(self.ks, self._solutions, strict=True)):
                sure = confidence(groups, k, V=solution.Z, n_splits=_SPLITS, random_state=self._seed)
                found[k] = sure.stability
                steps.part(n + 1, len(self.ks))
            return found

    @cached_property
    def table(self) -> list[Row]:
        """A row for each K.

        Keys: ``k``; ``eigenvalue``, the K-th of the spectrum, ``floor``, the largest that noise gives, and
        ``found_again``, the part of it that the other half of the documents has; ``bits_per_token`` and ``stderr`` of
        documents set aside; ``coherence`` (NPMI, mean over the topics of two words and more); ``stability`` (mean over
        topics) and ``unstable`` (topics that are marked); ``splits``, topics of the K before that go on in several.
        None where not measured.
        """
        scores, noise, stability = self.scores, self.spectrum, self.stability
        rows: list[Row] = []
        for k, level in zip(self.ks, self.flow, strict=True):
            score = scores.get(k)
            stable = None if stability is None else stability[k]
            rows.append(
                {
                    "k": k,
                    "eigenvalue": None if noise is None else float(noise.eigenvalues[k - 1]),
                    "floor": None if noise is None else noise.floor,
                    "found_again": None if noise is None else float(noise.reproduced[k - 1]),
                    "bits_per_token": None if score is None else score.bits_per_token,
                    "stderr": None if score is None else score.stderr,
                    "coherence": _mean_coherence(self.models[k].components_, self._corpus, self._engine),
                    "stability": None if stable is None else float(stable.mean()),
                    "unstable": None if stable is None else int((stable < UNSTABLE).sum()),
                    "splits": len(level.split()),
                }
            )
        return rows

    @cached_property
    def suggestion(self) -> Suggestion:
        """How many topics to ask for, and why; see `momentopic.suggest`."""
        noise = self.spectrum
        scores = self.scores if noise is not None and noise.supported > 1 else None
        return suggest(self.ks, noise, scores, refined=self._refine is not None)

    def to_frame(self) -> Any:
        """Return the table as a pandas DataFrame."""
        return data_frame(self.table)

    def plot(self) -> Any:
        """Draw the table: what speaks for each K; see `momentopic.path_plots`."""
        from momentopic.path_plots import plot_path

        return plot_path(self)

    def plot_flow(self, n_words: int = 3) -> Any:
        """Draw which topics split into which; see `momentopic.path_plots`."""
        from momentopic.path_plots import plot_flow

        return plot_flow(self, n_words)

    def report(self, destination: str | Path, *, title: str | None = None) -> Path:
        """Write suggestion, table and flow as one HTML file that needs no network."""
        from momentopic.report.path import write_path_report

        return write_path_report(self, destination, title=title)

    def __repr__(self) -> str:
        return f"TopicPath({len(self.ks)} numbers of topics from {self.ks[0]} to {self.ks[-1]})"


def path(
    X: Any,
    ks: Sequence[int] = range(5, 101, 5),
    *,
    refine: Refinement = None,
    heldout: float = 0.1,
    engine: Any = "auto",
    random_state: int = 0,
    verbose: int = 0,
) -> TopicPath:
    """Find the topics of a corpus for every number of topics at once.

    The moments for the largest K are those for all: twenty values of K up to 100 take about twice the time of one fit
    of 100 topics. The topics of each K are those of ``DiscreteICA(K, refine=None).fit(X)``.

    Parameters
    ----------
    X : array-like, scipy sparse matrix, DataFrame or Corpus, shape (N, M), or list of str
        Counts, or texts, as for `DiscreteICA.fit`.
    ks : sequence of int
        The numbers of topics, increasing; none larger than the number of positive eigenvalues of S.
    refine : {"collapsed", "variational"} or None
        Refine the topics of each K, started from its moments, as `DiscreteICA` does; None leaves the moment solutions.
    heldout : float
        The part of the documents, at most 1,000, that `scores` sets aside; 0 leaves the scores out. The topics of the
        path itself are those of all documents.
    engine : "auto", "threads" or an Engine
    random_state : int
    verbose : int
        1 shows a progress bar for what takes more than two seconds.

    Returns
    -------
    TopicPath

    Raises
    ------
    RankError
        If a K is larger than the number of positive eigenvalues of S.
    """
    checked = checked_ks(ks)
    if not 0 <= heldout < 1:
        raise ValueError(f"heldout is the part of the documents to set aside, at least 0 and below 1; got {heldout}")
    if refine not in (None, "collapsed", "variational"):
        raise ValueError(f"refine must be 'collapsed', 'variational' or None, got {refine!r}")
    reader = DiscreteICA(checked[-1], engine=engine)
    corpus = _named(reader, reader._as_corpus(X))
    if checked[-1] > corpus.shape[1]:
        raise ValueError(
            f"ks go up to {checked[-1]}, but {checked[-1]} topics cannot be told apart with {corpus.shape[1]} words: "
            f"give ks up to {corpus.shape[1]} at most"
        )
    if heldout:
        _set_aside(corpus.shape[0], heldout, random_state)  # whether enough documents are left
    who = get_engine(engine, corpus)
    if refine is not None:
        check_keeps_states(who, ("update", "turn"), "a refinement needs", "use refine=None")
    with Steps(verbose) as steps:
        moments, solutions, models = _found(corpus, checked, refine, engine, who, random_state, steps)
    return TopicPath(
        checked, models, steps.seconds, corpus, moments, solutions, refine, heldout, who, random_state, verbose
    )


def checked_ks(ks: Sequence[int]) -> tuple[int, ...]:
    """Return numbers of topics that increase, or raise a ValueError that says what is wrong with them."""
    given = list(ks)
    if not given:
        raise ValueError("ks is empty: give the numbers of topics, as in ks=range(5, 101, 5)")
    for k in given:
        if not isinstance(k, (int, np.integer)) or k < 1:
            raise ValueError(f"ks must be whole numbers of at least 1, but {k!r} is among them")
    for first, second in itertools.pairwise(given):
        if second <= first:
            raise ValueError(
                f"ks must increase, but {second} comes after {first}: give sorted(set(ks)), "
                "or a range as in ks=range(5, 101, 5)"
            )
    return tuple(int(k) for k in given)


def _found(
    corpus: Corpus, ks: tuple[int, ...], refine: Refinement, given: Any, engine: Engine, seed: int, steps: Steps
) -> tuple[DICAMoments, list[Solution], dict[int, DiscreteICA]]:
    """Return the moments, and the solution and the model of each K; `given` is the engine as the models have it."""
    watched = _watched(engine, steps)
    with steps.step("mean"):
        moments = dica_moments(corpus, engine=watched)
    try:
        with _watching(moments, engine, steps):
            solutions = solve_every(moments, ks, random_state=seed, steps=steps)
    except RankError as error:
        possible = [k for k in ks if k <= error.n_positive]
        if possible:
            error.args = (
                f"ks go up to {ks[-1]}, but the second-order moment S of this corpus has only {error.n_positive} "
                f"positive eigenvalues, and each topic needs one: give ks up to {error.n_positive}, which leaves "
                f"{len(possible)} of these {len(ks)}",
            )
        raise
    models = {}
    for k, solution in zip(ks, solutions, strict=True):
        model = DiscreteICA(k, refine=refine, engine=given, random_state=seed)
        model._as_corpus(corpus)  # keeps the words
        refined = None
        if refine is not None:
            with steps.step(f"refinement of {k} topics"):
                refined = fitting.refined(model, corpus, fitting.start_of(model, solution, seed), watched, seed, steps)
        remember_documents(model, corpus)
        model._keep(solution, refined, moments.mean_length)
        models[k] = model._finished(corpus, dict(steps.seconds))
    return moments, solutions, models


def _watched(engine: Any, steps: Steps) -> Any:
    return engine.with_progress(steps.block) if hasattr(engine, "with_progress") else engine


@contextmanager
def _watching(moments: DICAMoments, engine: Engine, steps: Steps) -> Iterator[None]:
    """Show the passes of moments, and leave them with the engine itself: a bar that has ended must not start again."""
    moments.engine = _watched(engine, steps)
    try:
        yield
    finally:
        moments.engine = engine


def _mean_coherence(topics: FloatArray, corpus: Corpus, engine: Engine) -> float | None:
    """Return the mean NPMI of the topics that have two words to compare; None if none has."""
    several = topics[(topics > 0).sum(axis=1) > 1]
    if not len(several):
        return None
    return coherence(several, corpus, n_words=min(_COHERENT_WORDS, topics.shape[1]), engine=engine).mean


def _set_aside(N: int, part: float, seed: int) -> tuple[IntArray, IntArray]:
    """Return the rows of documents to be scored and of the others, both ascending."""
    n = min(max(1, round(part * N)), _MOST_SET_ASIDE)
    if N - n < 3:
        raise ValueError(f"setting aside {n} of {N} documents leaves fewer than 3: use heldout=0 or more documents")
    order = np.random.default_rng(seed).permutation(N)
    return np.sort(order[:n]), np.sort(order[n:])
