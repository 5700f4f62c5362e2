"""The UCI bag-of-words format: docword*.txt, plain or gzipped, read in chunks."""

from __future__ import annotations

import gzip
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

from momentopic import kernels
from momentopic._types import IntArray
from momentopic.corpus.validate import InputFileError

_CHUNK = 1 << 23  # bytes
_SHORTEST = 6  # bytes of the shortest entry, "1 1 1" and the end of the line
_MARK = b"\xef\xbb\xbf"  # a byte order mark


def read_uci(path: Path) -> sp.csr_matrix:
    """Read three header lines (documents, words, entries), then entries "document word count", numbered from 1.

    Parameters
    ----------
    path : Path

    Raises
    ------
    InputFileError
        If the file is not of this form or ends early; the error names the line.
    """
    with gzip.open(path, "rb") if path.suffix == ".gz" else path.open("rb") as file:
        n_docs, n_words, n_entries = read_header(path, file)
        parts = list(entries(path, file, n_docs, n_words))
    found = sum(len(part[0]) for part in parts)
    if found != n_entries:
        raise InputFileError(f"{path} is truncated: it announces {n_entries} entries and holds {found}")
    if not parts:
        return sp.csr_matrix((n_docs, n_words), dtype=np.int32)
    docs, words, counts = (np.concatenate(column) for column in zip(*parts, strict=True))
    del parts
    if (docs[1:] < docs[:-1]).any():
        return sp.csr_matrix(sp.coo_matrix((counts, (docs, words)), (n_docs, n_words)))
    indptr = np.zeros(n_docs + 1, dtype=np.int64)
    np.cumsum(np.bincount(docs, minlength=n_docs), out=indptr[1:])
    return sp.csr_matrix((counts, words, indptr), (n_docs, n_words))


def read_header(path: Path, file: Any) -> tuple[int, int, int]:
    """Read the numbers of documents, words and entries."""
    header = [file.readline().removeprefix(_MARK).strip() for _ in range(3)]
    if not all(line.isdigit() for line in header):
        raise InputFileError(
            f"{path} is not a UCI bag of words: its first three lines must be the numbers of documents, words "
            f"and entries, but are {[line.decode(errors='replace') for line in header]}"
        )
    n_docs, n_words, n_entries = (int(line) for line in header)
    if max(n_docs, n_words) > np.iinfo(np.int32).max:
        raise InputFileError(f"{path} cannot be read: it announces {n_docs} documents and {n_words} words")
    return n_docs, n_words, n_entries


def entries(path: Path, file: Any, n_docs: int, n_words: int, line: int = 4) -> Any:
    """Yield documents, words (numbered from 0) and counts, a chunk of the file at a time, from that line on."""
    for text, first in line_chunks(file, line):
        rows = np.empty((len(text) // _SHORTEST + 1, 3), dtype=np.int64)
        n, bad = kernels.parse.integer_lines(np.frombuffer(text, dtype=np.uint8), rows)
        if bad >= 0:
            shown = text.split(b"\n", bad + 1)[bad][:60].decode(errors="replace")
            raise InputFileError(
                f"{path} cannot be read: line {first + bad} is not 'document word count' but {shown!r}"
            )
        for column, (name, most) in enumerate((("document", n_docs), ("word", n_words))):
            smallest, largest = (rows[:n, column].min(), rows[:n, column].max()) if n else (1, 1)
            if smallest < 1 or largest > most:
                outside = int(((rows[:n, column] < 1) | (rows[:n, column] > most)).argmax())
                value = rows[outside, column]
                raise InputFileError(f"{path}, line {first + outside}: {name} {value} is not in 1..{most}")
        yield (rows[:n, 0] - 1).astype(np.int32), (rows[:n, 1] - 1).astype(np.int32), smallest_integers(rows[:n, 2])


def line_chunks(file: Any, line: int = 1) -> Iterator[tuple[bytes, int]]:
    """Yield whole lines of an open file, a chunk at a time, and the number of the first of them."""
    rest = b""
    while chunk := file.read(_CHUNK):
        text, cut, rest = (rest + chunk).rpartition(b"\n")
        if cut:
            yield text.removeprefix(_MARK) if line == 1 else text, line
            line += text.count(b"\n") + 1
    if rest:
        yield rest.removeprefix(_MARK) if line == 1 else rest, line


def smallest_integers(values: IntArray) -> Any:
    """Return whole numbers in 32 bits, if they fit."""
    small = len(values) == 0 or abs(values).max() <= np.iinfo(np.int32).max
    return values.astype(np.int32 if small else np.int64)
