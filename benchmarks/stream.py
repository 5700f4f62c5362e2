"""How close a stream comes to the fit of all documents at once, by the number of documents that fix the subspace.

    python -m benchmarks.stream [--planted 250 500 1000 2000 5000] [--docs 20000]

Planted: AP K = 50 parameters, GP sampling, c0 = 0.5, mean length 200, blocks as large as the first one; the moment
solution (refine=None), with a subspace that is enlarged and with one that stays as it is. Late: the same, but 10 of the
50 topics are absent from the first 6,000 documents. Real: AP and NIPS (fold 1) and 20 Newsgroups (every tenth posting
held out), K = 50, blocks in the order of the files; bits per token of held-out documents by document completion. Needs
../shared. Writes benchmarks/results/stream.csv and docs/images/stream.png.
"""

from __future__ import annotations

import argparse
import csv
import time
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

from momentopic import Corpus, DiscreteICA, metrics, simulate, stream
from momentopic.engine import get_engine

HERE = Path(__file__).parent
SHARED = HERE.parent.parent / "shared"
K = 50
COLUMNS = ("corpus", "first", "method", "l1", "bits", "directions", "seconds")


def streamed(X: sp.csr_matrix, first: int, block: int, *, refine: str | None, worth: float = 0.5) -> DiscreteICA:
    """Return a model that has seen the documents once: `first` of them, and blocks after that."""
    before = stream.FIRST_DOCUMENTS, stream._WORTH
    stream.FIRST_DOCUMENTS, stream._WORTH = first, worth
    try:
        if refine is None:  # what partial_fit does, without topics after every block
            moments = stream.Stream(K, get_engine("auto"))
            for begin in (0, *range(first, X.shape[0], block)):
                moments.add(Corpus(X[begin : begin + block] if begin else X[:first]))
            model = DiscreteICA(K, refine=None).fit_moments(moments.moments())
            model._stream = moments
            return model
        model = DiscreteICA(K, refine=refine).partial_fit(X[:first])
        for begin in range(first, X.shape[0], block):
            model.partial_fit(X[begin : begin + block])
        return model
    finally:
        stream.FIRST_DOCUMENTS, stream._WORTH = before


def row(corpus: str, first: int | str, method: str, begin: float, model: Any, **measured: float) -> dict[str, Any]:
    directions = model._stream.moments().basis.rank if hasattr(model, "_stream") else ""
    seconds = round(time.perf_counter() - begin, 1)
    values = {name: round(value, 4) for name, value in measured.items()}
    found = {"corpus": corpus, "first": first, "method": method, "directions": directions, "seconds": seconds, **values}
    print(found, flush=True)
    return found


def planted(firsts: list[int], n_docs: int, seed: int = 1) -> Iterator[dict[str, Any]]:
    with np.load(SHARED / "paper" / "params_ap_K50.npz") as file:
        D, c = file["D"], 0.5 * file["c"] / file["c"].sum()

    def error(model: Any) -> float:
        return metrics.recovery_error(model.components_, D)

    X = simulate.gamma_poisson(D, c, n_docs, mean_length=200, random_state=seed)
    begin = time.perf_counter()
    batch = DiscreteICA(K, refine=None).fit(X)
    yield row("planted", "all", "batch", begin, batch, l1=error(batch))
    for first in firsts:
        for method, worth in (("fixed", np.inf), ("enlarged", 0.5)):
            begin = time.perf_counter()
            model = streamed(X, first, first, refine=None, worth=worth)
            yield row("planted", first, method, begin, model, l1=error(model))
    early = simulate.gamma_poisson(D[:, :40], c[:40], 6000, mean_length=160, random_state=seed)
    late = simulate.gamma_poisson(D, c, n_docs - 6000, mean_length=200, random_state=seed + 1)
    X = sp.vstack([early, late]).tocsr()
    begin = time.perf_counter()
    batch = DiscreteICA(K, refine=None).fit(X)
    yield row("late topics", "all", "batch", begin, batch, l1=error(batch))
    for method, refine, worth in (("fixed", None, np.inf), ("enlarged", None, 0.5), ("folded", "collapsed", 0.5)):
        begin = time.perf_counter()
        model = streamed(X, 5000, 2500, refine=refine, worth=worth)
        yield row("late topics", 5000, method, begin, model, l1=error(model))


def real(
    name: str, train: sp.csr_matrix, test: sp.csr_matrix, firsts: list[int], block: int
) -> Iterator[dict[str, Any]]:
    for refine, method in ((None, "batch, refine=None"), ("collapsed", "batch")):
        begin = time.perf_counter()
        model = DiscreteICA(K, refine=refine).fit(train)
        yield row(name, "all", method, begin, model, bits=model.score(test))
    for first in firsts:
        for refine, method in ((None, "stream, refine=None"), ("collapsed", "stream")):
            begin = time.perf_counter()
            model = streamed(train, first, block, refine=refine)
            yield row(name, first, method, begin, model, bits=model.score(test))
        begin = time.perf_counter()
        model = DiscreteICA(K).fit(train[:first])
        yield row(name, first, "batch, first documents alone", begin, model, bits=model.score(test))


def fold(name: str) -> tuple[sp.csr_matrix, sp.csr_matrix]:
    X = sp.load_npz(SHARED / "datasets" / name / "counts.npz").tocsr()
    with np.load(SHARED / "datasets" / name / "folds.npz") as folds:
        return X[np.sort(folds["train_1"])], X[np.sort(folds["test_1"])]


def newsgroups() -> tuple[sp.csr_matrix, sp.csr_matrix]:
    X = Corpus.from_file(SHARED / "datasets" / "newsgroups20" / "docs.jsonl.gz", email=True).counts
    X = X[np.random.default_rng(0).permutation(X.shape[0])]  # the file has one group after another
    held_out = np.arange(X.shape[0]) % 10 == 0
    return X[~held_out], X[held_out]


def draw(rows: list[dict[str, Any]]) -> None:
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(figsize=(6, 3.4), layout="constrained")
    for method, style in (("fixed", "o--"), ("enlarged", "o-")):
        points = [(r["first"], r["l1"]) for r in rows if r["corpus"] == "planted" and r["method"] == method]
        axes.plot(*zip(*points, strict=True), style, label=f"stream, subspace {method}")
    batch = next(r["l1"] for r in rows if r["corpus"] == "planted" and r["method"] == "batch")
    axes.axhline(batch, color="0.4", lw=1, label="all documents at once")
    axes.set(xscale="log", xlabel="documents that fix the subspace", ylabel="l1 error of the topics", ylim=(0, 0.16))
    axes.set_xticks([r["first"] for r in rows if r["method"] == "fixed" and r["corpus"] == "planted"])
    axes.xaxis.set_major_formatter("{x:,.0f}")
    axes.minorticks_off()
    axes.legend(frameon=False)
    figure.savefig(HERE.parent / "docs" / "images" / "stream.png", dpi=110)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--planted", type=int, nargs="+", default=[250, 500, 1000, 2000, 5000])
    parser.add_argument("--docs", type=int, default=20_000)
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")
    rows = [
        *planted(arguments.planted, arguments.docs),
        *real("AP", *fold("ap"), [600, 1200], 200),
        *real("NIPS", *fold("nips"), [600], 600),
        *real("20 Newsgroups", *newsgroups(), [5000], 2500),
    ]
    with (HERE / "results" / "stream.csv").open("w", newline="") as file:
        writer = csv.DictWriter(file, COLUMNS)
        writer.writeheader()
        writer.writerows(rows)
    draw(rows)


if __name__ == "__main__":
    main()
