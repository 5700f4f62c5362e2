"""Files of texts, read one document after another.

.jsonl .jsonl.gz                 one JSON object a line
.csv .csv.gz .tsv .tsv.gz        a header, then one document a row; the delimiter is seen from the header
.parquet                         one document a row (needs pyarrow)
a folder                         one .txt file a document, in the order of their names; the folder it is in is its label
"""

from __future__ import annotations

import csv
import gzip
import io
import json
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, BinaryIO, cast

from momentopic.corpus.guard import guarded, guarded_records
from momentopic.corpus.records import Columns, Progress, Record
from momentopic.corpus.validate import InputFileError
from momentopic.exceptions import MissingPackageError

_LONGEST_LINE = 1 << 27  # characters
_OFTEN = 200  # documents between two reports of progress
_DELIMITERS = ",;\t|"


@dataclass(frozen=True)
class FileSource:
    """A file or folder of texts, which is read anew each time.

    Attributes
    ----------
    path : Path
    columns : Columns
    encoding : str
    """

    path: Path
    columns: Columns
    encoding: str = "utf-8"

    @property
    def name(self) -> str:
        """The path."""
        return str(self.path)

    def records(self, progress: Progress | None = None) -> Iterator[Record]:
        """Yield the documents from the first one on; anything wrong is an InputFileError that names the place."""
        return guarded_records(self.path, self._records(progress), self.encoding)

    def _records(self, progress: Progress | None) -> Iterator[Record]:
        name = self.path.name.lower().removesuffix(".gz")
        if self.path.is_dir():
            return self._folder(progress)
        if name.endswith(".parquet"):
            return self._parquet(progress)
        return self._lines(name.endswith(".jsonl"), progress)

    def _folder(self, progress: Progress | None) -> Iterator[Record]:
        files = sorted(file for file in self.path.rglob("*.txt") if file.is_file())
        if not files:
            raise InputFileError(f"the folder {self.path} has no .txt files: it should hold one for each document")
        parts = [file.relative_to(self.path) for file in files]
        sorted_into_folders = len({part.parent for part in parts}) > 1
        for n, (file, part) in enumerate(zip(files, parts, strict=True)):
            text = guarded(file, partial(file.read_text, encoding=_with_mark(self.encoding)), self.encoding)
            label = part.parent.as_posix() if sorted_into_folders else None
            yield Record(text, label, None, part.as_posix())
            if progress is not None and n % _OFTEN == 0:
                progress(n + 1, len(files))

    def _lines(self, json_lines: bool, progress: Progress | None) -> Iterator[Record]:
        size = self.path.stat().st_size
        with self.path.open("rb") as raw:
            file = gzip.GzipFile(fileobj=raw) if self.path.suffix.lower() == ".gz" else raw
            text = io.TextIOWrapper(cast(BinaryIO, file), encoding=_with_mark(self.encoding), newline="")
            records = self._json_records(text) if json_lines else self._csv_records(text)
            for n, record in enumerate(records):
                yield record
                if progress is not None and n % _OFTEN == 0:
                    progress(raw.tell(), size)

    def _json_records(self, text: io.TextIOWrapper) -> Iterator[Record]:
        for number, line in enumerate(self._bounded_lines(text), start=1):
            if not line.strip():
                continue
            where = f"{self.path}, line {number}"
            try:
                row = json.loads(line)
            except ValueError as error:
                raise InputFileError(f"{where} is not JSON ({error}); the file may be truncated") from error
            if not isinstance(row, dict):
                raise InputFileError(f"{where} is no JSON object with a text in it but of type {type(row).__name__}")
            self.columns.check(row.keys(), where)
            yield self.columns.record(row, where)

    def _csv_records(self, text: io.TextIOWrapper) -> Iterator[Record]:
        csv.field_size_limit(max(csv.field_size_limit(), _LONGEST_LINE))
        lines = self._bounded_lines(text)
        first = next(lines, "")
        if not first.strip():
            raise InputFileError(f"{self.path} is empty: it should begin with a line of column names")
        header_delimiter = max(_DELIMITERS, key=first.count)
        names = next(csv.reader([first], delimiter=header_delimiter))
        self.columns.check(names, f"{self.path}, line 1,")
        reader = csv.reader(lines, delimiter=header_delimiter, strict=True)
        try:
            for fields in reader:
                if not fields:
                    continue
                where = f"{self.path}, line {reader.line_num + 1}"
                if len(fields) != len(names):
                    raise InputFileError(
                        f"{where} has {len(fields)} fields, but the header has {len(names)}: the file may be "
                        "truncated, or a text with a delimiter in it is not quoted"
                    )
                yield self.columns.record(dict(zip(names, fields, strict=True)), where)
        except csv.Error as error:
            raise InputFileError(
                f"{self.path}, line {reader.line_num + 1} is not well-formed CSV ({error}); the file may be truncated"
            ) from error

    def _bounded_lines(self, text: io.TextIOWrapper) -> Iterator[str]:
        number = 0
        while line := text.readline(_LONGEST_LINE):
            number += 1
            if len(line) >= _LONGEST_LINE:
                raise InputFileError(
                    f"{self.path}, line {number} is longer than {_LONGEST_LINE} characters: "
                    "there should be one document a line"
                )
            yield line

    def _parquet(self, progress: Progress | None) -> Iterator[Record]:
        try:
            from pyarrow import parquet
        except ImportError as error:
            raise MissingPackageError("pyarrow", "parquet", "to read .parquet files") from error
        with self.path.open("rb") as raw:
            file: Any = parquet.ParquetFile(raw)
            names = file.schema_arrow.names
            self.columns.check(names, str(self.path))
            done, total = 0, file.metadata.num_rows
            for batch in file.iter_batches(batch_size=1024, columns=self.columns.within(names)):
                for row in batch.to_pylist():
                    done += 1
                    yield self.columns.record(row, f"{self.path}, row {done}")
                if progress is not None:
                    progress(done, total)


def text_source(path: Path, columns: Columns, encoding: str = "utf-8") -> FileSource | None:
    """Return the source of texts at a path, or None if it is not of a format of texts."""
    name = path.name.lower().removesuffix(".gz")
    if path.is_dir() or name.endswith((".jsonl", ".csv", ".tsv", ".parquet")):
        return FileSource(path, columns, encoding)
    return None


def _with_mark(encoding: str) -> str:
    """Have a byte order mark, which some programs put before UTF-8, left out."""
    return "utf-8-sig" if encoding.lower().replace("_", "-") in ("utf-8", "utf8") else encoding
