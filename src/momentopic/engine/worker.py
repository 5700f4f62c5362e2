"""What a worker of a cluster does: it keeps documents, and the states of their blocks, from pass to pass.

One task a worker and pass: the worker's own threads share its blocks, and it adds up what it can (`OrderedSum.nodes`).
Documents and states stay in the worker's memory between tasks, beside what Dask manages; a worker that does not have
what a task speaks of (it was started anew) says so, and the engine gives it what it needs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from copy import deepcopy
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from momentopic._types import FloatArray, IntArray
from momentopic.corpus.blocks import Block, Corpus
from momentopic.corpus.validate import as_counts
from momentopic.engine.base import Nodes, OrderedSum, Partial
from momentopic.engine.threads import ThreadEngine

_LARGE = 1 << 20  # bytes


class NotHereError(RuntimeError):
    """A worker was asked about documents or states that it does not have."""


class Rows(NamedTuple):
    """Consecutive documents of a corpus, as the arrays of a CSR matrix."""

    first: int
    indptr: IntArray  # starting at 0
    indices: IntArray
    counts: IntArray | FloatArray

    @property
    def end(self) -> int:
        """The number of the document after the last one."""
        return self.first + len(self.indptr) - 1


class Run(NamedTuple):
    """The consecutive blocks of a corpus that one worker has."""

    rows: str  # the name under which the documents are kept
    first: int  # the number of the first block
    boundaries: IntArray  # first documents of the blocks, and the end
    n_words: int


class Call(NamedTuple):
    """A function of a block, with what comes after the block and its state."""

    function: Callable[..., Any]
    args: tuple[Any, ...]
    kwargs: dict[str, Any]


class Moves(NamedTuple):
    """Parts of the words that come from other workers before a turn, and those that the next one needs elsewhere."""

    arriving: tuple[int, ...]
    leaving: tuple[int, ...]


class Outcome(NamedTuple):
    """What a pass leaves for others: sums, and parts of the words that the next turn needs elsewhere."""

    nodes: Nodes
    leaving: dict[int, Any]


@dataclass
class _Session:
    """The states of this worker's blocks, and the parts of the words that it has."""

    step: int = 0
    states: list[Any] = field(default_factory=list)
    words: dict[int, Any] = field(default_factory=dict)


@dataclass
class _Kept:
    """All that this worker keeps."""

    rows: dict[str, list[Rows]] = field(default_factory=dict)
    opened: dict[str, Any] = field(default_factory=dict)  # corpora on disk
    joined: dict[str, dict[tuple[int, int], Block]] = field(default_factory=dict)  # blocks of several pieces
    sessions: dict[str, _Session] = field(default_factory=dict)


def _worker() -> Any:
    from distributed import get_worker

    return get_worker()


def _kept() -> _Kept:
    worker = _worker()
    if not hasattr(worker, "momentopic"):
        worker.momentopic = _Kept()
    kept: _Kept = worker.momentopic
    return kept


class _Blocks:
    """The blocks of a run, in the place of a corpus."""

    def __init__(self, run: Run) -> None:
        self.run = run
        self.n_blocks = len(run.boundaries) - 1
        kept = _kept()
        self._opened = kept.opened.get(run.rows)
        if self._opened is not None:
            self._opened = self._opened._with_boundaries(run.boundaries)
        elif run.rows not in kept.rows:
            raise NotHereError(f"this worker has no documents of {run.rows}")
        self._rows = kept.rows.get(run.rows, [])
        self._joined = kept.joined.setdefault(run.rows, {})

    def block(self, i: int) -> Block:
        if self._opened is not None:
            block: Block = self._opened.block(i)
            return block
        first, end = int(self.run.boundaries[i]), int(self.run.boundaries[i + 1])
        if (first, end) in self._joined:
            return self._joined[first, end]
        pieces = [_cut(rows, first, end) for rows in self._rows if rows.first < end and first < rows.end]
        if sum(len(indptr) - 1 for indptr, _, _ in pieces) != end - first:
            raise NotHereError(f"this worker has not all of the documents {first} to {end - 1}")
        if len(pieces) == 1:
            return Block(*pieces[0], self.run.n_words, first)
        indptrs, indices, counts = zip(*pieces, strict=True)
        starts = np.cumsum([0, *(indptr[-1] for indptr in indptrs)])
        ends = [indptr[1:] + start for indptr, start in zip(indptrs, starts[:-1], strict=True)]
        indptr = np.concatenate([np.zeros(1, dtype=np.int64), *ends])
        block = Block(indptr, np.concatenate(indices), np.concatenate(counts), self.run.n_words, first)
        self._joined[first, end] = block
        return block


def _blocks(run: Run) -> Corpus:
    blocks: Any = _Blocks(run)
    found: Corpus = blocks
    return found


def _cut(rows: Rows, first: int, end: int) -> tuple[IntArray, IntArray, Any]:
    first, end = max(first, rows.first) - rows.first, min(end, rows.end) - rows.first
    indptr = rows.indptr[first : end + 1]
    entries = slice(indptr[0], indptr[-1])
    return indptr - indptr[0], rows.indices[entries], rows.counts[entries]


def keep_rows(name: str, rows: Rows) -> None:
    """Keep documents under a name, in order."""
    arrays: Any = [np.require(array, requirements="W") for array in rows[1:]]
    own = Rows(rows.first, *arrays)
    _kept().rows[name] = sorted([*_kept().rows.get(name, ()), own], key=lambda rows: rows.first)


