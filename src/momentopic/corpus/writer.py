"""Documents into shards, in bounded memory; what is finished survives a kill."""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from types import TracebackType
from typing import Any

import numpy as np

from momentopic.corpus.shards import (
    FORMAT,
    FORMAT_VERSION,
    JOURNAL,
    MANIFEST,
    Shard,
    read_manifest,
    read_sealed,
    write_sealed,
    write_shard,
)
from momentopic.corpus.text import TextSettings
from momentopic.corpus.validate import CountsError, InputFileError, as_counts

SHARD_NONZEROS = 1 << 23
_OURS = re.compile(r"[0-9]{6}-[0-9a-f]{8}\.(shard|json)|\..*\.[0-9a-f]{8}\.tmp")


class ShardWriter:
    """Writes a corpus to a folder, a few documents at a time; a context manager.

    Nothing is to be seen of the documents until `finish`: then they are all there. Documents that were added before a
    kill are kept, as far as their shards were finished, for a writer of the same `task`; after a ValueError, which says
    that they cannot be packed, nothing is.

    Parameters
    ----------
    folder : str or Path
        A folder that is not there or empty; with `append`, a packed corpus.
    append : bool
        Add documents to a corpus that is there.
    task : dict, optional
        What is packed, as JSON knows it: a writer of the same task goes on where this one was killed. Without a task,
        nothing is left of an attempt that fails.
    shard_nonzeros : int
        To a shard, about: what is held in memory.

    Attributes
    ----------
    n_docs : int
        Documents that are in finished shards of this task: those to leave out.
    notes : dict
        What `note` kept with them.
    done : bool
        Whether this very task was finished before: there is nothing left to do.
    """

    def __init__(
        self,
        folder: str | Path,
        *,
        append: bool = False,
        task: dict[str, Any] | None = None,
        shard_nonzeros: int = SHARD_NONZEROS,
    ) -> None:
        self.folder = Path(folder)
        self.task = task
        self.shard_nonzeros = shard_nonzeros
        self.before: dict[str, Any] | None = None
        self.shards: list[Shard] = []
        self.notes: dict[str, Any] = {}
        self.done = False
        self._rows: list[tuple[Any, Any, Any]] = []  # row lengths, words, counts
        self._columns: dict[str, list[Any]] = {"labels": [], "dates": [], "ids": []}
        self._pending = 0
        self._finished = False
        self._largest = -1
        if append:
            read_manifest(self.folder)
        else:
            self._refuse_other_content()
            self.folder.mkdir(exist_ok=True)
        self._lock = _locked(self.folder)
        try:
            # once more: another writer may have finished before this one had the lock
            if append:
                self.before = read_manifest(self.folder)
            else:
                self._refuse_other_content()
            self._resume()
            self._sweep_up()
            if not self.done:
                self._write_journal()  # first of all: it says whose folder this is
        except BaseException:
            os.close(self._lock)
            raise

    @property
    def n_docs(self) -> int:
        """Documents in finished shards of this task."""
        return sum(shard.rows for shard in self.shards)

    def add(
        self,
        X: Any,
        labels: Sequence[str | None] | None = None,
        dates: Sequence[str | None] | None = None,
        ids: Sequence[str | None] | None = None,
    ) -> None:
        """Add documents.

        Parameters
        ----------
        X : array-like or scipy sparse matrix, shape (n, M)
            Counts. Where M is not known yet, it may be larger from call to call.
        labels, ids : sequences of (str or None), optional
            One a document.
        dates : sequence of (str or None), optional
            As YYYY-MM-DD.
        """
        if getattr(X, "shape", (1,))[0] == 0:
            return
        try:
            counts = as_counts(X, empty_ok=True)
        except CountsError as error:
            first = self.n_docs + self._pending_docs
            raise CountsError(f"among the documents from number {first} on (counted from 0): {error}") from error
        for begin, end in _pieces(counts.indptr, self.shard_nonzeros - self._pending, self.shard_nonzeros):
            low, high = counts.indptr[[begin, end]]
            self._rows.append(
                (np.diff(counts.indptr[begin : end + 1]), counts.indices[low:high], counts.data[low:high])
            )
            for name, values in (("labels", labels), ("dates", dates), ("ids", ids)):
                self._columns[name].extend([None] * (end - begin) if values is None else values[begin:end])
            self._pending += int(high - low)
            self._largest = max(self._largest, int(counts.indices[low:high].max(initial=-1)))
            # empty documents take memory too
            if self._pending >= self.shard_nonzeros or self._pending_docs >= self.shard_nonzeros // 8:
                self._flush()

    def note(self, **notes: Any) -> None:
        """Keep something with the task that a writer that goes on will need."""
        self.notes.update(notes)
        self._write_journal()

    def forget(self) -> None:
        """Drop all documents of this task, to begin again."""
        self.shards.clear()
        self._drop_pending()
        self._largest = -1
        self._write_journal()

    def finish(
        self,
        n_words: int | None = None,
        *,
        vocabulary: Sequence[str] | None = None,
        settings: TextSettings | None = None,
        name: str | None = None,
        source: dict[str, Any] | None = None,
    ) -> None:
        """Make the documents part of the corpus, at once.

        Parameters
        ----------
        n_words : int, optional
            M; by default the words of the vocabulary, or one more than the largest number of a word.
        vocabulary, settings, name
            As in `Corpus`. With `append`, those that are there stay.
        source : dict, optional
            Where the texts can be read again: path, columns, encoding.
        """
        from momentopic import __version__

        self._flush()
        before = self.before
        shards = [*([] if before is None else before["shards"]), *(shard.to_json() for shard in self.shards)]
        n_docs, nonzeros = (sum(shard[key] for shard in shards) for key in ("rows", "nonzeros"))
        if vocabulary is not None and n_words is None:
            n_words = len(vocabulary)
        largest = max(self._largest, self.notes.get("largest", -1))
        M = n_words if n_words is not None else largest + 1
        if before is not None:
            self.check_words(n_words, vocabulary)
            self.check_words(largest + 1 if largest >= before["shape"][1] else None)
            M, vocabulary = before["shape"][1], before["vocabulary"]
        elif largest >= M:
            raise CountsError(f"a document has word {largest}, but there are {M} (numbered from 0)")
        if nonzeros == 0 or n_docs == 0:
            raise CountsError(f"every one of the {n_docs} documents is empty: there is nothing to pack")
        if vocabulary is not None and len(vocabulary) != M:
            raise ValueError(f"the vocabulary has {len(vocabulary)} words but the counts have {M} columns")
        added = [] if source is None else [{**source, "documents": self.n_docs}]
        manifest = {
            "format": FORMAT,
            "format_version": FORMAT_VERSION,
            "momentopic_version": __version__,
            "name": name if before is None else before["name"],
            "shape": [n_docs, M],
            "nonzeros": nonzeros,
            "tokens": sum(shard["tokens"] for shard in shards),
            "vocabulary": None if vocabulary is None else [str(word) for word in vocabulary],
            "text_settings": (None if settings is None else settings.to_json())
            if before is None
            else before["text_settings"],
            "sources": added if before is None else [*before["sources"], *added],
            "shards": shards,
        }
        write_sealed(self.folder / MANIFEST, manifest)
        self._finished = True
        (self.folder / JOURNAL).unlink(missing_ok=True)

    @property
    def _pending_docs(self) -> int:
        return len(self._columns["ids"])

    def _flush(self) -> None:
        if not self._pending_docs:
            return
        lengths, indices, counts = (np.concatenate(parts) for parts in zip(*self._rows, strict=True))
        indptr = np.concatenate(([0], np.cumsum(lengths, dtype=np.int64)))
        columns = {name: values for name, values in self._columns.items() if any(value is not None for value in values)}
        number = len(self.shards) + (0 if self.before is None else len(self.before["shards"]))
        self.shards.append(write_shard(self.folder, number, indptr, indices, counts, columns))
        self.notes["largest"] = max(self._largest, self.notes.get("largest", -1))
        self._drop_pending()
        self._write_journal()

    def _drop_pending(self) -> None:
        self._rows.clear()
        for values in self._columns.values():
            values.clear()
        self._pending = 0

    def _write_journal(self) -> None:
        shards = [shard.to_json() for shard in self.shards]
        base = 0 if self.before is None else self.before["shape"][0]
        journal = {"task": self.task, "base": base, "notes": self.notes, "shards": shards}
        write_sealed(self.folder / JOURNAL, journal)

    def _resume(self) -> None:
        path = self.folder / JOURNAL
        if not path.is_file():
            return
        journal = read_sealed(path)
        base = 0 if self.before is None else self.before["shape"][0]
        if journal["task"] is None:
            return  # of a writer that cannot be taken up again
        files = {shard["file"] for shard in journal["shards"]}
        if files and self.before is not None and files <= {shard["file"] for shard in self.before["shards"]}:
            path.unlink()  # it was killed after its last step but one
            self.done = journal["task"] == self.task
            return
        if journal["task"] != self.task or journal["base"] != base:
            told = journal["task"].get("path", "something else")
            raise InputFileError(
                f"{self.folder} holds an unfinished pack of {told}, which is not what is to be packed now (or it has "
                f"changed since): finish that one by its own command, or delete {path} to give it up"
            )
        self.notes = journal["notes"]
        self.shards = [Shard.from_json(shard) for shard in journal["shards"]]

    def _sweep_up(self) -> None:
        """Remove what a killed writer left unfinished."""
        known = [*self.shards, *(Shard.from_json(s) for s in (self.before or {}).get("shards", []))]
        keep = {name for shard in known for name in (shard.file, shard.documents)}
        for path in self.folder.iterdir():
            if path.name not in keep and _OURS.fullmatch(path.name):
                path.unlink()

    def _refuse_other_content(self) -> None:
        if not self.folder.exists():
            if not self.folder.absolute().parent.is_dir():
                raise FileNotFoundError(f"cannot pack into {self.folder}: there is no folder {self.folder.parent}")
            return
        if not self.folder.is_dir():
            raise FileExistsError(f"{self.folder} is a file: choose another name for the folder")
        if (self.folder / MANIFEST).exists():
            raise FileExistsError(
                f"{self.folder} holds a packed corpus already: add to it by append=True (--append on the command "
                "line), or choose another name"
            )
        strange = [path.name for path in self.folder.iterdir() if not _OURS.fullmatch(path.name)]
        if strange not in ([], [JOURNAL]):
            raise FileExistsError(f"{self.folder} holds other files: choose another name, or an empty folder")

    def check_words(self, n_words: int | None, vocabulary: Sequence[str] | None = None) -> None:
        """Raise a ValueError if so many words, or these, are not those of the corpus that is appended to."""
        if self.before is None:
            return
        M, words = self.before["shape"][1], self.before["vocabulary"]
        if n_words not in (None, M):
            raise ValueError(
                f"the documents to append have {n_words} words, but {self.folder} has {M}: they must be "
                "counted with the same vocabulary"
            )
        if vocabulary is not None and words is not None and list(vocabulary) != words:
            raise ValueError(
                f"the documents to append were counted with other words than those of {self.folder}: count them with "
                "the same vocabulary"
            )

    def __enter__(self) -> ShardWriter:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._drop_pending()
        try:
            hopeless = self.task is None or not self.shards or (kind is not None and issubclass(kind, ValueError))
            if not self._finished and not self.done and hopeless:
                (self.folder / JOURNAL).unlink(missing_ok=True)
                self.shards.clear()
                self._sweep_up()
                if self.before is None:
                    with contextlib.suppress(OSError):
                        self.folder.rmdir()
        finally:
            os.close(self._lock)


def _pieces(indptr: Any, room: int, size: int) -> list[tuple[int, int]]:
    """Cut rows so that the first piece fills the room that is left, about, and each other one a shard."""
    cuts, n_docs = [0], len(indptr) - 1
    target = int(indptr[0]) + max(room, 1)
    while cuts[-1] < n_docs:
        cut = int(np.searchsorted(indptr, target, side="left"))
        cuts.append(min(max(cut, cuts[-1] + 1), n_docs))
        target = int(indptr[cuts[-1]]) + size
    return list(pairwise(cuts))


def _locked(folder: Path) -> int:
    """Take the folder for this process alone, until the descriptor that is returned is closed."""
    try:
        import fcntl
    except ImportError:  # not on Windows
        return os.open(os.devnull, os.O_RDONLY)
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        os.close(descriptor)
        raise InputFileError(f"another process is packing into {folder}: wait for it to end") from error
    return descriptor
