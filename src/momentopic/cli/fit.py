"""`momentopic fit`."""

from __future__ import annotations

import warnings
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any, cast

import typer

from momentopic.cli import options
from momentopic.cli.console import print_json, print_seconds, reading, say, working

EXAMPLES = (
    "momentopic fit articles.csv --text body --label section --date published -k 30 -o model",
    "momentopic fit posts.jsonl.gz -k 20 -o model --email --report topics.html",
    "momentopic fit folder/ -k 10 -o model --stop-words german --ngrams 2",
    "momentopic fit docword.kos.txt.gz -k 50 -o model",
    "momentopic fit docword.nytimes.txt.gz -k 100 -o model --engine tcp://scheduler:8786",
    "momentopic fit corpus -k 100 -o model --refine none --memory-limit 3GB --checkpoint state",
)


class Algorithm(StrEnum):
    """How the whitened tensor is diagonalised."""

    jd = "jd"
    spectral = "spectral"
    tpm = "tpm"


class MomentKind(StrEnum):
    """Which moments are matched."""

    dica = "dica"
    lda = "lda"


class Projections(StrEnum):
    """Which projections joint diagonalisation takes."""

    basis = "basis"
    random = "random"
    vocabulary = "vocabulary"


class Refinement(StrEnum):
    """What follows the moment solution."""

    none = "none"
    collapsed = "collapsed"
    variational = "variational"


_METHOD = "Method"


def fit(
    input: Annotated[Path, typer.Argument(help=options.TEXTS_OR_COUNTS)],
    k: Annotated[int, typer.Option("-k", "--topics", help="The number of topics.", min=1)],
    output: Annotated[Path, typer.Option("-o", "--output", help="The model folder to write.")],
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
    moments: Annotated[
        MomentKind, typer.Option(help="The moments that are matched.", rich_help_panel=_METHOD)
    ] = MomentKind.dica,
    algorithm: Annotated[Algorithm, typer.Option(help="The diagonalisation.", rich_help_panel=_METHOD)] = Algorithm.jd,
    projections: Annotated[
        Projections, typer.Option(help="For jd: JD, JD(k) or JD(f).", rich_help_panel=_METHOD)
    ] = Projections.basis,
    c0: Annotated[
        float | None,
        typer.Option(help="The sum of the Dirichlet parameters, for --moments lda.", rich_help_panel=_METHOD),
    ] = None,
    refine: Annotated[
        Refinement, typer.Option(help="What follows the moment solution.", rich_help_panel=_METHOD)
    ] = Refinement.collapsed,
    confidence: Annotated[
        bool, typer.Option("--confidence", help="Also find out how far each topic is reproducible.")
    ] = False,
    threads: Annotated[int | None, typer.Option(help="Threads (default: all cores).", min=1)] = None,
    engine: options.Engine = "auto",
    memory_limit: Annotated[
        str | None, typer.Option(help="Memory that the fit may take, as in 3GB; for corpora on disk.")
    ] = None,
    checkpoint: Annotated[
        Path | None, typer.Option(help="A folder to keep the state in: the same command goes on after a kill.")
    ] = None,
    report: Annotated[Path | None, typer.Option(help="Also write a report: an .html file.")] = None,
    seed: options.Seed = 0,
    as_json: options.AsJson = False,
) -> None:
    """Find the topics of a corpus and save them."""
    from momentopic import Corpus, DiscreteICA, persist
    from momentopic.checkpoint import remove_checkpoint
    from momentopic.memory import parse_size
    from momentopic.moments.groups import N_GROUPS
    from momentopic.report.page import check_report_destination

    persist.FORMAT.check_destination(output)  # before any work
    who = options.summing_engine(engine, threads)
    if memory_limit is not None:
        parse_size(memory_limit)
    if report is not None:
        check_report_destination(report)
    settings: Any = options.text_settings(stop_words, min_df, max_df, max_features, ngrams, email, token_pattern)
    with reading(input) as progress:
        corpus = Corpus.from_file(
            input, text=text, label=label, date=date, id=id, vocabulary=vocab, encoding=encoding, progress=progress,
            **settings,
        )  # fmt: skip
    if not as_json:
        say(f"{corpus.shape[0]} documents, {corpus.shape[1]} words, {corpus.nonzeros} nonzeros")
    model = DiscreteICA(
        k, moments=moments.value, algorithm=algorithm.value, projections=projections.value, c0=c0,
        refine=cast(Any, None if refine is Refinement.none else refine.value),
        n_groups=N_GROUPS if confidence else None, engine=who, random_state=seed, verbose=1,
        memory_limit=memory_limit, checkpoint=checkpoint,
    )  # fmt: skip
    with warnings.catch_warnings():
        if corpus.settings is not None:  # the reader has said so already
            warnings.filterwarnings("ignore", message=r"\d+ of \d+ documents are empty")
        model.fit(corpus)
    model.save(output)
    if checkpoint is not None:
        remove_checkpoint(checkpoint)
    if report is not None:
        with working("writing the report"):
            model.report(report, corpus)
    if as_json:
        print_json(
            {"model": str(output), "report": None if report is None else str(report), "n_topics": k,
             "converged": model.converged_, **model.training_data_, "words": corpus.shape[1],
             "seconds": model.timings_}
        )  # fmt: skip
        return
    print_seconds(model.timings_)
    if confidence:
        unstable = sum(topic.unstable for topic in model.topics(1))
        say(f"{unstable} of {k} topics are marked as not reproducible: two halves of the corpus disagree about them")
    say(f"{k} topics in {output}; see them with: momentopic topics {output}")
    if report is not None:
        say(f"report in {report.resolve()}")
