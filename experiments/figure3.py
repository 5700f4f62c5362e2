"""Figures 3 and 7: held-out bits per token on AP, KOS and NIPS, on the authors' folds.

JD and Spec with GP cumulants and LDA moments, variational inference from documents (VI) and from the JD-GP solution
(VI-JD), and this library's default fit. Chib with 1,000 states on AP and KOS and 200 on NIPS. Words unseen in training
are left out. The topics of the moment methods are truncated at zero, so 1 % of the uniform distribution over the words
of the training rows is mixed in: every method is scored on the same tokens. c0 of the LDA moments is that of VI.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import scipy.sparse as sp

from experiments.common import Results, Setting, Task, authors, fold
from momentopic import Corpus, DiscreteICA, RankError, heldout
from momentopic.refine import variational_lda

CORPORA = ("ap", "kos", "nips")
KS = (10, 50, 100, 150, 200)
FIRST = ("JD-GP", "VI", "VI-JD", "momentopic")  # then the others: the paper's main comparison comes first
ALGORITHMS = (*FIRST, "Spec-GP", "JD-LDA", "Spec-LDA")
SMOOTHING = 0.01
Topics = tuple[np.ndarray, np.ndarray]


def results(setting: Setting) -> Results:
    return Results(setting.out / "figure3.csv", ("data", "K", "fold", "algorithm"))


def run(setting: Setting) -> Results:
    """Fit and score whatever is not in the results yet."""
    table = results(setting)
    table.fill(tasks(setting, table), "figure3: held-out likelihood")
    (setting.out / "figure3.md").write_text(markdown(differences(table)))
    return table


def tasks(setting: Setting, table: Results) -> Iterator[Task]:
    """Return every cell of the figure, the paper's main comparison first."""
    corpora, ks, folds = CORPORA, KS, range(1, 6)
    if setting.quick:
        ks, folds = (10, 50), range(1, 2)
    if setting.toy:
        corpora, ks, folds = ("kos",), (5,), range(5, 6)
    seen = set()
    for algorithms, some in ((FIRST, ks[:3]), (ALGORITHMS, ks[:3]), (ALGORITHMS, ks)):
        for data in corpora:
            for number in folds:
                for K in some:
                    for algorithm in algorithms:
                        key = (data, K, number, algorithm)
                        if key not in seen:
                            seen.add(key)
                            yield Task(key, _cell(setting, table, *key))


def _cell(setting: Setting, table: Results, data: str, K: int, number: int, algorithm: str) -> Callable[[], Any]:
    def cell() -> dict[str, Any]:
        train, test = fold(data, number)
        if setting.toy:
            train, test = train[:400], test[:20]
        c0 = None
        if algorithm.endswith("LDA"):
            c0 = table.values("c0", data=data, K=K, fold=number, algorithm="VI")[0]
        begin = time.perf_counter()
        try:
            topics, c = fit(algorithm, train, K, c0)
        except RankError as error:
            return {"bits_per_token": np.nan, "stderr": np.nan, "left_out": 0, "c0": np.nan, "note": str(error)}
        seconds = time.perf_counter() - begin
        n_iter = (200 if data == "nips" else 1000) // (10 if setting.quick else 100 if setting.toy else 1)
        score = heldout.chib(test, topics, c, n_iter)
        return {
            "bits_per_token": round(score.bits_per_token, 5),
            "stderr": round(score.stderr, 5),
            "left_out": score.tokens_left_out,
            "c0": round(float(c.sum()), 5),
            "note": "",
            "seconds": round(seconds, 2),
        }

    return cell


def fit(algorithm: str, X: sp.csr_matrix, K: int, c0: float | None) -> Topics:
    """Return topics (K x M) and concentration."""
    corpus = Corpus(X)
    seen = np.asarray(X.sum(axis=0)).ravel() > 0
    if algorithm == "VI":
        found = variational_lda(corpus, K)
        # a topic without documents is flat: the words that nobody has seen are left out for all methods
        topics = found.topics * seen
        return topics / topics.sum(axis=1, keepdims=True), found.concentration
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # splits of topics, diagonalisations at their limit
        if algorithm in ("VI-JD", "momentopic"):
            model = DiscreteICA(K, refine="variational" if algorithm == "VI-JD" else "collapsed").fit(corpus)
            return model.components_, model.concentration_
        method, moments = algorithm.split("-")
        model = DiscreteICA(
            K,
            moments="dica" if moments == "GP" else "lda",
            algorithm="jd" if method == "JD" else "spectral",
            c0=c0,
            refine=None,
        ).fit(corpus)
    return (1 - SMOOTHING) * model.components_ + SMOOTHING * seen / seen.sum(), model.concentration_


def differences(table: Results) -> list[dict[str, Any]]:
    """Return, for each corpus and K, the mean over folds of each line and of two differences, ours and the authors'."""
    theirs = {(r["data"], r["K"], r["fold"], r["algorithm"]): float(r["bits_per_token"]) for r in authors("heldout")}
    rows = []
    for data in CORPORA:
        for K in KS:
            folds = sorted({row["fold"] for row in table.select(data=data, K=K)})
            cells = {
                algorithm: table.values("bits_per_token", data=data, K=K, algorithm=algorithm) for algorithm in FIRST
            }
            if not folds or any(len(values) < len(folds) for values in cells.values()):
                continue
            ours = {algorithm: np.array(values) for algorithm, values in cells.items()}
            row: dict[str, Any] = {"data": data, "K": K, "folds": len(folds)}
            row |= {algorithm: float(values.mean()) for algorithm, values in ours.items()}
            for name, above, below in (("VI-JD minus VI", "VI-JD", "VI"), ("VI minus JD", "VI", "JD-GP")):
                row[name] = float((ours[above] - ours[below]).mean())
                row[f"{name}, authors"] = float(
                    np.mean([theirs[data, str(K), f, above] - theirs[data, str(K), f, below] for f in folds])
                )
            rows.append(row)
    return rows


def markdown(rows: list[dict[str, Any]]) -> str:
    """Return the differences as a table."""
    head = "| | K | JD-GP | VI | VI-JD | default fit | VI-JD minus VI | authors | VI minus JD | authors |"
    lines = [head, "|" + "---|" * 10]
    for row in rows:
        numbers = [f"{row[name]:.3f}" for name in ("JD-GP", "VI", "VI-JD", "momentopic")]
        for name in ("VI-JD minus VI", "VI minus JD"):
            numbers += [f"{row[name]:+.3f}", f"{row[name + ', authors']:+.3f}"]
        lines.append(f"| {row['data'].upper()} | {row['K']} | " + " | ".join(numbers) + " |")
    return "\n".join(lines) + "\n"
