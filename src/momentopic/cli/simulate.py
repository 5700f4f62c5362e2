"""`momentopic simulate`."""

from __future__ import annotations

from collections.abc import Iterator
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer

from momentopic.cli import options
from momentopic.cli.console import say

EXAMPLES = (
    "momentopic simulate corpus.npz --docs 10000 -k 20",
    "momentopic simulate corpus --docs 1000000 -k 100 --words 50000",
)


class SimulatedModel(StrEnum):
    """The paper's sampling models."""

    gp = "gp"
    lda_fix = "lda-fix"
    lda_fix2 = "lda-fix2"


def simulate(
    output: Annotated[Path, typer.Argument(help="The counts to write: a .npz file, or a folder as of pack.")],
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
    seed: options.Seed = 0,
) -> None:
    """Sample a corpus from one of the paper's models; OUTPUT.truth.npz gets the topics D and c."""
    import numpy as np

    from momentopic import simulate as models
    from momentopic.corpus.shards import write_whole

    if output.suffix not in (".npz", ""):
        raise ValueError(f"the counts are written as .npz, or to a folder, but the name is {output}")
    if parameters is not None:
        D, c = _read_parameters(parameters)
    else:
        rng = np.random.default_rng([seed, 2])
        D = rng.dirichlet(np.full(words, 20 / words), size=k).T
        c = rng.uniform(0.5, 1.5, size=k)
    c = c0 * c / c.sum()
    truth = output.with_suffix(".truth.npz")
    if model is SimulatedModel.gp:
        batches = models.gamma_poisson_batches(
            D, c, docs, mean_length=mean_length, min_length=min_length, random_state=seed
        )
    else:
        lengths, part = ((length, length2), fraction) if model is SimulatedModel.lda_fix2 else ((length, length), 0.0)
        batches = models.lda_mixed_batches(D, c, docs, fraction=part, lengths=lengths, random_state=seed)
    tokens = _write_folder(output, batches, D, docs) if output.suffix == "" else _write_file(output, batches)
    write_whole(truth, lambda file: np.savez_compressed(file, D=D, c=c))
    say(f"{docs} documents of {tokens / docs:.1f} tokens over {len(D)} words in {output}, the true topics in {truth}")


def _write_file(output: Path, batches: Iterator[Any]) -> float:
    import scipy.sparse as sp

    from momentopic.corpus.shards import write_whole

    X = sp.vstack(list(batches), format="csr")
    write_whole(output, lambda file: sp.save_npz(file, X))
    return float(X.sum())


def _write_folder(output: Path, batches: Iterator[Any], D: Any, docs: int) -> float:
    from momentopic.corpus.writer import ShardWriter
    from momentopic.progress import Steps

    tokens, done = 0.0, 0
    with ShardWriter(output) as writer, Steps(verbose=1) as steps, steps.step("sampling"):
        for batch in batches:
            writer.add(batch)
            tokens += float(batch.sum())
            done += batch.shape[0]
            steps.part(done, docs)
        writer.finish(len(D), name=output.name)
    return tokens


def _read_parameters(path: Path) -> tuple[Any, Any]:
    import numpy as np

    from momentopic.corpus.guard import guarded

    def read() -> dict[str, Any]:
        with path.open("rb") as stream:
            arrays = np.load(stream)
            return {name: arrays[name] for name in ("D", "c") if name in arrays}

    found = guarded(path, read)
    missing = [name for name in ("D", "c") if name not in found]
    if missing:
        raise ValueError(f"{path} has no array {' and '.join(missing)}: it must hold D (words x topics) and c")
    return found["D"], found["c"]
