"""Documents in memory: lists of strings, data frames, annotated matrices."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from momentopic.corpus.records import Columns, Documents, Record, RowsSource, TextSource
from momentopic.corpus.validate import InputFileError


def is_texts(X: Any) -> bool:
    """Whether X is a list, array or column of strings, not a matrix of counts."""
    if isinstance(X, list | tuple) or len(getattr(X, "shape", ())) == 1:
        return len(X) > 0 and isinstance(next(iter(X)), str)
    return False


def list_source(texts: Iterable[Any], name: str = "the list of texts") -> tuple[Iterator[Record], TextSource | None]:
    """Return records of texts; the source is None where the texts can be read only once."""
    if isinstance(texts, str):
        raise TypeError("a single string was given where a list of texts was expected: put it into a list")
    columns = Columns()

    def records() -> Iterator[Record]:
        for n, text in enumerate(texts):
            yield columns.record({"text": text}, f"{name}, entry {n},")

    return records(), None if iter(texts) is texts else RowsSource(name, records)


def frame_source(frame: Any, columns: Columns) -> TextSource:
    """Return the rows of a pandas, polars or any other data frame that narwhals knows."""
    import narwhals as nw

    try:
        known = nw.from_native(frame)
    except TypeError as error:
        raise TypeError(f"a data frame was expected (pandas, polars, ...), got {type(frame).__name__}") from error
    if isinstance(known, nw.LazyFrame):
        known = known.collect()
    name = "the data frame"
    columns.check(known.columns, name)
    known = known.select(columns.within(known.columns))

    def records() -> Iterator[Record]:
        for n, row in enumerate(known.iter_rows(named=True)):
            yield columns.record(row, f"{name}, row {n},")

    return RowsSource(name, records)


def annotated_counts(
    adata: Any, layer: str | None, label: str | None, date: str | None
) -> tuple[Any, list[str], Documents]:
    """Return counts, words and documents of an AnnData-like object: cells are documents, genes are words.

    Parameters
    ----------
    adata : object with X, layers, obs, obs_names and var_names
    layer : str or None
        The layer of counts; None takes the one called "counts" if there is one, else X.
    label, date : str or None
        Columns of obs.
    """
    missing = [name for name in ("X", "layers", "obs", "obs_names", "var_names") if not hasattr(adata, name)]
    if missing:
        raise TypeError(
            f"an AnnData-like object was expected, but {type(adata).__name__} has no attribute {', '.join(missing)}"
        )
    layers = list(adata.layers)
    if layer is not None and layer not in layers:
        raise InputFileError(f"there is no layer {layer!r} (there are: {', '.join(map(str, layers)) or 'none'})")
    if layer is None and "counts" in layers:
        layer = "counts"
    counts = adata.X if layer is None else adata.layers[layer]
    for column in (label, date):
        if column is not None and column not in adata.obs:
            raise InputFileError(f"obs has no column {column!r} (it has: {', '.join(map(str, adata.obs))})")
    labels, dates = (None if column is None else list(adata.obs[column]) for column in (label, date))
    documents = Documents.of(labels, dates, list(adata.obs_names))
    return counts, [str(name) for name in adata.var_names], documents
