"""The `momentopic` command."""

from __future__ import annotations

import sys
import uuid
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, cast

import typer

if TYPE_CHECKING:
    from rich.console import Console

    from momentopic import Corpus, DiscreteICA
    from momentopic.engine import Engine

app = typer.Typer(
    help="Topics of a corpus by the method of moments: the same topics on every run.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
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


class SimulatedModel(StrEnum):
    """The paper's sampling models."""

    gp = "gp"
    lda_fix = "lda-fix"
    lda_fix2 = "lda-fix2"


_COUNTS = "Counts of the model's words: .npz, .mtx, docword*.txt (UCI) or .dat (lda-c)."

Seed = Annotated[int, typer.Option("--seed", help="Seeds everything that is random.")]


@app.command()
def fit(
    input: Annotated[
        Path,
        typer.Argument(
            help="Counts: .npz, .mtx, docword*.txt (UCI), .dat (lda-c). Texts: .jsonl, or a folder of .txt files."
        ),
    ],
    k: Annotated[int, typer.Option("-k", "--topics", help="The number of topics.", min=1)],
    output: Annotated[Path, typer.Option("-o", "--output", help="The model folder to write.")],
    moments: Annotated[MomentKind, typer.Option(help="The moments that are matched.")] = MomentKind.dica,
    algorithm: Annotated[Algorithm, typer.Option(help="The diagonalisation.")] = Algorithm.jd,
    projections: Annotated[Projections, typer.Option(help="For jd: JD, JD(k) or JD(f).")] = Projections.basis,
    c0: Annotated[float | None, typer.Option(help="The sum of the Dirichlet parameters, for --moments lda.")] = None,
    refine: Annotated[Refinement, typer.Option(help="What follows the moment solution.")] = Refinement.collapsed,
    vocab: Annotated[Path | None, typer.Option(help="The words, one a line [default: vocab.txt beside INPUT].")] = None,
    text_field: Annotated[str, typer.Option(help="The field of .jsonl objects that holds the text.")] = "text",
    min_df: Annotated[float, typer.Option(help="Texts: leave out words in fewer documents.")] = 5,
    max_df: Annotated[float, typer.Option(help="Texts: leave out words in a larger share of documents.")] = 0.5,
    keep_stop_words: Annotated[bool, typer.Option(help="Texts: keep common English words.")] = False,
    threads: Annotated[int | None, typer.Option(help="Threads [default: all cores].", min=1)] = None,
    seed: Seed = 0,
) -> None:
    """Find the topics of a corpus and save them."""
    from momentopic import DiscreteICA, persist
    from momentopic.corpus import read_corpus
    from momentopic.engine import ThreadEngine

    persist.check_destination(output)  # before any work
    with _working(f"reading {input}"):
        corpus = read_corpus(
            input, vocabulary=vocab, text_field=text_field, min_df=min_df, max_df=max_df,
            stop_words=None if keep_stop_words else "english",
        )  # fmt: skip
    out = _console()
    out.print(f"{corpus.shape[0]} documents, {corpus.shape[1]} words, {corpus.counts.nnz} nonzeros")
    model = DiscreteICA(
        k, moments=moments.value, algorithm=algorithm.value, projections=projections.value, c0=c0,
        refine=cast(Any, None if refine is Refinement.none else refine.value),
        engine=ThreadEngine(threads), random_state=seed, verbose=1,
    ).fit(corpus)  # fmt: skip
    model.save(output)
    _print_seconds(out, model.timings_)
    out.print(f"{k} topics in {output}; see them with: momentopic topics {output}", soft_wrap=True)


@app.command()
def topics(
    model: Annotated[Path, typer.Argument(help="A model folder.")],
    n_words: Annotated[int, typer.Option("-n", "--words", help="Words to a topic.", min=1)] = 10,
) -> None:
    """Print the most probable words of each topic."""
    from momentopic import load

    fitted = load(model)
    shares = fitted.concentration_ / fitted.concentration_.sum()
    rows = [
        (str(i), f"{share:.1%}", " ".join(word for word, _ in words))
        for i, (share, words) in enumerate(zip(shares, fitted.topics(n_words), strict=True))
    ]
    _print_table(_console(), ("topic", "share", "words"), rows)


@app.command()
def transform(
    model: Annotated[Path, typer.Argument(help="A model folder.")],
    input: Annotated[Path, typer.Argument(help=_COUNTS)],
    output: Annotated[Path, typer.Option("-o", "--output", help="The proportions to write: a .npy or .csv file.")],
) -> None:
    """Write the proportions of the topics in each document, a row a document."""
    import numpy as np

    from momentopic import load

    if output.suffix not in (".npy", ".csv"):
        raise ValueError(f"the proportions are written as .npy or .csv, but the name is {output}")
    fitted = load(model)
    with _working(f"reading {input}"):
        corpus = _known_corpus(fitted, input)
    with _bar("inferring the topics of the documents") as engine:
        theta = fitted.set_params(engine=engine).transform(corpus)
    if output.suffix == ".npy":
        _write_whole(output, lambda file: np.save(file, theta))
    else:
        _write_whole(output, lambda file: np.savetxt(file, theta, fmt="%.6g", delimiter=","))
    _console().print(f"{theta.shape[0]} documents x {theta.shape[1]} topics in {output}", soft_wrap=True)


@app.command()
def evaluate(
    model: Annotated[Path, typer.Argument(help="A model folder.")],
    input: Annotated[Path, typer.Argument(help=_COUNTS)],
    estimator: Annotated[Estimator, typer.Option(help="How the likelihood is estimated.")] = Estimator.chib,
    smoothing: Annotated[float, typer.Option(help="The part of the uniform distribution mixed into the topics.")] = 0.0,
    coherence: Annotated[CoherenceMeasure | None, typer.Option(help="Also score the topics' 10 first words.")] = None,
    seed: Seed = 0,
) -> None:
    """Print the held-out likelihood of documents in bits per token: higher is better."""
    from momentopic import heldout, load, metrics

    fitted = load(model)
    with _working(f"reading {input}"):
        corpus = _known_corpus(fitted, input)
    score: Any = {
        Estimator.chib: heldout.chib,
        Estimator.left_to_right: heldout.left_to_right,
        Estimator.completion: heldout.completion,
    }[estimator]
    with _bar(f"scoring {corpus.shape[0]} documents") as engine:
        found = score(
            corpus, fitted.components_, fitted.concentration_, random_state=seed, smoothing=smoothing, engine=engine
        )
    _console().print(
        f"{found.bits_per_token:.4f} bits per token, standard error {found.stderr:.4f}, over {found.tokens.sum():.0f} "
        f"tokens of {corpus.shape[0]} documents; {found.tokens_left_out} tokens of words that no topic produces are "
        "left out",
        soft_wrap=True,
    )
    if coherence is not None:
        coherent = metrics.coherence(fitted, corpus, coherence.value)
        _console().print(f"{coherent.mean:.4f} coherence ({coherence.value}) on these documents", soft_wrap=True)


@app.command()
def simulate(
    output: Annotated[Path, typer.Argument(help="The counts to write, a .npz file.")],
    model: Annotated[SimulatedModel, typer.Option(help="The sampling model.")] = SimulatedModel.gp,
    docs: Annotated[int, typer.Option("-n", "--docs", help="The number of documents.", min=1)] = 10_000,
    parameters: Annotated[Path | None, typer.Option(help="A .npz file with D (words x topics) and c.")] = None,
    k: Annotated[int, typer.Option("-k", "--topics", help="Without --parameters: how many topics.", min=1)] = 10,
    words: Annotated[int, typer.Option(help="Without --parameters: how many words.", min=2)] = 2000,
    c0: Annotated[float, typer.Option(help="c is scaled to this sum.", min=1e-6)] = 1.0,
    mean_length: Annotated[float, typer.Option(help="gp: the mean document length.")] = 200,
    min_length: Annotated[int, typer.Option(help="gp: shorter documents are drawn again.", min=0)] = 3,
    length: Annotated[int, typer.Option(help="lda-fix: the length; lda-fix2: L1.", min=1)] = 200,
    length2: Annotated[int, typer.Option(help="lda-fix2: L2.", min=1)] = 20,
    fraction: Annotated[float, typer.Option(help="lda-fix2: the part of documents of length L2.")] = 0.5,
    seed: Seed = 0,
) -> None:
    """Sample a corpus from one of the paper's models; OUTPUT.truth.npz gets the topics D and c."""
    import numpy as np
    import scipy.sparse as sp

    from momentopic import simulate as models

    if output.suffix != ".npz":
        raise ValueError(f"the counts are written as .npz, but the name is {output}")
    if parameters is not None:
        D, c = _read_parameters(parameters)
    else:
        rng = np.random.default_rng([seed, 2])
        D = rng.dirichlet(np.full(words, 20 / words), size=k).T
        c = rng.uniform(0.5, 1.5, size=k)
    c = c0 * c / c.sum()
    truth = output.with_suffix(".truth.npz")
    with _working(f"sampling {docs} documents"):
        if model is SimulatedModel.gp:
            X = models.gamma_poisson(D, c, docs, mean_length=mean_length, min_length=min_length, random_state=seed)
        elif model is SimulatedModel.lda_fix:
            X = models.lda_fixed(D, c, docs, length=length, random_state=seed)
        else:
            X = models.lda_mixed(D, c, docs, fraction=fraction, lengths=(length, length2), random_state=seed)
        _write_whole(truth, lambda file: np.savez_compressed(file, D=D, c=c))
        _write_whole(output, lambda file: sp.save_npz(file, X))
    _console().print(
        f"{X.shape[0]} documents of {X.sum() / X.shape[0]:.1f} tokens over {X.shape[1]} words in {output}, "
        f"the true topics in {truth}",
        soft_wrap=True,
    )


@app.command()
def demo(
    k: Annotated[int, typer.Option("-k", "--topics", help="The number of topics.", min=1)] = 20,
    seed: Seed = 0,
) -> None:
    """Find the topics of the docstrings of the Python packages installed here: no data needed."""
    from momentopic.demo import demonstrate

    out = _console()
    with _working("reading the docstrings of the Python packages installed here"):
        found = demonstrate(k, seed)
    out.print(f"{found.n_docs} docstrings of {found.n_modules} modules, {found.n_words} words, {k} topics:\n")
    rows = [
        (f"{share:.1%}", " ".join(word for word, _ in words), ", ".join(modules))
        for share, words, modules in zip(found.shares, found.model.topics(8), found.modules, strict=True)
    ]
    _print_table(out, ("share", "words", "modules"), rows)
    _print_seconds(out, found.seconds)


def main() -> None:
    """Run the command; errors are one line on standard error, not a traceback."""
    warnings.showwarning = _show_warning
    try:
        app()
    except (ValueError, OSError) as error:
        sys.stderr.write(f"momentopic: {error}\n")
        sys.exit(2)


def _console() -> Console:
    from rich.console import Console

    # words and paths are no markup, and a pipe is not a terminal of 80 columns
    return Console(highlight=False, markup=False, emoji=False, width=None if sys.stdout.isatty() else 160)


def _known_corpus(fitted: DiscreteICA, path: Path) -> Corpus:
    """Read documents of the words of a model; texts are counted with its own vocabulary."""
    from momentopic.corpus.formats import read_known_corpus

    words = getattr(fitted, "feature_names_in_", None)
    corpus = read_known_corpus(path, None if words is None else list(words))
    if corpus.shape[1] != fitted.n_features_in_:
        raise ValueError(f"{path} has {corpus.shape[1]} words, but the model was fitted on {fitted.n_features_in_}")
    return corpus


@contextmanager
def _bar(text: str) -> Iterator[Engine]:
    """Give an engine whose progress is shown, once it has taken two seconds."""
    from momentopic.engine import ThreadEngine
    from momentopic.progress import Steps

    with Steps(verbose=1) as steps, steps.step(text):
        yield ThreadEngine(progress=steps.block)


def _working(text: str) -> AbstractContextManager[object]:
    """Show on a terminal that something is going on."""
    from rich.console import Console

    console = Console(stderr=True)
    return console.status(text) if console.is_terminal else nullcontext()


def _print_table(out: Console, header: tuple[str, ...], rows: Sequence[tuple[str, ...]]) -> None:
    from rich.table import Table

    table = Table(box=None, pad_edge=False, header_style="bold")
    for name in header:
        table.add_column(name, justify="right" if name in ("topic", "share") else "left", overflow="fold")
    for row in rows:
        table.add_row(*row)
    out.print(table)


def _print_seconds(out: Console, seconds: dict[str, float]) -> None:
    steps = ", ".join(f"{name} {value:.2f} s" for name, value in seconds.items())
    out.print(f"\n{steps}; {sum(seconds.values()):.2f} s in all", soft_wrap=True)


def _read_parameters(path: Path) -> tuple[Any, Any]:
    import numpy as np

    from momentopic.corpus.formats import guarded

    def read() -> dict[str, Any]:
        with path.open("rb") as stream:
            arrays = np.load(stream)
            return {name: arrays[name] for name in ("D", "c") if name in arrays}

    found = guarded(path, read)
    missing = [name for name in ("D", "c") if name not in found]
    if missing:
        raise ValueError(f"{path} has no array {' and '.join(missing)}: it must hold D (words x topics) and c")
    return found["D"], found["c"]


def _write_whole(path: Path, write: Callable[[Any], None]) -> None:
    """Write a file under a temporary name and rename it: there is never half a file."""
    temporary = path.with_name(f".{path.name}.{uuid.uuid4().hex}.tmp")
    try:
        with temporary.open("wb") as file:
            write(file)
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)


def _show_warning(message: Warning | str, *_: Any, **__: Any) -> None:
    sys.stderr.write(f"momentopic: warning: {message}\n")
