"""What the experiments share: how they are run, data, and results that survive a kill."""

from __future__ import annotations

import csv
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

ROOT = Path(__file__).resolve().parent.parent
SHARED = ROOT.parent / "shared"
CACHE = ROOT / "experiments" / "cache"  # what is learned once and too large to keep in the repository

Key = tuple[Any, ...]
Row = dict[str, Any]


class Setting(NamedTuple):
    """How an experiment is run."""

    out: Path
    quick: bool = False
    toy: bool = False  # sizes for the tests: says nothing about the paper
    cache: Path = CACHE


class Task(NamedTuple):
    """Some rows of a result, and the call that gives their other columns.

    Attributes
    ----------
    keys : tuple of keys
        What the rows are called.
    function : callable
        Of module level, so that another process can call it: returns one dictionary for each key.
    args : tuple
    needs : key, optional
        A row of the same table that must be there first; the function gets it as its last argument.
    """

    keys: tuple[Key, ...]
    function: Callable[..., list[Row]]
    args: tuple[Any, ...]
    needs: Key | None = None


class Experiment(NamedTuple):
    """A figure or table of the paper.

    Attributes
    ----------
    name : str
    path : Path
        Its CSV file; two experiments may share one.
    keys : tuple of str
        The columns that name a row.
    tasks : list of Task
    finish : callable
        Draws and tabulates what is in the results.
    alone : bool
        Whether its tasks measure time, and so run one by one with all threads.
    """

    name: str
    path: Path
    keys: tuple[str, ...]
    tasks: list[Task]
    finish: Callable[[Results], None]
    alone: bool = False


def need(*parts: str) -> Path:
    """Return a path of the shared folder, or say what is missing."""
    path = SHARED.joinpath(*parts)
    if not path.exists():
        raise FileNotFoundError(f"{path} is not there: the experiments need the authors' data in ../shared")
    return path


def counts(name: str) -> sp.csr_matrix:
    """Return one of the authors' corpora."""
    return sp.load_npz(need("datasets", name, "counts.npz")).tocsr()


def fold(name: str, number: int) -> tuple[sp.csr_matrix, sp.csr_matrix]:
    """Return the authors' training and test documents of a corpus."""
    X = counts(name)
    with np.load(need("datasets", name, "folds.npz")) as folds:
        return X[folds[f"train_{number}"]], X[folds[f"test_{number}"]]


def authors(table: str) -> list[dict[str, str]]:
    """Return the rows of one of the authors' results."""
    with need("paper", f"authors_{table}.csv").open() as file:
        return list(csv.DictReader(file))


class Results:
    """A CSV file that rows are added to task by task, so that a killed run goes on where it was.

    What differs from run to run, the seconds, goes to a file beside it: the CSV file is the same every time.

    Parameters
    ----------
    path : Path
    keys : sequence of str
        The columns that name a row.
    """

    def __init__(self, path: Path, keys: Sequence[str]) -> None:
        self.path = path
        self.times = path.with_name(f"{path.stem}_seconds.csv")
        self.keys = tuple(keys)
        self.rows = self._read(path)
        self.seconds = self._read(self.times)

    def _read(self, path: Path) -> dict[tuple[str, ...], dict[str, str]]:
        if not path.exists():
            return {}
        with path.open(newline="") as file:
            rows = [row for row in csv.DictReader(file) if None not in row.values()]  # not a line that was cut off
        return {tuple(row[key] for key in self.keys): row for row in rows}

    def has(self, *keys: Key) -> bool:
        return all(tuple(map(str, key)) in self.rows for key in keys)

    def get(self, key: Key) -> dict[str, str]:
        return self.rows[tuple(map(str, key))]

    def add(self, keys: Sequence[Key], rows: Sequence[Row], task_seconds: float) -> None:
        """Add the rows of a task and write the files anew, under other names first: there is never half a file."""
        for key, values in zip(keys, rows, strict=True):
            named = dict(zip(self.keys, map(str, key), strict=True))
            found = tuple(named.values())
            seconds = {"seconds": values.get("seconds", np.nan), "task_seconds": task_seconds / len(keys)}
            self.rows[found] = named | {k: _written(v) for k, v in values.items() if k != "seconds"}
            self.seconds[found] = named | {k: f"{v:.3f}" for k, v in seconds.items()}
        _write(self.times, self.seconds)
        _write(self.path, self.rows)

    def select(self, **wanted: Any) -> list[dict[str, str]]:
        rows = (self.rows[key] for key in sorted(self.rows, key=_natural))
        return [row for row in rows if all(row[k] == str(v) for k, v in wanted.items())]

    def values(self, column: str, **wanted: Any) -> list[float]:
        return [float(row[column]) for row in self.select(**wanted)]


def _write(path: Path, rows: dict[tuple[str, ...], dict[str, str]]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    ordered = [rows[key] for key in sorted(rows, key=_natural)]
    columns = list(dict.fromkeys(name for row in ordered for name in row))
    temporary = path.with_name(f".{path.name}.tmp")
    with temporary.open("w", newline="") as file:
        writer = csv.DictWriter(file, columns, lineterminator="\n")
        writer.writeheader()
        writer.writerows(ordered)
    temporary.replace(path)


def _written(value: Any) -> str:
    return f"{value:.6g}" if isinstance(value, float) else str(value)


def _natural(key: tuple[str, ...]) -> tuple[Any, ...]:
    return tuple((0, float(part), "") if _is_number(part) else (1, 0.0, part) for part in key)


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True
