"""What the command shows: tables and lines on standard output, bars on standard error where that is a terminal."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rich.console import Console

    from momentopic import Corpus, DiscreteICA
    from momentopic.corpus import Columns
    from momentopic.engine import Engine


def console() -> Console:
    """Return the console of standard output: words and paths are no markup, and a pipe has no 80 columns."""
    from rich.console import Console

    return Console(highlight=False, markup=False, emoji=False, width=None if sys.stdout.isatty() else 160)


def say(text: str) -> None:
    """Print a line."""
    console().print(text, soft_wrap=True)


def print_json(value: Any) -> None:
    """Print one JSON object."""
    sys.stdout.write(json.dumps(value, ensure_ascii=False) + "\n")


def print_table(header: tuple[str, ...], rows: Sequence[tuple[str, ...]]) -> None:
    """Print rows under a header."""
    from rich.table import Table

    table = Table(box=None, pad_edge=False, header_style="bold")
    for name in header:
        table.add_column(name, justify="right" if name in ("topic", "share") else "left", overflow="fold")
    for row in rows:
        table.add_row(*row)
    console().print(table)


def print_seconds(seconds: dict[str, float]) -> None:
    """Print how long each step took."""
    steps = ", ".join(f"{name} {value:.2f} s" for name, value in seconds.items())
    say(f"\n{steps}; {sum(seconds.values()):.2f} s in all")


@contextmanager
def reading(path: Path) -> Iterator[Callable[[int, int], None]]:
    """Give a callback that shows how much of a file has been read, once that has taken two seconds."""
    from momentopic.progress import Steps

    with Steps(verbose=1) as steps, steps.step(f"reading {path.name}"):
        yield steps.part


@contextmanager
def counting_blocks(text: str) -> Iterator[Engine]:
    """Give an engine whose progress is shown, once it has taken two seconds."""
    from momentopic.engine import ThreadEngine
    from momentopic.progress import Steps

    with Steps(verbose=1) as steps, steps.step(text):
        yield ThreadEngine(progress=steps.block)


def working(text: str) -> AbstractContextManager[object]:
    """Show on a terminal that something is going on."""
    from rich.console import Console

    screen = Console(stderr=True)
    return screen.status(text) if screen.is_terminal else nullcontext()


def known_corpus(fitted: DiscreteICA, path: Path, columns: Columns | None = None, encoding: str = "utf-8") -> Corpus:
    """Read documents of the words of a model; texts are counted as its own were."""
    from momentopic.corpus.known import read_known

    with reading(path) as progress:
        return read_known(fitted, path, columns=columns, encoding=encoding, progress=progress)


def write_whole(path: Path, write: Callable[[Any], Any]) -> None:
    """Write a file under a temporary name and rename it: there is never half a file."""
    from momentopic.corpus import shards

    shards.write_whole(path, write)
