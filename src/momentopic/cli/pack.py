"""`momentopic pack` and `momentopic check`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from momentopic.cli import options
from momentopic.cli.console import print_json, reading, say

PACK_EXAMPLES = (
    "momentopic pack articles.jsonl.gz corpus --text body --date published",
    "momentopic pack docword.pubmed.txt.gz corpus",
    "momentopic pack articles-2026.jsonl.gz corpus --append --text body --date published",
)
CHECK_EXAMPLES = ("momentopic check corpus",)


def pack(
    input: Annotated[Path, typer.Argument(help=options.TEXTS_OR_COUNTS)],
    folder: Annotated[Path, typer.Argument(help="The folder to write; fit takes it as its INPUT.")],
    append: Annotated[bool, typer.Option("--append", help="Add the documents to the corpus in FOLDER.")] = False,
    text: options.Text = "text",
    label: options.Label = None,
    date: options.Date = None,
    id: options.Id = None,
    encoding: options.Encoding = "utf-8",
    vocab: options.Vocabulary = None,
    stop_words: options.StopWords = "english",
    min_df: options.MinDf = 5,
    max_df: options.MaxDf = 0.5,
    max_features: options.MaxFeatures = None,
    ngrams: options.Ngrams = 1,
    email: options.Email = False,
    token_pattern: options.TokenPattern = None,
    as_json: options.AsJson = False,
) -> None:
    """Write a corpus to a folder, for fits that do not hold it in memory; after a kill, the same command goes on."""
    from momentopic.corpus import Columns, TextSettings
    from momentopic.corpus.packing import pack as write

    settings: Any = options.text_settings(stop_words, min_df, max_df, max_features, ngrams, email, token_pattern)
    with reading(input) as progress:
        corpus = write(
            input, folder, vocabulary=vocab, columns=Columns(text, label, date, id), settings=TextSettings(**settings),
            encoding=encoding, append=append, progress=progress,
        )  # fmt: skip
    if as_json:
        print_json({"folder": str(folder), **corpus.summary(), "words": corpus.shape[1]})
    else:
        say(
            f"{corpus.shape[0]} documents, {corpus.shape[1]} words, {corpus.nonzeros} nonzeros in {folder}; fit it "
            f"with: momentopic fit {folder} -k 50 -o model"
        )


def check(
    folder: Annotated[Path, typer.Argument(help="A packed corpus.")],
    as_json: options.AsJson = False,
) -> None:
    """Read a packed corpus to the end and compare every checksum."""
    from momentopic.corpus.disk import DiskCorpus

    corpus = DiskCorpus(folder)
    with reading(folder) as progress:
        corpus.check(progress)
    if as_json:
        print_json({"folder": str(folder), "sound": True, **corpus.summary()})
    else:
        say(f"{folder} is sound: {corpus.shape[0]} documents, {corpus.nonzeros} nonzeros, as they were packed")
