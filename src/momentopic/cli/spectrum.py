"""`momentopic spectrum`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from momentopic.cli import options
from momentopic.cli.console import print_json, print_table, reading, say, working

EXAMPLES = (
    "momentopic spectrum articles.csv --text body",
    "momentopic spectrum docword.kos.txt.gz --plot spectrum.png",
)
_SHOWN = 40  # eigenvalues in the table
_WIDTH = 40  # characters of the longest bar


def spectrum(
    input: Annotated[Path, typer.Argument(help=options.TEXTS_OR_COUNTS)],
    max_topics: Annotated[int, typer.Option(help="How many eigenvalues to look at.", min=1)] = 100,
    plot: Annotated[Path | None, typer.Option(help="Also draw them: a .png, .svg or .pdf file.")] = None,
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
    """Choose the number of topics: the eigenvalues of S against the noise that halves of the corpus show."""
    from momentopic import Corpus
    from momentopic.choosing import spectrum as measured

    settings: Any = options.text_settings(stop_words, min_df, max_df, max_features, ngrams, email, token_pattern)
    if plot is not None:
        from momentopic.plots import check_figure

        check_figure(plot)  # before any work
    with reading(input) as progress:
        corpus = Corpus.from_file(input, text=text, vocabulary=vocab, encoding=encoding, progress=progress, **settings)
    with working("measuring the noise on halves of the corpus"):
        found = measured(corpus, max_topics, random_state=seed)
    if plot is not None:
        from momentopic.plots import plot_spectrum, save_figure

        save_figure(plot_spectrum(found), plot)
    if as_json:
        print_json(
            {"certain": found.certain, "supported": found.supported, "open_ended": found.open_ended,
             "floor": found.floor, "eigenvalues": found.eigenvalues.tolist(), "heldout": found.heldout.tolist(),
             "heldout_stderr": found.heldout_stderr.tolist(), "advice": found.advice()}
        )  # fmt: skip
        return
    largest = max(float(found.eigenvalues[0]), 1e-300)
    rows = []
    for i, (value, part) in enumerate(zip(found.eigenvalues[:_SHOWN], found.reproduced, strict=False)):
        bar = ("█" if value > found.floor else "░") * max(0, round(_WIDTH * value / largest))
        rows.append((str(i + 1), f"{value:.4g}", f"{part:.0%}", bar))
    print_table(("rank", "eigenvalue", "found again", ""), rows)
    say(f"\nNoise alone gives eigenvalues up to {found.floor:.4g} (░: below that). {found.advice()}")
