"""Collapsed refinement: topics of a moment solution made about as good as a long-run sampler's.

Every token draws its topic under the moment solution, softened, and collapsed Gibbs sweeps go on from there; after some
of them once more, under the topics that they have found. Where topics have many tokens, the sweeps before that go over
a part of them, the more often (`parts.passes_of_first_round`). Where topics have few documents, tokens of bursts are
left out (`kernels.bursts`), and the sweeps after it come in stretches, between which the topics leap along their trend.
The topics are the mean over sweeps. The state is one number a token.

Without sampled sweeps, collapsed variational inference of order zero (CVB0) goes from the moment solution past the
nearest optima to a good one, which is nearly as good and soon reached; it keeps K numbers a nonzero. The same is done
where words repeat so often that drawing every token would be a waste (counts in the thousands). In both, each token
leaves itself out of the counts.

Documents and words are divided into as many parts. In each turn every part of the documents holds another part of the
words and changes their counts at once; a sweep is as many turns as there are parts (Yan, Xu and Qi 2009). So word
counts are up to date, but for tokens that are drawn at the same moment (see `kernels.abreast`), and the totals of the
topics by a turn; no two threads touch the same words, and the bits are the same for any number of threads.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from momentopic import kernels
from momentopic._types import FloatArray
from momentopic.checkpoint import Checkpoint
from momentopic.corpus.blocks import Corpus
from momentopic.engine.base import Engine
from momentopic.engine.blas import single_threaded_blas
from momentopic.refine.blocks import (
    Mixed,
    WordCounts,
    count_block,
    expected_block,
    prior_block,
    sampled_block,
    start_block,
)
from momentopic.refine.parts import (
    AFTER_LEAP,
    Start,
    draws_tokens,
    few_documents,
    first_start,
    movement_at_rest,
    number_of_parts,
    padded_width,
    passes_of_first_round,
    second_start,
    word_boundaries,
)
from momentopic.refine.prior import CountHistogram, concentration_steps, smoothing_steps
from momentopic.refine.refined import Refined
from momentopic.refine.resume import STAGE, restore_run, save_run
from momentopic.refine.samples import Samples

_EXPECTED_START = Start(0.05, 3)
# sampled sweeps after which all tokens are drawn anew, from the topics that these have found, if so many are to come
_FIRST_ROUND, _TWO_ROUNDS = 30, 120
_START_CONCENTRATION = 4.0
START_SMOOTHING = 0.03
_SWEEPS_BEYOND, _EXPECTED_SWEEPS = 12, 40
# Expected sweeps first go beyond what they find, so far that they pass by the nearest optima instead of coming to rest;
# then just there, until less than a part of the tokens changes its topic in one.
_BEYOND, _MOVED = np.float32(2.5), 0.02
_PLAIN = np.float32(1)
_MOST_SWEEPS = 1000
# Tokens that were drawn under softened topics give a flat prior, under which they move easily; each new estimate is
# sharper. Taking these steps slowly anneals the chain: it ends in better topics than one that is sharp at once.
_PRIOR_EVERY, _PRIOR_EVERY_SAMPLED = 5, 45
_LEAST_STEPS, _STEPS = 6, 3  # before the sweeps may end by themselves; in a given number of them
_STRETCH, _LEAST_STRETCHES = 42, 4  # the same where sweeps leap
_LEAP = 4  # stretches: so far a leap goes
_WORDS = 8192
_LAST_STEPS = 100  # of the fixed point for the concentration, at the end
_CHECK_EVERY = 20
_FORM = 8  # of the state in a checkpoint: one of another form is not taken up


def refine_collapsed(
    corpus: Corpus,
    topics: FloatArray,
    engine: Engine,
    *,
    n_sweeps: int | None = None,
    smoothing: float | None = None,
    tol: float | None = None,
    random_state: int = 0,
    callback: Callable[[int, float], None] | None = None,
    checkpoint: Checkpoint | None = None,
) -> Refined:
    """Refine topics on a corpus, and estimate their (asymmetric) prior.

    Parameters
    ----------
    corpus : Corpus
    topics : array of shape (K, M)
        The start: rows are probability vectors.
    engine : Engine
    n_sweeps : int, optional
        Sampled sweeps; 0 means expected ones instead. By default they go on until the topics come to rest, at most
        1,000.
    smoothing : float, optional
        The Dirichlet parameter of the topics; by default it is estimated.
    tol : float, optional
        The topics are at rest when twenty sweeps, or the stretch between two leaps, move the averaged topics by less
        than this, in mean l1 error (at most 1); by default `movement_at_rest`.
    random_state : int
    callback : callable, optional
        Called as ``callback(sweeps done, how far the topics moved)`` after each sweep.
    checkpoint : Checkpoint, optional
        Where the state is kept now and then, and where it is taken up again.

    Returns
    -------
    Refined
    """
    tol = movement_at_rest(corpus.tokens, corpus.shape[0], len(topics)) if tol is None else tol
    sample = draws_tokens(corpus, n_sweeps)
    with single_threaded_blas():
        run = _Run(corpus, engine, len(topics), smoothing, callback, checkpoint, sample)
        if sample and _first_round(n_sweeps):
            run.divide(passes_of_first_round(corpus.tokens, corpus.shape[0], len(topics)))
            run.leaps = run.few_documents
        run.resume()
        if not run.states:
            run.start(topics, random_state)
        if sample:
            return run.sampled_sweeps(n_sweeps, tol, random_state)
        n_expected = run.expected_sweeps()
        at_rest = n_expected < _EXPECTED_SWEEPS
        return Refined(run.topics(run.counts()), run.alpha, run.eta, n_expected, 0, at_rest)


def _first_round(n_sweeps: int | None) -> int:
    """Return after how many sampled sweeps all tokens are drawn anew; 0 for never."""
    return _FIRST_ROUND if n_sweeps is None or n_sweeps >= _TWO_ROUNDS else 0


class _Run:
    """A refinement under way: the state of every block, the counts of the words, prior and smoothing."""

    def __init__(
        self,
        corpus: Corpus,
        engine: Engine,
        K: int,
        smoothing: float | None,
        callback: Callable[[int, float], None] | None,
        checkpoint: Checkpoint | None,
        sample: bool,
    ) -> None:
        totals = corpus.word_totals()
        self.n_tokens = float(totals.sum())
        self.frequencies = totals / self.n_tokens
        self.seen = totals > 0
        self.lengths = np.unique(corpus.document_lengths(), return_counts=True)
        self.corpus = corpus
        self.divide(1)
        self.engine = engine
        self.K = K
        self.smoothing = smoothing
        self.alpha, self.eta = self.flat_prior()
        self.callback = callback
        self.n_done = 0
        self.states: list[Any] = []
        self.words: list[WordCounts] = []
        self.totals = np.zeros(K)  # the tokens of each topic
        self.checkpoint = checkpoint
        self.sample = sample
        self.n_expected = 0  # sweeps before a resumption
        self.leaps = False
        self.few_documents = few_documents(corpus.shape[0], K)
        self.sampling: Samples | None = None

    def divide(self, passes: int) -> None:
        """Divide documents and words for sweeps of so many passes, each over one token in as many."""
        self.passes = passes
        self.boundaries = word_boundaries(
            self.frequencies, number_of_parts(self.n_tokens / passes, self.corpus.shape[0])
        )
        self.corpus = self.corpus.divided(len(self.boundaries) - 1)

    @property
    def shortens_bursts(self) -> bool:
        """Whether tokens of bursts are left out: with many documents to a topic, none of them weighs much."""
        return self.sample and self.few_documents

    def flat_prior(self) -> tuple[FloatArray, float]:
        """Return the concentration and the smoothing to begin with."""
        return np.full(self.K, _START_CONCENTRATION / self.K), self.smoothing or START_SMOOTHING

    def resume(self) -> None:
        """Take up the state that was kept last, if there is one."""
        saved = None if self.checkpoint is None else self.checkpoint.load(STAGE, sample=self.sample, form=_FORM)
        if saved is not None:
            self.divide(saved.values["passes"])
            arrays = restore_run(self, saved)
            self.n_expected = saved.values["n_expected"]
            if "n_samples" in saved.values:
                numbers = {name: saved.values[name] for name in Samples().numbers()}
                sums, trend = self.in_parts(arrays.get("sums")), self.in_parts(arrays.get("trend"))
                self.sampling = Samples(sums, trend, **numbers, earlier=arrays.get("earlier"))

    def in_parts(self, array: Any) -> list[Any]:
        """Divide an array over words as their counts are."""
        return [] if array is None else [array[part.first : part.first + len(part.counts)] for part in self.words]

    def keep(self, n_expected: int = 0) -> None:
        """Keep the state after a sweep, if that is due."""
        if self.checkpoint is None or not self.checkpoint.due():
            return
        values: dict[str, Any] = {"n_expected": n_expected, "passes": self.passes}
        arrays: dict[str, Any] = {}
        if (done := self.sampling) is not None:
            values |= done.numbers()
            of_words = {"sums": done.sums, "trend": done.trend}
            arrays = {name: np.concatenate(parts) if parts else None for name, parts in of_words.items()}
            arrays["earlier"] = done.earlier
        save_run(self.checkpoint, self, values, arrays, sample=self.sample, form=_FORM)

    def start(self, topics: Any, random_state: int, how: Start | None = None) -> None:
        """Infer all documents under the topics that the refinement starts from; draw from the result, or keep it."""
        if how is None:
            how = first_start(self.passes, self.corpus.shape[0], self.K) if self.sample else _EXPECTED_START
        phi = np.zeros((len(self.seen), padded_width(self.K)), dtype=np.float32)
        for first in range(0, len(phi), _WORDS):  # some at a time: in double precision all would take much memory
            some = slice(first, first + _WORDS)
            phi[some, : self.K] = ((1 - how.background) * topics[:, some] + how.background * self.frequencies[some]).T
        firsts: list[Any] = [int(first) for first in self.boundaries[: self.corpus.n_blocks]]
        parts = None if self.sample else self.boundaries
        mixed = Mixed(self.frequencies, how.background) if self.shortens_bursts else None
        args = (phi, self.padded(self.alpha), random_state, how.n_passes, parts, self.passes, mixed)
        (totals,), self.states = self.engine.update(start_block, self.corpus, firsts, *args)
        self.totals = totals[: self.K].copy()  # it is added to
        del phi, args  # before there are counts
        self.take(kernels.lanes.zeros_in_lines(len(self.seen), padded_width(self.K)))
        for turn in range(len(self.words)):
            _, self.states, self.words = self.engine.turn(count_block, self.corpus, self.states, self.words, turn)

    def take(self, counts: Any) -> None:
        """Divide the counts of the words into parts."""
        ranges = zip(self.boundaries[:-1], self.boundaries[1:], strict=True)
        self.words = [WordCounts(int(first), counts[first:end]) for first, end in ranges]

    def counts(self) -> Any:
        """Return how often each word has each topic."""
        return np.concatenate([part.counts[:, : self.K] for part in self.words])

    def topics(self, counts: Any) -> FloatArray:
        """Return the topics (K x M) that smoothed counts give; words that do not occur have probability 0."""
        counts = _on_host(counts)
        topics = np.empty((self.K, len(counts)))
        for first in range(0, len(counts), _WORDS):  # some at a time, as in `start`
            some = slice(first, first + _WORDS)
            # a count that went down to 0 in small steps may have ended just below it
            smoothed = np.maximum(counts[some], 0, dtype=np.float64) + self.eta
            topics[:, some] = (smoothed * self.seen[some, None]).T
        topics /= topics.sum(axis=1, keepdims=True)
        return topics

    def padded(self, values: FloatArray) -> Any:
        padded = np.zeros(padded_width(self.K), dtype=np.float32)
        padded[: self.K] = values
        return padded

    def sweep(self, function: Any, *options: Any) -> list[Any]:
        """Renew as many tokens as the corpus has, in one pass or more; return the sums, but for that of the totals."""
        smoothing = self.eta * self.seen.sum()
        eta, alpha = np.float32(self.eta), self.padded(self.alpha)
        sums: list[Any] = []
        for turn in range(self.passes * len(self.words)):
            operands = (eta, self.padded(1 / (self.totals + smoothing)), alpha, *options)
            (change, *others), self.states, self.words = self.engine.turn(
                function, self.corpus, self.states, self.words, turn % len(self.words), *operands
            )
            self.totals += change[: self.K]
            sums = [a + b for a, b in zip(sums, others, strict=True)] if sums else others
        return sums

    def report(self, moved: float) -> None:
        self.n_done += 1
        if self.callback is not None:
            self.callback(self.n_done, moved)

    def expected_sweeps(self) -> int:
        """Do CVB0 sweeps until few tokens change their topic; return how many."""
        for n in range(self.n_expected + 1, _EXPECTED_SWEEPS + 1):
            (moved,) = self.sweep(expected_block, _BEYOND if n <= _SWEEPS_BEYOND else _PLAIN)
            part = float(moved[0]) / self.n_tokens
            self.report(part)
            if n > _SWEEPS_BEYOND and part < _MOVED:
                return n
            if n % _PRIOR_EVERY == 0:
                self.estimate_prior()
            self.keep(n)
        return _EXPECTED_SWEEPS

    def sampled_sweeps(self, n_sweeps: int | None, tol: float, random_state: int) -> Refined:
        """Do sampled sweeps and average over them: so many, or until the average comes to rest."""
        most = _MOST_SWEEPS if n_sweeps is None else n_sweeps
        first_round = _first_round(n_sweeps)
        done = self.sampling = self.sampling or self.nothing_sampled()
        for n in range(done.n + 1, most + 1):
            if n == first_round + 1 > 1:
                done = self.sampling = self.begin_again(done, random_state)
            last_round = done.round_begun == first_round
            to_come = most - first_round if last_round else first_round
            every = min(_STRETCH if self.leaps else _PRIOR_EVERY_SAMPLED, -(-to_come // _STEPS))
            leaping = last_round and self.leaps and len(done.times(every)) > 1
            if leaping and done.age == every and most - done.n >= every:
                self.leap(done, every, random_state)
            done.n = n
            if done.n_steps == 0 or n - done.last_step >= every or done.at_rest:
                self.estimate_prior()
                done.n_steps, done.last_step, done.at_rest = done.n_steps + 1, n, False
            self.sweep(sampled_block)
            if n == most or done.due():
                done.add(self.words, self.K, done.weight(every) if leaping and done.age <= every else None)
            if done.age % (every if leaping else _CHECK_EVERY) == 0:
                self.measure_movement(done)
                done.at_rest = n_sweeps is None and done.moved < tol
            self.report(done.moved)
            if done.at_rest and done.n_steps >= (_LEAST_STRETCHES if leaping else _LEAST_STEPS):
                break
            self.keep()
        lengths = self.lengths_taking_part()
        concentration = concentration_steps(self.alpha, self.topics_of_documents(), lengths, _LAST_STEPS)
        self.release(done)
        return Refined(self.topics(done.mean()), concentration, self.eta, 0, done.n, done.moved < tol)

    def nothing_sampled(self, n: int = 0) -> Samples:
        """Return the state before the first sweep of a round, `n` sweeps having been done."""
        return Samples(n=n, round_begun=n, stretch_begun=n)

    def begin_again(self, done: Samples, random_state: int) -> Samples:
        """Draw all tokens anew under the topics that the samples give, softened again."""
        self.release(done)
        topics = self.topics(done.mean()).astype(np.float32)
        how = second_start(self.passes, self.corpus.shape[0], self.K)
        done.sums = []
        self.divide(1)
        self.alpha, self.eta = self.flat_prior()
        self.start(topics, random_state + 1, how)
        return self.nothing_sampled(done.n)

    def leap(self, done: Samples, length: int, random_state: int) -> None:
        """Go on as a stretch of so many sweeps went, far beyond it, and draw all tokens anew from there.

        What changes slowly goes on changing for hundreds of sweeps: this saves most of them. Samples from before the
        first leap are left out of the average.
        """
        counts = self.counts()
        self.states, self.words = [], []
        if done.n_leaps == 0:
            done.sums, done.n_samples = [], 0
        counts += done.beyond(_LEAP * length, length)
        topics = self.topics(counts).astype(np.float32)
        del counts
        done.n_leaps += 1
        done.stretch_begun = done.n
        self.start(topics, random_state + 1 + done.n_leaps, AFTER_LEAP)

    def release(self, done: Samples) -> None:
        """Let go of what the mean of the samples does not need: it takes much memory, and more is to come."""
        self.states, self.words, done.trend, done.earlier = [], [], [], None

    def measure_movement(self, done: Samples) -> None:
        """Compare the mean of the samples with that of the last time: in single precision, for it is done often."""
        mean = _on_host(done.mean())
        mean += np.float32(self.eta)
        mean[~self.seen] = 0
        mean /= mean.sum(axis=0)
        if done.earlier is not None:
            difference = np.subtract(mean, done.earlier, out=done.earlier)
            done.moved = float(np.abs(difference, out=difference).sum() / (2 * self.K))
        done.earlier = mean

    def topics_of_documents(self) -> CountHistogram:
        """Return how often each number of tokens of each topic is in a document."""
        sums, self.states = self.engine.update(prior_block, self.corpus, self.states, self.alpha)
        return CountHistogram(*sums)

    def lengths_taking_part(self) -> tuple[Any, Any]:
        """Return how many tokens of documents take part, on average, and how many documents have as many."""
        lengths, numbers = self.lengths
        part = self.totals.sum() / self.n_tokens if self.shortens_bursts else 1 / self.passes
        return lengths * part, numbers

    def estimate_prior(self) -> None:
        """Take fixed-point steps of the concentration and of the smoothing."""
        self.alpha = concentration_steps(self.alpha, self.topics_of_documents(), self.lengths_taking_part())
        if self.smoothing is None:
            self.eta = smoothing_steps(self.eta, _on_host(self.counts()), int(self.seen.sum()))


def _on_host(array: Any) -> Any:
    """Return an array in this machine's memory: an engine may keep the counts of the words on a device."""
    return array if isinstance(array, np.ndarray) else array.get()
