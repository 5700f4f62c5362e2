"""The distribution of each topic's intensity, beyond the gamma.

In discrete ICA (equation (dica)) x ~ Poisson(D α), and the α_k are independent with *any* distributions g_k; the gamma
is the choice of the GP model. Once D is known, the g_k can be estimated. Let y_nk be the number of tokens of topic k in
document n: y_nk ~ Poisson(α_nk), so its law is the Poisson mixture p_k(y) = ∫ Poisson(y; α) g_k(dα). Two difficulties:

*Which token has which topic is not known.* With α integrated out, the topic of a token given all others has
P(z = k) ∝ D_wk E[α_k | y_k], y_k without the token, and E[α_k | y] = (y + 1) p_k(y + 1) / p_k(y) (Robbins 1956): the
(y + c_k) / (b + 1) of collapsed LDA samplers is the case of the gamma. So a Gibbs sampler needs a table a topic, and
works for any g_k; all it has to pass on are histograms of the y_nk, which are sums over documents.

*Poisson noise.* Given a histogram, g_k is estimated by EM on a grid of intensities (Kiefer and Wolfowitz's
nonparametric maximum likelihood; Laird 1978). It starts from the gamma and stops when a step gains less than
0.01 in log-likelihood: what is smooth stays smooth where the documents do not say otherwise.

Sampler and EM alternate (stochastic EM). A gamma with its own shape and rate is fitted to each topic in the same way.

*Is it a gamma?* Under the gamma, the posterior probability of each range of intensities, averaged over documents, is
its prior probability. A score test asks whether it is: the observed-data score is the posterior mean of the
complete-data one, and its variance is taken over documents, the estimated shapes and rates of all topics projected out.
Uncertain topics of tokens make the test less powerful, not wrong. The p-values are Holm's, over the topics. The test
does not know the errors of fitted topics, by which some tokens of one topic are taken for another's in every document;
so a topic is called unlike a gamma only where the two distribution functions also differ by 0.05.

*Topics that come from the same documents.* Documents look more like topics that were made of them than others do, and
the rare words of a document are those of its topics. So on the documents of the fit the topics are but the start: they
then follow the tokens, each left out of the counts that its topic is drawn from.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.stats import gamma, poisson

from momentopic import kernels
from momentopic._types import FloatArray, IntArray
from momentopic.corpus.blocks import Block, Corpus
from momentopic.documents import prepared
from momentopic.engine.base import Engine
from momentopic.engine.blas import single_threaded_blas
from momentopic.engine.threads import ThreadEngine
from momentopic.mixing import (
    SCORES,
    distance,
    fit_gammas,
    fit_weights,
    gamma_scores,
    gamma_table,
    gammas_on_grid,
    holm,
    intensity_grid,
    posterior_means,
    score_test,
    spread_cdf,
)
from momentopic.refine.prior import smoothing_steps

if TYPE_CHECKING:
    from momentopic.progress import Steps

_MOST_ROWS = 20_000  # of the tables
_MOST_LENGTH, _MOST_TOKENS = 1000.0, 5e6  # the mean length to which longer documents are thinned; then documents drawn
_GAMMA_ROUNDS, _ROUNDS, _SWEEPS = 5, 6, 10
_LAST_SWEEPS, _SCORE_SWEEPS = 20, 20
_TOKEN_DRAWS = 40
_MOST_MEMORY, _MOST_DRAWN = 4 << 30, 1e8
_MOST_SCORES = 2e8  # numbers, of all documents and topics
_START_SMOOTHING = 0.03
_LEVEL, _LEAST_DISTANCE = 0.05, 0.05
_LEAST_DOCUMENTS = 100


@dataclass(frozen=True, eq=False)
class Intensities:
    """The distributions of the topics' intensities, in tokens a document, beside gamma distributions.

    Attributes
    ----------
    grid : array of shape (J,)
        Intensities, ascending from 0.
    weights : array of shape (K, J)
        The estimated distribution of each topic on the grid; rows sum to 1.
    shape, rate : arrays of shape (K,)
        The gamma that fits each topic best.
    distance : array of shape (K,)
        The largest difference of the two distribution functions (Kolmogorov's).
    p_values : array of shape (K,)
        Of the test that the intensity is a gamma, adjusted for the number of topics (Holm).
    n_documents : int
        The documents that were used.
    kept : float
        The part of their tokens that was used: less than 1 for documents of thousands of tokens, which were thinned.
    """

    grid: FloatArray
    weights: FloatArray
    shape: FloatArray
    rate: FloatArray
    distance: FloatArray
    p_values: FloatArray
    n_documents: int
    kept: float

    @property
    def not_gamma(self) -> IntArray:
        """The topics that are not gamma-like: p-value below 0.05, and a distance of at least 0.05."""
        return np.flatnonzero((self.p_values < _LEVEL) & (self.distance >= _LEAST_DISTANCE))

    @property
    def mean(self) -> FloatArray:
        """The mean intensity of each topic."""
        return self.weights @ self.grid

    @property
    def variance(self) -> FloatArray:
        """The variance of each topic's intensity."""
        return np.asarray(self.weights @ self.grid**2 - self.mean**2)

    def cdf(self, topic: int, x: Any) -> FloatArray:
        """Return P(α_k ≤ x): the weight of each point of the grid is spread evenly up to halfway to the next ones."""
        return spread_cdf(self.grid, self.weights[topic], x)

    def gamma_cdf(self, topic: int, x: Any) -> FloatArray:
        """Return P(α_k ≤ x) for the gamma that fits the topic best."""
        return np.asarray(gamma.cdf(x, self.shape[topic], scale=1 / self.rate[topic]))

    def advice(self) -> str:
        """Return a sentence on which topics are not gamma-like."""
        K, strange = len(self.weights), self.not_gamma
        if not len(strange):
            return f"The intensities of all {K} topics look like gammas (on {self.n_documents} documents)."
        worst = strange[np.argsort(-self.distance[strange], kind="stable")]
        named = ", ".join(str(k) for k in worst[:10]) + (", ..." if len(worst) > 10 else "")
        return (
            f"{len(strange)} of {K} topics are not gamma-like (on {self.n_documents} documents), the farthest first: "
            f"{named}."
        )

    def plot(self, topics: Any = None) -> Any:
        """Draw the distribution functions beside the gammas. See `momentopic.plots.plot_intensities`."""
        from momentopic.plots import plot_intensities

        return plot_intensities(self, topics)


def estimate_intensities(
    corpus: Corpus,
    topics: FloatArray,
    engine: Engine,
    *,
    learned: bool = False,
    random_state: int = 0,
    steps: Steps | None = None,
) -> Intensities:
    """Estimate the distribution of each topic's intensity in a corpus, given the topics.

    Parameters
    ----------
    corpus : Corpus
    topics : array of shape (K, M)
        Rows are probability vectors.
    engine : Engine
    learned : bool
        Whether the topics come from these documents. They are then a start only, and follow the tokens: documents
        look more like topics that were made of them than other documents do.
    random_state : int
        Seeds the sampler, and the choice of documents or tokens of a large corpus.
    steps : Steps, optional
        Shows progress.

    Returns
    -------
    Intensities
    """
    used, kept = _affordable(corpus, len(topics), random_state)
    N = used.shape[0]
    if N < _LEAST_DOCUMENTS:
        raise ValueError(f"a distribution over documents needs documents: give at least {_LEAST_DOCUMENTS}, not {N}")
    with single_threaded_blas():
        chain = _Chain(used, topics, engine, learned, random_state, steps)
        shape, rate = chain.fit_gammas()
        p_values = chain.test_gammas(shape, rate)
        grid, weights = chain.fit_freely(shape, rate)
    distances = np.array([distance(grid, w, c, b) for w, c, b in zip(weights, shape, rate, strict=True)])
    return Intensities(grid / kept, weights, shape, rate * kept, distances, holm(p_values), N, kept)


def topics_of_tokens(corpus: Corpus, topics: FloatArray, *, random_state: int = 0, steps: Steps | None = None) -> Any:
    """Return the part of the tokens of each (document, word) entry that has each topic: float32, (nonzeros, K).

    Under the topics given, with a gamma fitted to each topic's intensity; the mean over draws of the sampler.

    Parameters
    ----------
    corpus : Corpus
    topics : array of shape (K, M)
        Rows are probability vectors.
    random_state : int
    steps : Steps, optional
        Shows progress.
    """
    check_affordable(corpus, len(topics))
    with single_threaded_blas():
        # by threads: the states of the blocks are looked at here
        chain = _Chain(corpus, topics, ThreadEngine(), False, random_state, steps)
        chain.total = 2 * _GAMMA_ROUNDS * _SWEEPS + _TOKEN_DRAWS
        shape, rate = chain.fit_gammas()
        table = gamma_table(shape, rate, chain.rows)
        parts = np.zeros((corpus.counts.nnz, len(topics)), dtype=np.float32)
        begin = corpus.counts.indptr[corpus.boundaries]
        for _ in range(_TOKEN_DRAWS):
            chain.sweeps(table, 1)
            for i, state in enumerate(chain.states):
                kernels.intensity.add_entries(corpus.block(i).counts, state.z, parts[begin[i] : begin[i + 1]])
        return parts / _TOKEN_DRAWS


def check_affordable(corpus: Corpus, K: int) -> None:
    """Raise a ValueError if `topics_of_tokens` would take too much memory: call it before a long fit."""
    if 4 * corpus.nonzeros * K > _MOST_MEMORY or corpus.tokens > _MOST_DRAWN:
        raise ValueError(
            f"{corpus.tokens:.0f} tokens ({corpus.nonzeros} nonzeros) and {K} topics are too many: the topic of each "
            "token is drawn and kept. Compare a sample of the documents."
        )


class _Chain:
    """A sampler of the topics of all tokens, one state a block of documents.

    It starts from given topics. If they are learned, they then follow the tokens: a token's topic is drawn from the
    counts of its word in the sweep before, without the token itself (Newman et al. 2009), so that no document
    sees in the topics what it has itself put there.
    """

    def __init__(
        self, corpus: Corpus, topics: FloatArray, engine: Engine, learned: bool, random_state: int, steps: Steps | None
    ) -> None:
        self.corpus, self.engine, self.learned, self.steps = corpus, engine, learned, steps
        self.N, self.K = corpus.shape[0], len(topics)
        self.phi, _ = prepared(topics.T, np.ones(self.K))
        self.scale, self.own, self.eta = np.ones(self.K), np.float32(0), _START_SMOOTHING
        self.seen = corpus.word_totals() > 0
        lengths = corpus.document_lengths()
        self.rows = int(min(lengths.max(initial=0), _MOST_ROWS)) + 1
        self.mean_length = float(lengths.mean())
        self.states: list[Any] = [random_state] * corpus.n_blocks
        self.done, self.total = 0, (2 * _GAMMA_ROUNDS + _ROUNDS) * _SWEEPS + _SCORE_SWEEPS + _LAST_SWEEPS

    def sweeps(self, table: FloatArray, n_sweeps: int, scores: Any = None) -> FloatArray:
        """Sweep so many times; return how many documents had y tokens of topic k, (rows, K), the mean over sweeps."""
        histogram = np.zeros((self.rows, self.K))
        for _ in range(n_sweeps):
            weights = np.zeros((self.rows, self.phi.shape[1]), dtype=np.float32)
            weights[:, : self.K] = table * self.scale
            (found, words), self.states = self.engine.update(
                sweep_block, self.corpus, self.states, self.phi, self.own, weights, self.K, scores
            )
            histogram += found
            if self.learned and self.done >= _SWEEPS:
                self._follow(words)
            self.done += 1
            if self.steps is not None:
                self.steps.part(self.done, self.total)
        return histogram / n_sweeps

    def _follow(self, words: FloatArray) -> None:
        """Take the topics that the tokens of the words now have."""
        if not self.own or self.done % _SWEEPS == 0:
            self.eta = smoothing_steps(self.eta, words.astype(np.float32), int(self.seen.sum()))
        self.own = np.float32(1)
        # an array of its own: an engine may hold on to what it was given, to repeat a pass whose worker was lost
        phi = np.zeros_like(self.phi)
        phi[:, : self.K] = (words + self.eta) * self.seen[:, None]
        self.phi = phi
        self.scale = 1 / (words.sum(axis=0) + self.eta * self.seen.sum())

    def fit_gammas(self) -> tuple[FloatArray, FloatArray]:
        """Return the shape and the rate of each topic's gamma, by stochastic EM; later rounds are averaged."""
        shape = np.full(self.K, 0.5)
        rate = shape * self.K / max(self.mean_length, 1e-300)
        average = None
        for n in range(2 * _GAMMA_ROUNDS):
            found = self.sweeps(gamma_table(shape, rate, self.rows), _SWEEPS)
            # the first rounds are on the way, the others around the maximum
            age = n - _GAMMA_ROUNDS
            average = found if average is None or age <= 0 else average + (found - average) / (age + 1)
            shape, rate = fit_gammas(average)
        return shape, rate

    def test_gammas(self, shape: FloatArray, rate: FloatArray) -> FloatArray:
        """Return the p-value of each topic's score test."""
        scores = gamma_scores(shape, rate, self.rows).astype(np.float32)
        self.sweeps(gamma_table(shape, rate, self.rows), _SCORE_SWEEPS, scores)
        (total, gram), self.states = self.engine.update(score_block, self.corpus, self.states, _SCORE_SWEEPS)
        return score_test(total, gram, self.N, self.K)

    def fit_freely(self, shape: FloatArray, rate: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return a grid and the weights of each topic on it, (K, J)."""
        grid = intensity_grid(self.rows)
        likelihood = poisson.pmf(np.arange(self.rows)[:, None], grid)
        weights = start = gammas_on_grid(grid, shape, rate)
        for n in range(_ROUNDS + 1):
            table = posterior_means(likelihood, grid, weights)
            found = self.sweeps(table, _LAST_SWEEPS if n == _ROUNDS else _SWEEPS)
            weights = fit_weights(found, likelihood, start)
        return grid, weights


@dataclass(eq=False)
class _Tokens:
    """The topics of the tokens of a block (see `kernels.intensity.sweep`), and sums of the documents' scores."""

    z: Any
    N: Any
    random: Any
    scores: Any = None


def sweep_block(
    block: Block, state: Any, phi: Any, own: Any, table: Any, K: int, scores: Any
) -> tuple[tuple[Any, ...], _Tokens]:
    """Sweep over the documents of a block; return the histogram of their topic counts, and those of the words."""
    tokens = _started(block, state, phi)
    rows = (block.indptr, block.indices, block.counts)
    kernels.intensity.sweep(*rows, phi, own, table, tokens.z, tokens.N, tokens.random)
    histogram, words = np.zeros((len(table), K)), np.zeros((len(phi), K))
    kernels.intensity.add_histogram(tokens.N, histogram)
    kernels.intensity.add_words(*rows, tokens.z, words)
    if scores is not None:
        if tokens.scores is None:
            tokens.scores = np.zeros((block.n_docs, K, scores.shape[2]))
        kernels.intensity.add_scores(tokens.N, scores, tokens.scores)
    return (histogram, words), tokens


def score_block(block: Block, state: _Tokens, n_sweeps: int) -> tuple[tuple[Any, ...], _Tokens]:
    """Return the sum and the Gram matrix of the documents' scores, each the mean over the sweeps, and drop them."""
    found = state.scores.reshape(block.n_docs, -1) / n_sweeps
    state.scores = None
    return (found.sum(axis=0), found.T @ found), state


def _started(block: Block, state: Any, phi: Any) -> _Tokens:
    """Return the state of a block; at the beginning it is the seed, and no token has a topic."""
    if isinstance(state, _Tokens):
        return state
    seeds = np.random.SeedSequence([state, block.first]).generate_state(block.n_docs, np.uint64)
    z = np.full(int(block.counts.sum()), -1, dtype=np.int32)
    return _Tokens(z, np.zeros((block.n_docs, phi.shape[1]), dtype=np.int32), seeds)


def _affordable(corpus: Corpus, K: int, random_state: int) -> tuple[Corpus, float]:
    """Return the corpus, or a sample of it if it is large, and the part of the tokens that it keeps.

    Documents of thousands of tokens are thinned, all by the same factor: a thinned Poisson variable is Poisson, of an
    intensity smaller by that factor. Of many documents some are drawn: the test keeps scores of all topics for each.
    """
    N, tokens = corpus.shape[0], corpus.tokens
    rng = np.random.default_rng(random_state)
    kept = min(1.0, _MOST_LENGTH / max(tokens / N, 1e-300))
    n = int(min(N * min(1.0, _MOST_TOKENS / max(tokens * kept, 1e-300)), _MOST_SCORES / (SCORES * K)))
    if n >= N and kept == 1:
        return corpus, kept
    n = max(n, min(_LEAST_DOCUMENTS, N))
    X = corpus.counts if n >= N else corpus.rows(np.sort(rng.choice(N, n, replace=False)))
    if kept < 1:
        X = X.astype(np.int64)
        X.data = rng.binomial(X.data, kept)
    return Corpus(X, empty_ok=True), kept
