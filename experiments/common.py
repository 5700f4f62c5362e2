"""What the experiments share: data, results that survive a kill, and a look."""

from __future__ import annotations

import csv
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

ROOT = Path(__file__).resolve().parent.parent
SHARED = ROOT.parent / "shared"


class Setting(NamedTuple):
    """How an experiment is run."""

    out: Path
    quick: bool = False
    toy: bool = False  # sizes for the tests: says nothing about the paper


class Task(NamedTuple):
    """One row of a result: what it is called, and the call that gives its other columns."""

    key: tuple[Any, ...]
    run: Callable[[], dict[str, Any]]


def need(*parts: str) -> Path:
    """Return a path of the shared folder, or say what is missing."""
    path = SHARED.joinpath(*parts)
    if not path.exists():
        raise FileNotFoundError(f"{path} is not there: the experiments need the authors' data in ../shared")
    return path


def fold(name: str, number: int) -> tuple[sp.csr_matrix, sp.csr_matrix]:
    """Return the authors' training and test documents of a corpus."""
    X = sp.load_npz(need("datasets", name, "counts.npz")).tocsr()
    with np.load(need("datasets", name, "folds.npz")) as folds:
        return X[folds[f"train_{number}"]], X[folds[f"test_{number}"]]


def parameters(name: str) -> tuple[np.ndarray, np.ndarray]:
    """Return D (words x topics) and c that the authors sampled from."""
    with np.load(need("paper", f"params_{name}.npz")) as found:
        return found["D"], found["c"]


def authors(table: str) -> list[dict[str, str]]:
    """Return the rows of one of the authors' results."""
    with need("paper", f"authors_{table}.csv").open() as file:
        return list(csv.DictReader(file))


class Results:
    """A CSV file that rows are added to one by one, so that a killed run goes on where it was.

    Parameters
    ----------
    path : Path
    keys : sequence of str
        The columns that name a row.
    """

    def __init__(self, path: Path, keys: Sequence[str]) -> None:
        self.path = path
        self.keys = tuple(keys)
        self.rows: dict[tuple[str, ...], dict[str, str]] = {}
        if path.exists():
            with path.open(newline="") as file:
                for row in csv.DictReader(file):
                    if None not in row.values():  # a line cut off by a kill
                        self.rows[tuple(row[key] for key in self.keys)] = row

    def has(self, key: tuple[Any, ...]) -> bool:
        return tuple(map(str, key)) in self.rows

    def add(self, key: tuple[Any, ...], values: dict[str, Any]) -> None:
        """Add a row and write the file anew, under another name first: there is never half a file."""
        row = dict(zip(self.keys, map(str, key), strict=True)) | {k: _written(v) for k, v in values.items()}
        self.rows[tuple(map(str, key))] = row
        self.write()

    def write(self) -> None:
        self.path.parent.mkdir(parents=True, exist_ok=True)
        columns = list(dict.fromkeys(name for row in self.rows.values() for name in row))
        temporary = self.path.with_name(f".{self.path.name}.tmp")
        with temporary.open("w", newline="") as file:
            writer = csv.DictWriter(file, columns)
            writer.writeheader()
            writer.writerows(self.rows[key] for key in sorted(self.rows, key=_natural))
        temporary.replace(self.path)

    def select(self, **wanted: Any) -> list[dict[str, str]]:
        rows = (self.rows[key] for key in sorted(self.rows, key=_natural))
        return [row for row in rows if all(row[k] == str(v) for k, v in wanted.items())]

    def values(self, column: str, **wanted: Any) -> list[float]:
        return [float(row[column]) for row in self.select(**wanted)]

    def fill(self, tasks: Iterable[Task], title: str) -> None:
        """Run the tasks whose rows are missing, with a bar."""
        from rich.progress import track

        missing = [task for task in tasks if not self.has(task.key)]
        for task in track(missing, description=title, disable=not missing):
            self.add(task.key, task.run())


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
