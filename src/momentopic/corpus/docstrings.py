"""A real corpus that is on every machine: the docstrings of the Python packages installed beside this one."""

from __future__ import annotations

import re
import sysconfig
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

_SKIPPED = {
    "tests",
    "test",
    "testing",
    "site-packages",
    "__pycache__",
    "_vendor",
    "idlelib",
    "lib2to3",
    "vendored",
}
_FIRST = ("numpy", "scipy", "sklearn", "numba", "rich")  # dependencies of this package: they are always there
_LEAST_WORDS = 25
# every triple-quoted string in turn; a docstring is one that opens its line. Parsing would take ten times as long.
_TRIPLE_QUOTED = re.compile(r'(^[ \t]*[rR]?""")?(?(1)|""")(.*?)"""', re.DOTALL | re.MULTILINE)


@dataclass(frozen=True)
class Docstrings:
    """Documents and, for each, the module it comes from (two levels: "scipy.stats")."""

    texts: list[str]
    modules: list[str]


def installed_docstrings(
    roots: list[Path] | None = None, most_of_a_module: int = 150, most_files: int = 4000
) -> Docstrings:
    """Collect the docstrings of the standard library and the installed packages, without importing them.

    Parameters
    ----------
    roots : list of Path, optional
        Folders of packages; by default the standard library and the site-packages of this interpreter.
    most_of_a_module : int
        Documents taken from one (two-level) module, so that no package drowns the others.
    most_files : int
        Files read, over all.
    """
    if roots is None:
        roots = [Path(sysconfig.get_path(name)) for name in ("purelib", "platlib", "stdlib")]
    texts: list[str] = []
    modules: list[str] = []
    taken: dict[str, int] = {}
    seen: set[str] = set()
    n_files = 0
    for root in dict.fromkeys(roots):
        for file in _source_files(root):
            parts = file.relative_to(root).with_suffix("").parts
            module = ".".join(part for part in parts[:2] if part != "__init__")
            if taken.get(module, 0) >= most_of_a_module:
                continue
            if n_files >= most_files:
                break
            n_files += 1
            for text in _docstrings(file):
                if taken.get(module, 0) >= most_of_a_module:
                    break
                if text not in seen and len(text.split()) >= _LEAST_WORDS:
                    seen.add(text)
                    texts.append(text)
                    modules.append(module)
                    taken[module] = taken.get(module, 0) + 1
    return Docstrings(texts, modules)


def _source_files(root: Path) -> Iterator[Path]:
    """Yield the .py files below a folder in a fixed order, tests and copies of other packages left out."""
    entries = root.iterdir() if root.is_dir() else ()
    for entry in sorted(entries, key=lambda entry: (entry.name not in _FIRST, entry.name)):
        if entry.name in _SKIPPED or entry.name.startswith("."):
            continue
        if entry.is_dir():
            yield from _source_files(entry)
        elif entry.suffix == ".py":
            yield entry


def _docstrings(file: Path) -> Iterator[str]:
    try:
        source = file.read_text(encoding="utf-8")
    except (OSError, ValueError):
        return
    for match in _TRIPLE_QUOTED.finditer(source):
        if match[1]:
            yield match[2]
