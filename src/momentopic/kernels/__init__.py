"""Compiled loops: arrays in, arrays out, no policy, no I/O.

The modules are imported on first use, because importing numba takes longer than the rest of the package together.
"""

from __future__ import annotations

import importlib
from types import ModuleType


def __getattr__(name: str) -> ModuleType:
    if name in (
        "chib",
        "collapsed",
        "documents",
        "jacobi",
        "lanes",
        "left_to_right",
        "parse",
        "random",
        "sparse",
        "tiles",
        "variational",
    ):
        return importlib.import_module(f"momentopic.kernels.{name}")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
