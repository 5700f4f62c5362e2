"""The steps of a fit: how long each took, and a bar on the terminal for those that take over two seconds."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator
from types import TracebackType
from typing import Any

_PATIENCE = 2.0  # seconds of silence before a bar appears
_USUAL_SWEEPS = 250  # of a collapsed refinement


class Steps:
    """Times named steps one after another; a context manager, so that a bar is taken down whatever happens.

    Parameters
    ----------
    verbose : int
        0 shows nothing; 1 shows a bar, on standard error, once a fit has taken two seconds.

    Attributes
    ----------
    seconds : dict of str to float
        The steps so far.
    """

    def __init__(self, verbose: int = 0) -> None:
        self.seconds: dict[str, float] = {}
        self._verbose = verbose
        self._started = time.perf_counter()
        self._name = ""
        self._passes = 0
        self._sweeping = False
        self._bar: Any = None
        self._task: Any = None

    @contextlib.contextmanager
    def step(self, name: str) -> Iterator[None]:
        """Time what happens inside under this name."""
        begin = time.perf_counter()
        self._name, self._passes, self._sweeping = name, 0, False
        try:
            yield
        finally:
            self.seconds[name] = self.seconds.get(name, 0.0) + time.perf_counter() - begin

    def block(self, done: int, total: int) -> None:
        """Note that so many of the blocks of a pass over the corpus are done."""
        if done == total:
            self._passes += 1
        if self._sweeping:  # the sweeps have a bar of their own
            return
        self._show(f"{self._name}, pass {self._passes + (done < total)} over the corpus", done, total)

    def part(self, done: int, total: int) -> None:
        """Note that so much of the step is done."""
        self._show(self._name, done, total)

    def sweep(self, n: int, largest: float) -> None:
        """Note that an iteration has done n sweeps, and how large the changes still are."""
        self._show(f"{self._name}, sweep {n}, change {largest:.0e}", 0, None)

    def settling(self, n: int, moved: float, total: int | None, at_rest: float) -> None:
        """Note that n sweeps are done: of `total`, or until averaged topics move less than `at_rest`.

        The movement of an average falls about as 1 / n, which says how many sweeps there will be.
        """
        self._sweeping = True
        if total is None:
            total = _USUAL_SWEEPS if moved >= 1 or n < _USUAL_SWEEPS // 5 else round(n * moved / at_rest)
        self._show(f"{self._name}, sweep {n}", n, max(total, n + 1))

    def _show(self, text: str, done: int, total: int | None) -> None:
        if not self._verbose or (self._bar is None and time.perf_counter() - self._started < _PATIENCE):
            return
        if self._bar is None:
            from rich.console import Console
            from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

            console = Console(stderr=True)
            if not console.is_terminal:  # a log file has no use for a bar
                self._verbose = 0
                return
            columns = (
                TextColumn("{task.description}"),
                BarColumn(),
                TimeElapsedColumn(),
                TextColumn("elapsed,"),
                TimeRemainingColumn(),
                TextColumn("left in this stage"),
            )
            self._bar = Progress(*columns, console=console, transient=True)
            self._task = self._bar.add_task(text)
            self._bar.start()
        self._bar.update(self._task, description=text, completed=done, total=total)

    def __enter__(self) -> Steps:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._bar is not None:
            self._bar.stop()
