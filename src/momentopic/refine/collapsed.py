"""Collapsed refinement: topics of a moment solution made about as good as a long-run sampler's.

Two phases. Sweeps of collapsed variational inference of order zero (CVB0) go from the moment solution to the nearest
good optimum. Then collapsed Gibbs sweeps explore around it, and the topics are the mean over sweeps of the
probabilities that the tokens were drawn from. In both, each token leaves itself out of the counts, and word counts are
those of the previous sweep: blocks are independent, and the bits are the same for any number of threads.

The first phase keeps K numbers a nonzero. Where they do not fit, it is left out, and the second starts from the moment
solution: it keeps one number a token. Where words repeat so often that drawing every token would be a waste (counts in
the thousands), the second phase is left out instead.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from momentopic import kernels
from momentopic._types import FloatArray
from momentopic.corpus.blocks import Block, Corpus
from momentopic.engine.base import Engine
from momentopic.refine.prior import concentration_step, concentration_sums, smoothing_step

_BACKGROUND = 0.05  # of the corpus' word frequencies in the topics that the first inference starts from
_START_CONCENTRATION = 4.0
_START_SMOOTHING = 0.03
_LEAST_SWEEPS, _EXPECTED_SWEEPS = 12, 40
_MOVED = 0.005  # the expected sweeps end when less than this part of the tokens changes its topic in one
_START_PASSES = 3
_FIRST_SAMPLE = 5
_PRIOR_EVERY = 5
_PRIOR_STEPS = 6
_CHECK_EVERY = 10
_MOST_REPEATS = 8.0  # tokens a nonzero, above which tokens are not drawn one by one


@dataclass(frozen=True, eq=False)
class Refined:
    """Topics, prior and smoothing after a refinement.

    Attributes
    ----------
    topics : array of shape (K, M)
        Rows are probability vectors. Words that never occur have probability 0.
    concentration : array of shape (K,)
        Dirichlet parameters.
    smoothing : float
        The Dirichlet parameter of the topics.
    n_expected, n_sampled : int
        Sweeps of the two phases.
    converged : bool
        Whether the topics came to rest before the limit of sweeps.
    """

    topics: FloatArray
    concentration: FloatArray
    smoothing: float
    n_expected: int
    n_sampled: int
    converged: bool


@dataclass(eq=False)
class BlockState:
    """What is remembered of a block of documents from sweep to sweep."""

    N: Any  # documents x K, topic counts
    random: Any  # a stream for each document
    G: Any = None  # entries x K, responsibilities (expected sweeps)
    z: Any = None  # tokens, topics (sampled sweeps)


@dataclass(eq=False)
class _Model:
    """What every block reads: word counts, prior and smoothing."""

    n_topics: int
    seen: Any  # the words that occur
    alpha: FloatArray
    eta: float
    counts: Any = None  # M x padded K, float32

    def padded_alpha(self) -> Any:
        alpha = np.zeros(_padded(self.n_topics), dtype=np.float32)
        alpha[: self.n_topics] = self.alpha
        return alpha

    def operands(self) -> tuple[Any, Any, Any]:
        """Return phi, scale and alpha as the kernels take them."""
        phi = self.counts.copy()
        phi[:, : self.n_topics] += np.float32(self.eta)
        totals = self.counts.sum(axis=0, dtype=np.float64) + self.eta * self.seen.sum()
        return phi, (1 / totals).astype(np.float32), self.padded_alpha()

    def topics(self, counts: Any) -> FloatArray:
        """Return the topics (K x M) that smoothed counts give; words that do not occur have probability 0."""
        smoothed = (counts[:, : self.n_topics].astype(np.float64) + self.eta) * self.seen[:, None]
        return np.ascontiguousarray((smoothed / smoothed.sum(axis=0)).T)


def refine_collapsed(
    corpus: Corpus,
    topics: FloatArray,
    engine: Engine,
    *,
    n_sweeps: int = 200,
    smoothing: float | None = None,
    tol: float = 0.01,
    random_state: int = 0,
    memory: int = 2 << 30,
    callback: Callable[[int, float], None] | None = None,
) -> Refined:
    """Refine topics on a corpus, and estimate their (asymmetric) prior.

    Parameters
    ----------
    corpus : Corpus
    topics : array of shape (K, M)
        The start: rows are probability vectors.
    engine : Engine
    n_sweeps : int
        The most sampled sweeps; 0 leaves them out.
    smoothing : float, optional
        The Dirichlet parameter of the topics; by default it is estimated.
    tol : float
        The sampled sweeps end when ten of them move the averaged topics by less than this, in mean l1 error (0 to 1).
    random_state : int
    memory : int
        Bytes that the responsibilities of the expected sweeps may take: above it those sweeps are left out.
    callback : callable, optional
        Called as ``callback(sweeps done, how far the topics moved)`` after each sweep.

    Returns
    -------
    Refined
    """
    K, M = topics.shape
    nnz, tokens = corpus.counts.nnz, float(corpus.counts.sum(dtype=np.float64))
    frequencies = np.asarray(corpus.counts.sum(axis=0, dtype=np.float64)).ravel() / tokens
    model = _Model(K, frequencies > 0, np.full(K, _START_CONCENTRATION / K), smoothing or _START_SMOOTHING)
    sample = n_sweeps > 0 and tokens <= _MOST_REPEATS * nnz
    expect = not sample or 4 * _padded(K) * nnz <= memory
    phi = np.zeros((M, _padded(K)), dtype=np.float32)
    phi[:, :K] = ((1 - _BACKGROUND) * topics + _BACKGROUND * frequencies).T
    states: list[Any] = [None] * corpus.n_blocks
    run = _Run(corpus, engine, model, states, tokens, smoothing is None, callback)
    run.step(start_block, phi, model.padded_alpha(), random_state, expect)
    n_expected = run.expected_sweeps() if expect else 0
    if not sample:
        at_rest = n_expected < _EXPECTED_SWEEPS
        return Refined(model.topics(model.counts), model.alpha, model.eta, n_expected, 0, at_rest)
    if expect:
        run.step(draw_block)
    refined = run.sampled_sweeps(n_sweeps, tol)
    return replace(refined, n_expected=n_expected)


@dataclass(eq=False)
class _Run:
    """A refinement under way."""

    corpus: Corpus
    engine: Engine
    model: _Model
    states: list[Any]
    tokens: float
    free_smoothing: bool
    callback: Callable[[int, float], None] | None
    n_done: int = 0

    def step(self, function: Any, *args: Any) -> Any:
        """Do one sweep over the corpus; the model takes its word counts; return the other sums."""
        (counts, *others), self.states = self.engine.update(function, self.corpus, self.states, *args)
        self.model.counts = counts
        return others

    def report(self, moved: float) -> None:
        self.n_done += 1
        if self.callback is not None:
            self.callback(self.n_done, moved)

    def expected_sweeps(self) -> int:
        """Do CVB0 sweeps until few tokens change their topic; return how many."""
        for n in range(1, _EXPECTED_SWEEPS + 1):
            (moved,) = self.step(expected_block, *self.model.operands())
            part = float(moved[0]) / self.tokens
            self.report(part)
            if n >= _LEAST_SWEEPS and part < _MOVED:
                return n
            if n % _PRIOR_EVERY == 0:
                self.estimate_prior()
        return _EXPECTED_SWEEPS

    def sampled_sweeps(self, n_sweeps: int, tol: float) -> Refined:
        """Do Gibbs sweeps and average over them until the average comes to rest."""
        model = self.model
        soft: Any = None
        alphas, earlier, moved = [], None, 1.0
        for n in range(1, n_sweeps + 1):
            if n % _PRIOR_EVERY == 1:
                self.estimate_prior()
            collect = n > min(_FIRST_SAMPLE, n_sweeps - 1)
            (part,) = self.step(sampled_block, *model.operands(), collect)
            if collect:
                soft = part.astype(np.float64) if soft is None else np.add(soft, part, out=soft)
                alphas.append(model.alpha)
            if collect and n % _CHECK_EVERY == 0:
                topics = model.topics(soft / len(alphas))
                if earlier is not None:
                    moved = float(abs(topics - earlier).sum(axis=1).mean() / 2)
                earlier = topics
            self.report(moved)
            if moved < tol:
                break
        mean = model.topics(soft / len(alphas))
        return Refined(mean, np.mean(alphas, axis=0), model.eta, 0, n, moved < tol)

    def estimate_prior(self) -> None:
        """Take some fixed-point steps of the concentration and of the smoothing."""
        model = self.model
        for _ in range(_PRIOR_STEPS):
            (above, below), _ = self.engine.update(prior_block, self.corpus, self.states, model.alpha)
            model.alpha = concentration_step(model.alpha, above, float(below[0]))
            if self.free_smoothing:
                hard = np.rint(model.counts[:, : model.n_topics])
                model.eta = smoothing_step(hard, model.eta, int(model.seen.sum()))


def start_block(
    block: Block, _: None, phi: Any, alpha: Any, random_state: int, keep: bool
) -> tuple[tuple[Any, ...], BlockState]:
    """Infer the documents under the starting topics; keep their responsibilities, or draw from them at once."""
    width = len(alpha)
    seeds = np.random.SeedSequence([random_state, block.first]).generate_state(block.n_docs, np.uint64)
    G = np.zeros((len(block.indices), width), dtype=np.float32)
    state = BlockState(np.zeros((block.n_docs, width), dtype=np.float32), seeds, G)
    counts = np.zeros_like(phi)
    kernels.collapsed.start(block.indptr, block.indices, block.counts, phi, alpha, _START_PASSES, G, state.N, counts)
    return ((counts,), state) if keep else draw_block(block, state)


def draw_block(block: Block, state: BlockState) -> tuple[tuple[Any, ...], BlockState]:
    """Draw the topics of all tokens from their responsibilities, which are dropped."""
    repeats = block.counts.astype(np.int64)
    z = np.empty(int(repeats.sum()), dtype=np.int32)
    kernels.collapsed.draw_topics(block.indptr, repeats, state.G, state.random, z, state.N)
    counts = np.zeros((block.n_words, state.N.shape[1]), dtype=np.float32)
    np.add.at(counts, (np.repeat(block.indices, repeats), z), np.float32(1))
    return (counts,), BlockState(state.N, state.random, z=z)


def expected_block(
    block: Block, state: BlockState, phi: Any, scale: Any, alpha: Any
) -> tuple[tuple[Any, ...], BlockState]:
    """Do a CVB0 sweep; return the word counts and the tokens that changed their topic."""
    counts = np.zeros_like(phi)
    moved = kernels.collapsed.expected_sweep(
        block.indptr, block.indices, block.counts, phi, scale, alpha, state.G, state.N, counts
    )
    return (counts, np.array([moved])), state


def sampled_block(
    block: Block, state: BlockState, phi: Any, scale: Any, alpha: Any, collect: bool
) -> tuple[tuple[Any, ...], BlockState]:
    """Do a Gibbs sweep; return the word counts and, if they are collected, the sums of the probabilities drawn from."""
    counts = np.zeros_like(phi)
    soft = np.zeros_like(phi if collect else phi[:1])
    kernels.collapsed.sampled_sweep(
        block.indptr,
        block.indices,
        block.counts,
        phi,
        scale,
        alpha,
        state.z,
        state.N,
        state.random,
        collect,
        counts,
        soft,
    )
    return (counts, soft), state


def prior_block(block: Block, state: BlockState, c: FloatArray) -> tuple[tuple[Any, ...], BlockState]:
    """Return the sums over documents that a step of the concentration needs."""
    return concentration_sums(np.rint(state.N[:, : len(c)]), c), state


def split_topics(topics: FloatArray, K: int, random_state: int = 0) -> FloatArray:
    """Return K topics: the given ones and, where they are fewer, random halves of the first ones.

    Parameters
    ----------
    topics : array of shape (k, M), k <= K
        Rows are probability vectors, the most prominent first.
    K : int
    random_state : int

    Returns
    -------
    array of shape (K, M)
    """
    rng = np.random.default_rng(random_state)
    parts = list(topics)
    for i in range(K - len(topics)):
        # each word goes mostly to one half or mostly to the other
        share = rng.beta(0.5, 0.5, size=topics.shape[1])
        parts.append(parts[i] * share)
        parts[i] = parts[i] * (1 - share)
    rows = np.array(parts)
    totals = rows.sum(axis=1, keepdims=True)
    rows = np.where(totals > 0, rows / np.where(totals > 0, totals, 1.0), 1 / topics.shape[1])
    return rows


def _padded(K: int) -> int:
    lanes: int = kernels.collapsed.LANES
    return -(-K // lanes) * lanes
