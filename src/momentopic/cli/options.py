"""Options that several subcommands share."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

TEXTS_OR_COUNTS = (
    "Texts: .jsonl, .csv, .tsv (also .gz), .parquet, or a folder of .txt files. "
    "Counts: .npz, .mtx, docword*.txt (UCI), .dat (lda-c), a folder that pack wrote."
)

Seed = Annotated[int, typer.Option("--seed", help="Seeds everything that is random.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON object for scripts to read.")]
ModelFolder = Annotated[Path, typer.Argument(help="A model folder.")]
Documents = Annotated[Path, typer.Argument(help=f"Documents of the model's words. {TEXTS_OR_COUNTS}")]

_TEXTS = "Texts"
Text = Annotated[
    str, typer.Option("--text", "--text-field", help="The column that holds the text.", rich_help_panel=_TEXTS)
]
Label = Annotated[str | None, typer.Option(help="A column of labels to keep.", rich_help_panel=_TEXTS)]
Date = Annotated[str | None, typer.Option(help="A column of dates to keep.", rich_help_panel=_TEXTS)]
Id = Annotated[str | None, typer.Option("--id", help="A column of identifiers to keep.", rich_help_panel=_TEXTS)]
Encoding = Annotated[str, typer.Option(help="The encoding of the texts.", rich_help_panel=_TEXTS)]
Vocabulary = Annotated[
    Path | None,
    typer.Option(
        help="A file of words, one a line (default for counts: vocab.txt beside INPUT).", rich_help_panel=_TEXTS
    ),
]
StopWords = Annotated[
    str, typer.Option(help='A language whose common words are left out, or "none".', rich_help_panel=_TEXTS)
]
MinDf = Annotated[
    float, typer.Option(help="Leave out words in fewer documents (below 1: a share).", rich_help_panel=_TEXTS)
]
MaxDf = Annotated[
    float, typer.Option(help="Leave out words in more documents (up to 1: a share).", rich_help_panel=_TEXTS)
]
MaxFeatures = Annotated[
    int | None, typer.Option(help="Keep no more words than this, the most frequent.", min=1, rich_help_panel=_TEXTS)
]
Ngrams = Annotated[
    int, typer.Option(help="Also count sequences of up to so many words.", min=1, rich_help_panel=_TEXTS)
]
Email = Annotated[
    bool,
    typer.Option("--email", help="Messages: leave out headers, quotations and signatures.", rich_help_panel=_TEXTS),
]
TokenPattern = Annotated[
    str | None, typer.Option(help="A regular expression for words.", show_default=False, rich_help_panel=_TEXTS)
]


Engine = Annotated[
    str,
    typer.Option(
        help='Who does the work: "threads", "cuda" (a device), "dask" (workers on this machine), the address of a Dask '
        'scheduler (tcp://HOST:8786), or "auto": a device where there is one and the corpus is large.',
        show_default=True,
    ),
]


def summing_engine(engine: str, threads: int | None) -> Any:
    """Return the engine that the options stand for; what is not there is refused before any work."""
    from momentopic.engine import ThreadEngine, get_engine

    if engine == "threads" or (engine == "auto" and threads is not None):
        return ThreadEngine(threads)
    if engine == "auto":  # it depends on the corpus
        return engine
    if threads is not None:
        raise typer.BadParameter(f"it is for --engine threads, not for {engine}", param_hint="--threads")
    try:
        return get_engine(engine)
    except (ImportError, ConnectionError, RuntimeError, ValueError) as error:
        raise typer.BadParameter(str(error), param_hint="--engine") from error


def text_settings(
    stop_words: str,
    min_df: float,
    max_df: float,
    max_features: int | None,
    ngrams: int,
    email: bool,
    token_pattern: str | None,
) -> dict[str, object]:
    """Return the settings of `momentopic.corpus.TextSettings` that the options stand for."""
    from momentopic.corpus.stopwords import stop_words as words_of

    if stop_words.lower() != "none":
        words_of(stop_words)  # an unknown language is refused before any work
    settings: dict[str, object] = {
        "stop_words": None if stop_words.lower() == "none" else stop_words.lower(),
        "min_df": min_df,
        "max_df": max_df,
        "max_features": max_features,
        "ngram_range": (1, ngrams),
        "email": email,
    }
    return settings if token_pattern is None else {**settings, "token_pattern": token_pattern}
