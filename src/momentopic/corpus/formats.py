"""Files of counts and of texts, read into a Corpus.

    .npz                     a scipy sparse matrix (`scipy.sparse.save_npz`)
    .mtx .mtx.gz             Matrix Market
    docword*.txt[.gz]        UCI bag of words; its words in vocab*.txt beside it
    .dat                     lda-c: one document a line, "n word:count word:count ..."
    .jsonl .jsonl.gz         one JSON object a line, the text in a field
    a folder                 one .txt file a document, in the order of their names

Anything wrong with a file is an InputFileError that names the file, the place and what was expected there.
"""

from __future__ import annotations

import gzip
import json
import zipfile
import zlib
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, TextIO, cast

import numpy as np
import scipy.io
import scipy.sparse as sp

from momentopic.corpus.blocks import Corpus
from momentopic.corpus.text import count_known, vectorize
from momentopic.corpus.uci import read_uci
from momentopic.corpus.validate import CountsError, InputFileError


def read_corpus(
    path: str | Path,
    *,
    vocabulary: str | Path | None = None,
    text_field: str = "text",
    min_df: float = 5,
    max_df: float = 0.5,
    stop_words: str | None = "english",
) -> Corpus:
    """Read a corpus from a file or folder; the format follows from the name.

    Parameters
    ----------
    path : str or Path
        See the list of formats in this module's docstring.
    vocabulary : str or Path, optional
        A file with one word a line, for formats of counts. By default the words are looked for beside the counts:
        `vocab.txt`, or `vocab.NAME.txt` for `docword.NAME.txt`.
    text_field : str
        The field of .jsonl objects that holds the text.
    min_df, max_df, stop_words
        For texts: passed to scikit-learn's CountVectorizer.

    Returns
    -------
    Corpus

    Raises
    ------
    FileNotFoundError, InputFileError
    """
    path = Path(path)
    if not path.exists():
        raise FileNotFoundError(f"there is no file or folder {path}")
    texts = _text_reader(path, text_field)
    if texts is not None:
        if vocabulary is not None:
            raise InputFileError(f"{path} holds texts, whose words are their own: a vocabulary is for counts")
        documents = list(guarded(path, lambda: list(texts)))
        return vectorize(documents, source=str(path), min_df=min_df, max_df=max_df, stop_words=stop_words)
    words = _read_vocabulary(path, vocabulary)
    X = guarded(path, lambda: _read_counts(path, None if words is None else len(words)))
    try:
        return Corpus(X, words)
    except CountsError as error:
        raise InputFileError(f"{path}: {error}") from error
    except ValueError as error:
        raise InputFileError(
            f"{path}: {error} The words were read from {_vocabulary_file(path, vocabulary)}."
        ) from error


def read_known_corpus(path: str | Path, words: Sequence[str] | None, *, text_field: str = "text") -> Corpus:
    """Read documents to ask a fitted model about: texts are counted with the words of the model.

    Parameters
    ----------
    path : str or Path
        As in `read_corpus`.
    words : sequence of str, optional
        The words of the model, in its order; needed for texts.
    text_field : str
        The field of .jsonl objects that holds the text.
    """
    path = Path(path)
    if not path.exists():
        raise FileNotFoundError(f"there is no file or folder {path}")
    texts = _text_reader(path, text_field)
    if texts is None:
        X = guarded(path, lambda: _read_counts(path, None if words is None else len(words)))
        return Corpus(X, empty_ok=True)
    if words is None:
        raise InputFileError(f"{path} holds texts, but the model knows no words: fit it with a vocabulary")
    return count_known(guarded(path, lambda: list(texts)), words)


def _text_reader(path: Path, text_field: str) -> Iterator[str] | None:
    if path.is_dir():
        return _folder_texts(path)
    if path.name.lower().endswith((".jsonl", ".jsonl.gz")):
        return _jsonl_texts(path, text_field)
    return None


def _read_counts(path: Path, n_words: int | None) -> Any:
    name = path.name.lower()
    if name.endswith(".npz"):
        with path.open("rb") as file:  # numpy leaves a damaged file open
            return sp.load_npz(file)
    if name.endswith((".mtx", ".mtx.gz")):
        return scipy.io.mmread(path)
    if name.startswith("docword") and name.endswith((".txt", ".txt.gz")):
        return read_uci(path)
    if name.endswith(".dat"):
        return _read_lda_c(path, n_words)
    raise InputFileError(
        f"the format of {path} is not known from its name: expected .npz, .mtx, docword*.txt (UCI), .dat (lda-c), "
        ".jsonl or a folder of .txt files"
    )


def guarded(path: Path, read: Callable[[], Any]) -> Any:
    """Turn what the various readers say of a damaged file into one error that names it."""
    try:
        return read()
    except InputFileError:
        raise
    except (EOFError, zipfile.BadZipFile, zlib.error, gzip.BadGzipFile) as error:
        raise InputFileError(f"{path} is truncated or damaged: {error}") from error
    except UnicodeDecodeError as error:
        raise InputFileError(f"{path} is not UTF-8 text: {error}") from error
    except (ValueError, KeyError, TypeError, OSError, OverflowError, MemoryError, RecursionError) as error:
        raise InputFileError(f"{path} cannot be read, it may be truncated or of another format: {error}") from error


def _open_text(path: Path) -> TextIO:
    if path.suffix == ".gz":
        return cast(TextIO, gzip.open(path, "rt", encoding="utf-8-sig"))
    return path.open(encoding="utf-8-sig")  # with or without a byte order mark


def _read_lda_c(path: Path, n_words: int | None) -> sp.csr_matrix:
    """Read lines "n word:count ... word:count" with n pairs, words numbered from 0."""
    indptr: list[int] = [0]
    indices: list[int] = []
    counts: list[int] = []
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


def _jsonl_texts(path: Path, field: str) -> Iterator[str]:
    with _open_text(path) as file:
        for number, line in enumerate(file, start=1):
            if not line.strip():
                continue
            try:
                record = json.loads(line)
            except ValueError as error:
                raise InputFileError(
                    f"{path}, line {number} is not JSON ({error}); the file may be truncated"
                ) from error
            text = record.get(field) if isinstance(record, dict) else None
            if not isinstance(text, str):
                found = ", ".join(record) if isinstance(record, dict) else type(record).__name__
                raise InputFileError(f"{path}, line {number} has no text in the field {field!r} (it has: {found})")
            yield text


def _folder_texts(path: Path) -> Iterator[str]:
    files = sorted(file for file in path.rglob("*.txt") if file.is_file())
    if not files:
        raise InputFileError(f"the folder {path} has no .txt files: it should hold one for each document")
    for file in files:
        try:
            yield file.read_text(encoding="utf-8-sig")
        except UnicodeDecodeError as error:
            raise InputFileError(f"{file} is not UTF-8 text: {error}") from error


def _vocabulary_file(path: Path, given: str | Path | None) -> Path | None:
    if given is not None:
        return Path(given)
    name = path.name.removesuffix(".gz")
    candidates = [path.with_name("vocab.txt")]
    if name.startswith("docword."):
        candidates.insert(0, path.with_name("vocab." + name.removeprefix("docword.")))
    return next((file for file in candidates if file.is_file()), None)


def _read_vocabulary(path: Path, given: str | Path | None) -> Sequence[str] | None:
    file = _vocabulary_file(path, given)
    if file is None:
        return None
    if not file.is_file():
        raise FileNotFoundError(f"there is no vocabulary file {file}")
    lines: list[str] = guarded(file, lambda: file.read_text(encoding="utf-8-sig")).rstrip("\n").split("\n")
    return lines
