"""Held-out likelihood: how well topics and their prior predict documents they have not seen.

Every estimator treats a document as a bag of tokens under LDA given its length; the length is not scored. A token whose
word has probability zero under every topic (a word never seen in training) cannot be scored: it is left out, and
counted. Topics are rows (K x M), as in `components_`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from momentopic import kernels
from momentopic._types import FloatArray
from momentopic.corpus.blocks import Block, as_corpus
from momentopic.documents import expected_tokens, prepared
from momentopic.engine.base import get_engine

_DOCUMENTS = 4  # to a block: long documents take seconds each


@dataclass(frozen=True, eq=False)
class HeldOut:
    """The estimated log-likelihood of held-out documents.

    Attributes
    ----------
    nats : array of shape (N,)
        log P(document) of each document, natural logarithm.
    tokens : array of shape (N,)
        The tokens of each document that were scored.
    tokens_left_out : int
        Tokens of words that no topic can produce.
    bits_per_token : float
        Σ nats / (log 2 Σ tokens): higher is better.
    stderr : float
        The standard error of `bits_per_token` over the choice of documents.
    """

    nats: FloatArray
    tokens: FloatArray
    tokens_left_out: int

    @property
    def bits_per_token(self) -> float:
        """The log-likelihood in bits, a token."""
        if not self.tokens.sum():
            return float("nan")
        return float(self.nats.sum() / np.log(2) / self.tokens.sum())

    @property
    def stderr(self) -> float:
        """The standard error of a ratio of sums over documents."""
        if not self.tokens.sum():
            return float("nan")
        N, mean = len(self.nats), self.nats.sum() / self.tokens.sum()
        spread = np.sqrt(((self.nats - mean * self.tokens) ** 2).sum() * N / max(N - 1, 1))
        return float(spread / self.tokens.sum() / np.log(2))


def chib(
    X: Any,
    topics: FloatArray,
    concentration: FloatArray,
    n_iter: int = 1000,
    random_state: int = 0,
    *,
    smoothing: float = 0.0,
    engine: Any = "auto",
) -> HeldOut:
    """Estimate the likelihood of documents by the Chib-style method, as the paper does.

    Unbiased for the probability of each document. A document's estimate depends on its counts, `random_state` and its
    row number, not on the other documents or the number of threads.

    Parameters
    ----------
    X : array-like, scipy sparse matrix or Corpus, shape (N, M)
        Counts.
    topics : array of shape (K, M)
        Rows are probability vectors over the words.
    concentration : array of shape (K,)
        Dirichlet parameters.
    n_iter : int
        States of the Markov chain.
    random_state : int
    smoothing : float
        The topics are mixed with the uniform distribution over the M words in this proportion; 0 leaves them alone.
    engine : "auto", "threads" or an Engine

    Returns
    -------
    HeldOut
    """
    return _scored(chib_block, X, topics, concentration, random_state, smoothing, engine, n_iter=n_iter)


def chib_block(block: Block, phi: FloatArray, c: FloatArray, random_state: int, n_iter: int) -> tuple[FloatArray, ...]:
    """Return nats, tokens scored and tokens left out of the documents of a block."""
    rows = []
    for words, left_out, state in _documents(block, phi, random_state):
        # a small matrix of the document's own words stays in the cache
        seen, tokens = np.unique(words, return_inverse=True)
        few = phi[seen]
        nats = kernels.chib.chib(tokens, few, prepared(few, c)[0], c, n_iter, state) if len(words) else 0.0
        rows.append((nats, len(words), left_out))
    return _columns(rows)


def left_to_right(
    X: Any,
    topics: FloatArray,
    concentration: FloatArray,
    n_particles: int = 20,
    random_state: int = 0,
    *,
    n_moves: int = 100,
    smoothing: float = 0.0,
    engine: Any = "auto",
) -> HeldOut:
    """Estimate the likelihood of documents token by token, given the topics of the tokens before.

    The mean over particles of Π_n P(w_n | z_<n), unbiased for the probability of each document. Its logarithm is low
    where the particles are few for the length of the document.

    Parameters
    ----------
    X, topics, concentration, random_state, smoothing, engine
        As in `chib`.
    n_particles : int
        Independent runs over each document.
    n_moves : int
        Earlier tokens whose topic is drawn again before each token, in turn: the original draws all of them, at a cost
        that grows with the square of the length.

    Returns
    -------
    HeldOut
    """
    options = {"n_particles": n_particles, "n_moves": n_moves}
    return _scored(left_to_right_block, X, topics, concentration, random_state, smoothing, engine, **options)


def completion(
    X: Any,
    topics: FloatArray,
    concentration: FloatArray,
    random_state: int = 0,
    *,
    smoothing: float = 0.0,
    engine: Any = "auto",
) -> HeldOut:
    """Score one half of the tokens of each document given the topics inferred from the other half.

    Fast, but not the likelihood of a document: compare it with other completions only.

    Parameters
    ----------
    X, topics, concentration, random_state, smoothing, engine
        As in `chib`; `random_state` seeds the halves.

    Returns
    -------
    HeldOut
        `tokens` and `nats` are those of the scored halves.
    """
    return _scored(completion_block, X, topics, concentration, random_state, smoothing, engine)


def left_to_right_block(
    block: Block, phi: FloatArray, c: FloatArray, random_state: int, n_particles: int, n_moves: int
) -> tuple[FloatArray, ...]:
    """Return nats, tokens scored and tokens left out of the documents of a block."""
    rows = []
    for words, left_out, state in _documents(block, phi, random_state):
        nats = kernels.left_to_right.left_to_right(words, phi, c, n_particles, n_moves, state) if len(words) else 0.0
        rows.append((nats, len(words), left_out))
    return _columns(rows)


def completion_block(block: Block, phi: FloatArray, c: FloatArray, random_state: int) -> tuple[FloatArray, ...]:
    """Return nats and tokens of the scored halves, and tokens left out."""
    rows = []
    for words, left_out, state in _documents(block, phi, random_state):
        shuffled = np.random.default_rng(state).permutation(words)
        observed, scored = shuffled[0::2], shuffled[1::2]
        seen, counts = np.unique(observed, return_counts=True)
        indptr = np.array([0, len(seen)])
        ratios, prior = prepared(phi[seen], c)
        tokens = expected_tokens(indptr, np.arange(len(seen)), counts, ratios, prior, len(c))[0] + c
        nats = kernels.documents.log_probability(scored, phi, tokens / tokens.sum())
        rows.append((nats, len(scored), left_out))
    return _columns(rows)


def _columns(rows: Sequence[tuple[float, ...]]) -> tuple[FloatArray, ...]:
    return tuple(np.array(column, dtype=np.float64) for column in zip(*rows, strict=True))


def _documents(block: Block, phi: FloatArray, random_state: int) -> Any:
    """Yield the scorable tokens of each document, the number of the others, and its random stream."""
    possible = phi.max(axis=1) > 0
    for n in range(block.n_docs):
        entries = slice(block.indptr[n], block.indptr[n + 1])
        words = np.repeat(block.indices[entries], block.counts[entries].astype(np.int64))
        kept = possible[words]
        seed = np.random.SeedSequence([random_state, block.first + n]).generate_state(1, np.uint64)
        yield words[kept], int((~kept).sum()), seed


def _scored(
    function: Any,
    X: Any,
    topics: FloatArray,
    concentration: FloatArray,
    random_state: int,
    smoothing: float,
    engine: Any,
    **options: Any,
) -> HeldOut:
    corpus = as_corpus(X, empty_ok=True)
    phi, c = _checked(topics, concentration, corpus.shape[1], smoothing)
    nats, tokens, left_out = get_engine(engine, corpus).map(
        function, corpus.cut(_DOCUMENTS), phi, c, random_state=random_state, **options
    )
    return HeldOut(nats, tokens, int(left_out.sum()))


def _checked(topics: Any, concentration: Any, M: int, smoothing: float) -> tuple[FloatArray, FloatArray]:
    topics, c = np.asarray(topics, dtype=np.float64), np.ascontiguousarray(concentration, dtype=np.float64)
    if topics.ndim != 2 or topics.shape[1] != M:
        raise ValueError(f"topics must have shape (K, {M}), one column for each word of the counts, got {topics.shape}")
    if not np.isfinite(topics).all() or topics.min() < 0 or abs(topics.sum(axis=1) - 1).max() > 1e-6:
        raise ValueError("each topic (a row) must be a probability vector over the words: nonnegative, with sum 1")
    if c.shape != topics.shape[:1] or not np.isfinite(c).all() or c.min() <= 0:
        raise ValueError(f"concentration must have {len(topics)} positive entries, one for each topic")
    if not 0 <= smoothing <= 1:
        raise ValueError(f"smoothing must be between 0 and 1, got {smoothing}")
    return np.ascontiguousarray((1 - smoothing) * topics.T + smoothing / M), c
