"""`momentopic demo`."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Annotated

import typer

from momentopic.cli import options
from momentopic.cli.console import print_seconds, print_table, say, working

EXAMPLES = ("momentopic demo -k 20",)


def demo(
    k: Annotated[int, typer.Option("-k", "--topics", help="The number of topics.", min=1)] = 20,
    report: Annotated[Path, typer.Option(help="The .html file to write.")] = Path("momentopic-demo.html"),
    seed: options.Seed = 0,
) -> None:
    """Find the topics of the docstrings of the Python packages installed here: no data needed."""
    from momentopic.demo import demonstrate
    from momentopic.report.page import check_report_destination

    check_report_destination(report)
    with working("reading the docstrings of the Python packages installed here"):
        found = demonstrate(k, seed)
    begin = time.perf_counter()
    with working("writing the report"):
        found.model.report(report, found.corpus, title="Topics of the installed Python packages")
    found.seconds["report"] = time.perf_counter() - begin
    N, M = found.corpus.shape
    say(f"{N} docstrings of {found.n_modules} modules, {M} words, {k} topics:\n")
    rows = [
        (str(i), f"{share:.1%}", " ".join(word for word, _ in words), ", ".join(modules))
        for i, (share, words, modules) in enumerate(
            zip(found.shares, found.model.topics(8), found.modules, strict=True)
        )
    ]
    print_table(("topic", "share", "words", "modules"), rows)
    print_seconds(found.seconds)
    say(f"Look at them: {report.resolve()}")
