"""Any input into a corpus on disk, in bounded memory; after a kill, the same call goes on where it stopped.

Counts are written as they are read. Texts are read twice: once for the words and the documents they are in, which says
what the vocabulary is, and once to count them. What is held is a shard, and of texts the different words.
"""

from __future__ import annotations

import hashlib
import json
import warnings
from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np

from momentopic.corpus.dates import as_dates
from momentopic.corpus.disk import DiskCorpus
from momentopic.corpus.formats import existing, given_words, is_packed, read_counts, read_vocabulary
from momentopic.corpus.guard import guarded, guarded_records
from momentopic.corpus.readers import FileSource, text_source
from momentopic.corpus.records import Columns, Progress, Record
from momentopic.corpus.streams import BATCH, UnsortedError, count_batches
from momentopic.corpus.text import TextSettings, WordCounter, find_words
from momentopic.corpus.validate import CountsError, InputFileError, as_counts
from momentopic.corpus.writer import SHARD_NONZEROS, ShardWriter


def pack(
    path: str | Path,
    folder: str | Path,
    *,
    vocabulary: str | Path | Sequence[str] | None = None,
    columns: Columns | None = None,
    settings: TextSettings | None = None,
    encoding: str = "utf-8",
    append: bool = False,
    shard_nonzeros: int = SHARD_NONZEROS,
    progress: Progress | None = None,
) -> DiskCorpus:
    """Write a file of texts or counts to a folder that `Corpus.open` opens.

    Parameters
    ----------
    path, vocabulary, columns, settings, encoding, progress
        As in `momentopic.corpus.read_corpus`.
    folder : str or Path
        The folder to make. It becomes a corpus at once, when all is written. If an earlier call for the same input was
        killed, this one goes on after the shards that it had finished.
    append : bool
        Add the documents to the corpus in `folder`. Texts are counted with its words and settings.
    shard_nonzeros : int
        To a shard, about.

    Returns
    -------
    DiskCorpus

    Raises
    ------
    FileExistsError
        If there is something else in the folder.
    FileNotFoundError, InputFileError, OSError
        A full disk among others: nothing half-written is left.
    """
    path = existing(path)
    if is_packed(path):
        raise InputFileError(f"{path} is packed already: copy the folder")
    source = text_source(path, columns or Columns(), encoding)
    words = (given_words if source is not None else read_vocabulary)(path, vocabulary)
    settings = settings or TextSettings()
    asked = (path, source, settings, words)
    task = _task(*asked)
    with ShardWriter(folder, append=append, task=task, shard_nonzeros=shard_nonzeros) as writer:
        if writer.done:
            return DiskCorpus(folder)
        if source is None:
            n_words = _pack_counts(path, words, writer)
            _refuse_changed(path, task, _task(*asked))
            writer.finish(n_words, vocabulary=words, name=path.name)
        else:
            if append and writer.before is not None:
                words, settings = _known_words(folder, writer.before, settings)
            words = _pack_texts(source, words, settings, writer, progress)
            _refuse_changed(path, task, _task(*asked))
            writer.finish(
                vocabulary=words, settings=settings, name=path.name,
                source={"path": str(path.resolve()), "columns": source.columns.names(), "encoding": encoding},
            )  # fmt: skip
    corpus = DiskCorpus(folder)
    empty = int((np.diff(corpus.indptr) == 0).sum())
    if source is not None and empty:
        warnings.warn(
            f"{empty} of the {corpus.shape[0]} documents of {folder} have none of the {corpus.shape[1]} words of the "
            "vocabulary: they stay where they are, without words.",
            UserWarning,
            stacklevel=2,
        )
    return corpus


