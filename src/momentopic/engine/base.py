"""The one seam of the library: a sum over the blocks of a corpus, or a row for each of its documents.

Nothing above this module knows whether the sum is done by threads, a cluster or a GPU. An engine must give the bits
that `OrderedSum` gives of ``function(corpus.block(i), *args)`` for all i.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Concatenate, ParamSpec, Protocol, TypeAlias, TypeVar

import numpy as np

from momentopic import kernels
from momentopic._types import FloatArray
from momentopic.corpus.blocks import Block, Corpus

P = ParamSpec("P")
S = TypeVar("S")
Words = TypeVar("Words")
Partial: TypeAlias = tuple[FloatArray, ...]
# From so many nonzeros on a device saves more than it takes to wake it up, a second or two.
_LARGE = 20_000_000
BlockFunction: TypeAlias = Callable[Concatenate[Block, P], Partial]
Node: TypeAlias = tuple[int, int]
Nodes: TypeAlias = dict[Node, Partial]


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
            The element-wise sums, added as `OrderedSum` does, in double precision whatever the parts are in.
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
            The same for every block. They may not be changed later, by anyone: when a worker is lost, earlier passes
            are done again with the arguments that they had.

        Returns
        -------
        tuple of arrays
            The element-wise sums, added as `OrderedSum` does.
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
            The same for every block; as in `update`, they may not be changed later.

        Returns
        -------
        tuple of arrays
            The element-wise sums, added as `OrderedSum` does.
        list
            The new states.
        list
            The new parts.
        """
        ...


class OrderedSum:
    """Adds up partial sums in a tree of fixed shape, whatever order they arrive in.

    Floating-point addition is not associative: which parts are added to which must not depend on who was first. The
    tree is that of neighbours: part 2i + 1 is added to part 2i, then the sums of pairs to one another, and so on; parts
    without a neighbour at the end join from the right. So whoever holds consecutive blocks can add up most of them
    alone (`nodes`), and few sums have to travel. No more sums wait than the tree has levels, if parts come in order.
    """

    def __init__(self, *, double: bool = False) -> None:
        self.double = double  # whether parts in single precision are added in double
        self.nodes: Nodes = {}

    def add(self, i: int, part: Partial) -> None:
        """Take in the part of block `i`."""
        self.add_node((0, i), part)

    def add_node(self, node: Node, part: Partial) -> None:
        """Take in a sum of some parts: node (level, i) is that of the 2^level parts from number i 2^level on."""
        level, i = node
        while (level, i ^ 1) in self.nodes:
            other = self.nodes.pop((level, i ^ 1))
            part = self._added(other, part) if i & 1 else self._added(part, other)
            level, i = level + 1, i >> 1
        self.nodes[level, i] = part

    def result(self) -> Partial:
        """Return the sum of all parts."""
        end, total = 0, None
        for level, i in sorted(self.nodes, key=lambda node: node[1] << node[0]):
            if i << level != end:
                raise RuntimeError("a block is missing from the sum")
            end += 1 << level
        for node in sorted(self.nodes):  # the smallest are the last ones
            part = self.nodes[node]
            total = self._added(part, total) if total is not None else self._in_double(part)
        if total is None:
            raise RuntimeError("a block is missing from the sum")
        return total

    def _added(self, left: Partial, right: Partial) -> Partial:
        return tuple(self._sum(total, addend) for total, addend in zip(left, right, strict=True))

    def _sum(self, total: Any, addend: Any) -> Any:
        """Return the sum, in the place of the first where its precision allows."""
        if not self.double or total.dtype == np.float64:
            return np.add(total, addend, out=total)
        result = np.empty(total.shape)
        if total.dtype == addend.dtype == np.float32:
            # numpy would convert the arrays piece by piece, and take several times as long
            kernels.sparse.add_in_double(total.reshape(-1), addend.reshape(-1), result.reshape(-1))
            return result
        return np.add(total, addend, out=result)

    def _in_double(self, part: Partial) -> Partial:
        return tuple(array.astype(np.float64, copy=False) for array in part) if self.double else part


def get_engine(engine: Any, corpus: Any = None) -> Engine:
    """Return the engine that the `engine` parameter of the public functions names.

    Parameters
    ----------
    engine : "auto", "threads", "cuda", "dask", an address, a distributed.Client or an Engine
        "threads" are those of this machine, one for each core it may use. "cuda" is its device. "dask" is the current
        Dask cluster, or one that is started on this machine; a Client, or the address of a scheduler ("tcp://..."), is
        that cluster.
    corpus : Corpus, optional
        What "auto" depends on: the cluster that has the documents, if one has them; else the device, if there is one
        and the corpus is large enough; else the threads.
    """
    if isinstance(engine, str) and engine == "auto" and hasattr(corpus, "engine"):
        found: Engine = corpus.engine
        return found
    if isinstance(engine, str) and (engine == "cuda" or (engine == "auto" and _worth_a_device(corpus))):
        from momentopic.engine.cuda import CudaEngine

        return CudaEngine()
    if isinstance(engine, str) and engine in ("auto", "threads"):
        from momentopic.engine.threads import ThreadEngine

        return ThreadEngine()
    if (isinstance(engine, str) and engine == "dask") or _is_address(engine) or _is_client(engine):
        from momentopic.engine.dask import DaskEngine

        return DaskEngine(None if isinstance(engine, str) and "://" not in engine else engine)
    if isinstance(engine, str) or not callable(getattr(engine, "sum", None)) or hasattr(engine, "__array__"):
        raise ValueError(
            "engine must be 'auto', 'threads', 'cuda', 'dask', the address of a Dask scheduler (tcp://...), a Dask "
            f"client or an object with a method sum, got {engine!r}"
        )
    found = engine
    return found


def _worth_a_device(corpus: Any) -> bool:
    if corpus is None or corpus.nonzeros < _LARGE:
        return False
    from momentopic.engine.cuda import device_available

    return device_available()


def _is_address(engine: Any) -> bool:
    return isinstance(engine, str) and "://" in engine


def _is_client(engine: Any) -> bool:
    return all(callable(getattr(engine, name, None)) for name in ("submit", "scatter", "nthreads"))
