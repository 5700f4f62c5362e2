"""`momentopic transform` and `momentopic evaluate`."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer

from momentopic.cli import options
from momentopic.cli.console import counting_blocks, known_corpus, print_json, say

TRANSFORM_EXAMPLES = (
    "momentopic transform model new.jsonl -o theta.csv",
    "momentopic transform model new.csv --text body -o theta.npy",
)
EVALUATE_EXAMPLES = (
    "momentopic evaluate model heldout.jsonl",
    "momentopic evaluate model heldout.npz --estimator left-to-right --coherence npmi --json",
)

TextColumn = Annotated[
    str | None, typer.Option("--text", help="The column that holds the text (default: as in the fit).")
]


class Estimator(StrEnum):
    """Held-out likelihood estimators."""

    chib = "chib"
    left_to_right = "left-to-right"
    completion = "completion"


class CoherenceMeasure(StrEnum):
    """How the words of a topic are compared."""

    umass = "umass"
    npmi = "npmi"
    cv = "cv"


def transform(
    model: options.ModelFolder,
    input: options.Documents,
    output: Annotated[Path, typer.Option("-o", "--output", help="The proportions to write: a .npy or .csv file.")],
    text: TextColumn = None,
    encoding: options.Encoding = "utf-8",
    as_json: options.AsJson = False,
) -> None:
    """Write the proportions of the topics in each document, a row a document."""
    import numpy as np

    from momentopic import load
    from momentopic.corpus.shards import write_whole

    if output.suffix not in (".npy", ".csv"):
        raise ValueError(f"the proportions are written as .npy or .csv, but the name is {output}")
    fitted = load(model)
    corpus = known_corpus(fitted, input, _columns(text), encoding)
    with counting_blocks("inferring the topics of the documents") as engine:
        theta = fitted.set_params(engine=engine).transform(corpus)
    if output.suffix == ".npy":
        write_whole(output, lambda file: np.save(file, theta))
    else:
        write_whole(output, lambda file: np.savetxt(file, theta, fmt="%.6g", delimiter=","))
    if as_json:
        print_json({"output": str(output), "documents": theta.shape[0], "n_topics": theta.shape[1]})
    else:
        say(f"{theta.shape[0]} documents x {theta.shape[1]} topics in {output}")


def evaluate(
    model: options.ModelFolder,
    input: options.Documents,
    estimator: Annotated[Estimator, typer.Option(help="How the likelihood is estimated.")] = Estimator.chib,
    smoothing: Annotated[float, typer.Option(help="The part of the uniform distribution mixed into the topics.")] = 0.0,
    coherence: Annotated[CoherenceMeasure | None, typer.Option(help="Also score the topics' 10 first words.")] = None,
    text: TextColumn = None,
    encoding: options.Encoding = "utf-8",
    seed: options.Seed = 0,
    as_json: options.AsJson = False,
) -> None:
    """Print the held-out likelihood of documents in bits per token: higher is better."""
    from momentopic import heldout, load, metrics

    fitted = load(model)
    corpus = known_corpus(fitted, input, _columns(text), encoding)
    score: Any = {
        Estimator.chib: heldout.chib,
        Estimator.left_to_right: heldout.left_to_right,
        Estimator.completion: heldout.completion,
    }[estimator]
    with counting_blocks(f"scoring {corpus.shape[0]} documents") as engine:
        found = score(
            corpus, fitted.components_, fitted.concentration_, random_state=seed, smoothing=smoothing, engine=engine
        )
    coherent = None if coherence is None else metrics.coherence(fitted, corpus, coherence.value)
    if as_json:
        print_json(
            {"bits_per_token": found.bits_per_token, "stderr": found.stderr, "tokens": float(found.tokens.sum()),
             "tokens_left_out": int(found.tokens_left_out), "documents": corpus.shape[0],
             "estimator": estimator.value, "coherence": None if coherent is None else coherent.mean}
        )  # fmt: skip
        return
    say(
        f"{found.bits_per_token:.4f} bits per token, standard error {found.stderr:.4f}, over {found.tokens.sum():.0f} "
        f"tokens of {corpus.shape[0]} documents; {found.tokens_left_out} tokens of words that no topic produces are "
        "left out"
    )
    if coherent is not None:
        say(f"{coherent.mean:.4f} coherence ({coherent.measure}) on these documents")


def _columns(text: str | None) -> Any:
    from momentopic.corpus import Columns

    return None if text is None else Columns(text)
