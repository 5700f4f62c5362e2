"""Collapsed refinement: topics of a moment solution made as good as a long-run sampler's, or better.

Every token has a topic, or a share in each of them, and sweeps over the corpus renew them one after the other, each
left out of the counts that decide.

The default is collapsed variational inference of order zero (CVB0), in rounds over more and more of the tokens
(`refine.rounds`): some 60 sweeps that go beyond what they find. It keeps K numbers a nonzero. Where these would be too
many, or if a number of sampled sweeps is asked for, tokens draw their topics instead (collapsed Gibbs sweeps), from the
moment solution, softened; after some sweeps once more, from the topics that they have found. Where topics have many
tokens, the sweeps before that go over a part of them, the more often (`parts.passes_of_first_round`). Where topics have
few documents, the sweeps after it come in stretches, between which the topics leap along their trend. The topics are
the mean over sweeps. The state is one number a token. Where words repeat so often that drawing every token would be a
waste (counts in the thousands), nothing is drawn.

Where topics have few documents, tokens of bursts are left out (`kernels.bursts`).

Documents and words are divided into as many parts. In each turn every part of the documents holds another part of the
words and changes their counts at once; a sweep is as many turns as there are parts (Yan, Xu and Qi 2009). So word
counts are up to date, but for tokens that are renewed at the same moment (`kernels.abreast`) or words that are weighed
ahead (`kernels.registers`), and the totals of the topics by a turn; no two threads touch the same words, and the bits
are the same for any number of threads.
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
    words_repeat_little,
)
from momentopic.refine.prior import CountHistogram, concentration_steps, smoothing_steps
from momentopic.refine.refined import Refined
from momentopic.refine.resume import STAGE, restore_run, save_run
from momentopic.refine.rounds import expected_rounds
from momentopic.refine.samples import Samples

# sampled sweeps after which all tokens are drawn anew, from the topics that these have found, if so many are to come
_FIRST_ROUND, _TWO_ROUNDS = 30, 120
_START_CONCENTRATION = 4.0
START_SMOOTHING = 0.03
_MOST_SWEEPS = 1000
# Tokens that were drawn under softened topics give a flat prior, under which they move easily; each new estimate is
# sharper. Taking these steps slowly anneals the chain: it ends in better topics than one that is sharp at once.
_PRIOR_EVERY = 45
_LEAST_STEPS, _STEPS = 6, 3  # before the sweeps may end by themselves; in a given number of them
_STRETCH, _LEAST_STRETCHES = 42, 4  # the same where sweeps leap
_LEAP = 4  # stretches: so far a leap goes
_WORDS = 8192
_STEPS_AT_ONCE, _LAST_STEPS = 20, 100  # of the fixed point for the concentration, on the way and at the end
_CHECK_EVERY = 20
_FORM = 11  # of the state in a checkpoint: one of another form is not taken up


def refine_collapsed(
    corpus: Corpus,
    topics: FloatArray,
    engine: Engine,
    *,
    concentration: FloatArray | None = None,
    n_sweeps: int | None = None,
    smoothing: float | None = None,
    tol: float | None = None,
    random_state: int = 0,
    callback: Callable[[int, float, int | None], None] | None = None,
    checkpoint: Checkpoint | None = None,
) -> Refined:
    """Refine topics on a corpus, and estimate their (asymmetric) prior.

    Parameters
    ----------
    corpus : Corpus
    topics : array of shape (K, M)
        The start: rows are probability vectors.
    engine : Engine
    concentration : array of shape (K,), optional
        Where it is known what prior of the documents comes with these topics: expected sweeps see from it whether words
        come in bursts. It is estimated anew all the same.
    n_sweeps : int, optional
        Sampled sweeps; 0 means expected ones. By default they are expected ones where what they keep of the corpus is
        small enough (`parts.draws_tokens`), else sampled ones that go on until the topics come to rest, at most 1,000.
    smoothing : float, optional
        The Dirichlet parameter of the topics; by default 0.03, which sampled sweeps replace by estimates.
    tol : float, optional
        The topics are at rest when twenty sampled sweeps, or the stretch between two leaps, move the averaged topics by
        less than this, in mean l1 error (at most 1); by default `movement_at_rest`.
    random_state : int
    callback : callable, optional
        Called after each sweep, as ``callback(sweeps done, how far the topics moved, sweeps in all)``: at last, or 1
        where that is not measured; None where it is not known.
    checkpoint : Checkpoint, optional
        Where the state is kept now and then, and where it is taken up again.

    Returns
    -------
    Refined
    """
    tol = movement_at_rest(corpus.tokens, corpus.shape[0], len(topics)) if tol is None else tol
    sample = draws_tokens(corpus, len(topics), n_sweeps, engine)
    with single_threaded_blas():
        run = _Run(corpus, engine, len(topics), smoothing, callback, checkpoint, sample)
        if sample and _first_round(n_sweeps):
            run.divide(passes_of_first_round(corpus.tokens, corpus.shape[0], len(topics)))
            run.leaps = run.few_documents
        run.resume()
        if not sample:
            topics, n = expected_rounds(run, topics, concentration, random_state)
            return Refined(topics, run.alpha, run.eta, n, 0, True)
        if not run.states:
            run.start(topics, random_state)
        return run.sampled_sweeps(n_sweeps, tol, random_state)


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
        callback: Callable[[int, float, int | None], None] | None,
        checkpoint: Checkpoint | None,
        sample: bool,
    ) -> None:
        totals = corpus.word_totals()
        self.n_tokens = float(totals.sum())
        self.frequencies = totals / self.n_tokens
        self.seen = totals > 0
        self.lengths = np.unique(corpus.document_lengths(), return_counts=True)
        self.corpus = corpus
        self.sample = sample
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
        self.given = np.zeros(K)  # those that are counted beside them
        self.checkpoint = checkpoint
        self.leaps = False
        self.few_documents = few_documents(corpus.shape[0], K)
        self.sampling: Samples | None = None

    def divide(self, one_in: float) -> None:
        """Divide documents and words for sweeps over one token in so many."""
        self.one_in = one_in
        # a sampled sweep goes over them so often that it takes as many draws as if they were all tokens
        self.passes = int(one_in) if self.sample else 1
        self.boundaries = word_boundaries(
            self.frequencies, number_of_parts(self.n_tokens / one_in, self.corpus.shape[0])
        )
        self.corpus = self.corpus.divided(len(self.boundaries) - 1)

    def of_draws(self, one_in: float) -> _Run:
        """Return a run with the same prior, for sampled sweeps that go once over one token in so many."""
        run = _Run(self.corpus, self.engine, self.K, self.eta, None, None, True)
        run.divide(one_in)
        run.passes, run.alpha = 1, self.alpha
        return run

    @property
    def shortens_bursts(self) -> bool:
        """Whether tokens of bursts are left out: with many documents to a topic, none of them weighs much."""
        return self.few_documents and words_repeat_little(self.corpus)

    def flat_prior(self) -> tuple[FloatArray, float]:
        """Return the concentration and the smoothing to begin with."""
        return np.full(self.K, _START_CONCENTRATION / self.K), self.smoothing or START_SMOOTHING

    def resume(self) -> None:
        """Take up the state that was kept last, if there is one."""
        saved = None if self.checkpoint is None else self.checkpoint.load(STAGE, sample=self.sample, form=_FORM)
        if saved is not None:
            self.divide(saved.values["one_in"])
            arrays = restore_run(self, saved)
            if "n_samples" in saved.values:
                numbers = {name: saved.values[name] for name in Samples().numbers()}
                sums, trend = self.in_parts(arrays.get("sums")), self.in_parts(arrays.get("trend"))
                self.sampling = Samples(sums, trend, **numbers, earlier=arrays.get("earlier"))

    def in_parts(self, array: Any) -> list[Any]:
        """Divide an array over words as their counts are."""
        return [] if array is None else [array[part.first : part.first + len(part.counts)] for part in self.words]

    def keep(self) -> None:
        """Keep the state after a sweep, if that is due."""
        if self.checkpoint is None or not self.checkpoint.due():
            return
        values: dict[str, Any] = {"one_in": self.one_in}
        arrays: dict[str, Any] = {}
        if (done := self.sampling) is not None:
            values |= done.numbers()
            of_words = {"sums": done.sums, "trend": done.trend}
            arrays = {name: np.concatenate(parts) if parts else None for name, parts in of_words.items()}
            arrays["earlier"] = done.earlier
        save_run(self.checkpoint, self, values, arrays, sample=self.sample, form=_FORM)

    def start(self, topics: Any, random_state: int, how: Start | None = None, counted: Any = None) -> None:
        """Infer all documents under the topics that the refinement starts from; draw from the result, or keep it.

        If there are counts of words and topics, `counted`, they count beside the tokens that take part.
        """
        if how is None:
            how = first_start(self.passes, self.corpus.shape[0], self.K)
        phi = np.zeros((len(self.seen), padded_width(self.K)), dtype=np.float32)
        for first in range(0, len(phi), _WORDS):  # some at a time: in double precision all would take much memory
            some = slice(first, first + _WORDS)
            given = topics[:, some]
            if how.background > 0:
                given = (1 - how.background) * given + how.background * self.frequencies[some]
            phi[some, : self.K] = given.T
        firsts: list[Any] = [int(first) for first in self.boundaries[: self.corpus.n_blocks]]
        parts = None if self.sample else self.boundaries
        mixed = Mixed(self.frequencies, how.background) if self.shortens_bursts else None
        args = (phi, self.padded(self.alpha), random_state, how.n_passes, parts, self.one_in, mixed)
        (totals,), self.states = self.engine.update(start_block, self.corpus, firsts, *args)
        self.totals = totals[: self.K].copy()  # it is added to
        del phi, args  # before there are counts
        counts = kernels.lanes.zeros_in_lines(len(self.seen), padded_width(self.K))
        if counted is not None:
            counts[:, : self.K] = counted
            self.given = counted.sum(axis=0, dtype=np.float64)
        self.take(counts)
        for turn in range(len(self.words)):
            _, self.states, self.words = self.engine.turn(count_block, self.corpus, self.states, self.words, turn)

    def take(self, counts: Any) -> None:
        """Divide the counts of the words into parts."""
        ranges = zip(self.boundaries[:-1], self.boundaries[1:], strict=True)
        self.words = [WordCounts(int(first), counts[first:end]) for first, end in ranges]

    def counts(self) -> Any:
        """Return how often each word has each topic."""
        return np.concatenate([part.counts[:, : self.K] for part in self.words])

    def topics(self, counts: Any, dtype: Any = np.float64) -> Any:
        """Return the topics (K x M) that smoothed counts give; words that do not occur have probability 0."""
        counts = _on_host(counts)
        topics = np.empty((self.K, len(counts)), dtype=dtype)
        for first in range(0, len(counts), _WORDS):  # some at a time, as in `start`
            some = slice(first, first + _WORDS)
            # a count that went down to 0 in small steps may have ended just below it
            smoothed = np.maximum(counts[some], 0, dtype=dtype)
            smoothed += dtype(self.eta)
            smoothed[~self.seen[some]] = 0.0
            topics[:, some] = smoothed.T
        topics /= topics.sum(axis=1, keepdims=True, dtype=np.float64).astype(dtype)
        return topics

    def padded(self, values: FloatArray) -> Any:
        padded = np.zeros(padded_width(self.K), dtype=np.float32)
        padded[: self.K] = values
        return padded

    def sweep(self, function: Any, *options: Any) -> None:
        """Renew as many tokens as the corpus has, in one pass or more."""
        smoothing = self.eta * self.seen.sum()
        eta, alpha = np.float32(self.eta), self.padded(self.alpha)
        for turn in range(self.passes * len(self.words)):
            operands = (eta, self.padded(1 / (self.totals + self.given + smoothing)), alpha, *options)
            (change,), self.states, self.words = self.engine.turn(
                function, self.corpus, self.states, self.words, turn % len(self.words), *operands
            )
            self.totals += change[: self.K]

    def report(self, moved: float, total: int | None = None) -> None:
        self.n_done += 1
        if self.callback is not None:
            self.callback(self.n_done, moved, total)

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
            every = min(_STRETCH if self.leaps else _PRIOR_EVERY, -(-to_come // _STEPS))
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
        self.estimate_concentration()
        self.release(done)
        return Refined(self.topics(done.mean()), self.alpha, self.eta, 0, done.n, done.moved < tol)

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

    def release(self, done: Samples | None = None) -> None:
        """Let go of what the mean of the samples does not need: it takes much memory, and more is to come."""
        self.states, self.words = [], []
        if done is not None:
            done.trend, done.earlier = [], None

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
        return lengths * (self.totals.sum() / self.n_tokens), numbers

    def estimate_prior(self) -> None:
        """Take fixed-point steps of the concentration and of the smoothing."""
        self.estimate_concentration(last=False)
        if self.smoothing is None:
            self.eta = smoothing_steps(self.eta, _on_host(self.counts()), int(self.seen.sum()))

    def estimate_concentration(self, last: bool = True) -> None:
        """Take fixed-point steps of the concentration, more of them if it is the last estimate."""
        lengths, n_steps = self.lengths_taking_part(), _LAST_STEPS if last else _STEPS_AT_ONCE
        self.alpha = concentration_steps(self.alpha, self.topics_of_documents(), lengths, n_steps)


def _on_host(array: Any) -> Any:
    """Return an array in this machine's memory: an engine may keep the counts of the words on a device."""
    return array if isinstance(array, np.ndarray) else array.get()
