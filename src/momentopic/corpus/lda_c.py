"""The lda-c format: one document a line, "n word:count ... word:count" with n pairs, words numbered from 0."""

from __future__ import annotations

import gzip
from collections.abc import Iterator
from pathlib import Path
from typing import TextIO, cast

import numpy as np
import scipy.sparse as sp

from momentopic.corpus.validate import InputFileError


def lda_c_documents(path: Path) -> Iterator[list[tuple[int, int]]]:
    """Yield the words and counts of one document after another.

    Raises
    ------
    InputFileError
        If a line is not of this form; the error names it.
    """
    with _open_text(path) as file:
        for number, line in enumerate(file, start=1):
            fields = line.split()
            if not fields:
                continue
            try:
                announced = int(fields[0])
                pairs = [(int(word), int(count)) for word, count in (field.split(":") for field in fields[1:])]
            except ValueError as error:
                raise InputFileError(
                    f"{path}, line {number}: expected 'n word:count word:count ...' (lda-c), got {line[:60]!r}"
                ) from error
            if announced != len(pairs):
                raise InputFileError(
                    f"{path} is truncated or damaged: line {number} announces {announced} words and holds {len(pairs)}"
                )
            yield pairs


def read_lda_c(path: Path, n_words: int | None) -> sp.csr_matrix:
    """Read all documents; without a vocabulary, the largest word is the last."""
    indptr: list[int] = [0]
    indices: list[int] = []
    counts: list[int] = []
    for pairs in lda_c_documents(path):
        indices.extend(word for word, _ in pairs)
        counts.extend(count for _, count in pairs)
        indptr.append(len(indices))
    largest = max(indices, default=-1)
    if indices and min(indices) < 0:
        raise InputFileError(f"{path}: word {min(indices)} is negative; words are numbered from 0")
    if n_words is not None and largest >= n_words:
        raise InputFileError(f"{path}: word {largest} is not in the vocabulary of {n_words} words (numbered from 0)")
    shape = (len(indptr) - 1, largest + 1 if n_words is None else n_words)
    return sp.csr_matrix((np.array(counts, dtype=np.int64), np.array(indices, dtype=np.int64), indptr), shape=shape)


def _open_text(path: Path) -> TextIO:
    if path.suffix == ".gz":
        return cast(TextIO, gzip.open(path, "rt", encoding="utf-8-sig"))
    return path.open(encoding="utf-8-sig")  # with or without a byte order mark
