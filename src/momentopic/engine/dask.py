"""Sums over blocks by the workers of a Dask cluster.

Documents are sent to the workers once and stay there. Each pass sends its arguments to every worker once, each worker
adds up its consecutive blocks in the tree of `OrderedSum`, and the few sums that are left are added by workers in
pairs: arrays of M x K travel, documents do not. The tree is the corpus' alone, so the bits are the local engine's.

Refinements keep a state for each block: see `engine.session`.
"""

from __future__ import annotations

import logging
import weakref
from collections.abc import Callable
from copy import copy
from typing import Any

import numpy as np

from momentopic.corpus.blocks import Corpus
from momentopic.engine import worker
from momentopic.engine.base import BlockFunction, P, Partial, S, Words
from momentopic.engine.cluster import Cluster, reporter
from momentopic.engine.session import Pass, local_words, session_of
from momentopic.engine.threads import available_cores
from momentopic.engine.worker import Call
from momentopic.exceptions import MissingPackageError

_PATIENCE = 20.0  # seconds for a scheduler to answer
_clusters: weakref.WeakKeyDictionary[Any, Cluster] = weakref.WeakKeyDictionary()


class DaskEngine:
    """Sums over blocks by the workers of a Dask cluster; the same bits as by threads.

    Parameters
    ----------
    client : distributed.Client or str, optional
        The cluster, or the address of its scheduler ("tcp://..."). By default the current client; where there is none,
        a cluster of single-threaded processes is started on this machine, one for each core.
    progress : callable, optional
        Called as ``progress(blocks done, blocks)`` from the calling thread.
    """

    def __init__(self, client: Any = None, progress: Callable[[int, int], None] | None = None) -> None:
        self.client = _client(client)
        self.progress = progress
        if self.client not in _clusters:
            _clusters[self.client] = Cluster(self.client)
        self.cluster = _clusters[self.client]

    def sum(self, function: BlockFunction[P], corpus: Corpus, *args: P.args, **kwargs: P.kwargs) -> Partial:
        """Return the sum over all blocks of ``function(block, *args, **kwargs)``; see `Engine.sum`."""

        def attempt() -> Partial:
            futures, addresses = self._each(worker.sum_run, corpus, Call(function, args, kwargs))
            return self.cluster.total(futures, addresses, double=True)

        total: Partial = self.cluster.persistently(attempt)
        return total

    def map(self, function: BlockFunction[P], corpus: Corpus, *args: P.args, **kwargs: P.kwargs) -> Partial:
        """Return ``function(block, *args, **kwargs)`` of all blocks, concatenated; see `Engine.map`."""

        def attempt() -> Partial:
            futures, addresses = self._each(worker.map_run, corpus, Call(function, args, kwargs))
            parts = self.cluster.gather(futures, addresses)
            return tuple(np.concatenate(column) for column in zip(*parts, strict=True))

        rows: Partial = self.cluster.persistently(attempt)
        return rows

    def _each(self, function: Callable[..., Any], corpus: Corpus, call: Call) -> tuple[list[Any], list[str]]:
        """Let every worker do a pass over its blocks; return its futures, and whose they are."""
        shares = self.cluster.shares(corpus)
        addresses = [share.address for share in shares]
        sent = self.cluster.put(call, addresses)
        futures = [self.cluster.submit(address, function, run, sent) for address, run in shares]
        self.cluster.wait(futures, addresses, reporter(self.progress, shares))
        return futures, addresses

    def update(
        self, function: Callable[..., tuple[Partial, S]], corpus: Corpus, states: list[S], *args: Any, **kwargs: Any
    ) -> tuple[Partial, list[S]]:
        """Sum a function that remembers something of each block; see `Engine.update`."""
        session = session_of(self.cluster, corpus, states)
        total = session.do(Pass(Call(function, args, kwargs)), self.progress)
        return total, session.states()

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
        n_parts = len(words)
        if corpus.n_blocks > n_parts:
            raise ValueError(f"{corpus.n_blocks} blocks cannot hold {n_parts} parts at a time")
        session = session_of(self.cluster, corpus, states)
        brought = None if session.continued_by(words, turn % n_parts) else local_words(words)
        total = session.do(Pass(Call(function, args, kwargs), turn % n_parts, n_parts, brought), self.progress)
        return total, session.states(), session.words()

    def with_progress(self, progress: Callable[[int, int], None]) -> DaskEngine:
        """Return a copy that reports to `progress`, unless this one reports already."""
        engine = copy(self)
        engine.progress = self.progress or progress
        return engine

    def __deepcopy__(self, memo: Any) -> DaskEngine:
        return self  # a cluster cannot be copied: sklearn.clone gives its copies the same one

    def __repr__(self) -> str:
        return f"DaskEngine({self.client.scheduler.address!r})"


def _client(client: Any) -> Any:
    """Return the client that is meant."""
    try:
        from distributed import Client, LocalCluster, default_client
    except ImportError:
        raise MissingPackageError("distributed", "dask", "for a cluster") from None
    if isinstance(client, str):
        return _connected(client)
    if client is not None:
        return client
    try:
        return default_client()
    except ValueError:  # there is none
        # when it is closed, a worker may miss the scheduler, and warns of it with a traceback
        options = {"dashboard_address": ":0", "silence_logs": logging.ERROR}
        cluster = LocalCluster(n_workers=available_cores(), threads_per_worker=1, **options)
        return Client(cluster)


def _connected(address: str) -> Any:
    from distributed import Client, default_client

    try:
        current = default_client()
    except ValueError:
        current = None
    if current is not None and current.scheduler.address == address:
        return current
    try:
        return Client(address, timeout=_PATIENCE)
    except (OSError, TimeoutError, ValueError) as error:
        raise ConnectionError(f"there is no Dask scheduler at {address}: {error}") from error
