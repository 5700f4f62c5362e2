"""The lda-c format: one document a line, "n word:count ... word:count" with n pairs, words numbered from 0."""

from __future__ import annotations

import gzip
from collections.abc import Iterator
from pathlib import Path
from typing import NoReturn

import numpy as np
import scipy.sparse as sp

from momentopic import kernels
from momentopic.corpus.uci import line_chunks, smallest_integers
from momentopic.corpus.validate import InputFileError

_SHORTEST = 4  # bytes of the shortest pair, "1:1" and a space


def lda_c_batches(path: Path, n_words: int | None) -> Iterator[sp.csr_matrix]:
    """Yield the documents in order, a chunk of the file at a time.

    Without a number of words, the largest word of a batch is its last.

    Raises
    ------
    InputFileError
        If a line is not of this form, or has a word that is not in the vocabulary; the error names it.
    """
    with gzip.open(path, "rb") if path.suffix == ".gz" else path.open("rb") as file:
        for text, line in line_chunks(file):
            ends = np.empty(text.count(b"\n") + 2, dtype=np.int64)
            pairs = np.empty((len(text) // _SHORTEST + 1, 2), dtype=np.int64)
            n, bad = kernels.parse.pair_lines(np.frombuffer(text, dtype=np.uint8), ends, pairs)
            if bad >= 0:
                _refuse(path, line + bad, text.split(b"\n", bad + 1)[bad].decode())
            ends = ends[: n + 1]
            words, counts = pairs[: ends[-1]].T
            smallest, largest = (int(words.min()), int(words.max())) if len(words) else (0, -1)
            if smallest < 0:
                raise InputFileError(f"{path}: word {smallest} is negative; words are numbered from 0")
            if n_words is not None and largest >= n_words:
                raise InputFileError(
                    f"{path}: word {largest} is not in the vocabulary of {n_words} words (numbered from 0)"
                )
            shape = (n, largest + 1 if n_words is None else n_words)
            yield sp.csr_matrix((smallest_integers(counts), smallest_integers(words), ends), shape=shape)


def read_lda_c(path: Path, n_words: int | None) -> sp.csr_matrix:
    """Read all documents; without a vocabulary, the largest word is the last."""
    batches = list(lda_c_batches(path, n_words))
    M = max((batch.shape[1] for batch in batches), default=n_words or 0)
    for batch in batches:
        batch.resize(batch.shape[0], M)
    return sp.vstack(batches, format="csr") if batches else sp.csr_matrix((0, M), dtype=np.int32)


def _refuse(path: Path, number: int, line: str) -> NoReturn:
    """Say what is wrong with a line."""
    fields = line.split()
    pairs = [field.split(":") for field in fields[1:]]
    if not all(
        len(pair) == 2 and all(part.lstrip("-").isdigit() for part in pair) for pair in [fields[:1] * 2, *pairs]
    ):
        raise InputFileError(
            f"{path}, line {number}: expected 'n word:count word:count ...' (lda-c), got {line[:60]!r}"
        )
    if int(fields[0]) == len(pairs):
        raise InputFileError(f"{path} cannot be read: line {number} has a number that is too large: {line[:60]!r}")
    raise InputFileError(
        f"{path} is truncated or damaged: line {number} announces {fields[0]} words and holds {len(pairs)}"
    )
