"""What the estimate of c does to the held-out likelihood of JD-GP: ours, the paper's, and the authors' code's.

The paper estimates c from the diagonals of the projections, equation (ck_estimate). The authors' code takes the median
instead of the mean, pairs the diagonal of projection p with the vector of projection p + 1, and draws random vectors in
the positive orthant. The topics are JD's, or (positive u) JD(k)'s with such vectors. Figure 3's JD-GP has the library's
own estimate, "mean-variance".
"""

from __future__ import annotations

import warnings

import numpy as np

from experiments import figure3, schedule
from experiments.common import Experiment, Results, Row, Setting, Task, fold
from momentopic import Corpus, diagonalize, heldout, moments, recover

KEYS = ("data", "K", "fold", "estimate")
ESTIMATES = (
    "mean-variance",
    "paired mean",
    "paired median",
    "mispaired median",
    "paired median, positive u",
    "mispaired median, positive u",
)


def experiment(setting: Setting) -> Experiment:
    corpora, ks, folds, part = ("ap", "kos", "nips"), (10, 50, 100), (1,), 1
    if setting.quick:
        corpora, ks, part = corpora[:2], (10, 50), 10
    if setting.toy:
        corpora, ks, folds, part = ("kos",), (5,), (5,), 100
    cells = [(data, K, number) for number in folds for K in ks for data in corpora]
    tasks = [Task(tuple((*cell, name) for name in ESTIMATES), estimates, (*cell, part)) for cell in cells]

    def finish(table: Results) -> None:
        (setting.out / "concentration.md").write_text(report(table))

    return Experiment("concentration", setting.out / "concentration.csv", KEYS, tasks, finish)


def estimates(data: str, K: int, number: int, part: int) -> list[Row]:
    """Return the scores of one moment solution under every estimate of c."""
    train, test = fold(data, number)
    if part == 100:
        train, test = train[:400], test[:20]
    n_iter = (200 if data == "nips" else 1000) // part
    engine = schedule.engine()
    found = moments.dica_moments(Corpus(train), engine=engine)
    whitening = moments.whiten(found, K)
    tensor = found.third(whitening.W, whitening.unwhiten)
    positive = np.random.default_rng(0).random((K, K))
    positive /= np.linalg.norm(positive, axis=1, keepdims=True)
    seen = np.asarray(train.sum(axis=0)).ravel() > 0
    rows: list[Row] = []
    for u, names in ((np.eye(K), ESTIMATES[:4]), (positive, ESTIMATES[4:])):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # sweeps at their limit
            result = diagonalize.joint_diagonalize(np.einsum("abc,pc->pab", tensor, u))
        directions = recover.directions(whitening, result.V)
        topics = (1 - figure3.SMOOTHING) * recover.topics(directions.scaled).T + figure3.SMOOTHING * seen / seen.sum()
        for name in names:
            c = _estimate(name, directions, found.mean, result.diagonals, u @ whitening.W)
            score = heldout.chib(test, topics, c, n_iter, engine=engine)
            rows.append({"bits_per_token": round(score.bits_per_token, 5), "c0": round(float(c.sum()), 5)})
    return rows


def _estimate(
    name: str, directions: recover.Directions, mean: np.ndarray, diagonals: np.ndarray, v: np.ndarray
) -> np.ndarray:
    if name == "mean-variance":
        return recover.concentration(directions, mean)
    if name.startswith("mispaired"):
        diagonals, v = diagonals[:-1], v[1:]
    method = "projections-mean" if name.endswith("mean") else "projections-median"
    return recover.concentration(directions, mean, method=method, diagonals=diagonals, v=v)


def report(table: Results) -> str:
    text = ["| | K | " + " | ".join(ESTIMATES) + " |", "|---|---|" + "---|" * len(ESTIMATES)]
    for data, K in dict.fromkeys((row["data"], int(row["K"])) for row in table.select()):
        cells = []
        for name in ESTIMATES:
            bits = np.mean(table.values("bits_per_token", data=data, K=K, estimate=name))
            c0 = np.mean(table.values("c0", data=data, K=K, estimate=name))
            cells.append(f"{bits:.3f} ({c0:.2g})")
        text.append(f"| {data.upper()} | {K} | " + " | ".join(cells) + " |")
    return "\n".join(text) + "\n"
