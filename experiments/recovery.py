"""Topic recovery on sampled corpora, which Figures 1, 2, 5 and 6 share: rows of errors, beside the authors'."""

from __future__ import annotations

import time
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

from experiments import schedule
from experiments.common import Key, Results, Row, Setting, authors, counts, need
from momentopic import Corpus, DiscreteICA, RankError, metrics, simulate
from momentopic.refine import variational_lda

KEYS = ("figure", "x", "algorithm", "seed")
SEEDS = 5


class Sampling(NamedTuple):
    """What a corpus is sampled from.

    Attributes
    ----------
    parameters : str
        Of which corpus and K the topics are: "ap_K50".
    c0 : float
        c is scaled to this sum.
    n_docs, seed : int
    length : int
        The (mean) length of the documents.
    model : str
        "gp", "fix" or "fix2".
    fraction : float
        For "fix2": the part of the documents that have `length`; the others have 20 tokens.
    """

    parameters: str
    c0: float
    n_docs: int
    seed: int
    length: int
    model: str = "gp"
    fraction: float = 1.0


def parameters(name: str, cache: Path) -> tuple[np.ndarray, np.ndarray]:
    """Return D (words x topics) and c: the authors' where they are kept, else learned by us (see `learn`)."""
    learned = cache / f"params_{name}.npz"
    with np.load(learned if learned.exists() else need("paper", f"params_{name}.npz")) as found:
        return found["D"], found["c"]


def learn(name: str, K: int, setting: Setting) -> str:
    """Learn D and c on a whole corpus by variational inference, once, and return what they are called."""
    label = f"{name}_K{K}"
    path = setting.cache / f"params_{label}.npz"
    if not path.exists():
        X = counts(name)
        found = variational_lda(Corpus(X[:200] if setting.toy else X), K)
        path.parent.mkdir(parents=True, exist_ok=True)
        temporary = path.with_name(f".{path.name}")
        np.savez(temporary, D=found.topics.T, c=found.concentration)
        temporary.replace(path)
    return label


def sample(sampling: Sampling, D: np.ndarray, c: np.ndarray) -> sp.csr_matrix:
    """Return a corpus; documents of fewer than 3 tokens are drawn again."""
    c = sampling.c0 * c / c.sum()
    N, L, seed = sampling.n_docs, sampling.length, sampling.seed
    if sampling.model == "gp":
        return simulate.gamma_poisson(D, c, N, mean_length=L, random_state=seed)
    if sampling.model == "fix":
        return simulate.lda_fixed(D, c, N, length=L, random_state=seed)
    return simulate.lda_mixed(D, c, N, fraction=sampling.fraction, lengths=(20, L), random_state=seed)


def errors(cache: Path, sampling: Sampling, methods: Sequence[dict[str, Any]]) -> list[Row]:
    """Sample a corpus, and return the errors of methods (options of `DiscreteICA`) on it."""
    D, c = parameters(sampling.parameters, cache)
    corpus = Corpus(sample(sampling, D, c))
    return [error(corpus, D, options, sampling.seed) for options in methods]


def error(corpus: Corpus, D: np.ndarray, options: dict[str, Any], seed: int) -> Row:
    """Return the l1 and l2 errors of a method on a corpus whose topics are known."""
    model = DiscreteICA(D.shape[1], refine=None, random_state=seed, engine=schedule.engine(), **options)
    begin = time.perf_counter()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # iterations at their limit, which the noise of small samples causes
            model.fit(corpus)
    except RankError as problem:
        return {"l1": np.nan, "l2": np.nan, "note": str(problem)}
    seconds = time.perf_counter() - begin
    l1, l2 = (metrics.recovery_error(model.components_, D, norm) for norm in (1, 2))
    return {"l1": round(l1, 5), "l2": round(l2, 5), "note": "", "seconds": seconds}


def lines(table: Results, figure: str, column: str = "l1") -> dict[str, dict[float, list[float]]]:
    """Return our values of one panel: algorithm, then x, then a value for each corpus."""
    found: dict[str, dict[float, list[float]]] = {}
    for row in table.select(figure=figure):
        found.setdefault(row["algorithm"], {}).setdefault(float(row["x"]), []).append(float(row[column]))
    return found


def authors_lines(figure: str) -> dict[str, dict[float, tuple[float, float, float]]]:
    """Return the authors' mean, minimum and maximum of one panel: algorithm, then x."""
    found: dict[str, dict[float, tuple[float, float, float]]] = {}
    for row in authors("recovery"):
        if row["figure"] == figure:
            point = (float(row["l1_mean"]), float(row["l1_min"]), float(row["l1_max"]))
            found.setdefault(row["algorithm"], {})[float(row["x"])] = point
    return found


class Point(NamedTuple):
    """One of our means beside the authors'.

    `close`: within 0.01 or 5 % of theirs, whichever is larger; `within`: between their minimum and maximum.
    """

    key: Key
    ours: float
    authors: float
    low: float
    high: float

    @property
    def close(self) -> bool:
        return abs(self.ours - self.authors) <= max(0.01, 0.05 * self.authors)

    @property
    def within(self) -> bool:
        return self.low <= self.ours <= self.high


def points(table: Results, figures: Sequence[str]) -> list[Point]:
    """Return every mean that the authors have too."""
    result = []
    for figure in figures:
        known = authors_lines(figure)
        for algorithm, line in lines(table, figure).items():
            for x, values in line.items():
                if x in known.get(algorithm, {}):
                    result.append(Point((figure, algorithm, x), float(np.mean(values)), *known[algorithm][x]))
    return result


def comparison(found: Sequence[Point], heads: dict[str, str]) -> str:
    """Return a table of points: a row for each panel and algorithm, ours over the authors' for each x."""
    text = []
    for figure, title in heads.items():
        some = [point for point in found if point.key[0] == figure]
        if not some:
            continue
        xs = sorted({point.key[2] for point in some})
        text += ["", f"**{title}**", "", "| | | " + " | ".join(f"{x:,g}" for x in xs) + " |"]
        text.append("|---|---|" + "---|" * len(xs))
        for algorithm in dict.fromkeys(point.key[1] for point in some):
            cells = {point.key[2]: point for point in some if point.key[1] == algorithm}
            line = [cells.get(x) for x in xs]
            text.append(
                f"| {algorithm} | ours | " + " | ".join("" if p is None else f"{p.ours:.3f}" for p in line) + " |"
            )
            line = [p if p is not None and np.isfinite(p.authors) else None for p in line]
            text.append("| | authors | " + " | ".join("" if p is None else f"{p.authors:.3f}" for p in line) + " |")
            text.append("| | difference | " + " | ".join("" if p is None else _difference(p) for p in line) + " |")
    return "\n".join(text).strip() + "\n"


def _difference(point: Point) -> str:
    text = f"{point.ours - point.authors:+.3f}"
    return (f"{text}" if point.close else f"**{text}**") + ("" if point.within else " °")


def summary(found: Sequence[Point]) -> str:
    """Return how many of the points are close to the authors', and how many lie within their range."""
    close, within = sum(p.close for p in found), sum(p.within for p in found)
    return (
        f"{close} of {len(found)} means lie within 0.01 or 5 % of the authors' (the others are bold); {within} between "
        "the authors' minimum and maximum of five corpora (° marks those that do not).\n"
    )
