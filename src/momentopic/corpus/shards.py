"""The files of a corpus on disk: CSR shards and the manifest that says what is in them.

    manifest.json      what it is: shape, words, text settings, and for each shard its rows, nonzeros, tokens, checksums
    NUMBER-TOKEN.shard the head: indptr (int64, from 0) and the lengths of the documents (float64); then the body: the
                       words (int32), the counts (uint8, uint16, int32 or float64); little-endian, nothing between them
    NUMBER-TOKEN.json  labels, dates and identifiers of the documents of that shard, if they have any
    packing.json       shards that are finished but not in the manifest yet: of a pack under way, or one that was killed

A file is written under a temporary name, flushed to the disk and renamed; what the manifest names is whole. The
manifest is replaced last and at once: until then the corpus is what it was before.
"""

from __future__ import annotations

import errno
import hashlib
import json
import os
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from io import FileIO
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from momentopic._types import FloatArray, IntArray
from momentopic.corpus.validate import InputFileError

FORMAT = "momentopic-corpus"
FORMAT_VERSION = 1
MANIFEST = "manifest.json"
JOURNAL = "packing.json"

_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
_CHUNK = 1 << 22  # bytes that are checked at a time
_COUNTS = ("uint8", "uint16", "int32", "float64")


@dataclass(frozen=True)
class Shard:
    """What the manifest says of a shard.

    Attributes
    ----------
    file : str
    rows, nonzeros : int
    tokens : float
    counts : str
        The type of its counts.
    head, body : str
        Checksums (SHA-256).
    documents : str or None
        The file of labels, dates and identifiers.
    documents_sum : str or None
        Its checksum.
    """

    file: str
    rows: int
    nonzeros: int
    tokens: float
    counts: str
    head: str
    body: str
    documents: str | None = None
    documents_sum: str | None = None

    @property
    def head_size(self) -> int:
        """Bytes before the words."""
        return 8 * (2 * self.rows + 1)

    @property
    def size(self) -> int:
        """Bytes of the whole file."""
        return self.head_size + self.nonzeros * (4 + np.dtype(self.counts).itemsize)

    @classmethod
    def from_json(cls, value: dict[str, Any]) -> Shard:
        """Make a shard of what the manifest holds; a KeyError, TypeError or ValueError if that is something else."""
        shard = cls(**value)
        if shard.counts not in _COUNTS or min(shard.rows, shard.nonzeros) < 0 or "/" in shard.file:
            raise ValueError(f"{value} describes no shard")
        return shard

    def to_json(self) -> dict[str, Any]:
        """Return it as the manifest holds it."""
        return asdict(self)


class Head(NamedTuple):
    """The head of a shard."""

    indptr: IntArray
    lengths: FloatArray


def smallest_type(counts: Any) -> str:
    """Return the smallest type that holds all counts: most are below 256, and reading is what takes the time."""
    if counts.dtype.kind == "f":
        return "float64"
    largest = int(counts.max(initial=0))
    return "uint8" if largest < 1 << 8 else "uint16" if largest < 1 << 16 else "int32"


def write_shard(folder: Path, number: int, indptr: Any, indices: Any, counts: Any, columns: dict[str, Any]) -> Shard:
    """Write documents as a shard, and their labels, dates and identifiers if there are any.

    Parameters
    ----------
    folder : Path
    number : int
    indptr, indices, counts : arrays
        Of canonical CSR.
    columns : dict
        Lists by the names "labels", "dates" and "ids".
    """
    rows = len(indptr) - 1
    kind = smallest_type(counts)
    totals = np.concatenate(([0.0], np.cumsum(counts, dtype=np.float64)))
    lengths = totals[indptr[1:]] - totals[indptr[:-1]]
    head = np.asarray(indptr, dtype="<i8").tobytes() + lengths.astype("<f8").tobytes()
    body = (indices.astype("<i4", copy=False), counts.astype(np.dtype(kind).newbyteorder("<"), copy=False))
    sums = hashlib.sha256(head), hashlib.sha256()
    for array in body:
        sums[1].update(np.ascontiguousarray(array).data)
    stem = f"{number:06d}-{uuid.uuid4().hex[:8]}"  # a file that is there already is never written to

    def write(file: Any) -> None:
        file.write(head)
        for array in body:
            file.write(np.ascontiguousarray(array).view(np.uint8))

    write_whole(folder / f"{stem}.shard", write)
    documents = documents_sum = None
    if columns:
        text = json.dumps(columns).encode()
        documents, documents_sum = f"{stem}.json", hashlib.sha256(text).hexdigest()
        write_whole(folder / documents, lambda file: file.write(text))
    return Shard(
        f"{stem}.shard", rows, len(indices), float(totals[-1]), kind, sums[0].hexdigest(), sums[1].hexdigest(),
        documents, documents_sum,
    )  # fmt: skip


