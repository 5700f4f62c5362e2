"""Sums over blocks by the threads of this machine."""

from __future__ import annotations

import os
from collections.abc import Callable
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from copy import copy
from functools import cache
from typing import Any, TypeVar

import numpy as np

from momentopic.corpus.blocks import Block, Corpus
from momentopic.engine.base import BlockFunction, OrderedSum, P, Partial, S, Words
from momentopic.engine.blas import single_threaded_blas

R = TypeVar("R")


def available_cores() -> int:
    """Return the number of cores this process may run on."""
    try:
        return len(os.sched_getaffinity(0))
    except AttributeError:  # not on macOS and Windows
        return os.cpu_count() or 1


@cache
def _pool(n_threads: int) -> ThreadPoolExecutor:
    """Return the pool of so many threads: starting them anew for each of thousands of short sums would cost more."""
    return ThreadPoolExecutor(n_threads, thread_name_prefix="momentopic")


if hasattr(os, "register_at_fork"):  # not on Windows
    os.register_at_fork(after_in_child=_pool.cache_clear)  # the threads of the parent are not in the child


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
        ordered = OrderedSum()
        self._run(ordered.add, corpus, lambda _, block: function(block, *args, **kwargs))
        return ordered.result()

    def map(self, function: BlockFunction[P], corpus: Corpus, *args: P.args, **kwargs: P.kwargs) -> Partial:
        """Return ``function(block, *args, **kwargs)`` of all blocks, concatenated; see `Engine.map`."""
        parts: dict[int, Partial] = {}
        self._run(parts.__setitem__, corpus, lambda _, block: function(block, *args, **kwargs))
        columns = zip(*(parts[i] for i in range(corpus.n_blocks)), strict=True)
        return tuple(np.concatenate(column) for column in columns)

    def update(
        self, function: Callable[..., tuple[Partial, S]], corpus: Corpus, states: list[S], *args: Any, **kwargs: Any
    ) -> tuple[Partial, list[S]]:
        """Sum a function that remembers something of each block; see `Engine.update`."""
        ordered = OrderedSum()
        renewed = list(states)

        def take(i: int, result: tuple[Partial, S]) -> None:
            part, renewed[i] = result
            ordered.add(i, part)

        self._run(take, corpus, lambda i, block: function(block, states[i], *args, **kwargs))
        return ordered.result(), renewed

    def turn(
        self,
        function: Callable[..., tuple[Partial, S, Words]],
        corpus: Corpus,
        states: list[S],
        words: list[Words],
        turn: int,
        *args: Any,
        **kwargs: Any,
    ) -> tuple[Partial, list[S], list[Words]]:
        """Let each block work on its own part of an array over words; see `Engine.turn`."""
        if corpus.n_blocks > len(words):
            raise ValueError(f"{corpus.n_blocks} blocks cannot hold {len(words)} parts at a time")
        ordered = OrderedSum()
        new_states, new_words = list(states), list(words)

        def held(i: int) -> int:
            return (i + turn) % len(words)

        def take(i: int, result: tuple[Partial, S, Words]) -> None:
            part, new_states[i], new_words[held(i)] = result
            ordered.add(i, part)

        self._run(take, corpus, lambda i, block: function(block, states[i], words[held(i)], *args, **kwargs))
        return ordered.result(), new_states, new_words

    def with_progress(self, progress: Callable[[int, int], None]) -> ThreadEngine:
        """Return a copy that reports to `progress`, unless this one reports already."""
        engine = copy(self)
        engine.progress = self.progress or progress
        return engine

    def _run(self, take: Callable[[int, R], None], corpus: Corpus, function: Callable[[int, Block], R]) -> None:
        """Hand every block to a thread, and each result with its number to `take`, in the calling thread."""
        n_blocks = corpus.n_blocks
        n_threads = min(self.n_threads or available_cores(), n_blocks)
        done = 0

        def finish(i: int, result: R) -> None:
            nonlocal done
            take(i, result)
            done += 1
            if self.progress is not None:
                self.progress(done, n_blocks)

        with single_threaded_blas():
            if n_threads == 1:
                for i in range(n_blocks):
                    finish(i, function(i, corpus.block(i)))
                return
            pool = _pool(n_threads)
            running: dict[Future[R], int] = {}
            submitted = 0
            try:
                while submitted < n_blocks or running:
                    # a bounded window from the oldest block that is not done: parts that wait for their turn to
                    # be added are dense arrays
                    oldest = min(running.values(), default=submitted)
                    while submitted < min(n_blocks, oldest + 2 * n_threads):
                        running[pool.submit(function, submitted, corpus.block(submitted))] = submitted
                        submitted += 1
                    for future in wait(running, return_when=FIRST_COMPLETED).done:
                        finish(running.pop(future), future.result())
            except BaseException:
                for future in running:
                    future.cancel()
                wait(running)  # they write into arrays that the caller may use again
                raise

    def __repr__(self) -> str:
        return f"ThreadEngine(n_threads={self.n_threads})"
