"""A refinement on a cluster: the states of blocks stay on the workers, and can be made again when one is lost.

Block functions may use the memory of the states that they renew, so a state cannot be computed again from the one
before. But every pass is deterministic: done again from a known beginning, all of them give the same bits. So a session
keeps a beginning, and what was asked in each pass since (a few numbers a topic). The beginning is the one of the
refinement, which a collapsed one makes of nothing but the documents; after some minutes, or when what was asked takes
up much memory, it is a copy of all states, which then come here once.
"""

from __future__ import annotations

import time
import uuid
import weakref
from collections.abc import Callable
from typing import Any, NamedTuple

from momentopic.corpus.blocks import Corpus
from momentopic.engine import worker
from momentopic.engine.base import Partial
from momentopic.engine.cluster import Cluster, LostError, Share, reporter, size_of
from momentopic.engine.worker import Call, Moves

_COPY_AFTER_SECONDS = 600.0
_COPY_AFTER_BYTES = 1 << 28


class Pass(NamedTuple):
    """What was asked of the blocks in one pass."""

    call: Call
    turn: int | None = None  # its number, if it is one
    n_parts: int = 0
    words: list[Any] | None = None  # where a turn begins with new ones


class Session:
    """The states of the blocks of a corpus, on the workers.

    Parameters
    ----------
    cluster : Cluster
    corpus : Corpus
    states : list
        Those at the beginning.
    """

    def __init__(self, cluster: Cluster, corpus: Corpus, states: list[Any]) -> None:
        self.cluster = cluster
        self.corpus = corpus
        self._set_beginning(0, states, None)
        self.step = 0  # passes done
        self._turned: tuple[int, int] | None = None  # the last turn, and the number of parts
        self.n_turns = 0
        self._forget()

    def _set_beginning(self, step: int, states: list[Any], words: dict[int, Any] | None) -> None:
        self._first_step, self._first_states, self._first_words = step, list(states), words
        self._passes: list[Pass] = []  # since then
        self._bytes, self._since = 0, time.monotonic()

    def _forget(self) -> None:
        """Nothing is on the workers (any more)."""
        self.name = f"session-{uuid.uuid4().hex[:12]}"
        weakref.finalize(self, self.cluster.drop, self.name)
        self._shares: list[Share] = []
        self._outcomes: list[Any] = []  # of the last turn: some of their parts are on their way to other workers
        self._fetched: dict[int, Any] | None = None

    def states(self) -> list[Any]:
        """Return what stands for the states, to be given back with the next pass."""
        return _States(self)

    def words(self) -> list[Any]:
        """Return what stands for the parts of the words; it has the attributes that they have."""
        assert self._turned is not None
        return [_Part(self, j) for j in range(self._turned[1])]

    def continued_by(self, words: list[Any], turn: int) -> bool:
        """Whether these words are those that the workers have, and in the right places for this turn."""
        own = all(isinstance(part, _Part) and part._is_of(self) for part in words)
        return own and self._turned is not None and turn == (self._turned[0] + 1) % self._turned[1]

    def do(self, wanted: Pass, progress: Callable[[int, int], None] | None) -> Partial:
        """Do a pass and return its sums."""
        self._passes.append(wanted)
        self._bytes += size_of(wanted.call) + size_of(wanted.words)
        self.step += 1
        total: Partial = self._persistently(lambda: self._catch_up(progress))
        if wanted.turn is not None:
            self._turned, self._fetched = (wanted.turn, wanted.n_parts), None
            self.n_turns += 1
        if time.monotonic() - self._since > _COPY_AFTER_SECONDS or self._bytes > _COPY_AFTER_BYTES:
            self._copy()
        return total

    def fetched(self, n_turns: int) -> dict[int, Any]:
        """Return the parts of the words as they are after so many turns."""
        if n_turns != self.n_turns:
            raise RuntimeError("these words were changed by a later turn: use the ones that it returned")
        if self._fetched is None:
            self._fetched = self._persistently(self._fetch)
        return self._fetched

    def _fetch(self) -> dict[int, Any]:
        self._catch_up(None)
        kept = self._asked(worker.words_of)
        moving = self.cluster.gather(self._outcomes, self._addresses)
        found: dict[int, Any] = {}
        for parts in (*kept, *(outcome.leaving for outcome in moving)):
            found.update(parts)
        return found

    def _copy(self) -> None:
        """Let all states come here: from now on, they are the beginning."""

        def attempt() -> tuple[list[Any], dict[int, Any] | None]:
            words = None if self._turned is None else self._fetch()
            self._catch_up(None)
            return [state for states in self._asked(worker.states_of) for state in states], words

        self._set_beginning(self.step, *self._persistently(attempt))

    def _asked(self, function: Callable[..., Any]) -> list[Any]:
        futures = [self.cluster.submit(address, function, self.name, self.step) for address, _ in self._shares]
        self.cluster.wait(futures, self._addresses)
        return self.cluster.gather(futures, self._addresses)

    @property
    def _addresses(self) -> list[str]:
        return [share.address for share in self._shares]

    def _persistently(self, attempt: Callable[[], Any]) -> Any:
        def careful() -> Any:
            try:
                return attempt()
            except LostError:
                self._forget()
                raise

        return self.cluster.persistently(careful)

    def _catch_up(self, progress: Callable[[int, int], None] | None) -> Partial | None:
        """Do all passes that the workers have not done; return the sums of the last one."""
        total = None
        if not self._shares:
            self._begin()
        while self._done < self.step:
            total = self._pass(self._passes[self._done - self._first_step], progress)
            self._done += 1
        return total

    def _begin(self) -> None:
        shares = self.cluster.shares(self.corpus)
        futures = []
        for address, run in shares:
            states = self._first_states[run.first : run.first + len(run.boundaries) - 1]
            sent = self.cluster.put(states, [address])
            futures.append(self.cluster.submit(address, worker.begin, self.name, self._first_step, sent))
        self.cluster.wait(futures, [share.address for share in shares])
        self._shares, self._done = shares, self._first_step
        self._due = self._first_words  # the first turn brings them

    def _pass(self, wanted: Pass, progress: Callable[[int, int], None] | None) -> Partial:
        sent = self.cluster.put(wanted.call, self._addresses)
        if wanted.turn is None:
            futures = [
                self.cluster.submit(address, worker.update_run, run, self.name, self._done, sent)
                for address, run in self._shares
            ]
            outcomes = []
        else:
            futures = outcomes = self._turn(wanted, sent)
        sums = [
            self.cluster.submit(address, worker.nodes_of, future)
            for address, future in zip(self._addresses, futures, strict=True)
        ]
        self.cluster.wait(sums, self._addresses, reporter(progress, self._shares))
        if wanted.turn is not None:
            self._outcomes = outcomes
        return self.cluster.total(sums, self._addresses, double=False)

    def _turn(self, wanted: Pass, sent: Any) -> list[Any]:
        assert wanted.turn is not None
        words: Any = self._due if wanted.words is None else wanted.words
        self._due = None
        before, now, after = (self._places(wanted.turn + ahead, wanted.n_parts) for ahead in (-1, 0, 1))
        futures = []
        for i, (address, run) in enumerate(self._shares):
            own = [j for j in range(wanted.n_parts) if now[j] == i]
            arriving = () if words is not None else tuple(j for j in own if before[j] != i)
            leaving = tuple(j for j in own if after[j] != i)
            given = None if words is None else self.cluster.put({j: words[j] for j in own}, [address])
            outcomes = [self._outcomes[sender] for sender in sorted({before[j] for j in arriving})]
            futures.append(
                self.cluster.submit(
                    address, worker.turn_run, run, self.name, self._done, sent, (wanted.turn, wanted.n_parts),
                    Moves(arriving, leaving), given, *outcomes,
                )
            )  # fmt: skip
        return futures

    def _places(self, turn: int, n_parts: int) -> list[int]:
        """Return which share has each part of the words in a turn.

        Block i holds part (i + turn) % n_parts. A part that no block holds waits where the next block to hold it is.
        """
        share_of = [i for i, share in enumerate(self._shares) for _ in range(len(share.run.boundaries) - 1)]
        return [share_of[min((j - turn) % n_parts, len(share_of) - 1)] for j in range(n_parts)]


class _States(list[Any]):
    """Stands for the states of the blocks of a session after some passes."""

    def __init__(self, session: Session) -> None:
        super().__init__([None] * session.corpus.n_blocks)
        self.session = session
        self.step = session.step


class _Part:
    """Stands for a part of the words: comes here when it is looked at. Its own names must not hide the part's."""

    def __init__(self, session: Session, number: int) -> None:
        self._session, self._number = session, number
        self._n_turns = session.n_turns

    def _fetched(self) -> Any:
        return self._session.fetched(self._n_turns)[self._number]

    def _is_of(self, session: Session) -> bool:
        return self._session is session and self._n_turns == session.n_turns

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        return getattr(self._fetched(), name)


def session_of(cluster: Cluster, corpus: Corpus, states: list[Any]) -> Session:
    """Return the session that states stand for, or a new one with these states."""
    if not isinstance(states, _States):
        return Session(cluster, corpus, states)
    if states.step != states.session.step:
        raise RuntimeError("these states were used by an earlier pass: use the ones that it returned")
    return states.session


def local_words(words: list[Any]) -> list[Any]:
    """Return the parts of the words themselves."""
    return [part._fetched() if isinstance(part, _Part) else part for part in words]