def read_head(folder: Path, shard: Shard) -> Head:
    """Read and check the head of a shard, and that the file has the size it should have."""
    path = folder / shard.file
    with opened(path) as file:
        size = os.fstat(file.fileno()).st_size
        if size != shard.size:
            what = "truncated" if size < shard.size else "not as it was written"
            raise InputFileError(f"{path} is {what}: it has {size} bytes and should have {shard.size}. {_cure(folder)}")
        head = file.read(shard.head_size)
    if hashlib.sha256(head).hexdigest() != shard.head:
        raise InputFileError(f"{path} is damaged: its checksum is wrong. {_cure(folder)}")
    return Head(
        np.frombuffer(head, "<i8", shard.rows + 1).astype(np.int64, copy=False),
        np.frombuffer(head, "<f8", shard.rows, 8 * (shard.rows + 1)).astype(np.float64, copy=False),
    )


def check_body(folder: Path, shard: Shard) -> None:
    """Read a shard from end to end; an InputFileError if a bit of its words and counts has changed."""
    digest = hashlib.sha256()
    path = folder / shard.file
    with opened(path) as file:
        file.seek(shard.head_size)
        while chunk := file.read(_CHUNK):
            digest.update(chunk)
    if digest.hexdigest() != shard.body:
        raise InputFileError(f"{path} is damaged: its checksum is wrong. {_cure(folder)}")


def read_documents(folder: Path, shard: Shard) -> dict[str, Any]:
    """Read and check the labels, dates and identifiers of a shard."""
    if shard.documents is None:
        return {}
    path = folder / shard.documents
    with opened(path) as file:
        text = file.readall()
    if hashlib.sha256(text).hexdigest() != shard.documents_sum:
        raise InputFileError(f"{path} is damaged: its checksum is wrong. {_cure(folder)}")
    columns: dict[str, Any] = json.loads(text)
    return columns


@contextmanager
def opened(path: Path) -> Iterator[FileIO]:
    """Give a file without a buffer; one that is not there is an InputFileError."""
    try:
        file = path.open("rb", buffering=0)
    except FileNotFoundError as error:
        raise InputFileError(f"{path} is missing. {_cure(path.parent)}") from error
    with file:
        yield file


def read_manifest(folder: Path) -> dict[str, Any]:
    """Read and check the manifest of a corpus on disk."""
    path = folder / MANIFEST
    if not folder.is_dir():
        raise FileNotFoundError(f"there is no folder {folder}")
    if not path.is_file():
        if (folder / JOURNAL).is_file():
            raise InputFileError(
                f"{folder} is not packed to the end: run the same momentopic pack again, it goes on where it stopped"
            )
        raise InputFileError(f"{folder} is no packed corpus: it has no {MANIFEST}. momentopic pack makes one")
    manifest = read_sealed(path)
    if manifest.get("format") != FORMAT:
        raise InputFileError(f"{folder} is no packed corpus: {path} describes something else")
    version = manifest.get("format_version")
    if version != FORMAT_VERSION:
        raise InputFileError(
            f"{folder} was packed by momentopic {manifest.get('momentopic_version')} in format {version}; this version "
            f"reads format {FORMAT_VERSION}: upgrade momentopic or pack again"
        )
    return manifest


def write_sealed(path: Path, content: dict[str, Any]) -> None:
    """Write a JSON object with a checksum of its own."""
    # plain ASCII: JSON can tell of characters that UTF-8 cannot, and texts may have them
    text = json.dumps(content)
    sealed = json.dumps({"sha256": hashlib.sha256(text.encode()).hexdigest(), "content": content})
    write_whole(path, lambda file: file.write(sealed.encode()))


def read_sealed(path: Path) -> dict[str, Any]:
    """Read what `write_sealed` wrote."""
    try:
        sealed = json.loads(path.read_text(encoding="utf-8"))
        content: dict[str, Any] = sealed["content"]
        sound = hashlib.sha256(json.dumps(content).encode()).hexdigest() == sealed["sha256"]
    except (ValueError, KeyError, TypeError) as error:
        raise InputFileError(f"{path} is damaged: it cannot be read ({error}). {_cure(path.parent)}") from error
    if not sound or not isinstance(content, dict):
        raise InputFileError(f"{path} is damaged: its checksum is wrong. {_cure(path.parent)}")
    return content


def write_whole(path: Path, write: Callable[[Any], Any]) -> None:
    """Write a file under a temporary name, flush it to the disk and rename it; a full disk is named as such."""
    temporary = path.with_name(f".{path.name}.{uuid.uuid4().hex[:8]}.tmp")
    try:
        with temporary.open("wb") as file:
            write(file)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
    except OSError as error:
        if error.errno in _FULL:
            full = OSError(
                f"the disk is full: {path} could not be written. Nothing is left of it; free some space and run the "
                "same again"
            )
            full.errno = error.errno
            raise full from error
        raise
    finally:
        temporary.unlink(missing_ok=True)


def _cure(folder: Path) -> str:
    return f"Copy {folder} again from its source, or pack it again."