def keep_chunk(name: str, chunk: Any, start: int, documents: tuple[int, int], dtype: Any) -> None:
    """Keep some documents of a chunk that begins with document number `start`."""
    counts = as_counts(chunk, empty_ok=True)
    indptr = counts.indptr.astype(np.int64)
    rows = Rows(start, indptr, counts.indices, counts.data.astype(dtype, copy=False))
    first, end = max(start, documents[0]), min(rows.end, documents[1])
    keep_rows(name, Rows(first, *_cut(rows, first, end)))


def rows_of(name: str, first: int, end: int) -> Rows:
    """Return documents that this worker has."""
    run = Run(name, 0, np.array([first, end]), 0)
    block = _Blocks(run).block(0)
    return Rows(first, block.indptr, block.indices, block.counts)


def keep_corpus(name: str, folder: str, fingerprint: str) -> None:
    """Open a corpus from a folder that this worker sees too, and keep it."""
    from momentopic.corpus.disk import reopened

    try:
        _kept().opened[name] = reopened(folder, fingerprint)
    except FileNotFoundError as error:
        raise FileNotFoundError(f"{error}, which every worker must see") from error


def forget(names: Iterable[str], dask_worker: Any) -> None:
    """Drop documents and sessions of these names; for `Client.run`, which names the worker."""
    kept = getattr(dask_worker, "momentopic", _Kept())
    for name in names:
        for shelf in (kept.rows, kept.opened, kept.joined, kept.sessions):
            shelf.pop(name, None)


def clear(dask_worker: Any) -> None:
    """Drop everything; for `Client.run`."""
    dask_worker.momentopic = _Kept()


def _engine() -> ThreadEngine:
    return ThreadEngine(_worker().state.nthreads)


def _on_large_pages(call: Call) -> Call:
    """Return a call whose arrays over words lie in memory as the client's did; in those that came, lookups are slow."""
    from momentopic.moments.sums import on_large_pages

    def laid(value: Any) -> Any:
        if not isinstance(value, np.ndarray) or value.ndim != 2 or value.nbytes < _LARGE:
            return value
        copy = on_large_pages(value.shape, value.dtype)
        copy[:] = value
        return copy

    return call._replace(args=tuple(map(laid, call.args)))


def sum_run(run: Run, call: Call) -> Nodes:
    """Return the sums of a function over the blocks of a run."""
    ordered = OrderedSum(double=True)
    call = _on_large_pages(call)
    _engine().run(
        lambda i, part: ordered.add(run.first + i, part),
        _blocks(run),
        lambda _, block: call.function(block, *call.args, **call.kwargs),
    )
    return ordered.nodes


def map_run(run: Run, call: Call) -> Partial:
    """Return a function of the blocks of a run, concatenated."""
    return _engine().map(call.function, _blocks(run), *call.args, **call.kwargs)


def merged(double: bool, *parts: Nodes) -> Nodes:
    """Return sums of neighbouring runs, added as far as they can be."""
    ordered = OrderedSum(double=double)
    for nodes in parts:
        for node, part in nodes.items():
            ordered.add_node(node, tuple(array.copy() for array in part))  # what is Dask's stays as it is
    return ordered.nodes


def nodes_of(outcome: Outcome) -> Nodes:
    """Return the sums of a pass alone: what leaves for another worker need not come to the client."""
    return outcome.nodes


def begin(session: str, step: int, states: list[Any]) -> None:
    """Keep the states of this worker's blocks, of which so many passes are done already."""
    _kept().sessions[session] = _Session(step, deepcopy(states))  # the client's own, where it is in this process


def states_of(session: str, step: int) -> list[Any]:
    """Return the states of this worker's blocks."""
    return deepcopy(_session(session, step).states)


def update_run(run: Run, session: str, step: int, call: Call) -> Outcome:
    """Do a pass that renews the states of the blocks."""
    own = _session(session, step)
    ordered = OrderedSum()

    def take(i: int, result: Any) -> None:
        part, own.states[i] = result
        ordered.add(run.first + i, part)

    _engine().run(take, _blocks(run), lambda i, block: call.function(block, own.states[i], *call.args, **call.kwargs))
    own.step += 1
    return Outcome(ordered.nodes, {})


def turn_run(
    run: Run,
    session: str,
    step: int,
    call: Call,
    turn: tuple[int, int],
    moves: Moves,
    words: dict[int, Any] | None,
    *outcomes: Outcome,
) -> Outcome:
    """Do a turn (its number, and that of the parts of the words).

    Parameters
    ----------
    moves : Moves
    words : dict, optional
        The parts that this worker begins with.
    *outcomes : Outcome
        Of the turn before, by the workers from which parts come.
    """
    own = _session(session, step)
    if words is not None:
        own.words = deepcopy(words)
    number, n_parts = turn
    held = [(run.first + i + number) % n_parts for i in range(len(own.states))]
    for outcome in outcomes:
        own.words.update({j: part for j, part in outcome.leaving.items() if j in moves.arriving})
    ordered = OrderedSum()

    def take(i: int, result: Any) -> None:
        part, own.states[i], own.words[held[i]] = result
        ordered.add(run.first + i, part)

    _engine().run(
        take,
        _blocks(run),
        lambda i, block: call.function(block, own.states[i], own.words[held[i]], *call.args, **call.kwargs),
    )
    own.step += 1
    return Outcome(ordered.nodes, {j: own.words.pop(j) for j in moves.leaving})


def words_of(session: str, step: int) -> dict[int, Any]:
    """Return the parts of the words that this worker has."""
    return deepcopy(_session(session, step).words)


def _session(name: str, step: int) -> _Session:
    session = _kept().sessions.get(name)
    if session is None or session.step != step:
        raise NotHereError(f"this worker is not at step {step} of {name}")
    return session
