"""Sums over blocks by the threads of this machine."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor, wait
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


class _Schedule:
    """Which block is whose: the next one to whoever asks, the results to the thread that collects them.

    Parameters
    ----------
    n_blocks : int
    window : int
        No block is handed out that is so many after the oldest one not done: parts that wait for their turn to be added
        are dense arrays.
    """

    def __init__(self, n_blocks: int, window: int) -> None:
        self._n_blocks = n_blocks
        self._window = window
        self._next = 0
        self._running: set[int] = set()
        self._results: list[tuple[int, Any]] = []
        self._error: BaseException | None = None
        self._changed = threading.Condition()

    def _free(self) -> bool:
        return self._next < min(self._n_blocks, min(self._running, default=self._next) + self._window)

    def next(self, wait: bool = True) -> int | None:
        """Return a block to work on; None when there is none left, or none now if the caller will not wait."""
        with self._changed:
            while wait and self._error is None and self._next < self._n_blocks and not self._free():
                self._changed.wait()
            if self._error is not None or not self._free():
                return None
            self._running.add(self._next)
            self._next += 1
            return self._next - 1

    def give(self, i: int, result: Any) -> None:
        """Take in the result of block `i`."""
        with self._changed:
            self._running.discard(i)
            self._results.append((i, result))
            self._changed.notify_all()

    def fail(self, error: BaseException) -> None:
        """Hand out no more blocks; `collect` raises the error."""
        with self._changed:
            self._error = self._error or error
            self._changed.notify_all()

    def collect(self, wait: bool) -> list[tuple[int, Any]]:
        """Return the results since the last call, waiting for one if asked to."""
        with self._changed:
            while wait and not self._results and self._error is None:
                self._changed.wait()
            if self._error is not None:
                raise self._error
            results, self._results = self._results, []
            return results


class ThreadEngine:
    """The local engine: blocks are handed to threads, partial sums are added in an order that blocks alone decide.

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
        ordered = OrderedSum(double=True)
        self.run(ordered.add, corpus, lambda _, block: function(block, *args, **kwargs))
        return ordered.result()

    def map(self, function: BlockFunction[P], corpus: Corpus, *args: P.args, **kwargs: P.kwargs) -> Partial:
        """Return ``function(block, *args, **kwargs)`` of all blocks, concatenated; see `Engine.map`."""
        parts: dict[int, Partial] = {}
        self.run(parts.__setitem__, corpus, lambda _, block: function(block, *args, **kwargs))
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

        self.run(take, corpus, lambda i, block: function(block, states[i], *args, **kwargs))
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

        self.run(take, corpus, lambda i, block: function(block, states[i], words[held(i)], *args, **kwargs))
        return ordered.result(), new_states, new_words

    def with_progress(self, progress: Callable[[int, int], None]) -> ThreadEngine:
        """Return a copy that reports to `progress`, unless this one reports already."""
        engine = copy(self)
        engine.progress = self.progress or progress
        return engine

    def run(self, take: Callable[[int, R], None], corpus: Corpus, function: Callable[[int, Block], R]) -> None:
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

        schedule = _Schedule(n_blocks, window=2 * n_threads)
        # taken from the helpers in the end: their threads hold on to `work` for a moment longer, and would hold on to
        # arrays that the caller replaces
        of_blocks = [function]

        def work() -> None:
            try:
                while (i := schedule.next()) is not None:
                    schedule.give(i, of_blocks[0](i, corpus.block(i)))
            except BaseException as error:
                schedule.fail(error)

        with single_threaded_blas():
            # The calling thread works too. Besides the work it saves a hand-over: a thread that is woken while its
            # waker still runs may be put on a busy core and wait there for milliseconds.
            helpers = [_pool(n_threads - 1).submit(work) for _ in range(n_threads - 1)]
            try:
                while done < n_blocks:
                    i = schedule.next(wait=False)
                    if i is not None:
                        schedule.give(i, function(i, corpus.block(i)))
                    for j, result in schedule.collect(wait=i is None):
                        finish(j, result)
            except BaseException as error:
                schedule.fail(error)
                raise
            finally:
                # the others write into arrays that the caller may use again
                wait([helper for helper in helpers if not helper.cancel()])
                of_blocks.clear()

    def __repr__(self) -> str:
        return f"ThreadEngine(n_threads={self.n_threads})"


class _Ranges:
    """Ranges of numbers in the place of the blocks of a corpus."""

    def __init__(self, n: int, size: int) -> None:
        self.n = n
        self.size = size
        self.n_blocks = -(-n // size)

    def block(self, i: int) -> slice:
        return slice(i * self.size, min((i + 1) * self.size, self.n))


def sum_over_ranges(
    function: Callable[..., Partial], n: int, size: int, *args: Any, n_threads: int | None = None
) -> Partial:
    """Return the sum of ``function(slice, *args)`` over the slices of `size` numbers that 0, ..., n - 1 divide into.

    Like a sum over the blocks of a corpus, by the threads of this machine, with the same bits for any number of them.
    """
    ranges: Any = _Ranges(n, size)
    return ThreadEngine(n_threads).sum(function, ranges, *args)
