"""Documents to ask a fitted model about, counted as those it was fitted on."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from momentopic.corpus.blocks import Corpus
from momentopic.corpus.formats import count_source, read_known_corpus
from momentopic.corpus.frames import list_source
from momentopic.corpus.records import Columns, Progress
from momentopic.corpus.text import PLAIN


def count_known(model: Any, texts: Iterable[str]) -> Corpus:
    """Count the words of a fitted model in texts.

    Parameters
    ----------
    model : DiscreteICA
        Fitted, with `feature_names_in_`.
    texts : iterable of str
    """
    words = getattr(model, "feature_names_in_", None)
    if words is None:
        raise ValueError(
            "texts were given, but the model knows no words: fit it on texts, or on a Corpus with a vocabulary"
        )
    records, source = list_source(texts)
    settings = model.text_settings_ or PLAIN
    return count_source(records, source, settings, list(words), "the list of texts", known=True)


def read_known(
    model: Any,
    path: str | Path,
    *,
    columns: Columns | None = None,
    encoding: str = "utf-8",
    progress: Progress | None = None,
) -> Corpus:
    """Read documents of the words of a fitted model from a file or folder.

    Parameters
    ----------
    model : DiscreteICA
        Fitted.
    path : str or Path
        Texts or counts, as for `Corpus.from_file`.
    columns : Columns, optional
        For texts; by default those that the texts of the fit were read from.
    encoding : str
    progress : callable, optional
    """
    words = getattr(model, "feature_names_in_", None)
    if columns is None:
        columns = Columns(**(model.training_data_.get("columns") or {}), optional=True)
    corpus = read_known_corpus(
        path,
        None if words is None else list(words),
        columns=columns,
        settings=model.text_settings_,
        encoding=encoding,
        progress=progress,
    )
    if corpus.shape[1] != model.n_features_in_:
        raise ValueError(f"{path} has {corpus.shape[1]} words, but the model was fitted on {model.n_features_in_}")
    return corpus
