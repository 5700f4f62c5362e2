"""Variational inference for LDA as in the paper (the lda-c algorithm, with an asymmetric prior)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.special import digamma, gammaln, polygamma

from momentopic import kernels
from momentopic._types import FloatArray
from momentopic.checkpoint import Checkpoint
from momentopic.corpus.blocks import Block, Corpus, as_corpus
from momentopic.engine.base import get_engine

_STAGE = "variational"
_BACKGROUND = 0.05  # of the corpus' word frequencies in topics that start from a model: EM never leaves a zero


@dataclass(frozen=True, eq=False)
class Variational:
    """A model learned by variational inference.

    Attributes
    ----------
    topics : array of shape (K, M)
        Rows are probability vectors.
    concentration : array of shape (K,)
        Dirichlet parameters.
    bounds : array of shape (n_iter,)
        The evidence bound, in nats, after each EM iteration: it never decreases.
    n_iter : int
    converged : bool
    """

    topics: FloatArray
    concentration: FloatArray
    bounds: FloatArray
    n_iter: int
    converged: bool


def variational_lda(
    X: Any,
    n_components: int | None = None,
    *,
    init: Any = "seeded",
    max_iter: int = 100,
    tol: float = 1e-4,
    max_document_iter: int = 20,
    document_tol: float = 1e-6,
    random_state: int = 0,
    engine: Any = "auto",
    callback: Callable[[int, float], None] | None = None,
    checkpoint: Checkpoint | None = None,
) -> Variational:
    """Learn LDA by variational EM, from seeded documents, random topics or a model (VI-JD).

    In each iteration the documents are inferred afresh, as in lda-c. Should the bound decrease by that, the documents
    that ended below what they had go on from there instead: the bound never decreases.

    Parameters
    ----------
    X : array-like, scipy sparse matrix or Corpus, shape (N, M)
        Counts.
    n_components : int, optional
        K; not needed with a model.
    init : {"seeded", "random"} or a model
        "seeded": each topic starts as one document plus 1 for every word. "random": as random numbers. A model is
        anything with `components_` (K x M) and `concentration_`, or `topics` and `concentration`.
    max_iter, tol
        EM ends when the bound changes by less than this part, or after so many iterations.
    max_document_iter, document_tol
        The same for each document in the E-step.
    random_state : int
        Seeds the choice of documents or the random topics.
    engine : "auto", "threads" or an Engine
    callback : callable, optional
        Called as ``callback(iteration, relative change of the bound)``.
    checkpoint : Checkpoint, optional
        Where the state is kept now and then, and where it is taken up again.

    Returns
    -------
    Variational
    """
    corpus = as_corpus(X)
    sums = get_engine(engine, corpus)
    beta, alpha = _start(corpus, n_components, init, random_state)
    lengths = corpus.document_lengths()
    saved = None if checkpoint is None else checkpoint.load(_STAGE)
    bounds: list[float] = []
    if saved is not None:
        states = [(saved.arrays[f"before.{i}"], saved.arrays[f"gamma.{i}"]) for i in range(corpus.n_blocks)]
        beta, alpha, bounds = saved.arrays["beta"], saved.arrays["alpha"], list(saved.values["bounds"])
    else:
        first = [_first_gamma(corpus, i, lengths, alpha) for i in range(corpus.n_blocks)]
        states = [(gamma, gamma) for gamma in first]
    converged = False
    while not converged and len(bounds) < max_iter:
        for careful in (False, True):
            (words, logs, bound), states = sums.update(
                e_step_block, corpus, states, beta, alpha, max_document_iter, document_tol, careful
            )
            if not bounds or bound[0] >= bounds[-1]:
                break
        bounds.append(float(bound[0]))
        change = abs(bounds[-1] - bounds[-2]) / abs(bounds[-2]) if len(bounds) > 1 else 1.0
        if callback is not None:
            callback(len(bounds), change)
        converged = change < tol
        totals = words.sum(axis=0)
        beta = np.where(totals > 0, words / np.where(totals > 0, totals, 1.0), beta)
        alpha = maximise_prior(alpha, logs, corpus.shape[0])
        if checkpoint is not None and not converged and checkpoint.due():
            _keep(checkpoint, states, beta, alpha, bounds)
    return Variational(np.ascontiguousarray(beta.T), alpha, np.array(bounds), len(bounds), converged)


def _keep(checkpoint: Checkpoint, states: list[Any], beta: FloatArray, alpha: FloatArray, bounds: list[float]) -> None:
    if not all(isinstance(state, tuple) for state in states):  # held by another machine
        return
    arrays = {"beta": beta, "alpha": alpha}
    for i, (before, gamma) in enumerate(states):
        arrays |= {f"before.{i}": before, f"gamma.{i}": gamma}
    checkpoint.save(_STAGE, arrays, {"bounds": bounds})


def e_step_block(
    block: Block,
    state: tuple[FloatArray, FloatArray],
    beta: FloatArray,
    alpha: FloatArray,
    max_iter: int,
    tol: float,
    careful: bool,
) -> tuple[tuple[FloatArray, FloatArray, FloatArray], tuple[FloatArray, FloatArray]]:
    """Return expected word counts (M, K), sums of E log θ (K,) and the bound of a block, and its new state.

    The state is the gamma of the iteration before and that of this one. A careful step does the last one again.
    """
    before = state[0] if careful else state[1]
    gamma = np.empty_like(before)
    words, logs = np.zeros_like(beta), np.zeros(len(alpha))
    bound = kernels.variational.e_step(
        block.indptr, block.indices, block.counts, beta, alpha, max_iter, tol, careful, before, gamma, words, logs
    )
    return (words, logs, np.array([bound])), (before, gamma)


def maximise_prior(alpha: FloatArray, logs: FloatArray, n_docs: int, max_iter: int = 50) -> FloatArray:
    """Maximise N (log Γ(Σα) - Σ log Γ(α)) + Σ α logs by Newton's method (Hessian: diagonal plus a constant).

    Parameters
    ----------
    alpha : array of shape (K,)
        The start.
    logs : array of shape (K,)
        Sums over documents of E log θ.
    n_docs : int
        N.
    """

    def value(a: FloatArray) -> float:
        return float(n_docs * (gammaln(a.sum()) - gammaln(a).sum()) + a @ logs)

    best = value(alpha)
    for _ in range(max_iter):
        gradient = n_docs * (digamma(alpha.sum()) - digamma(alpha)) + logs
        diagonal = -n_docs * polygamma(1, alpha)
        constant = n_docs * polygamma(1, alpha.sum())
        shift = (gradient / diagonal).sum() / (1 / constant + (1 / diagonal).sum())
        step = (gradient - shift) / diagonal
        size = 1.0
        # half steps until it is a step up, inside the positive orthant
        while size > 1e-10:
            candidate = alpha - size * step
            if candidate.min() > 0 and (reached := value(candidate)) >= best:
                break
            size /= 2
        else:
            break
        gained, best, alpha = reached - best, reached, candidate
        if gained <= 1e-10 * abs(best):
            break
    return alpha


def _first_gamma(corpus: Corpus, i: int, lengths: FloatArray, alpha: FloatArray) -> FloatArray:
    first, last = corpus.boundaries[i], corpus.boundaries[i + 1]
    return alpha + lengths[first:last, None] / len(alpha)


def _start(corpus: Corpus, n_components: int | None, init: Any, random_state: int) -> tuple[FloatArray, FloatArray]:
    M = corpus.shape[1]
    if not isinstance(init, str):
        topics = np.asarray(getattr(init, "components_", getattr(init, "topics", None)), dtype=np.float64)
        alpha = np.array(getattr(init, "concentration_", getattr(init, "concentration", None)), dtype=np.float64)
        if topics.ndim != 2 or topics.shape[1] != M or alpha.shape != topics.shape[:1]:
            raise ValueError(f"init must be a model of {M} words, with its topics and their concentration")
        if n_components not in (None, len(topics)):
            raise ValueError(f"n_components={n_components}, but the model has {len(topics)} topics")
        frequencies = corpus.word_totals()
        mixed = (1 - _BACKGROUND) * topics + _BACKGROUND * frequencies / frequencies.sum()
        return np.ascontiguousarray(mixed.T), alpha
    if n_components is None or n_components < 1:
        raise ValueError(f"n_components must be at least 1 where no model is given, got {n_components}")
    rng = np.random.default_rng(random_state)
    if init == "seeded":
        chosen = rng.choice(corpus.shape[0], size=n_components, replace=n_components > corpus.shape[0])
        start = corpus.rows(chosen).toarray().T + 1.0
    elif init == "random":
        start = 1 / M + rng.random((M, n_components))
    else:
        raise ValueError(f"init must be 'seeded', 'random' or a model, got {init!r}")
    return np.ascontiguousarray(start / start.sum(axis=0)), np.full(n_components, 0.1 / n_components)
