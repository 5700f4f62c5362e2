"""Expected sweeps in rounds: the first over a part of the tokens, each one over more of them, the last over all.

A round begins with topics, infers all documents under them, sweeps, and ends with topics that are averages over its
sweeps. So nothing of the documents is carried over: what they have settled for is forgotten. Few tokens are enough to
see which topics there are, and the sweeps over them cost little. Between two rounds topics leap: they go on as they
went in the last one, three times as far. Topics that are known well do not: they have little to find and much to lose.

Sweeps go beyond what they find, so far that they pass by the nearest optima instead of coming to rest. Averaged over,
that is also what keeps topics of few tokens from following them too closely.

Where long documents repeat words more often than their topics say, what a document has of a word is left out twice.
With less, topics follow groups of documents ever more closely, sweep by sweep, and what all have in common dies out.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from momentopic._types import FloatArray
from momentopic.refine.blocks import expected_block, pairs_block, sampled_block
from momentopic.refine.parts import Start, words_repeat_little
from momentopic.refine.samples import Samples

_LEAP = 3.0  # times what topics went in a round
_LEAST_ROUNDS = 3
# what the first round has of a topic and of a document, on average, where it has not all tokens
_TOKENS_OF_TOPIC, _TOKENS_OF_DOCUMENT, _MOST = 1750, 32, 16
_SWEEPS, _AVERAGED_FROM = 12, 6
_FAR, _THERE = 3.0, 1.0
_LONG, _LESS_FAR, _MANY_FIRST_SWEEPS = 500, 2.5, 24  # tokens of a document, and what is done where they are long
# tokens of a topic for each word: where topics are known that well, or documents are long, averages over sweeps that go
# far are too blurred, and the last sweeps do not
_KNOWN_WELL, _LAST_FAR_SWEEPS, _PLAIN_SWEEPS, _AVERAGED_LAST = 5, 8, 6, 3
# times as many pairs of equal words as topics let a document expect, from which on words come in bursts; and what is
# done where they do in long documents: how often a document is left out (at last), and which part of the concentration
# is the prior; then sweeps that go just there do no harm, and the rounds over half of the tokens and more end with them
_BURSTY, _LEFT_OUT, _LEFT_OUT_LAST, _SHARPNESS = 3.0, 2.0, 1.5, 0.7
_HALF, _LATE_STEPS = 2.0, (_LESS_FAR,) * 8 + (_THERE,) * 4
_LAST_STEPS, _AVERAGED_LATE = (_LESS_FAR,) * 3 + (_THERE,) * 9, 9
# the prior of documents is taken from draws of about so many tokens of each, swept so often
_TOKENS_DRAWN, _SWEEPS_DRAWN, _PRIOR_EVERY = 60, 12, 3


class Round(NamedTuple):
    """A round of expected sweeps.

    Attributes
    ----------
    one_in : float
        One token in so many takes part.
    start : Start
    steps : tuple of float
        How far each sweep goes: 1 is to what it finds.
    averaged_from : int
        The first sweep whose counts the topics are averaged over.
    left_out : float
        How many times what a document has of a word is left out of the counts of the word.
    sharpness : float
        The prior after the round, as a part of the concentration that is found.
    leap : float
        How far topics go on before the round: times as far as they went in the round before.
    """

    one_in: float
    start: Start
    steps: tuple[float, ...]
    averaged_from: int
    left_out: float = 1.0
    sharpness: float = 1.0
    leap: float = _LEAP


def rounds_of(n_tokens: float, n_docs: int, n_words: int, K: int, bursty: bool = False) -> list[Round]:
    """Return the rounds of a refinement by expected sweeps: which tokens, and how often.

    If long documents are `bursty` (`burstiness`), they are left out more than once.
    """
    length = n_tokens / n_docs
    one_in = float(np.clip(min(n_tokens / (_TOKENS_OF_TOPIC * K), length / _TOKENS_OF_DOCUMENT), 1, _MOST))
    n_rounds = max(_LEAST_ROUNDS, 2 + int(np.ceil(np.log2(one_in))))
    shares = one_in ** np.linspace(1, 0, n_rounds)
    long = has_long_documents(n_tokens, n_docs)
    steps = (_LESS_FAR if long else _FAR,) * _SWEEPS
    if long and one_in > 2:
        shares = np.append(np.geomspace(one_in, 2, n_rounds - 2), [np.sqrt(2), 1])
    again = Start(0.0, 6 if long else 4)
    rounds = [Round(float(share), again, steps, _AVERAGED_FROM) for share in shares]
    rounds[0] = rounds[0]._replace(start=Start(0.3, 3))
    if long:
        first = (_LESS_FAR,) * _MANY_FIRST_SWEEPS
        rounds[0] = Round(one_in, Start(0.3, 1), first, len(first) // 2)
    if long or known_well(n_tokens, n_words, K):
        last = steps[:_LAST_FAR_SWEEPS] + (_THERE,) * _PLAIN_SWEEPS
        rounds[-1] = rounds[-1]._replace(steps=last, averaged_from=len(last) - _AVERAGED_LAST + 1)
    if known_well(n_tokens, n_words, K):
        rounds = [part._replace(leap=0.0) for part in rounds]
    elif long and bursty:
        rounds = [part._replace(left_out=_LEFT_OUT, sharpness=_SHARPNESS) for part in rounds]
        for i, part in enumerate(rounds[1:], 1):
            if part.one_in <= _HALF:
                rounds[i] = part._replace(steps=_LATE_STEPS, averaged_from=_AVERAGED_LATE)
        rounds[-1] = rounds[-1]._replace(steps=_LAST_STEPS, left_out=_LEFT_OUT_LAST)
    return rounds


def has_long_documents(n_tokens: float, n_docs: int) -> bool:
    """Return whether documents are long, on average."""
    return n_tokens >= _LONG * n_docs


def known_well(n_tokens: float, n_words: int, K: int) -> bool:
    """Return whether there are so many tokens that topics hardly follow single documents."""
    return n_tokens >= _KNOWN_WELL * n_words * K


def burstiness(run: Any, topics: FloatArray, concentration: FloatArray) -> float:
    """Return how many times as many pairs of equal words documents have as topics and their prior let expect.

    A document of L tokens has Σ_m x_m (x_m - 1) of them, and is expected to have L (L - 1) Σ_m E[(Dθ)_m²].
    """
    (pairs,) = run.engine.sum(pairs_block, run.corpus)
    lengths, numbers = run.lengths
    c = concentration / concentration.sum()
    spread = 1 / (1 + concentration.sum())  # E[θθ'] = spread diag(c) + (1 - spread) c c'
    squares = np.array([np.dot(topic, topic) for topic in topics], dtype=np.float64)
    alike = spread * (c @ squares) + (1 - spread) * np.square(c @ topics).sum()
    return float(pairs / ((lengths * (lengths - 1.0)) @ numbers * alike))


def beyond(topics: Any, before: Any, times: float) -> Any:
    """Return topics (rows) that have gone on from what they were before, as far as they went so many times."""
    leapt = topics - before
    leapt *= topics.dtype.type(times)
    leapt += topics
    np.maximum(leapt, 0, out=leapt)
    leapt /= leapt.sum(axis=1, keepdims=True, dtype=np.float64).astype(leapt.dtype)
    return leapt


def expected_rounds(
    run: Any, topics: FloatArray, concentration: FloatArray | None, random_state: int
) -> tuple[FloatArray, int]:
    """Do the rounds of a run (of `refine.collapsed`); return the topics, and how many sweeps that were.

    The `concentration` that topics come with, if it is known, says how often words are expected to be repeated.

    The prior of the documents is estimated at the end of each round; sweeps begin with a flat one. Expected counts let
    it seem flatter than it is. Where topics follow single documents, that suits other documents; where topics are known
    well, it is taken from draws. The smoothing of the topics, for which expected counts are no use either, stays.
    """
    n_words = int(run.seen.sum())
    bursty, well_known = False, known_well(run.n_tokens, n_words, run.K)
    if concentration is not None and not well_known and has_long_documents(run.n_tokens, run.corpus.shape[0]):
        bursty = burstiness(run, topics, concentration) >= _BURSTY  # a pass over the documents
    plan = rounds_of(run.n_tokens, run.corpus.shape[0], n_words, run.K, bursty)
    total = sum(len(part.steps) for part in plan)
    begun = 0  # sweeps before the round
    for i, part in enumerate(plan):
        if run.sampling is not None and begun + len(part.steps) < run.sampling.n:
            begun += len(part.steps)
            continue  # taken up again after it
        if run.sampling is None or run.sampling.round_begun != begun:
            before = topics.astype(np.float32, copy=False)
            if i > 0 and part.leap > 0:
                topics = beyond(topics, run.sampling.earlier, part.leap)
            run.divide(part.one_in)
            run.sampling = Samples(n=begun, round_begun=begun, stretch_begun=begun, earlier=before)
            run.start(topics, random_state + i, part.start)
        done = run.sampling
        for step in part.steps[done.age :]:
            done.n += 1
            run.sweep(expected_block, np.float32(step), np.float32(part.left_out))
            if done.age >= part.averaged_from:
                done.add(run.words, run.K)
            run.report(1.0, total)
            if done.n < begun + len(part.steps):
                run.keep()
        run.estimate_concentration(last=i == len(plan) - 1)
        run.alpha = part.sharpness * run.alpha
        mean = done.mean()
        done.sums = []
        run.release()
        # in single precision, as far as sweeps begin with them
        topics = run.topics(mean, np.float32 if i < len(plan) - 1 else np.float64)
        begun += len(part.steps)
    if well_known and words_repeat_little(run.corpus):
        run.alpha = concentration_of_draws(run, topics, mean, random_state + len(plan))
    return topics, total


def concentration_of_draws(run: Any, topics: FloatArray, counts: Any, random_state: int) -> FloatArray:
    """Return the prior of the documents, given topics and the counts that these are from.

    Draws from expected counts are not enough, but after some sweeps they are right, and a part of the tokens says
    enough. The topics stay nearly as they are: these tokens are few beside those counted.
    """
    draws = run.of_draws(max(run.n_tokens / run.corpus.shape[0] / _TOKENS_DRAWN, 1.0))
    draws.start(topics.astype(np.float32), random_state, Start(0.0, 6), counts)
    for n in range(_SWEEPS_DRAWN):
        draws.sweep(sampled_block)
        if (n + 1) % _PRIOR_EVERY == 0:
            draws.estimate_concentration()
    found: FloatArray = draws.alpha
    return found
