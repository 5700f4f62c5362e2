"""The one seam of the library: a sum over the blocks of a corpus, or a row for each of its documents.

Nothing above this module knows whether the sum is done by threads, a cluster or a GPU. An engine must give the bits
that the plain loop ``for i in range(n_blocks): total += function(corpus.block(i), *args)`` gives.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Concatenate, ParamSpec, Protocol, TypeAlias, TypeVar

import numpy as np

from momentopic._types import FloatArray
from momentopic.corpus.blocks import Block, Corpus

P = ParamSpec("P")
S = TypeVar("S")
Words = TypeVar("Words")
Partial: TypeAlias = tuple[FloatArray, ...]
# From so many nonzeros on a device saves more than it takes to wake it up, a second or two.
_LARGE = 20_000_000
BlockFunction: TypeAlias = Callable[Concatenate[Block, P], Partial]


class Engine(Protocol):
    """Whoever can add up a function of the blocks of a corpus."""

    def sum(self, function: BlockFunction[P], corpus: Corpus, *args: P.args, **kwargs: P.kwargs) -> Partial:
        """Return the sum over all blocks of ``function(block, *args, **kwargs)``.

        Parameters
        ----------
        function : callable
            A module-level function (so that it can be sent to another process) that returns a tuple of freshly
            allocated arrays, of the same shapes for every block. It may not change its arguments.
        corpus : Corpus
        *args, **kwargs
            The same for every block.

        Returns
        -------
        tuple of arrays
            The element-wise sums, added in block order and in double precision, whatever the parts are in.
        """
        ...

    def map(self, function: BlockFunction[P], corpus: Corpus, *args: P.args, **kwargs: P.kwargs) -> Partial:
        """Return ``function(block, *args, **kwargs)`` of all blocks, concatenated in block order.

        Parameters
        ----------
        function : callable
            A module-level function that returns a tuple of arrays, one row for each document of the block.
        corpus : Corpus
        *args, **kwargs
            The same for every block.

        Returns
        -------
        tuple of arrays
            One row for each document of the corpus.
        """
        ...

    def update(
        self, function: Callable[..., tuple[Partial, S]], corpus: Corpus, states: list[S], *args: Any, **kwargs: Any
    ) -> tuple[Partial, list[S]]:
        """Sum a function of blocks that remembers something of each from call to call.

        Parameters
        ----------
        function : callable
            A module-level function called as ``function(block, state, *args, **kwargs)``; it returns a tuple of freshly
            allocated arrays and the new state of the block, for which it may use the memory of the old one.
        corpus : Corpus
        states : list
            One a block. They are the engine's from now on: use the ones that are returned.
        *args, **kwargs
            The same for every block.

        Returns
        -------
        tuple of arrays
            The element-wise sums, added in block order.
        list
            The new states.
        """
        ...

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
        """Let each block work on its own part of an array over words: after as many turns as parts, on all of them.

        Blocks that change what they share (the counts of the words) can do so at once where no two of them hold the
        same words at a time. In turn number `turn`, block i holds part ``(i + turn) % len(words)``.

        Parameters
        ----------
        function : callable
            A module-level function called as ``function(block, state, part, *args, **kwargs)``; it returns a tuple of
            freshly allocated arrays, the new state and the new part, for which it may use the memory of the old ones.
        corpus : Corpus
            Of no more blocks than there are parts.
        states, words : lists
            One a block, and one a part. They are the engine's from now on: use the ones that are returned.
        turn : int
        *args, **kwargs
            The same for every block.

        Returns
        -------
        tuple of arrays
            The element-wise sums, added in block order.
        list
            The new states.
        list
            The new parts.
        """
        ...


class OrderedSum:
    """Adds up partial sums in block order, whatever order they arrive in.

    Floating-point addition is not associative: a part that comes early waits until all before it are in.
    """

    def __init__(self, *, double: bool = False) -> None:
        self.double = double  # whether parts in single precision are added in double
        self.total: Partial | None = None
        self._next = 0
        self._waiting: dict[int, Partial] = {}

    def add(self, i: int, part: Partial) -> None:
        """Take in the part of block `i`."""
        self._waiting[i] = part
        while self._next in self._waiting:
            ready = self._waiting.pop(self._next)
            self._next += 1
            if self.total is None:
                self.total = tuple(part.astype(np.float64, copy=False) for part in ready) if self.double else ready
            else:
                for total, addend in zip(self.total, ready, strict=True):
                    np.add(total, addend, out=total)

    def result(self) -> Partial:
        """Return the sum of all parts."""
        if self.total is None or self._waiting:
            raise RuntimeError("a block is missing from the sum")
        return self.total


def get_engine(engine: Any, nonzeros: int = 0) -> Engine:
    """Return the engine that the `engine` parameter of the public functions names.

    Parameters
    ----------
    engine : "auto", "threads", "cuda" or an Engine
        "threads" are those of this machine, one for each core it may use; "cuda" is its device; "auto" is the device
        where there is one and the work is large enough, else the threads.
    nonzeros : int
        Of the corpus that is to be fitted.
    """
    if isinstance(engine, str):
        if engine == "auto" and nonzeros >= _LARGE:
            from momentopic.engine.cuda import CudaEngine, device_available

            if device_available():
                return CudaEngine()
        if engine in ("auto", "threads"):
            from momentopic.engine.threads import ThreadEngine

            return ThreadEngine()
        if engine == "cuda":
            from momentopic.engine.cuda import CudaEngine

            return CudaEngine()
        raise ValueError(f"engine must be 'auto', 'threads', 'cuda' or an object with a method sum, got {engine!r}")
    if not callable(getattr(engine, "sum", None)) or hasattr(engine, "__array__"):
        raise ValueError(f"engine must be 'auto', 'threads', 'cuda' or an object with a method sum, got {engine!r}")
    found: Engine = engine
    return found
