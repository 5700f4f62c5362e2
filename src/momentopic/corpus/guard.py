"""Whatever a reader says of a damaged file, made into one error that names the file and the cure."""

from __future__ import annotations

import csv
import gzip
import zipfile
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NoReturn, TypeVar

from momentopic.corpus.validate import InputFileError

T = TypeVar("T")

_DAMAGES = (
    EOFError, zipfile.BadZipFile, zlib.error, ValueError, KeyError, TypeError, OSError, OverflowError, MemoryError,
    RecursionError, LookupError, csv.Error,
)  # fmt: skip


def guarded(path: Path, read: Callable[[], T], encoding: str = "utf-8") -> T:
    """Turn what the various readers say of a damaged file into one error that names it."""
    try:
        return read()
    except _DAMAGES as error:
        _refuse_file(path, error, encoding)


def guarded_records(path: Path, records: Iterator[T], encoding: str = "utf-8") -> Iterator[T]:
    """Yield what an iterator yields; what it says of a damaged file becomes one error that names the file."""
    try:
        yield from records
    except _DAMAGES as error:
        _refuse_file(path, error, encoding)


def _refuse_file(path: Path, error: Exception, encoding: str = "utf-8") -> NoReturn:
    if isinstance(error, InputFileError):
        raise error
    if isinstance(error, EOFError | zipfile.BadZipFile | zlib.error | gzip.BadGzipFile):
        raise InputFileError(f"{path} is truncated or damaged: {error}") from error
    if isinstance(error, UnicodeError):
        raise InputFileError(
            f"{path} is not {encoding.upper()} text ({error}): name its encoding by encoding= (--encoding on the "
            "command line), latin-1 or utf-16 for example"
        ) from error
    if isinstance(error, LookupError) and "encoding" in str(error):
        raise InputFileError(f"{path} cannot be read: {error}") from error
    raise InputFileError(f"{path} cannot be read, it may be truncated or of another format: {error}") from error
