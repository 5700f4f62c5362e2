"""What is known of documents beside their counts: text, label, date and identifier, and where to read the text again.

Texts are streamed: a corpus keeps labels, dates and identifiers, which are small, and reads the texts again from their
source where somebody asks for a few of them.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import isnan
from typing import Any, NamedTuple, Protocol

from momentopic.corpus.dates import as_dates
from momentopic.corpus.validate import InputFileError

Progress = Callable[[int, int], None]  # so much done, of so much


class Record(NamedTuple):
    """One document as it is read."""

    text: str
    label: str | None = None
    date: Any = None
    id: str | None = None


@dataclass(frozen=True)
class Columns:
    """The columns (fields of a .jsonl object, columns of a table) that documents are read from.

    Attributes
    ----------
    text, label, date, id : str
        Their names; None where there is no such column.
    optional : bool
        Whether all but the text may be missing: they are remembered from another table, not asked for.
    """

    text: str = "text"
    label: str | None = None
    date: str | None = None
    id: str | None = None
    optional: bool = False

    def names(self) -> dict[str, str | None]:
        """Return the names of the columns by what they hold."""
        return {"text": self.text, "label": self.label, "date": self.date, "id": self.id}

    def within(self, available: Collection[str]) -> list[str]:
        """Return the names of those columns that are available, each once."""
        return list(dict.fromkeys(name for name in self.names().values() if name is not None and name in available))

    def check(self, available: Collection[str], where: str) -> None:
        """Raise an InputFileError if a column is not among those available."""
        for role, name in self.names().items():
            if name is not None and name not in available and (role == "text" or not self.optional):
                raise InputFileError(
                    f"{where} has no column {name!r} for the {role} (it has: {', '.join(map(str, available))}): "
                    f"name the right one by {role}= (--{role} on the command line)"
                )

    def record(self, row: Mapping[str, Any], where: str) -> Record:
        """Make a record of a row; a missing text is an empty document, anything else that is no text is refused."""
        text = row[self.text]
        if not isinstance(text, str):
            if not _missing(text):
                raise InputFileError(
                    f"{where} has no text in the column {self.text!r} but {_shown(text)}: "
                    "leave such documents out, or turn them into text"
                )
            text = ""
        return Record(
            text,
            None if self.label is None else _name(row.get(self.label)),
            None if self.date is None else row.get(self.date),
            None if self.id is None else _name(row.get(self.id)),
        )


class TextSource(Protocol):
    """Where texts come from: something with a name that can be read more than once."""

    @property
    def name(self) -> str:
        """What to call it in a message."""
        ...

    def records(self, progress: Progress | None = None) -> Iterator[Record]:
        """Yield the documents from the first one on."""
        ...


@dataclass(frozen=True)
class RowsSource:
    """Documents in memory.

    Attributes
    ----------
    name : str
    rows : callable
        Returns an iterator over the records.
    """

    name: str
    rows: Callable[[], Iterator[Record]]

    def records(self, progress: Progress | None = None) -> Iterator[Record]:
        """Yield the documents from the first one on."""
        return self.rows()


@dataclass(frozen=True, eq=False)
class Documents:
    """What is kept of the documents of a corpus beside their counts; each list has one entry a document, or is None.

    Attributes
    ----------
    labels : list of (str or None), optional
    dates : datetime64[D] array, optional
        NaT where a document has none.
    ids : list of (str or None), optional
    source : TextSource, optional
        Where the texts can be read again.
    """

    labels: Sequence[str | None] | None = None
    dates: Any = None
    ids: Sequence[str | None] | None = None
    source: TextSource | None = None

    def __post_init__(self) -> None:
        if self.dates is not None:
            object.__setattr__(self, "dates", as_dates(self.dates))

    @classmethod
    def of(
        cls,
        labels: Sequence[Any] | None = None,
        dates: Sequence[Any] | None = None,
        ids: Sequence[Any] | None = None,
        source: TextSource | None = None,
    ) -> Documents:
        """Make documents of labels and identifiers of any type."""
        names = [None if values is None else [_name(value) for value in values] for values in (labels, ids)]
        return cls(names[0], dates, names[1], source)

    def check(self, n_docs: int) -> None:
        """Raise a ValueError if a list has not one entry for each of so many documents."""
        for name in ("labels", "dates", "ids"):
            values = getattr(self, name)
            if values is not None and len(values) != n_docs:
                raise ValueError(f"there are {len(values)} {name} for {n_docs} documents: each document needs one")

    def texts(self, rows: Sequence[int]) -> list[str]:
        """Read the texts of some documents, by their numbers, in one pass over the source."""
        if self.source is None:
            raise ValueError("the texts of these documents were not kept: there is no source to read them from")
        wanted = {int(row) for row in rows}
        found: dict[int, str] = {}
        last = max(wanted, default=-1)
        records = self.source.records() if wanted else iter(())
        for n, record in enumerate(records):
            if n in wanted:
                found[n] = record.text
            if n >= last:
                break
        if len(found) < len(wanted):
            raise InputFileError(f"{self.source.name} has changed since it was counted: it has fewer documents now")
        return [found[int(row)] for row in rows]


def _name(value: Any) -> str | None:
    """Return a label or identifier as a string; whole numbers lose the point that missing neighbours gave them."""
    if _missing(value):
        return None
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    return str(value)


def _missing(value: Any) -> bool:
    return value is None or type(value).__name__ in ("NAType", "NaTType") or (isinstance(value, float) and isnan(value))


def _shown(value: Any) -> str:
    text = repr(value)
    return f"{text[:40]}{'...' if len(text) > 40 else ''} ({type(value).__name__})"
