"""Proposition 3.1, measured: the expected Frobenius error of S against N, the mean length, Delta and c0.

The paper bounds the error of the GP cumulants by O(max(Δ L², min(1, c0) L) / √N), Δ the largest squared norm of a
topic, and argues that the LDA moments have no such factor. Here both are measured, from planted topics: uniform on a
random set of words, so that Δ is one over their number. To compare the two, S is scaled to Σ_k (c_k / c0) d_k d_k'.
"""

from __future__ import annotations

import warnings
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

from experiments import plots, schedule
from experiments.common import Experiment, Results, Row, Setting, Task
from momentopic import moments, simulate

KEYS = ("varied", "N", "L", "words", "c0", "moments", "seed")
M, K = 1000, 10
MOMENTS = ("GP", "LDA", "LDA-fix")


class Case(NamedTuple):
    """The size of the corpora: N documents of mean length L, topics of so many words."""

    N: int = 10_000
    L: int = 100
    words: int = 50
    c0: float = 1.0


GRID: dict[str, tuple[Case, ...]] = {
    "N": tuple(Case(N=N) for N in (1000, 2000, 4000, 8000, 16_000, 32_000, 64_000)),
    "L": tuple(Case(L=L) for L in (10, 30, 100, 300, 1000)),
    "words": tuple(Case(words=words) for words in (5, 15, 50, 150, 500)),
    "c0": tuple(Case(c0=c0) for c0 in (0.1, 0.3, 1.0, 3.0, 10.0)),
}


def experiment(setting: Setting) -> Experiment:
    grid, seeds = GRID, 5
    if setting.quick:
        seeds = 1
    if setting.toy:
        grid, seeds = {"N": (Case(N=100), Case(N=400))}, 1
    tasks = [
        Task(tuple((varied, *case, name, seed) for name in MOMENTS), errors, (case, seed))
        for varied, cases in grid.items()
        for case in cases
        for seed in range(seeds)
    ]

    def finish(table: Results) -> None:
        draw(table, setting)

    return Experiment("proposition", setting.out / "proposition.csv", KEYS, tasks, finish)


def planted(words: int, c0: float, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Return D, whose columns are uniform on as many random words, and c, all equal."""
    rng = np.random.default_rng([seed, words])
    D = np.zeros((M, K))
    for k in range(K):
        D[rng.choice(M, words, replace=False), k] = 1 / words
    return D, np.full(K, c0 / K)


def errors(case: Case, seed: int) -> list[Row]:
    """Return the errors of S: GP cumulants and LDA moments on a GP corpus, LDA moments on one of equal lengths."""
    D, c = planted(case.words, case.c0, seed)
    engine = schedule.engine()
    # the proposition is about all documents of the model: none is drawn again for being short
    X = simulate.gamma_poisson(D, c, case.N, mean_length=case.L, min_length=0, random_state=seed)
    fixed = simulate.lda_fixed(D, c, case.N, length=case.L, random_state=seed)
    gp, lda = moments.gamma_poisson_population(D, c, case.c0 / case.L), moments.lda_population(D, c)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # empty documents, and those too short for the LDA moments
        found = (
            (moments.dica_moments(X, engine=engine), gp, case.c0 / case.L**2),
            (moments.lda_moments(X, case.c0, engine=engine), lda, case.c0 + 1),
            (moments.lda_moments(fixed, case.c0, engine=engine), lda, case.c0 + 1),
        )
        basis = np.eye(M)
        norms = [float(np.linalg.norm(a.second(basis) - b.second(basis))) for a, b, _ in found]
    return [{"error": e, "scaled": e * scale} for e, (_, _, scale) in zip(norms, found, strict=True)]


def rate(case: Case, corrected: bool = False) -> float:
    """Return the bound's rate for the scaled S: c0 / L² times equation (S_complexity).

    The last step of its proof drops a factor 1 / min(1, c0)³ of the squared error; `corrected` keeps it.
    """
    least = min(1.0, case.c0)
    bound = max(case.L**2 / case.words, least * case.L) / np.sqrt(case.N)
    return float(case.c0 / case.L**2 * bound / (least**1.5 if corrected else 1.0))


def series(table: Results, varied: str, name: str) -> dict[Case, list[float]]:
    """Return the scaled errors of one line."""
    found: dict[Case, list[float]] = {}
    for row in table.select(varied=varied, moments=name):
        case = Case(int(row["N"]), int(row["L"]), int(row["words"]), float(row["c0"]))
        found.setdefault(case, []).append(float(row["scaled"]))
    return found


def position(case: Case, varied: str) -> float:
    """Return where a case stands on the axis of what is varied."""
    return 1 / case.words if varied == "words" else float(getattr(case, varied))


def draw(table: Results, setting: Setting) -> None:
    labels = {"N": "N, documents", "L": "L, mean length", "words": r"$\Delta$", "c0": r"$c_0$"}
    colours = {"GP": "#1b5e9e", "LDA": "#c2551d", "LDA-fix": "#e5a36f"}
    names = {"GP": "GP cumulants", "LDA": "LDA moments, GP corpora", "LDA-fix": "LDA moments, equal lengths"}
    with plots.figure(setting.out / "proposition.png", 4) as axes:
        for ax, varied in zip(axes, labels, strict=True):
            for name in MOMENTS:
                line = series(table, varied, name)
                x = [position(case, varied) for case in line]
                plots.ours(ax, x, list(line.values()), names[name], color=colours[name])
            line = series(table, varied, "GP")
            if line:
                _rates(ax, line, varied)
            ax.set(xlabel=labels[varied], ylabel="error of S, scaled", xscale="log", yscale="log")
        plots.legend(axes[-1], 3, authors=False)


def _rates(ax: Any, line: dict[Case, list[float]], varied: str) -> None:
    """Draw the rates, each with the constant that brings it nearest to our line."""
    measured = np.log([np.mean(values) for values in line.values()])
    for corrected, style, label in (
        (False, ":", "rate of the bound"),
        (True, "--", r"with the lost $\bar c_0^{-3/2}$"),
    ):
        if corrected and varied != "c0":
            continue
        logs = np.log([rate(case, corrected) for case in line])
        x = [position(case, varied) for case in line]
        ax.plot(x, np.exp(logs + (measured - logs).mean()), style, color="#666666", linewidth=1, label=label)


def report(table: Results) -> str:
    names = {"N": "N", "L": "L", "words": "Δ", "c0": "c0"}
    text = ["| varied | from | to | GP cumulants | bound | LDA moments, GP corpora | LDA moments, equal lengths |",
            "|---|---|---|---|---|---|---|"]  # fmt: skip
    for varied, name in names.items():
        lines = {moment: series(table, varied, moment) for moment in MOMENTS}
        cases = sorted(lines["GP"], key=lambda case: position(case, varied))
        for low, high in pairwise(cases):
            ends = [f"{position(case, varied):g}" for case in (low, high)]
            ratio = np.log(position(high, varied) / position(low, varied))
            slopes = [float(np.log(np.mean(line[high]) / np.mean(line[low])) / ratio) for line in lines.values()]
            bound = float(np.log(rate(high) / rate(low)) / ratio)
            numbers = [slopes[0], bound, *slopes[1:]]
            text.append(f"| {name} | {ends[0]} | {ends[1]} | " + " | ".join(f"{s:+.2f}" for s in numbers) + " |")
    return "\n".join(text) + "\n"
