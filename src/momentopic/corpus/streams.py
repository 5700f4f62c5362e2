"""Files of counts, a batch of documents at a time: what they hold need not fit into memory.

UCI and Matrix Market files may list their entries in any order. Where documents come one after another, one pass is
enough; where they do not, there is one to count them, then one for each part that fits.
"""

from __future__ import annotations

import gzip
import zipfile
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

from momentopic._types import IntArray
from momentopic.corpus.lda_c import lda_c_batches
from momentopic.corpus.uci import entries, read_header
from momentopic.corpus.validate import InputFileError

BATCH = 1 << 20  # nonzeros
_PART = 1 << 24  # entries of a file in no order that are held at a time

Entries = Callable[[], Iterator[tuple[Any, Any, Any]]]  # documents, words and counts, from the first one on, each time


Batches = tuple[int | None, Iterator[sp.csr_matrix]]


class UnsortedError(Exception):
    """The documents of a file do not come one after another."""


def count_batches(path: Path, n_words: int | None, skip: int, ordered: bool) -> Batches | None:
    """Return batches of the documents of a file of counts from number `skip` on, in order.

    Parameters
    ----------
    path : Path
    n_words : int, optional
        Where the file does not say, and there is a vocabulary.
    skip : int
    ordered : bool
        Trust that documents come one after another; if they do not, the iterator raises UnsortedError.

    Returns
    -------
    int or None
        The number of words; None where only the last document will tell.
    iterator over csr_matrix
        Or, instead of both, None if the file is of a form that can be read as a whole only.
    """
    name = path.name.lower()
    if name.endswith(".npz"):
        shape = _csr_shape(path)
        return None if shape is None else (shape[1], _npz_batches(path, shape, skip))
    if name.endswith(".dat"):
        return n_words, _from(lda_c_batches(path, n_words), skip)
    opened = _triples(path)
    if opened is None:
        return None
    shape, n_entries, read = opened
    batches = _in_order if ordered else _in_parts
    return shape[1], batches(path, shape, n_entries, read, skip)


def _triples(path: Path) -> tuple[tuple[int, int], int, Entries] | None:
    """Return shape, number of entries and reader of a UCI file, or of a Matrix Market file of whole numbers."""
    uci = path.name.lower().startswith("docword")

    def positioned() -> tuple[Any, tuple[int, int, int] | None, int]:
        file: Any = gzip.open(path, "rb") if path.suffix == ".gz" else path.open("rb")  # noqa: SIM115
        if uci:
            return file, read_header(path, file), 4
        return file, *_market_header(file)

    file, header, _ = positioned()
    file.close()
    if header is None:
        return None
    n_docs, n_words, n_entries = header

    def read() -> Iterator[tuple[Any, Any, Any]]:
        file, _, line = positioned()
        with file:
            yield from entries(path, file, n_docs, n_words, line)

    return (n_docs, n_words), n_entries, read


def _market_header(file: Any) -> tuple[tuple[int, int, int] | None, int]:
    """Return rows, columns and entries, and the number of the line that follows; None if it is of another kind."""
    kind = file.readline(200).lower().split()
    if kind != [b"%%matrixmarket", b"matrix", b"coordinate", b"integer", b"general"]:
        return None, 0
    number = 2
    while (line := file.readline()).startswith(b"%") or (line and not line.strip()):
        number += 1
    fields = line.split()
    if len(fields) != 3 or not all(field.isdigit() for field in fields):
        return None, 0
    return (int(fields[0]), int(fields[1]), int(fields[2])), number + 1


def _in_order(path: Path, shape: tuple[int, int], n_entries: int, read: Entries, skip: int) -> Iterator[sp.csr_matrix]:
    """Yield documents as they come; the last one of a chunk may go on in the next."""
    first, found = skip, 0  # the next document to yield
    held: list[tuple[Any, Any, Any]] = []
    last = 0
    for docs, words, counts in read():
        found += len(docs)
        if len(docs) == 0:
            continue
        if docs[0] < last or (docs[1:] < docs[:-1]).any():
            raise UnsortedError
        last = int(docs[-1])
        new = int(np.searchsorted(docs, first))
        held.append((docs[new:], words[new:], counts[new:]))
        if sum(len(part[0]) for part in held) >= BATCH and last > first:
            columns: list[Any] = [np.concatenate(column) for column in zip(*held, strict=True)]
            whole = int(np.searchsorted(columns[0], last))
            yield _rows(columns[0][:whole], columns[1][:whole], columns[2][:whole], first, last, shape[1])
            held, first = [(columns[0][whole:], columns[1][whole:], columns[2][whole:])], last
    _refuse_truncated(path, n_entries, found)
    if first < shape[0]:
        columns = [np.concatenate(column) for column in zip(*held, strict=True)] if held else [np.empty(0, int)] * 3
        yield _rows(columns[0], columns[1], columns[2], first, shape[0], shape[1])


