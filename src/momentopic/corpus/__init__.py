"""What comes in: files, texts and counts, and the row blocks they are cut into."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from momentopic.corpus.blocks import Block, Corpus, as_corpus
from momentopic.corpus.validate import CountsError, InputFileError, as_counts

if TYPE_CHECKING:
    from momentopic.corpus.formats import read_corpus

__all__ = ["Block", "Corpus", "CountsError", "InputFileError", "as_corpus", "as_counts", "read_corpus"]


def __getattr__(name: str) -> Any:
    if name == "read_corpus":
        # scipy.io and the compression modules are needed for files only
        from momentopic.corpus.formats import read_corpus

        return read_corpus
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
