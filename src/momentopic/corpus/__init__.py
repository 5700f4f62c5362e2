"""What comes in: files, texts and counts, and the row blocks they are cut into."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from momentopic.corpus.blocks import Block, Corpus, as_corpus
from momentopic.corpus.records import Columns, Documents
from momentopic.corpus.validate import CountsError, InputFileError, as_counts

if TYPE_CHECKING:
    from momentopic.corpus.disk import DiskCorpus
    from momentopic.corpus.formats import read_corpus
    from momentopic.corpus.packing import pack
    from momentopic.corpus.text import TextSettings
    from momentopic.corpus.writer import ShardWriter

__all__ = [
    "Block",
    "Columns",
    "Corpus",
    "CountsError",
    "DiskCorpus",
    "Documents",
    "InputFileError",
    "ShardWriter",
    "TextSettings",
    "as_corpus",
    "as_counts",
    "pack",
    "read_corpus",
]

# scipy.io, the compression modules and the lists of stop words are needed for files and texts only
_HOME = {
    "DiskCorpus": "disk",
    "ShardWriter": "writer",
    "TextSettings": "text",
    "pack": "packing",
    "read_corpus": "formats",
}


def __getattr__(name: str) -> Any:
    if name in _HOME:
        return getattr(importlib.import_module(f"momentopic.corpus.{_HOME[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