def _in_parts(path: Path, shape: tuple[int, int], n_entries: int, read: Entries, skip: int) -> Iterator[sp.csr_matrix]:
    """Yield documents of a file in no order: as many passes over it as there are parts that fit into memory."""
    numbers = np.zeros(shape[0], dtype=np.int64)
    for docs, _, _ in read():
        numbers += np.bincount(docs, minlength=shape[0])
    ends = np.cumsum(numbers)
    _refuse_truncated(path, n_entries, int(ends[-1]))
    first = skip
    while first < shape[0]:
        before = int(ends[first - 1]) if first else 0
        last = max(first + 1, int(np.searchsorted(ends, before + _PART, side="right")))
        held = []
        for docs, words, counts in read():
            inside = (docs >= first) & (docs < last)
            held.append((docs[inside], words[inside], counts[inside]))
        docs, words, counts = (np.concatenate(column) for column in zip(*held, strict=True))
        order = np.argsort(docs, kind="stable")
        yield _rows(docs[order], words[order], counts[order], first, last, shape[1])
        first = last


def _rows(docs: Any, words: Any, counts: Any, first: int, last: int, n_words: int) -> sp.csr_matrix:
    indptr = np.zeros(last - first + 1, dtype=np.int64)
    np.cumsum(np.bincount(docs - first, minlength=last - first), out=indptr[1:])
    return sp.csr_matrix((counts, words, indptr), shape=(last - first, n_words))


def _refuse_truncated(path: Path, announced: int, found: int) -> None:
    if found != announced:
        raise InputFileError(f"{path} is truncated: it announces {announced} entries and holds {found}")


def _from(batches: Iterator[sp.csr_matrix], skip: int) -> Iterator[sp.csr_matrix]:
    """Leave out the first `skip` documents."""
    for batch in batches:
        if skip < batch.shape[0]:
            yield batch[skip:]
        skip = max(0, skip - batch.shape[0])


def _csr_shape(path: Path) -> tuple[int, int] | None:
    """Return the shape of a stored CSR matrix; None if it is of another format."""
    with np.load(path) as file:
        if "format" not in file or bytes(file["format"].item()) != b"csr":
            return None
        n_docs, n_words = file["shape"]
        return int(n_docs), int(n_words)


def _npz_batches(path: Path, shape: tuple[int, int], skip: int) -> Iterator[sp.csr_matrix]:
    """Yield rows of a CSR matrix as scipy stores it; its arrays are read side by side."""
    n_docs, n_words = shape
    with zipfile.ZipFile(path) as file:
        with file.open("indptr.npy") as member:
            indptr: IntArray = np.lib.format.read_array(member).astype(np.int64)
        if len(indptr) != n_docs + 1 or indptr[0] != 0 or (np.diff(indptr) < 0).any():
            raise InputFileError(f"{path} is damaged: its row pointers do not fit its shape {(n_docs, n_words)}")
        with file.open("indices.npy") as first, file.open("data.npy") as second:
            columns = [_array_stream(path, member, int(indptr[-1])) for member in (first, second)]
            for take in columns:
                for size in _sizes(int(indptr[skip])):
                    take(size)
            begin = skip
            while begin < n_docs:
                end = max(begin + 1, int(np.searchsorted(indptr, indptr[begin] + BATCH)))
                end = min(end, n_docs)
                size = int(indptr[end] - indptr[begin])
                words, counts = (take(size) for take in columns)
                yield sp.csr_matrix((counts, words, indptr[begin : end + 1] - indptr[begin]), (end - begin, n_words))
                begin = end


def _sizes(total: int) -> Iterable[int]:
    for first in range(0, total, BATCH):
        yield min(BATCH, total - first)


def _array_stream(path: Path, member: Any, length: int) -> Callable[[int], Any]:
    """Return a function that reads so many further numbers of a stored array."""
    version = np.lib.format.read_magic(member)
    read = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
    shape, _, dtype = read(member)
    if shape != (length,):
        raise InputFileError(f"{path} is damaged: an array has shape {shape} where {length} numbers should be")

    def take(n: int) -> Any:
        parts, missing = [], n * dtype.itemsize
        while missing:
            part = member.read(missing)
            if not part:
                raise InputFileError(f"{path} is truncated")
            parts.append(part)
            missing -= len(part)
        return np.frombuffer(b"".join(parts), dtype=dtype)

    return take
