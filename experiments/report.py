"""The tables of docs/paper.md, written anew from the results after a full run."""

from __future__ import annotations

import os
import platform
import re
from importlib.metadata import version
from pathlib import Path

from experiments import concentration, figure1, figure2, figure3, figure5, figure6, proposition, recovery, table1
from experiments.common import ROOT, Results

PAGE = ROOT / "docs" / "paper.md"
_TABLES = {  # name: the CSV file, its keys, the function that tabulates it
    "figure1": ("figure1", recovery.KEYS, figure1.report),
    "figure2": ("figure2", recovery.KEYS, figure2.report),
    "figure3": ("figure3", figure3.KEYS, figure3.report),
    "figure5": ("figure5", recovery.KEYS, figure5.report),
    "figure6": ("figure2", recovery.KEYS, figure6.report),
    "concentration": ("concentration", concentration.KEYS, concentration.report),
    "proposition": ("proposition", proposition.KEYS, proposition.report),
    "table1": ("table1", table1.KEYS, table1.report),
}
_AUTHORS_TIME = {
    "figure1": "about a week",
    "figure2": "35 hours (with Figure 6)",
    "figure3": "a few months",
    "figure5": "4 hours",
}


def fill(results: Path, page: Path = PAGE) -> None:
    """Put the tables of the results between the marks ``<!-- name -->`` and ``<!-- /name -->`` of the page."""
    text = page.read_text()
    for name, (file, keys, tabulate) in _TABLES.items():
        if (results / f"{file}.csv").exists():
            text = _put(text, name, tabulate(Results(results / f"{file}.csv", keys)))
    text = _put(text, "times", times(results))
    text = _put(text, "machine", machine())
    temporary = page.with_name(f".{page.name}.tmp")
    temporary.write_text(text)
    temporary.replace(page)


def _put(text: str, name: str, table: str) -> str:
    pattern = re.compile(rf"(<!-- {name} -->\n).*?(<!-- /{name} -->)", re.DOTALL)
    if not pattern.search(text):
        raise ValueError(f"the page has no place for {name}: <!-- {name} --> and <!-- /{name} -->")
    return pattern.sub(lambda found: f"{found[1]}\n{table.strip()}\n\n{found[2]}", text)


def times(results: Path) -> str:
    """Return how long the tasks of each experiment took in all."""
    lines = ["| | rows | hours of its tasks, together | the authors' code |", "|---|---|---|---|"]
    total = 0.0
    for file, keys in {file: keys for file, keys, _ in _TABLES.values()}.items():
        table = Results(results / f"{file}.csv", keys)
        if table.seconds:
            spent = sum(float(row["task_seconds"]) for row in table.seconds.values() if row["task_seconds"] != "nan")
            total += spent
            lines.append(f"| {file} | {len(table.rows)} | {spent / 3600:.2f} | {_AUTHORS_TIME.get(file, '')} |")
    lines.append(f"| all | | {total / 3600:.2f} | |")
    return "\n".join(lines) + "\n"


def machine() -> str:
    """Return what this machine and its software are."""
    model = platform.processor() or platform.machine()
    cpus = Path("/proc/cpuinfo")
    if cpus.exists():
        names = re.findall(r"^model name\s*:\s*(.+)$", cpus.read_text(), re.MULTILINE)
        model = names[0] if names else model
    packages = ", ".join(f"{name} {version(name)}" for name in ("numpy", "scipy", "numba"))
    return f"{os.cpu_count()} cores ({model}), Python {platform.python_version()}, {packages}.\n"
