"""Moments of several places, made on one basis and added up: documents stay where they are."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Any

from momentopic.corpus.blocks import as_corpus
from momentopic.engine.base import get_engine
from momentopic.moments.basis import Basis, find_basis
from momentopic.moments.sketched import SketchedMoments


def sketched_moments(
    X: Any,
    *,
    basis: Basis | SketchedMoments | None = None,
    rank: int = 100,
    engine: Any = "auto",
    random_state: int = 0,
) -> SketchedMoments:
    """Return the moments of a corpus on a subspace: to save, to send, to merge.

    Parameters
    ----------
    X : array-like, scipy sparse matrix or Corpus, shape (N, M)
    basis : Basis or SketchedMoments, optional
        The subspace that others use. By default the leading eigenvectors of these documents (`find_basis`).
    rank : int
        How many of those: as many topics as this can be asked for later; twice as many as the topics is better.
    engine : "auto", "threads" or an Engine
    random_state : int
    """
    corpus = as_corpus(X)
    if isinstance(basis, SketchedMoments):
        moments = basis.empty()
        moments.engine = get_engine(engine, corpus)
    else:
        found = basis or find_basis(corpus, rank, engine=engine, random_state=random_state)
        moments = SketchedMoments(found, vocabulary=corpus.vocabulary, settings=corpus.settings, engine=engine)
    return moments.add(corpus)


def pooled(parts: Sequence[SketchedMoments]) -> SketchedMoments:
    """Return the moments of all documents of several places, with the same bits for any order of the places.

    Parameters
    ----------
    parts : sequence of SketchedMoments
        Of the same words, on the same basis.
    """
    if not parts:
        raise ValueError("there is nothing to pool: give at least one SketchedMoments")

    def order(part: SketchedMoments) -> tuple[int, bytes]:
        return part.n_docs, hashlib.sha256(part._totals.tobytes() + part._third.tobytes()).digest()

    first, *others = sorted(parts, key=order)
    for other in others:
        first = first.merge(other)
    return first
