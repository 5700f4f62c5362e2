"""Figures 3 and 7: held-out bits per token on AP, KOS and NIPS, on the authors' folds.

JD and Spec with GP cumulants and LDA moments, variational inference from documents (VI) and from the JD-GP solution
(VI-JD), and this library's default fit. Chib with 1,000 states on AP and KOS and 200 on NIPS. c0 of the LDA moments is
that of VI.

Each cell is scored twice. `bits_per_token` leaves words unseen in training out. The topics of the moment methods are
truncated at zero and those of variational inference are maximum likelihood, without a prior: both give words of the
training rows probability 0, or nearly. So 1 % of the uniform distribution over those words is mixed into the topics of
every method: all are scored on the same tokens, and with the same smoothing. `bits_as_authors`, with a fifth of the
states, scores all tokens under topics smoothed as the authors' must have been (see `authors_smoothing`), which puts it
on the level of their numbers.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

from experiments import plots, schedule
from experiments.common import Experiment, Key, Results, Row, Setting, Task, authors, fold
from momentopic import Corpus, DiscreteICA, RankError, heldout
from momentopic.refine import variational_lda

KEYS = ("data", "K", "fold", "algorithm")
CORPORA = ("ap", "kos", "nips")
KS = (10, 50, 100, 150, 200)
FIRST = ("JD-GP", "VI", "VI-JD", "momentopic")  # then the others: the paper's main comparison comes first
ALGORITHMS = (*FIRST, "Spec-GP", "JD-LDA", "Spec-LDA")
SMOOTHING = 0.01


class Solution(NamedTuple):
    """Topics (K x M) and their concentration."""

    topics: np.ndarray
    concentration: np.ndarray


def experiment(setting: Setting) -> Experiment:
    def finish(table: Results) -> None:
        draw(table, setting, "figure3.png", ("ap", "kos"))

    return Experiment("figure3", setting.out / "figure3.csv", KEYS, tasks(setting, CORPORA), finish)


def tasks(setting: Setting, corpora: tuple[str, ...]) -> list[Task]:
    """Return every cell of the figure, the paper's main comparison first."""
    ks, folds, part = KS, range(1, 6), 1
    if setting.quick:
        ks, folds, part = KS[:2], range(1, 2), 10
    if setting.toy:
        corpora, ks, folds, part = ("kos",), (5,), range(5, 6), 100
    cells = [(data, K, number) for data in corpora for number in folds for K in ks]
    found = [
        (
            cell[1] not in ks[:3],
            rank >= len(FIRST) - 1,
            Task(tuple((*cell, name) for name in group), score, args, needs),
        )
        for cell in cells
        for rank, (group, needs) in enumerate(_groups(cell))
        for args in [(*cell, group, part)]
    ]
    return [task for *_, task in sorted(found, key=lambda item: item[:2])]


def _groups(cell: Key) -> Iterator[tuple[tuple[str, ...], Key | None]]:
    """Yield the algorithms of a cell that are fitted together, and the row that they need."""
    yield ("VI",), None
    yield ("JD-GP", "VI-JD"), None  # the one starts from the other
    yield ("momentopic",), None
    yield ("Spec-GP",), None
    for name in ("JD-LDA", "Spec-LDA"):
        yield (name,), (*cell, "VI")  # its c0


