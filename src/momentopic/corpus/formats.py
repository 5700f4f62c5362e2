"""Files of counts and of texts, read into a Corpus.

    .npz                     a scipy sparse matrix (`scipy.sparse.save_npz`)
    .mtx .mtx.gz             Matrix Market
    docword*.txt[.gz]        UCI bag of words; its words in vocab*.txt beside it
    .dat                     lda-c: one document a line, "n word:count word:count ..."
    a folder                 with a manifest.json: a packed corpus, which stays on disk (see shards.py)
    texts                    .jsonl, .csv, .tsv (also .gz), .parquet, a folder of .txt files: see readers.py

Anything wrong with a file is an InputFileError that names the file, the place and what was expected there.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import scipy.io
import scipy.sparse as sp

from momentopic.corpus.blocks import Corpus
from momentopic.corpus.guard import guarded
from momentopic.corpus.lda_c import read_lda_c
from momentopic.corpus.readers import text_source
from momentopic.corpus.records import Columns, Documents, Progress, Record, TextSource
from momentopic.corpus.shards import JOURNAL, MANIFEST
from momentopic.corpus.text import PLAIN, TextSettings, count_words
from momentopic.corpus.uci import read_uci
from momentopic.corpus.validate import CountsError, InputFileError


def read_corpus(
    path: str | Path,
    *,
    vocabulary: str | Path | Sequence[str] | None = None,
    columns: Columns | None = None,
    settings: TextSettings | None = None,
    encoding: str = "utf-8",
    progress: Progress | None = None,
) -> Corpus:
    """Read a corpus from a file or folder; the format follows from the name.

    Parameters
    ----------
    path : str or Path
        See the list of formats in this module's docstring.
    vocabulary : str, Path or sequence of str, optional
        The words, or a file with one word a line. Of texts, these words and no others are counted. For counts, the
        words are by default looked for beside them: `vocab.txt`, or `vocab.NAME.txt` for `docword.NAME.txt`.
    columns : Columns, optional
        For texts: the columns to read.
    settings : TextSettings, optional
        For texts: how words are counted.
    encoding : str
        For texts.
    progress : callable, optional
        Called as ``progress(done, total)`` now and then while texts are read.

    Returns
    -------
    Corpus

    Raises
    ------
    FileNotFoundError, InputFileError
    """
    path = existing(path)
    if is_packed(path):
        return Corpus.open(path)
    source = text_source(path, columns or Columns(), encoding)
    if source is not None:
        words = given_words(path, vocabulary)
        return count_source(source.records(progress), source, settings or TextSettings(), words, source.name)
    words = read_vocabulary(path, vocabulary)
    X = guarded(path, lambda: read_counts(path, None if words is None else len(words)))
    try:
        return Corpus(X, words, name=path.name)
    except CountsError as error:
        raise InputFileError(f"{path}: {error}") from error
    except ValueError as error:
        raise InputFileError(
            f"{path}: {error} The words were read from {_vocabulary_file(path, vocabulary)}."
        ) from error


def read_known_corpus(
    path: str | Path,
    words: Sequence[str] | None,
    *,
    columns: Columns | None = None,
    settings: TextSettings | None = None,
    encoding: str = "utf-8",
    progress: Progress | None = None,
) -> Corpus:
    """Read documents to ask a fitted model about: texts are counted with the words of the model.

    Parameters
    ----------
    path, columns, encoding, progress
        As in `read_corpus`.
    words : sequence of str, optional
        The words of the model, in its order; needed for texts.
    settings : TextSettings, optional
        Those that the model's own texts were counted with.
    """
    path = existing(path)
    if is_packed(path):
        return Corpus.open(path)
    source = text_source(path, columns or Columns(), encoding)
    if source is None:
        X = guarded(path, lambda: read_counts(path, None if words is None else len(words)))
        return Corpus(X, empty_ok=True, name=path.name)
    if words is None:
        raise InputFileError(f"{path} holds texts, but the model knows no words: fit it with a vocabulary")
    return count_source(source.records(progress), source, settings or PLAIN, words, source.name, known=True)


def count_source(
    records: Iterable[Record],
    source: TextSource | None,
    settings: TextSettings,
    words: Sequence[str] | None,
    name: str,
    *,
    known: bool = False,
) -> Corpus:
    """Count records in one pass and keep their labels, dates and identifiers.

    Parameters
    ----------
    records : iterable of Record
    source : TextSource or None
        Where the texts can be read again.
    settings : TextSettings
    words : sequence of str, optional
        Count these and no others.
    name : str
        What to call the texts in a message.
    known : bool
        Whether these are documents to ask a model about, all of which may be empty.

    Returns
    -------
    Corpus
    """
    labels: list[str | None] = []
    dates: list[Any] = []
    ids: list[str | None] = []

    def texts() -> Iterable[str]:
        for record in records:
            labels.append(record.label)
            dates.append(record.date)
            ids.append(record.id)
            yield record.text

    X, words = count_words(texts(), settings, words, name)
    kept: list[Any] = [None if all(value is None for value in values) else values for values in (labels, dates, ids)]
    documents = Documents(kept[0], kept[1], kept[2], source)
    empty = int((np.diff(X.indptr) == 0).sum())
    if empty and (known or empty < X.shape[0]):
        warnings.warn(
            f"{empty} of the {X.shape[0]} documents of {name} have none of the {len(words)} words of the "
            "vocabulary: they stay where they are, without words.",
            UserWarning,
            stacklevel=4,
        )
    if kept[1] is not None and (unread := int(np.isnat(documents.dates).sum())):
        warnings.warn(
            f"the dates of {unread} of the {X.shape[0]} documents of {name} are missing or cannot be read: "
            "write them as 1993, 1993-04 or 1993-04-21.",
            UserWarning,
            stacklevel=4,
        )
    return Corpus(X, words, empty_ok=known, documents=documents, settings=settings, name=Path(name).name)


def existing(path: str | Path) -> Path:
    """Return a path that something is at."""
    path = Path(path)
    if not path.exists():
        raise FileNotFoundError(f"there is no file or folder {path}")
    return path


def is_packed(path: Path) -> bool:
    """Whether a path is a corpus on disk (`Corpus.open`), finished or not."""
    ours = path.is_dir() and any((path / name).is_file() for name in (MANIFEST, JOURNAL))
    return ours and next(path.glob("*.txt"), None) is None  # texts may come with a manifest of their own


def read_counts(path: Path, n_words: int | None) -> Any:
    """Read a file of counts as a whole, as a matrix of some kind."""
    name = path.name.lower()
    if name.endswith(".npz"):
        with path.open("rb") as file:  # numpy leaves a damaged file open
            return sp.load_npz(file)
    if name.endswith((".mtx", ".mtx.gz")):
        return scipy.io.mmread(path)
    if name.startswith("docword") and name.endswith((".txt", ".txt.gz")):
        return read_uci(path)
    if name.endswith(".dat"):
        return read_lda_c(path, n_words)
    raise InputFileError(
        f"the format of {path} is not known from its name: expected texts (.jsonl, .csv, .tsv, .parquet, a folder of "
        ".txt files) or counts (.npz, .mtx, docword*.txt, .dat)"
    )


def _vocabulary_file(path: Path, given: str | Path | Sequence[str] | None) -> Path | None:
    if isinstance(given, str | Path):
        return Path(given)
    name = path.name.removesuffix(".gz")
    candidates = [path.with_name("vocab.txt")]
    if name.startswith("docword."):
        candidates.insert(0, path.with_name("vocab." + name.removeprefix("docword.")))
    return next((file for file in candidates if file.is_file()), None)


def given_words(path: Path, given: str | Path | Sequence[str] | None) -> Sequence[str] | None:
    """Return the words that texts are to be counted with, if any were given."""
    return read_vocabulary(path, given) if isinstance(given, str | Path) else given


def read_vocabulary(path: Path, given: str | Path | Sequence[str] | None) -> Sequence[str] | None:
    """Return the words of a file of counts: as given, or from the file beside it."""
    if given is not None and not isinstance(given, str | Path):
        return given
    file = _vocabulary_file(path, given)
    if file is None:
        return None
    if not file.is_file():
        raise FileNotFoundError(f"there is no vocabulary file {file}")
    lines: list[str] = guarded(file, lambda: file.read_text(encoding="utf-8-sig")).rstrip("\n").split("\n")
    return lines
