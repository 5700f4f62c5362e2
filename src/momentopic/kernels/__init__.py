"""Compiled loops: arrays in, arrays out, no policy, no I/O.

The modules are imported on first use, because importing numba takes longer than the rest of the package together. What
numba compiles it keeps on disk, beside the modules or in the user's cache folder; where it may write to neither (a
read-only container), in a temporary folder of this process.
"""

from __future__ import annotations

import importlib
import tempfile
from types import ModuleType
from typing import Any

_MODULES = (
    "abreast",
    "bursts",
    "chib",
    "collapsed",
    "documents",
    "exchange",
    "groups",
    "intensity",
    "jacobi",
    "lanes",
    "left_to_right",
    "parse",
    "random",
    "registers",
    "sampled",
    "sparse",
    "tall",
    "tiles",
    "triples",
    "variational",
)


def __getattr__(name: str) -> ModuleType:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    try:
        return importlib.import_module(f"momentopic.kernels.{name}")
    except RuntimeError as error:
        if "cannot cache" not in str(error):
            raise
        import numba

        config: Any = numba.config
        config.CACHE_DIR = tempfile.mkdtemp(prefix="momentopic-")
        return importlib.import_module(f"momentopic.kernels.{name}")
