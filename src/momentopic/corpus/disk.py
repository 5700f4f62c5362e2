"""A corpus that stays on disk: the interface of `Corpus`, its blocks read from shards when they are asked for.

Blocks are read into arrays of their own rather than mapped: mapped pages count as memory of the process for as long as
nobody else wants them. The block after next is announced to the operating system, which fetches it meanwhile. A shard
is read to the end and checked the first time something of it is wanted: no model comes of damaged counts.
"""

from __future__ import annotations

import hashlib
import os
import threading
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from io import FileIO
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

from momentopic._types import FloatArray, IntArray
from momentopic.corpus.blocks import Block, Corpus, block_boundaries
from momentopic.corpus.readers import FileSource
from momentopic.corpus.records import Columns, Documents, Progress, Record
from momentopic.corpus.shards import Shard, check_body, opened, read_documents, read_head, read_manifest
from momentopic.corpus.text import TextSettings
from momentopic.corpus.validate import InputFileError

_AHEAD = 2  # blocks


class DiskCorpus(Corpus):
    """A packed corpus; made by `Corpus.open`.

    In memory are the vocabulary and 16 bytes a document. Labels, dates and identifiers are read when asked for.

    Parameters
    ----------
    folder : str or Path

    Attributes
    ----------
    folder : Path

    Raises
    ------
    FileNotFoundError, InputFileError
        If there is no corpus, or a damaged one.
    """

    def __init__(self, folder: str | Path) -> None:
        self.folder = Path(folder)
        manifest = read_manifest(self.folder)
        try:
            self._shards = _Shards(self.folder, [Shard.from_json(shard) for shard in manifest["shards"]])
            n_docs, n_words = manifest["shape"]
            self.shape = (int(n_docs), int(n_words))
            self.vocabulary = manifest["vocabulary"]
            settings = manifest["text_settings"]
            self.settings = None if settings is None else TextSettings.from_json(settings)
            self.name = manifest["name"]
            self._sources: list[dict[str, Any]] = manifest["sources"]
        except (KeyError, TypeError, ValueError) as error:
            if isinstance(error, InputFileError):
                raise
            raise InputFileError(f"the manifest of {folder} is damaged: {error}") from error
        if self.shape[0] != len(self._shards.indptr) - 1:
            raise InputFileError(f"the manifest of {folder} is damaged: its shards do not belong together")
        self._documents: list[Documents | None] = []
        self.boundaries = block_boundaries(self.indptr, self.shape[1])

    @property
    def indptr(self) -> IntArray:
        """The row pointers of the CSR counts, of shape (N + 1,)."""
        return self._shards.indptr

    @property
    def tokens(self) -> float:
        """The sum of all counts."""
        return float(sum(shard.tokens for shard in self._shards.shards))

    def document_lengths(self) -> FloatArray:
        """Return L_n, the number of tokens of each document."""
        return self._shards.lengths.copy()

    def word_totals(self) -> FloatArray:
        """Return how often each word occurs in all documents."""
        totals = np.zeros(self.shape[1])
        for i in range(self.n_blocks):
            block = self.block(i)
            totals += np.bincount(block.indices, weights=block.counts, minlength=self.shape[1])
        return totals

    def rows(self, documents: Sequence[int] | IntArray) -> sp.csr_matrix:
        """Return the counts of some documents, by their numbers."""
        numbers = np.arange(self.shape[0])[documents]
        found = [self._read(int(n), int(n) + 1).matrix() for n in numbers]
        return sp.vstack(found, format="csr") if found else sp.csr_matrix((0, self.shape[1]), dtype=np.int32)

    @property
    def counts(self) -> sp.csr_matrix:
        """All counts, read into memory: for what can do with nothing less. Fits do with blocks."""
        matrix = self._read(0, self.shape[0]).matrix()
        matrix.has_canonical_format = True
        return matrix

    def fingerprint(self) -> str:
        """Return a checksum of shape and counts, made of those of the shards."""
        sums = [(shard.head, shard.body) for shard in self._shards.shards]
        return hashlib.sha256(repr((self.shape, sums)).encode()).hexdigest()

    @property
    def memory(self) -> int:
        """The bytes of memory that are taken for as long as the corpus is open."""
        return 16 * (self.shape[0] + 1)

    @property
    def block_memory(self) -> int:
        """The bytes that a thread needs to hold the largest block."""
        nonzeros = int(np.diff(self.indptr[self.boundaries]).max())
        return nonzeros * (4 + 2 * np.dtype(self._shards.dtype).itemsize)

    @property
    def documents(self) -> Documents | None:  # type: ignore[override]
        """Labels, dates and identifiers of the documents, and where their texts can be read again."""
        if not self._documents:
            self._documents.append(self._read_documents())
        return self._documents[0]

    def _read_documents(self) -> Documents | None:
        source = _source(self._sources)
        columns: dict[str, list[Any]] = {"labels": [], "dates": [], "ids": []}
        for shard in self._shards.shards:
            found = read_documents(self.folder, shard)
            for name, values in columns.items():
                values.extend(found.get(name) or [None] * shard.rows)
        kept: dict[str, Any] = {
            name: values for name, values in columns.items() if any(value is not None for value in values)
        }
        if "dates" in kept:
            kept["dates"] = np.array(["NaT" if day is None else day for day in kept["dates"]], dtype="datetime64[D]")
        return Documents(**kept, source=source) if kept or source is not None else None

    def summary(self) -> dict[str, Any]:
        """Return what a model remembers of the corpus it was fitted on: numbers, name, and columns."""
        return {
            "name": self.name,
            "documents": self.shape[0],
            "empty_documents": int((np.diff(self.indptr) == 0).sum()),
            "tokens": self.tokens,
            "nonzeros": self.nonzeros,
            "columns": self._sources[0]["columns"] if self._sources else None,
        }

    def block(self, i: int) -> Block:
        """Read block number `i`."""
        block = self._read(int(self.boundaries[i]), int(self.boundaries[i + 1]))
        if self.n_blocks > _AHEAD:
            ahead = (i + _AHEAD) % self.n_blocks  # after the last block, most likely, comes the first one
            self._shards.announce(*self.indptr[self.boundaries[[ahead, ahead + 1]]])
        return block

    def _read(self, first: int, last: int) -> Block:
        begin, end = int(self.indptr[first]), int(self.indptr[last])
        indices, counts = self._shards.read(begin, end)
        return Block(self.indptr[first : last + 1] - begin, indices, counts, self.shape[1], first)

    def check(self, progress: Progress | None = None) -> None:
        """Read everything once; an InputFileError if a bit has changed since it was packed."""
        for n, shard in enumerate(self._shards.shards):
            check_body(self.folder, shard)
            read_documents(self.folder, shard)
            if progress is not None:
                progress(n + 1, len(self._shards.shards))

    @property
    def seconds_read(self) -> float:
        """The time that threads have spent reading blocks in this process, all of them together."""
        return self._shards.seconds

    @property
    def bytes_read(self) -> int:
        """How much they have read, the checks not counted."""
        return self._shards.bytes

    def __reduce__(self) -> tuple[Any, ...]:
        return reopened, (self.folder.resolve(), self.fingerprint(), self.boundaries)


