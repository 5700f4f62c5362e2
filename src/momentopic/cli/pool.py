"""`momentopic moments` and `momentopic pool`: topics of several places whose documents stay where they are."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from momentopic.cli import options
from momentopic.cli.console import counting_blocks, print_json, reading, say, working

MOMENTS_EXAMPLES = (
    "momentopic moments here.csv --text body -o moments_here",
    "momentopic moments there.csv --text body -o moments_there --basis moments_here",
)
POOL_EXAMPLES = ("momentopic pool moments_here moments_there -k 20 -o model",)


def moments(
    input: Annotated[Path, typer.Argument(help=options.TEXTS_OR_COUNTS)],
    output: Annotated[Path, typer.Option("-o", "--output", help="The folder of moments to write.")],
    basis: Annotated[
        Path | None, typer.Option(help="A folder of moments: its subspace and its words are used here too.")
    ] = None,
    rank: Annotated[
        int, typer.Option(help="Directions of a new subspace: twice the number of topics, or more.", min=1)
    ] = 100,
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
    """Sum up documents into moments, which can be pooled with those of others: documents stay here."""
    from momentopic import Corpus
    from momentopic.corpus import Columns
    from momentopic.corpus.formats import read_known_corpus
    from momentopic.corpus.readers import text_source
    from momentopic.moments import SketchedMoments, sketched_moments
    from momentopic.moments.stored import FORMAT

    FORMAT.check_destination(output)  # before any work
    settings: Any = options.text_settings(stop_words, min_df, max_df, max_features, ngrams, email, token_pattern)
    agreed = None if basis is None else SketchedMoments.load(basis)
    with reading(input) as progress:
        if agreed is None or text_source(input, Columns(text), encoding) is None:  # counts bring their own words
            corpus = Corpus.from_file(
                input, text=text, vocabulary=vocab, encoding=encoding, progress=progress, **settings
            )
        else:
            corpus = read_known_corpus(
                input, agreed.vocabulary, columns=Columns(text), settings=agreed.settings, encoding=encoding,
                progress=progress,
            )  # fmt: skip
    with counting_blocks("summing up") as engine:
        made = sketched_moments(corpus, basis=agreed, rank=rank, engine=engine, random_state=seed)
    made.save(output)
    if as_json:
        print_json(
            {"moments": str(output), "documents": made.n_docs, "words": made.n_words, "directions": made.basis.rank}
        )
        return
    say(f"{made.n_docs} documents, {made.n_words} words, {made.basis.rank} directions: moments in {output}")


def pool(
    folders: Annotated[list[Path], typer.Argument(help="Folders of moments, made on the same basis.")],
    k: Annotated[int, typer.Option("-k", "--topics", help="The number of topics.", min=1)],
    output: Annotated[Path, typer.Option("-o", "--output", help="The model folder to write.")],
    save_moments: Annotated[Path | None, typer.Option("--moments", help="Also write the pooled moments.")] = None,
    seed: options.Seed = 0,
    as_json: options.AsJson = False,
) -> None:
    """Find the topics of the documents of several places from their moments."""
    from momentopic import DiscreteICA, persist
    from momentopic.moments import SketchedMoments, pooled
    from momentopic.moments.stored import FORMAT

    persist.FORMAT.check_destination(output)  # before any work
    if save_moments is not None:
        FORMAT.check_destination(save_moments)
    together = pooled([SketchedMoments.load(folder) for folder in folders])
    with working("matching the moments"):
        model = DiscreteICA(k, refine=None, random_state=seed).fit_moments(together)
    model.save(output)
    if save_moments is not None:
        together.save(save_moments)
    if as_json:
        print_json({"model": str(output), "n_topics": k, "documents": together.n_docs, "tokens": together.n_tokens})
        return
    say(f"{k} topics of {together.n_docs} documents of {len(folders)} places in {output}")
