"""Topic models by the method of moments: the same topics on every run.

The names below are imported when they are first used, so that ``import momentopic`` itself takes no time.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from momentopic import (
        coherence,
        confidence,
        corpus,
        diagonalize,
        engine,
        heldout,
        metrics,
        moments,
        recover,
        refine,
        report,
        simulate,
    )
    from momentopic.choosing import spectrum
    from momentopic.corpus import Corpus
    from momentopic.exceptions import ConvergenceWarning, RankError
    from momentopic.model import DiscreteICA
    from momentopic.paths import path
    from momentopic.persist import load

__version__ = "0.1.0"

__all__ = [
    "ConvergenceWarning",
    "Corpus",
    "DiscreteICA",
    "RankError",
    "__version__",
    "coherence",
    "confidence",
    "corpus",
    "diagonalize",
    "engine",
    "heldout",
    "load",
    "metrics",
    "moments",
    "path",
    "recover",
    "refine",
    "report",
    "simulate",
    "spectrum",
]

_HOME = {
    "ConvergenceWarning": "exceptions",
    "Corpus": "corpus",
    "DiscreteICA": "model",
    "RankError": "exceptions",
    "load": "persist",
    "path": "paths",
    "spectrum": "choosing",
}


def __getattr__(name: str) -> Any:
    if name in _HOME:
        return getattr(importlib.import_module(f"momentopic.{_HOME[name]}"), name)
    if name in __all__:
        return importlib.import_module(f"momentopic.{name}")
    raise AttributeError(f"module 'momentopic' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
