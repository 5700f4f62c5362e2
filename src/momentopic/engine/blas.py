"""BLAS on one thread: results that do not depend on the number of cores."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from functools import cache

import scipy.linalg  # noqa: F401  loads scipy's BLAS, so that the controller below sees every library in use
from threadpoolctl import ThreadpoolController


@cache
def _controller() -> ThreadpoolController:
    # looking for the loaded libraries takes milliseconds: once is enough
    return ThreadpoolController()


@contextlib.contextmanager
def single_threaded_blas() -> Iterator[None]:
    """Hold BLAS to one thread inside the block (for the whole process), and put it back after."""
    with _controller().limit(limits=1, user_api="blas"):
        yield
