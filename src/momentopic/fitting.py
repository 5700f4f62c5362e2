"""What `DiscreteICA.fit` does between the moments and the attributes: engine, memory, solution, refinement."""

from __future__ import annotations

import contextlib
import warnings
from typing import TYPE_CHECKING

import numpy as np

from momentopic.checkpoint import Checkpoint
from momentopic.corpus.blocks import Corpus
from momentopic.engine import Engine, get_engine
from momentopic.exceptions import RankError
from momentopic.memory import limited, most_threads, parse_size
from momentopic.moments import Moments
from momentopic.progress import Steps
from momentopic.refine import Refined, refine_collapsed, split_topics, variational_lda
from momentopic.refine.parts import movement_at_rest
from momentopic.solve import Solution, solve

if TYPE_CHECKING:
    from momentopic.model import DiscreteICA


def engine_of(model: DiscreteICA, corpus: Corpus) -> Engine:
    """Return who does the sums of a fit."""
    # a device keeps neither checkpoints nor limits: "auto" does not take it where one is asked for
    asked = model.checkpoint is not None or model.memory_limit is not None
    auto = isinstance(model.engine, str) and model.engine == "auto" and not hasattr(corpus, "engine")
    return get_engine("threads" if asked and auto else model.engine, corpus)


def within_limit(model: DiscreteICA, corpus: Corpus, engine: Engine) -> Engine:
    """Return the engine with as many threads as the memory limit of the model allows."""
    if model.memory_limit is None:
        return engine
    elsewhere = hasattr(engine, "cluster")  # blocks, and what a refinement remembers, are on the workers
    n_threads = most_threads(
        corpus,
        model.n_components,
        parse_size(model.memory_limit),
        refine=None if elsewhere else model.refine,
        n_sweeps=model.n_sweeps,
        n_threads=1 if elsewhere else getattr(engine, "n_threads", None),
        n_groups=model.n_groups,
    )
    less: Engine = limited(engine, n_threads)
    return less


def start_of(model: DiscreteICA, solution: Solution, seed: int) -> Refined:
    """Return what a refinement starts from: as many topics as the model asks for."""
    # single precision is what collapsed refinement knows them in: they are in memory as long as it takes
    dtype = np.float32 if model.refine == "collapsed" else np.float64
    topics = split_topics(solution.D.T, model.n_components, seed, dtype)
    return Refined(topics, np.resize(solution.concentration, model.n_components), 0.0, 0, 0, True)


def refined(
    model: DiscreteICA,
    corpus: Corpus,
    start: Refined,
    engine: Engine,
    seed: int,
    steps: Steps,
    checkpoint: Checkpoint | None = None,
) -> Refined:
    """Return what the refinement that the model asks for makes of its start."""
    if model.refine == "collapsed":
        at_rest = movement_at_rest(corpus.tokens, corpus.shape[0], model.n_components)
        return refine_collapsed(
            corpus,
            start.topics,
            engine,
            concentration=start.concentration,
            n_sweeps=model.n_sweeps,
            smoothing=model.smoothing,
            random_state=seed,
            tol=at_rest,
            callback=lambda n, moved, total: steps.settling(n, moved, total, at_rest),
            checkpoint=checkpoint,
        )
    found = variational_lda(corpus, init=start, engine=engine, callback=steps.sweep, checkpoint=checkpoint)
    return Refined(found.topics, found.concentration, 0.0, found.n_iter, 0, found.converged)


def solved(model: DiscreteICA, moments: Moments, seed: int, steps: Steps, checkpoint: Checkpoint | None) -> Solution:
    """Return the moment solution: of as many topics as the moments support, where a refinement starts the others."""

    def solve_to(K: int, rough: bool) -> Solution:
        return solve(
            moments,
            K,
            algorithm=model.algorithm,
            projections=model.projections,
            n_projections=model.n_projections,
            rough=rough,
            n_groups=model.n_groups,
            random_state=seed,
            steps=steps,
            checkpoint=checkpoint,
        )

    def solve_for(K: int) -> Solution:
        if model.refine == "collapsed":
            # a rough eigensolver may take a small positive eigenvalue for a negative one: the exact one decides
            with contextlib.suppress(RankError):
                return solve_to(K, rough=True)
        return solve_to(K, rough=False)

    try:
        return solve_for(model.n_components)
    except RankError as error:
        if model.refine is None or error.n_positive == 0:
            raise
        warnings.warn(
            f"the moments of this corpus support {error.n_positive} topics, but {model.n_components} were asked "
            f"for: {model.n_components - error.n_positive} start from splits of the largest ones.",
            UserWarning,
            stacklevel=4,
        )
        return solve_for(error.n_positive)