def score(
    data: str, K: int, number: int, group: tuple[str, ...], part: int, vi: dict[str, str] | None = None
) -> list[Row]:
    """Fit and score some algorithms on a fold.

    Parameters
    ----------
    data, K, number, group
        The corpus, the number of topics, the fold and the algorithms.
    part : int
        Of the iterations of Chib's estimator, one in so many is done; 100 is a toy of fewer documents too.
    vi : dict, optional
        The row of variational inference.
    """
    train, test = fold(data, number)
    if part == 100:
        train, test = train[:400], test[:20]
    seen = np.asarray(train.sum(axis=0)).ravel() > 0
    n_iter = (200 if data == "nips" else 1000) // part
    engine = schedule.engine()
    rows: list[Row] = []
    start = None
    for algorithm in group:
        begin = time.perf_counter()
        try:
            found = fit(algorithm, train, K, None if vi is None else float(vi["c0"]), start)
        except RankError as error:
            nothing = dict.fromkeys(("bits_per_token", "stderr", "bits_as_authors", "c0"), np.nan)
            rows.append(nothing | {"left_out": 0, "note": str(error)})
            continue
        seconds = time.perf_counter() - begin
        start, c = found, found.concentration
        topics = (1 - SMOOTHING) * found.topics + SMOOTHING * seen / seen.sum()
        ours = heldout.chib(test, topics, c, n_iter, engine=engine)
        smoothing = authors_smoothing(found.topics, test)
        theirs = heldout.chib(test, found.topics, c, max(1, n_iter // 5), smoothing=smoothing, engine=engine)
        rows.append(
            {
                "bits_per_token": round(ours.bits_per_token, 5),
                "stderr": round(ours.stderr, 5),
                "left_out": ours.tokens_left_out,
                "bits_as_authors": round(theirs.bits_per_token, 5),
                "c0": round(float(c.sum()), 5),
                "note": "",
                "seconds": seconds,
            }
        )
    return rows


def authors_smoothing(topics: np.ndarray, test: sp.csr_matrix) -> float:
    """Return the part of the uniform distribution in the authors' topics when they scored test documents.

    It is nowhere written down, but their numbers say it: where a test document has a word that all topics give
    probability 0, 1e-4 was added to every entry of the topics (before normalisation) and otherwise nothing.
    """
    impossible = topics.max(axis=0) <= 0
    added = 1e-4 * topics.shape[1]
    return added / (1 + added) if test[:, impossible].sum() else 0.0


def fit(algorithm: str, X: sp.csr_matrix, K: int, c0: float | None = None, start: Solution | None = None) -> Solution:
    """Return topics (K x M) and concentration.

    Parameters
    ----------
    algorithm : str
    X : csr_matrix
    K : int
    c0 : float, optional
        For the LDA moments.
    start : Solution, optional
        For VI-JD, the moment solution if it is known.
    """
    corpus = Corpus(X)
    engine = schedule.engine()
    if algorithm == "VI":
        learned = variational_lda(corpus, K, engine=engine)
        # a topic without documents is flat: the words that nobody has seen are left out for all methods
        topics = learned.topics * (np.asarray(X.sum(axis=0)).ravel() > 0)
        return Solution(topics / topics.sum(axis=1, keepdims=True), learned.concentration)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # splits of topics, diagonalisations at their limit
        if algorithm == "VI-JD" and start is not None:
            learned = variational_lda(corpus, init=start, engine=engine)
            order = np.argsort(-learned.concentration, kind="stable")  # as DiscreteICA(refine="variational") has them
            return Solution(learned.topics[order], learned.concentration[order])
        options: dict[str, Any] = {"refine": None}
        if algorithm in ("VI-JD", "momentopic"):
            options["refine"] = "variational" if algorithm == "VI-JD" else "collapsed"
        if algorithm.startswith("Spec"):
            options["algorithm"] = "spectral"
        if algorithm.endswith("LDA"):
            options |= {"moments": "lda", "c0": c0}
        model = DiscreteICA(K, engine=engine, **options).fit(corpus)
    return Solution(model.components_, model.concentration_)


def authors_bits() -> dict[Key, float]:
    """Return the authors' bits per token by corpus, K, fold and algorithm: the mean where they ran two values of c0."""
    found: dict[Key, list[float]] = {}
    for row in authors("heldout"):
        key = (row["data"], int(row["K"]), int(row["fold"]), row["algorithm"])
        found.setdefault(key, []).append(float(row["bits_per_token"]))
    return {key: float(np.mean(values)) for key, values in found.items()}


def draw(table: Results, setting: Setting, name: str, corpora: tuple[str, ...]) -> None:
    """Draw for each corpus the scores on the authors' level beside theirs, and below them our own scores."""
    known = authors_bits()
    with plots.figure(setting.out / name, 2 * len(corpora), height=3.0) as axes:
        for i, (column, title) in enumerate((("bits_as_authors", "scored as the authors"), ("bits_per_token", "ours"))):
            for ax, data in zip(axes[2 * i :], corpora, strict=False):
                for algorithm in ALGORITHMS:
                    cells = _cells(table, data, algorithm, column)
                    line = {K: [score for (k, _), score in cells.items() if k == K] for K in KS}
                    line = {K: scores for K, scores in line.items() if scores}
                    plots.ours(ax, list(line), list(line.values()), algorithm)
                    if column == "bits_as_authors" and algorithm != "momentopic":
                        means = [np.mean([known[data, K, number, algorithm] for number in range(1, 6)]) for K in KS]
                        plots.theirs(ax, KS, means, algorithm)
                ax.set(title=f"{data.upper()}, {title}", xlabel="topics K", ylabel="bits per token", xticks=KS)
        plots.legend(axes[len(corpora)], 4)  # the panel that has all lines


def report(table: Results) -> str:
    """Return three tables: our scores, those on the authors' level beside theirs, and the main comparison on both."""
    return f"{_levels(table)}\n{_beside(table)}\n{_gaps(table)}"


def _cells(table: Results, data: str, algorithm: str, column: str = "bits_per_token") -> dict[tuple[int, int], float]:
    """Return the scores of one line by K and fold."""
    rows = table.select(data=data, algorithm=algorithm)
    scores = {(int(row["K"]), int(row["fold"])): float(row[column] or "nan") for row in rows}
    return {cell: score for cell, score in scores.items() if np.isfinite(score)}


def _levels(table: Results) -> str:
    text = ["| | K | " + " | ".join(ALGORITHMS) + " | order as in the paper |", "|---|---|" + "---|" * 8]
    for data in CORPORA:
        cells = {algorithm: _cells(table, data, algorithm) for algorithm in ALGORITHMS}
        for K in KS:
            means = {}
            for algorithm, line in cells.items():
                values = [value for (k, _), value in line.items() if k == K]
                if values:
                    means[algorithm] = float(np.mean(values))
            if means:
                shown = [f"{means[name]:.3f}" if name in means else "" for name in ALGORITHMS]
                text.append(f"| {data.upper()} | {K} | " + " | ".join(shown) + f" | {_order(means)} |")
    return "\n".join(text) + "\n"


def _order(means: dict[str, float]) -> str:
    """Say which of the paper's inequalities do not hold."""
    wanted = (("VI-JD", "VI"), ("VI", "JD-GP"), ("JD-GP", "JD-LDA"), ("Spec-GP", "Spec-LDA"))
    known = [(a, b) for a, b in wanted if a in means and b in means]
    wrong = [f"{b} above {a}" for a, b in known if means[a] < means[b]]
    return ", ".join(wrong) if wrong else "yes" if known else ""


def _beside(table: Results) -> str:
    known = authors_bits()
    lines = [name for name in ALGORITHMS if name != "momentopic"]
    text = [
        "| | K | " + " | ".join(f"{name} | authors" for name in lines) + " |",
        "|---|---|" + "---|---|" * len(lines),
    ]
    for data in CORPORA:
        cells = {name: _cells(table, data, name, "bits_as_authors") for name in lines}
        for K in KS:
            shown = []
            for name in lines:
                ours = [score for (k, _), score in cells[name].items() if k == K]
                folds = [number for k, number in cells[name] if k == K] or range(1, 6)
                theirs = [known[data, K, number, name] for number in folds]
                mark = "" if not ours or min(theirs) <= np.mean(ours) <= max(theirs) else " °"
                shown += [f"{np.mean(ours):.3f}{mark}" if ours else "", f"{np.mean(theirs):.3f}"]
            if any(shown[::2]):
                text.append(f"| {data.upper()} | {K} | " + " | ".join(shown) + " |")
    return "\n".join(text) + "\n"


def _gaps(table: Results) -> str:
    """Return VI-JD minus VI and VI minus JD-GP, over the folds that have all three, on both scores and the authors'."""
    known = authors_bits()
    pairs = (("VI-JD", "VI"), ("VI", "JD-GP"))
    text = [
        "| | K | folds | "
        + " | ".join(f"{a} minus {b}, our score | as the authors score | authors" for a, b in pairs)
        + " |",
        "|---|---|---|" + "---|" * 6,
    ]
    for data in CORPORA:
        ours, level = (
            {name: _cells(table, data, name, column) for name in FIRST[:3]}
            for column in ("bits_per_token", "bits_as_authors")
        )
        for K in KS:
            folds = [n for n in range(1, 6) if all((K, n) in cells[name] for cells in (ours, level) for name in cells)]
            if not folds:
                continue
            theirs = {name: {(K, n): known[data, K, n, name] for n in folds} for name in ours}
            shown = [
                f"{np.mean([scores[a][K, n] - scores[b][K, n] for n in folds]):+.3f}"
                for a, b in pairs
                for scores in (ours, level, theirs)
            ]
            text.append(f"| {data.upper()} | {K} | {len(folds)} | " + " | ".join(shown) + " |")
    return "\n".join(text) + "\n"
