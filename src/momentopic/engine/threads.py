"""Sums over blocks by the threads of this machine."""

from __future__ import annotations

import os
from collections.abc import Callable
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from typing import TypeVar

from momentopic.corpus.blocks import Corpus
from momentopic.engine.base import BlockFunction, OrderedSum, P, Partial
from momentopic.engine.blas import single_threaded_blas

T = TypeVar("T")


def available_cores() -> int:
    """Return the number of cores this process may run on."""
    try:
        return len(os.sched_getaffinity(0))
    except AttributeError:  # not on macOS and Windows
        return os.cpu_count() or 1


class ThreadEngine:
    """The local engine: blocks are handed to threads, partial sums are added in block order.

    The block functions spend their time in compiled code that releases the interpreter lock. BLAS is held to one
    thread meanwhile: its own threads would fight ours for the cores, and its results may depend on their number.

    Parameters
    ----------
    n_threads : int, optional
        By default, the cores this process may use. The result has the same bits for any number.
    progress : callable, optional
        Called as ``progress(blocks done, blocks)`` from the calling thread after each block.
    """

    def __init__(self, n_threads: int | None = None, progress: Callable[[int, int], None] | None = None) -> None:
        if n_threads is not None and n_threads < 1:
            raise ValueError(f"n_threads must be at least 1, got {n_threads}")
        self.n_threads = n_threads
        self.progress = progress

    def sum(self, function: BlockFunction[P], corpus: Corpus, *args: P.args, **kwargs: P.kwargs) -> Partial:
        """Return the sum over all blocks of ``function(block, *args, **kwargs)``; see `Engine.sum`."""
        n_blocks = corpus.n_blocks
        n_threads = min(self.n_threads or available_cores(), n_blocks)
        ordered = OrderedSum()
        done = 0

        def report() -> None:
            nonlocal done
            done += 1
            if self.progress is not None:
                self.progress(done, n_blocks)

        with single_threaded_blas():
            if n_threads == 1:
                for i in range(n_blocks):
                    ordered.add(i, function(corpus.block(i), *args, **kwargs))
                    report()
                return ordered.result()
            with ThreadPoolExecutor(n_threads) as pool:
                running: dict[Future[Partial], int] = {}
                submitted = 0
                try:
                    while submitted < n_blocks or running:
                        # a bounded window: parts that wait for their turn are dense arrays
                        while submitted < n_blocks and len(running) < n_threads + 1:
                            future = pool.submit(function, corpus.block(submitted), *args, **kwargs)
                            running[future] = submitted
                            submitted += 1
                        for future in wait(running, return_when=FIRST_COMPLETED).done:
                            ordered.add(running.pop(future), future.result())
                            report()
                except BaseException:
                    pool.shutdown(wait=True, cancel_futures=True)
                    raise
        return ordered.result()

    def __repr__(self) -> str:
        return f"ThreadEngine(n_threads={self.n_threads})"