def reopened(folder: str | Path, fingerprint: str, boundaries: IntArray | None = None) -> DiskCorpus:
    """Open a corpus in another process, which sees the same disk."""
    corpus = DiskCorpus(folder)
    if corpus.fingerprint() != fingerprint:
        raise InputFileError(
            f"{folder} has changed since it was opened: documents were appended, or it was packed anew"
        )
    if boundaries is not None:
        corpus.boundaries = boundaries
    return corpus


class _Shards:
    """The shards of a corpus as one long array of nonzeros, checked when first read; shared by all threads."""

    def __init__(self, folder: Path, shards: list[Shard]) -> None:
        self.folder = folder
        self.shards = shards
        self.starts = np.cumsum([0, *(shard.nonzeros for shard in shards)])
        n_docs = sum(shard.rows for shard in shards)
        self.indptr = np.zeros(n_docs + 1, dtype=np.int64)
        self.lengths = np.zeros(n_docs)
        self.dtype = np.float64 if any(shard.counts == "float64" for shard in shards) else np.int32
        row = 0
        for start, shard in zip(self.starts, shards, strict=False):
            indptr, lengths = read_head(folder, shard)
            self.indptr[row + 1 : row + 1 + shard.rows] = start + indptr[1:]
            self.lengths[row : row + shard.rows] = lengths
            row += shard.rows
        self.seconds, self.bytes = 0.0, 0
        self._lock = threading.Lock()
        self._locks = [threading.Lock() for _ in shards]
        self._checked = [False] * len(shards)

    def read(self, begin: int, end: int) -> tuple[Any, Any]:
        """Return the words and the counts of the nonzeros from `begin` to `end`."""
        started = time.perf_counter()
        indices, counts = np.empty(end - begin, dtype=np.int32), np.empty(end - begin, dtype=self.dtype)
        size = 0
        for number, low, high in self._parts(begin, end):
            shard = self.shards[number]
            self._check(number)
            place = slice(low + int(self.starts[number]) - begin, high + int(self.starts[number]) - begin)
            packed = np.empty(high - low, dtype=np.dtype(shard.counts).newbyteorder("<"))
            with opened(self.folder / shard.file) as file:
                for array, offset in ((indices[place], 0), (packed, 4 * shard.nonzeros)):
                    position = shard.head_size + offset + low * array.itemsize
                    size += _read_into(file, array, position, self.folder / shard.file)
            counts[place] = packed
        if indices.dtype.newbyteorder("<") != indices.dtype:
            indices.byteswap(inplace=True)
        with self._lock:
            self.seconds += time.perf_counter() - started
            self.bytes += size
        return indices, counts

    def announce(self, begin: int, end: int) -> None:
        """Tell the operating system that these nonzeros will be asked for soon."""
        if not hasattr(os, "posix_fadvise"):  # not on macOS and Windows
            return
        for number, low, high in self._parts(begin, end):
            shard = self.shards[number]
            width = np.dtype(shard.counts).itemsize
            with opened(self.folder / shard.file) as file:
                for offset, size in ((0, 4), (4 * shard.nonzeros, width)):
                    position = shard.head_size + offset + low * size
                    os.posix_fadvise(file.fileno(), position, (high - low) * size, os.POSIX_FADV_WILLNEED)

    def _parts(self, begin: int, end: int) -> Iterator[tuple[int, int, int]]:
        """Yield the shards that hold nonzeros from `begin` to `end`, and which of their own those are."""
        number = int(np.searchsorted(self.starts, begin, side="right")) - 1
        while begin < end:
            start, stop = int(self.starts[number]), int(self.starts[number + 1])
            if stop > begin:
                yield number, begin - start, min(end, stop) - start
                begin = min(end, stop)
            number += 1

    def _check(self, number: int) -> None:
        if not self._checked[number]:
            with self._locks[number]:
                if not self._checked[number]:
                    check_body(self.folder, self.shards[number])
                    self._checked[number] = True


def _read_into(file: FileIO, array: Any, position: int, path: Path) -> int:
    """Fill an array from a place in a file; one read may give less than was asked for."""
    view = memoryview(array.view(np.uint8))
    file.seek(position)
    done = 0
    while done < len(view):
        n = file.readinto(view[done:])
        if not n:
            raise InputFileError(f"{path} was truncated while it was read")
        done += n
    return done


@dataclass(frozen=True)
class _Sources:
    """Files of texts, one after another."""

    parts: tuple[tuple[FileSource, int], ...]
    columns: Columns

    @property
    def name(self) -> str:
        return ", ".join(part.name for part, _ in self.parts)

    def records(self, progress: Progress | None = None) -> Iterator[Record]:
        for part, n_docs in self.parts:
            yield from islice(part.records(progress), n_docs)


def _source(sources: list[dict[str, Any]]) -> _Sources | None:
    """Return where the texts can be read again, if all of their files are still there."""
    parts = []
    for source in sources:
        if source["columns"] is None or not Path(source["path"]).exists():
            return None
        columns = Columns(**source["columns"])
        parts.append((FileSource(Path(source["path"]), columns, source["encoding"]), int(source["documents"])))
    return _Sources(tuple(parts), parts[0][0].columns) if parts else None
