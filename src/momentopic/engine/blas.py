"""BLAS on one thread: results that do not depend on the number of cores."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator
from functools import cache
from typing import Any

import scipy.linalg  # noqa: F401  loads scipy's BLAS, so that the controller below sees every library in use
from threadpoolctl import ThreadpoolController


@cache
def _controller() -> ThreadpoolController:
    # looking for the loaded libraries takes milliseconds: once is enough
    return ThreadpoolController()


class _Hold:
    """The limit is the whole process's: the first to come sets it, the last to go lifts it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._holders = 0
        self._limit: Any = None

    def take(self) -> None:
        with self._lock:
            if self._holders == 0:
                self._limit = _controller().limit(limits=1, user_api="blas")
            self._holders += 1

    def release(self) -> None:
        with self._lock:
            self._holders -= 1
            if self._holders == 0:
                self._limit.restore_original_limits()


_hold = _Hold()


@contextlib.contextmanager
def single_threaded_blas() -> Iterator[None]:
    """Hold BLAS to one thread inside the block (for the whole process), and put it back after."""
    _hold.take()
    try:
        yield
    finally:
        _hold.release()
