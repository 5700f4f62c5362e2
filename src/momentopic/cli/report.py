"""`momentopic report`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from momentopic.cli import options
from momentopic.cli.console import known_corpus, print_json, say, working
from momentopic.cli.path import parsed_ks

EXAMPLES = (
    "momentopic report model articles.csv -o topics.html",
    "momentopic report model new.jsonl --text body --label section --date published",
    "momentopic report model",
    "momentopic report model articles.csv --path 5:50:5",
)


def report(
    model: options.ModelFolder,
    input: Annotated[
        Path | None, typer.Argument(help=f"Documents to show with the topics. {options.TEXTS_OR_COUNTS}")
    ] = None,
    output: Annotated[
        Path | None, typer.Option("-o", "--output", help="The .html file to write (default: MODEL.html).")
    ] = None,
    title: Annotated[str | None, typer.Option(help="The title of the report.")] = None,
    text: Annotated[str | None, typer.Option(help="The column of the text (default: as in the fit).")] = None,
    label: options.Label = None,
    date: options.Date = None,
    id: options.Id = None,
    encoding: options.Encoding = "utf-8",
    path_ks: Annotated[
        str | None,
        typer.Option(
            "--path", help="Also find topics of INPUT for other numbers of them, as in 5:50:5, and suggest one."
        ),
    ] = None,
    as_json: options.AsJson = False,
) -> None:
    """Write the topics as one HTML file to look at and send around: no network, no other files."""
    from momentopic import load
    from momentopic.corpus import Columns
    from momentopic.report.page import check_report_destination

    ks = None
    if path_ks is not None:
        from momentopic.paths import checked_ks

        if input is None:
            raise ValueError("--path needs documents: name them after the model")
        ks = checked_ks(parsed_ks(path_ks))
    fitted = load(model)
    path = output or Path(f"{model}.html")
    check_report_destination(path)
    columns = None
    if text or label or date or id:
        kept = fitted.training_data_.get("columns") or {}
        columns = Columns(text or kept.get("text") or "text", label, date, id)
    corpus = None if input is None else known_corpus(fitted, input, columns, encoding)
    found = None
    if ks is not None and corpus is not None:
        from momentopic.paths import path as found_path

        found = found_path(corpus, ks, verbose=1)
    with working("writing the report"):
        fitted.report(path, corpus, title=title, topic_path=found)
    if as_json:
        print_json({"report": str(path), "bytes": path.stat().st_size})
    else:
        say(f"{len(fitted.components_)} topics in {path.resolve()}: open it in a browser")