def _pack_counts(path: Path, words: Sequence[str] | None, writer: ShardWriter) -> int | None:
    """Write the documents of a file of counts; return the number of words if it is known."""
    M = None if words is None else len(words)
    ordered = not writer.notes.get("unsorted", False)
    try:
        found = guarded(path, lambda: count_batches(path, M, writer.n_docs, ordered))
        if found is None:  # it can be read as a whole only
            X = as_counts(guarded(path, lambda: read_counts(path, M)))
            writer.check_words(X.shape[1], words)
            writer.add(X[writer.n_docs :])
            return int(X.shape[1])
        writer.check_words(found[0], words)  # before any long work
        for batch in guarded_records(path, found[1]):
            writer.add(batch)
    except CountsError as error:
        raise InputFileError(f"{path}: {error}") from error
    except UnsortedError:
        writer.forget()
        writer.note(unsorted=True)
        return _pack_counts(path, words, writer)
    return found[0]


def _pack_texts(
    source: FileSource, words: Sequence[str] | None, settings: TextSettings, writer: ShardWriter, progress: Any
) -> Sequence[str]:
    """Write the documents of a file of texts; return the words."""
    words = writer.notes.get("words") if words is None else words
    if words is None:
        words = find_words((record.text for record in source.records(progress)), settings, source.name)
        writer.note(words=words)
    counter = WordCounter(words, settings)
    n_docs = n_dateless = 0
    for records in _batches(islice(source.records(progress), writer.n_docs, None), counter):
        days = as_dates([record.date for record in records])
        dates = [None if np.isnat(day) else str(day) for day in days]
        n_docs, n_dateless = n_docs + len(dates), n_dateless + int(np.isnat(days).sum())
        writer.add(counter.take(), [record.label for record in records], dates, [record.id for record in records])
    if source.columns.date is not None and n_dateless:
        warnings.warn(
            f"the dates of {n_dateless} of the {n_docs} documents packed from {source.name} are missing or cannot be "
            "read: write them as 1993, 1993-04 or 1993-04-21.",
            UserWarning,
            stacklevel=3,
        )
    return words


def _batches(records: Iterator[Record], counter: WordCounter) -> Iterator[list[Record]]:
    """Count texts and yield what is kept of their records, some at a time."""
    held: list[Record] = []
    nonzeros = 0
    for record in records:
        nonzeros += counter.add(record.text)
        held.append(record._replace(text=""))
        if nonzeros >= BATCH or len(held) >= BATCH:
            yield held
            held, nonzeros = [], 0
    if held:
        yield held


def _known_words(
    folder: str | Path, before: dict[str, Any], settings: TextSettings
) -> tuple[Sequence[str], TextSettings]:
    if before["vocabulary"] is None:
        raise InputFileError(f"{folder} has counts without words: texts cannot be appended to it")
    stored = before["text_settings"]
    return before["vocabulary"], settings if stored is None else TextSettings.from_json(stored)


def _task(path: Path, source: FileSource | None, settings: TextSettings, words: Sequence[str] | None) -> dict[str, Any]:
    """Say what is packed, so that another process can tell whether it is the same."""
    if path.is_dir():
        listed = [(str(file.relative_to(path)), *_state(file)) for file in sorted(path.rglob("*.txt"))]
        state: list[Any] = [hashlib.sha256(repr(listed).encode()).hexdigest()]
    else:
        state = list(_state(path))
    chosen = None if words is None else hashlib.sha256(json.dumps(list(words)).encode()).hexdigest()
    task: dict[str, Any] = {"path": str(path.resolve()), "state": state, "words": chosen}
    if source is not None:
        texts = settings.to_json()
        texts = {name: list(value) if isinstance(value, tuple) else value for name, value in texts.items()}
        task |= {"columns": source.columns.names(), "encoding": source.encoding, "settings": texts}
    return task


def _state(path: Path) -> tuple[int, int]:
    stat = path.stat()
    return stat.st_size, stat.st_mtime_ns


def _refuse_changed(path: Path, before: dict[str, Any], now: dict[str, Any]) -> None:
    if before != now:
        raise InputFileError(f"{path} was changed while it was packed: pack it again")
