"""`momentopic path`."""

from __future__ import annotations

import csv
import io
import warnings
from pathlib import Path
from typing import Annotated, Any, cast

import typer

from momentopic.cli import options
from momentopic.cli.console import print_json, print_seconds, print_table, reading, say, working
from momentopic.cli.fit import Refinement

EXAMPLES = (
    "momentopic path articles.csv --text body --k 5:100:5 -o path",
    "momentopic path docword.kos.txt.gz --k 10,20,50 --refine collapsed",
)


def path(
    input: Annotated[Path, typer.Argument(help=options.TEXTS_OR_COUNTS)],
    k: Annotated[
        str, typer.Option("-k", "--k", help="Numbers of topics: first:last:step (last included), or 10,20,50.")
    ] = "5:100:5",
    output: Annotated[
        Path | None,
        typer.Option("-o", "--output", help="A folder for table.csv, path.html, path.png and flow.png."),
    ] = None,
    refine: Annotated[Refinement, typer.Option(help="What follows the moment solutions.")] = Refinement.none,
    heldout: Annotated[
        float, typer.Option(help="The part of the documents to set aside for scores; 0: none.", min=0.0, max=0.9)
    ] = 0.1,
    text: options.Text = "text",
    encoding: options.Encoding = "utf-8",
    vocab: options.Vocabulary = None,
    stop_words: options.StopWords = "english",
    min_df: options.MinDf = 5,
    max_df: options.MaxDf = 0.5,
    max_features: options.MaxFeatures = None,
    ngrams: options.Ngrams = 1,
    email: options.Email = False,
    token_pattern: options.TokenPattern = None,
    seed: options.Seed = 0,
    as_json: options.AsJson = False,
) -> None:
    """Find the topics for every number of topics at once, and suggest one of them with its reason."""
    from momentopic import Corpus
    from momentopic.paths import checked_ks
    from momentopic.paths import path as found_path

    ks = checked_ks(parsed_ks(k))  # before any work
    settings: Any = options.text_settings(stop_words, min_df, max_df, max_features, ngrams, email, token_pattern)
    if output is not None:
        if output.exists() and not output.is_dir():
            raise FileExistsError(f"{output} is a file: give the name of a folder for the results")
        if not output.parent.is_dir():
            raise FileNotFoundError(f"cannot write {output}: there is no folder {output.parent}")
    with reading(input) as progress:
        corpus = Corpus.from_file(input, text=text, vocabulary=vocab, encoding=encoding, progress=progress, **settings)
    with warnings.catch_warnings():
        if corpus.settings is not None:  # the reader has said so already
            warnings.filterwarnings("ignore", message=r"\d+ of \d+ documents are empty")
        found = found_path(
            corpus, ks, refine=cast(Any, None if refine is Refinement.none else refine.value), heldout=heldout,
            random_state=seed, verbose=1,
        )  # fmt: skip
        rows, suggestion = found.table, found.suggestion
    files = [] if output is None else _written(found, output, f"How many topics? {input.name}")
    if as_json:
        print_json(
            {"suggestion": suggestion.k, "reason": suggestion.reason, "table": rows,
             "files": [str(file) for file in files], "seconds": found.timings}
        )  # fmt: skip
        return
    shown = [key for key in rows[0] if any(row[key] is not None for row in rows)]
    print_table(
        tuple(key.replace("_", " ") for key in shown), [tuple(_cell(row[key]) for key in shown) for row in rows]
    )
    print_seconds(found.timings)
    say(f"\n{suggestion}")
    if files:
        say(f"written: {', '.join(str(file) for file in files)}")


def parsed_ks(text: str) -> list[int]:
    """Return the numbers of ``first:last:step`` (the last one included), ``first:last`` or ``10,20,50``."""
    try:
        if ":" in text:
            first, last, *step = (int(part) for part in text.split(":"))
            if len(step) > 1 or (step and step[0] < 1):
                raise ValueError
            ks = list(range(first, last + 1, step[0] if step else 1))
        else:
            ks = [int(part) for part in text.split(",")]
    except ValueError:
        raise ValueError(f"--k {text}: give numbers of topics as first:last:step, like 5:100:5, or 10,20,50") from None
    if not ks:
        raise ValueError(f"--k {text}: the last number of topics is smaller than the first")
    return ks


def _cell(value: float | None) -> str:
    if value is None:
        return ""
    return str(value) if isinstance(value, int) else f"{value:.4g}"


def _written(found: Any, folder: Path, title: str) -> list[Path]:
    """Write table, page and, where matplotlib is there, pictures."""
    from momentopic.corpus.shards import write_whole
    from momentopic.exceptions import MissingPackageError
    from momentopic.plots import save_figure

    folder.mkdir(exist_ok=True)
    lines = io.StringIO(newline="")
    writer = csv.DictWriter(lines, list(found.table[0]))
    writer.writeheader()
    writer.writerows(found.table)
    files = [folder / "table.csv", folder / "path.html"]
    write_whole(files[0], lambda file: file.write(lines.getvalue().encode()))
    with working("writing the page"):
        found.report(files[1], title=title)
    try:
        for name, draw in (("path.png", found.plot), ("flow.png", found.plot_flow)):
            save_figure(draw(), folder / name)
            files.append(folder / name)
    except MissingPackageError as error:
        say(f"no pictures beside the page: {error}")
    return files
