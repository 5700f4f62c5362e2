"""The workers of a Dask cluster, as the engine sees them: who there is, and who has which documents."""

from __future__ import annotations

import asyncio
import itertools
import time
import uuid
import weakref
from collections.abc import Callable, Sequence
from concurrent.futures import CancelledError
from concurrent.futures import TimeoutError as FutureTimeoutError
from typing import Any, NamedTuple

import numpy as np

from momentopic.corpus.blocks import Corpus
from momentopic.engine import worker
from momentopic.engine.base import OrderedSum, Partial
from momentopic.engine.worker import NotHereError, Rows, Run

_POLL = 1.0  # seconds between two looks at whether the workers are still there
_GRACE = 15.0  # seconds in which a new worker may take the place of a lost one
_LOSSES = 5  # in one pass, after which it is the pass that kills workers
_EMBEDDED = 1 << 14  # bytes that travel inside a task


class LostError(Exception):
    """A worker, or what it had, is gone."""


class Share(NamedTuple):
    """The blocks of one worker."""

    address: str
    run: Run


class Cluster:
    """The workers of a client, in a fixed order, and the documents that they have."""

    def __init__(self, client: Any) -> None:
        self.client = client
        self.workers: dict[str, int] = {}  # address: threads, in the order in which blocks are dealt out
        self._have: dict[str, dict[str, list[tuple[int, int]]]] = {}  # documents of each name and worker
        self._names: dict[int, str] = {}
        self._dropped: list[str] = []
        # through the scheduler everything travels twice; but workers elsewhere may not be reachable from here
        near = client.scheduler.address.startswith(("inproc://", "tcp://127.0.0.1"))
        self.direct = True if near else client.direct_to_workers

    # who there is

    def look(self) -> None:
        """Take in workers that are new, and forget those that are gone: a new one takes the place of a lost one."""
        present = dict(self.client.nthreads())
        new = iter(sorted(set(present) - set(self.workers)))
        kept: dict[str, int] = {}
        for address in self.workers:
            found = address if address in present else next(new, None)
            if found is not None:
                kept[found] = present[found]
        kept.update((address, present[address]) for address in new)
        for have in list(self._have.values()):  # a corpus may go, and its entry with it, at any moment
            for address in set(have) - set(kept):
                del have[address]
        self.workers = kept

    def ready(self) -> None:
        """Wait for the first workers.

        Raises
        ------
        TimeoutError
            If none comes.
        """
        if not self.workers:
            try:
                self.client.wait_for_workers(1, timeout=60)
            except TimeoutError:
                raise TimeoutError(
                    f"the cluster at {self.client.scheduler.address} has no workers: start some, then try again"
                ) from None
            self.look()

    def missing(self, addresses: Sequence[str]) -> bool:
        """Whether one of these workers is gone."""
        return not set(addresses) <= set(self.client.nthreads())

    def recover(self) -> None:
        """After a loss: wait a little for others in the places of lost workers, then go on with those there are."""
        before, until = len(self.workers), time.monotonic() + _GRACE
        while len(self.client.nthreads()) < before and time.monotonic() < until:
            time.sleep(0.2)
        self._have.clear()  # what the others still have is sent again: simpler than being sure of it
        self.client.run(worker.clear, on_error="ignore")
        self.workers.clear()
        self.ready()

    # what they have

    def name(self, corpus: Any) -> str:
        """Return the name under which workers keep these documents; it is dropped with them."""
        # copies of a corpus that are cut in other places share their shards, or their counts
        source = corpus._shards if hasattr(corpus, "folder") else corpus.counts
        if id(source) not in self._names:
            name = f"documents-{uuid.uuid4().hex[:12]}"
            self._names[id(source)] = name
            weakref.finalize(source, self._drop, id(source), name)
            self.look()
        return self._names[id(source)]

    def _drop(self, number: int, name: str) -> None:
        self._names.pop(number, None)
        self._have.pop(name, None)
        self.drop(name)

    def drop(self, name: str) -> None:
        """Let workers forget documents or a session, with the next pass."""
        self._dropped.append(name)  # from a finaliser: no talk with the cluster here

    def shares(self, corpus: Corpus) -> list[Share]:
        """Return who has which blocks, after sending to workers the documents they do not have yet."""
        self.ready()
        name = self.name(corpus)
        threads = np.cumsum([0, *self.workers.values()])
        cuts = np.round(threads / threads[-1] * corpus.n_blocks).astype(int)
        found = []
        for address, (first, end) in zip(list(self.workers), itertools.pairwise(cuts), strict=True):
            if end > first:
                run = Run(name, int(first), corpus.boundaries[first : end + 1], corpus.shape[1])
                found.append(Share(address, run))
        if self._dropped:
            names, self._dropped = self._dropped, []
            self.client.run(worker.forget, names, on_error="ignore")
        self._send(corpus, name, found)
        return found

    def _send(self, corpus: Any, name: str, shares: list[Share]) -> None:
        have = self._have.setdefault(name, {})
        wanted = [
            (address, first, end)
            for address, run in shares
            for first, end in without(int(run.boundaries[0]), int(run.boundaries[-1]), have.get(address, []))
        ]
        tasks: list[tuple[str, tuple[Any, ...]]] = []
        if hasattr(corpus, "folder"):  # workers read it themselves, whichever blocks they have
            missing = [address for address, _ in shares if address not in have]
            wanted = [(address, 0, corpus.shape[0]) for address in missing]
            folder, fingerprint = str(corpus.folder.resolve()), corpus.fingerprint() if missing else ""
            tasks = [(address, (worker.keep_corpus, name, folder, fingerprint)) for address in missing]
        elif hasattr(corpus.counts, "chunks"):
            tasks = self._remote_rows(corpus.counts, name, wanted)
        else:
            for address, first, end in wanted:
                rows = self.put(_rows(corpus.counts, first, end), [address])
                tasks.append((address, (worker.keep_rows, name, rows)))
        self.wait([self.submit(address, *task) for address, task in tasks], [address for address, _ in tasks])
        for address, first, end in wanted:
            have.setdefault(address, []).append((first, end))

    def _remote_rows(self, counts: Any, name: str, wanted: list[tuple[str, int, int]]) -> list[Any]:
        """Return tasks that bring documents from worker to worker; where none has them, from the collection."""
        have = self._have[name]
        tasks: list[Any] = []
        futures = dict(enumerate(counts.futures))
        counts.futures = []
        for address, first, end in wanted:
            left = [(first, end)]
            for other in have:
                for a, b in have[other]:
                    common = [(max(low, a), min(high, b)) for low, high in left if low < b and a < high]
                    for low, high in common:
                        rows = self.submit(other, worker.rows_of, name, low, high)
                        tasks.append((address, (worker.keep_rows, name, rows)))
                    left = [piece for low, high in left for piece in without(low, high, [(a, b)])]
            for low, high in left:
                firsts, ends = counts.starts[:-1], counts.starts[1:]
                for i in np.flatnonzero((firsts < high) & (ends > low)).tolist():
                    if i not in futures:
                        futures[i] = self.client.compute(counts.chunks[i], workers=[address], allow_other_workers=True)
                    task = (worker.keep_chunk, name, futures[i], int(firsts[i]), (low, high), counts.dtype)
                    tasks.append((address, task))
        return tasks

    def measure(self, chunks: list[Any]) -> Any:
        """Compute the chunks of a collection on the workers that will have their documents; return what they are like.

        Parameters
        ----------
        chunks : list of Delayed

        Returns
        -------
        momentopic.corpus.collections.RemoteCounts
        """
        from momentopic.corpus.collections import RemoteCounts, measured

        self.ready()
        addresses = np.repeat(list(self.workers), list(self.workers.values()))
        places = [[str(addresses[i * len(addresses) // len(chunks)])] for i in range(len(chunks))]
        futures = [
            self.client.compute(chunk, workers=place, allow_other_workers=True)
            for chunk, place in zip(chunks, places, strict=True)
        ]
        # Dask itself does again what is lost here
        found = [
            self.client.submit(measured, future, workers=place, allow_other_workers=True, pure=False)
            for future, place in zip(futures, places, strict=True)
        ]
        return RemoteCounts(chunks, self.client.gather(found, direct=self.direct), futures)

    # talking to them

    def put(self, value: Any, addresses: list[str]) -> Any:
        """Return a value as tasks take it: as it is if it is small, else sent to these workers once."""
        if size_of(value) <= _EMBEDDED:
            return value
        try:
            return self.client.scatter(
                _Parcel(value), workers=addresses, broadcast=len(addresses) > 1, direct=self.direct, hash=False
            )
        except OSError as error:
            raise LostError("a worker is gone") from error

    def submit(self, address: str, function: Callable[..., Any], *args: Any) -> Any:
        """Return the future of a task that no other worker can do."""
        from distributed import Future

        parcels = (arg if isinstance(arg, Future) else _Parcel(arg) for arg in args)
        return self.client.submit(_open, function, *parcels, workers=[address], allow_other_workers=False, pure=False)

    def wait(self, futures: list[Any], addresses: Sequence[str], progress: Callable[[int], None] | None = None) -> None:
        """Wait for the tasks of these workers.

        Parameters
        ----------
        futures : list of Future
        addresses : list of str
        progress : callable, optional
            Called with the number of each task that is done.

        Raises
        ------
        LostError
            If a worker is gone, or has not what it was asked about.
        """
        from distributed import wait

        left = set(range(len(futures)))
        try:
            while left:
                try:
                    wait([futures[i] for i in left], timeout=_POLL, return_when="FIRST_COMPLETED")
                except TimeoutError:
                    if self.missing(addresses):
                        raise LostError("a worker is gone") from None
                    continue
                except CancelledError as error:
                    raise LostError("a worker is gone") from error
                for i in sorted(left):
                    if futures[i].done():
                        _check(futures[i])
                        left.discard(i)
                        if progress is not None:
                            progress(i)
        except BaseException:
            self.client.cancel(futures)
            raise

    def gather(self, futures: list[Any], addresses: Sequence[str]) -> list[Any]:
        """Return the results of tasks that these workers have done."""
        from distributed import KilledWorker

        # a result that is lost with its worker would be waited for, as long as it takes
        coming = asyncio.run_coroutine_threadsafe(
            self.client.gather(futures, direct=self.direct, asynchronous=True), self.client.loop.asyncio_loop
        )
        try:
            while True:
                try:
                    results: list[Any] = coming.result(_POLL)
                    return results
                except FutureTimeoutError:
                    if coming.done() or self.missing(addresses):
                        raise LostError("a result is gone") from None
        except (CancelledError, KilledWorker, NotHereError, OSError) as error:
            raise LostError("a result is gone") from error
        finally:
            coming.cancel()

    def total(self, futures: list[Any], addresses: list[str], double: bool) -> Partial:
        """Add up the sums of neighbouring runs: in pairs by workers, the last ones here."""
        while len(futures) > 2:
            pairs = [futures[i : i + 2] for i in range(0, len(futures), 2)]
            futures = [
                self.submit(address, worker.merged, double, *pair)
                for address, pair in zip(addresses[::2], pairs, strict=True)
            ]
            addresses = addresses[::2]
        self.wait(futures, addresses)
        ordered = OrderedSum(double=double)
        for nodes in self.gather(futures, addresses):
            for node, part in nodes.items():
                ordered.add_node(node, tuple(np.require(array, requirements="W") for array in part))
        return ordered.result()

    def persistently(self, attempt: Callable[[], Any]) -> Any:
        """Return what an attempt returns; after the loss of a worker, attempt it again with the others."""
        for _ in range(_LOSSES):
            try:
                return attempt()
            except LostError:
                self.recover()
        raise RuntimeError(
            f"workers of the cluster were lost {_LOSSES} times in one pass over the corpus. If they were killed for "
            "their memory, use more workers, or workers with more of it; their logs say why they ended."
        )


def reporter(progress: Callable[[int, int], None] | None, shares: list[Share]) -> Callable[[int], None]:
    """Return a function that takes the number of a share that is done and reports the blocks done."""
    sizes = [len(run.boundaries) - 1 for _, run in shares]
    done: list[int] = []

    def report(i: int) -> None:
        done.append(sizes[i])
        if progress is not None:
            progress(sum(done), sum(sizes))

    return report


class _Parcel:
    """A value that was sent ahead. Dask looks into tuples and dicts for futures; not into this."""

    def __init__(self, value: Any) -> None:
        self.value = value


def _open(function: Callable[..., Any], *args: Any) -> Any:
    return function(*(arg.value if isinstance(arg, _Parcel) else arg for arg in args))


def _check(future: Any) -> None:
    """Raise what a task raised; LostError where it was because of a lost worker."""
    from distributed import KilledWorker

    if future.status == "finished":
        return
    if future.status in ("cancelled", "lost"):
        raise LostError("a worker is gone")
    error = future.exception()
    if isinstance(error, NotHereError | KilledWorker | CancelledError):
        raise LostError(str(error)) from error
    raise error


def size_of(value: Any) -> int:
    """Return about how many bytes the arrays in a value have."""
    if isinstance(value, np.ndarray):
        return value.nbytes
    if isinstance(value, dict):
        return sum(map(size_of, value.values()))
    if isinstance(value, tuple | list):
        return sum(map(size_of, value))
    return 64 + size_of(getattr(value, "__dict__", ())) if not callable(value) else 64


def _rows(counts: Any, first: int, end: int) -> Rows:
    indptr = counts.indptr[first : end + 1].astype(np.int64)
    entries = slice(indptr[0], indptr[-1])
    return Rows(first, indptr - indptr[0], counts.indices[entries], counts.data[entries])


def without(first: int, end: int, have: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
    """Return the ranges of numbers from first to end that are in none of the others."""
    left = []
    for a, b in sorted(have):
        if first < min(a, end):
            left.append((first, min(a, end)))
        first = max(first, b)
    if first < end:
        left.append((first, end))
    return left
