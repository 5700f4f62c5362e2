from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from momentopic import simulate

SHARED = Path(__file__).resolve().parents[2] / "shared"


def shared(*parts: str) -> Path:
    """The path of a file of the real data, or a skip where the folder is absent."""
    path = SHARED.joinpath(*parts)
    if not path.exists():
        pytest.skip(f"the real data are not on this machine: shared/{'/'.join(parts)} is absent")
    return path


@pytest.fixture
def authors_parameters():
    """D (M x K) and c of one of the authors' parameter files, c scaled to a given sum."""

    def load(name: str, c0: float):
        with np.load(shared("paper", f"params_{name}.npz")) as file:
            return file["D"], c0 * file["c"] / file["c"].sum()

    return load


def planted_topics(M: int, K: int, seed: int = 0) -> np.ndarray:
    """A random D (M x K) of sparse, linearly independent topics."""
    return np.random.default_rng(seed).dirichlet(np.full(M, 0.1), size=K).T


@pytest.fixture
def short_rounds(monkeypatch):
    """Have refinements of six sweeps and more begin with a part of the tokens, as long ones of large corpora do."""
    monkeypatch.setattr("momentopic.refine.parts._TOKENS_OF_TOPIC", 1)
    monkeypatch.setattr("momentopic.refine.parts._TOKENS_OF_DOCUMENT", 1)
    monkeypatch.setattr("momentopic.refine.parts._MOST_PASSES", 3)
    monkeypatch.setattr("momentopic.refine.collapsed._FIRST_ROUND", 3)
    monkeypatch.setattr("momentopic.refine.collapsed._TWO_ROUNDS", 6)
    monkeypatch.setattr("momentopic.refine.samples._FIRST_SAMPLE", 2)
    monkeypatch.setattr("momentopic.refine.samples._SAMPLE_EVERY", 1)


@pytest.fixture
def no_room(monkeypatch):
    """Have refinements draw tokens by default, as they do where responsibilities would take too much memory."""
    monkeypatch.setattr("momentopic.refine.parts.MOST_RESPONSIBILITIES", 0)


@pytest.fixture(scope="module")
def counts():
    """A corpus of 3,000 documents and 150 words."""
    return simulate.gamma_poisson(planted_topics(150, 4), np.full(4, 0.3), 3000, mean_length=60)
