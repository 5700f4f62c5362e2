"""Whether confidence can be believed: intervals and stability against planted truth, and against other documents.

planted: topics of AP with K = 10, GP sampling, N = 5,000, c0 = 1 (as in the paper's figure on c0) and 0.41 (as learned
from AP): how many of the 90 % intervals of the ten first words hold the true probability.
weak: topics of AP with K = 50, c0 = 0.5 (Figure 1), N = 1,000 to 10,000: the error of each topic and its stability.
halves: AP itself, K = 100, one random half: which of its topics the other half gives too, against their stability.
"""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
from scipy.spatial.distance import cdist

from experiments import plots, schedule
from experiments.common import Experiment, Results, Row, Setting, Task, counts, need
from momentopic import DiscreteICA, metrics, simulate
from momentopic._types import FloatArray
from momentopic.views import UNSTABLE

KEYS = ("kind", "c0", "N", "seed", "topic")
GROUPS = 32
REPRODUCED = 0.35  # a topic counts as given by the other half if they overlap by as much


def experiment(setting: Setting) -> Experiment:
    n_planted, n_weak, n_halves, sizes, K_weak, K_halves = 50, 3, 2, (1000, 3000, 10_000), 50, 100
    n_docs, intensities = 5000, (1.0, 0.41)
    if setting.quick:
        n_planted, n_weak, n_halves, sizes = 10, 1, 1, (1000, 3000)
    if setting.toy:
        n_planted, n_weak, n_halves, sizes, K_weak, K_halves, n_docs = 1, 1, 1, (400,), 10, 5, 300
        intensities = (1.0,)
    tasks = [_task("planted", c0, n_docs, seed, 10) for c0 in intensities for seed in range(n_planted)]
    tasks += [_task("weak", 0.5, N, seed, K_weak) for N in sizes for seed in range(n_weak)]
    tasks += [_task("halves", 0.0, 0, seed, K_halves) for seed in range(n_halves)]

    def finish(table: Results) -> None:
        draw(table, setting)
        (setting.out / "confidence.md").write_text(report(table))

    return Experiment("confidence", setting.out / "confidence.csv", KEYS, tasks, finish)


def _task(kind: str, c0: float, N: int, seed: int, K: int) -> Task:
    keys = tuple((kind, c0, N, seed, k) for k in range(K))
    return Task(keys, halves, (seed, K)) if kind == "halves" else Task(keys, planted, (c0, N, seed, K))


def planted(c0: float, N: int, seed: int, K: int) -> list[Row]:
    """Return error, stability and how many intervals hold the truth, for each topic of a sampled corpus."""
    with np.load(need("paper", f"params_ap_K{K}.npz")) as file:
        D, c = file["D"], c0 * file["c"] / file["c"].sum()
    X = simulate.gamma_poisson(D, c, N, mean_length=200, random_state=seed)
    model = DiscreteICA(K, refine=None, n_groups=GROUPS, engine=schedule.engine()).fit(X)
    found = model.confidence()
    matched = metrics.align_topics(model.components_, D.T)
    true = np.take_along_axis(D.T[matched.second], found.words, axis=1)
    held = (found.low <= true) & (true <= found.high)
    c = c[matched.second]
    c_held = (found.concentration_low <= c) & (c <= found.concentration_high)
    return [
        {
            "error": float(matched.distances[k]),
            "stability": float(found.stability[k]),
            "held": float(held[k].mean()),
            "width": float(np.mean((found.high[k] - found.low[k]) / true[k])),
            "c_held": int(c_held[k]),
        }
        for k in range(K)
    ]


def halves(seed: int, K: int) -> list[Row]:
    """Return the stability of each topic of half of AP, and its largest overlap with a topic of the other half."""
    X = counts("ap")
    order = np.random.default_rng(seed).permutation(X.shape[0])
    parts = [X[np.sort(rows)] for rows in np.array_split(order, 2)]
    columns: dict[str, FloatArray] = {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # empty documents
        for name, refine in (("moments", None), ("refined", "collapsed")):
            one, other = (
                DiscreteICA(K, refine=refine, n_groups=n, engine=schedule.engine()).fit(part)  # type: ignore[arg-type]
                for part, n in zip(parts, (GROUPS, None), strict=True)
            )
            columns[f"stability_{name}"] = one.stability_
            distances = cdist(one.components_, other.components_, "cityblock") / 2
            columns[f"overlap_{name}"] = 1 - distances.min(axis=1)
    return [{name: float(values[k]) for name, values in columns.items()} for k in range(K)]


def area(stability: FloatArray, reproduced: Any) -> float:
    """Return the area under the ROC curve: how often a reproduced topic is more stable than one that is not."""
    above = stability[reproduced][:, None] - stability[~reproduced]
    return float(np.mean((above > 0) + 0.5 * (above == 0))) if above.size else float("nan")


def columns(table: Results, *names: str, **wanted: Any) -> list[FloatArray]:
    return [np.array(table.values(name, **wanted)) for name in names]


def settings(table: Results, kind: str) -> list[dict[str, Any]]:
    """Return the settings of one kind of rows."""
    return [
        {"kind": kind, "c0": c0, "N": N}
        for c0, N in dict.fromkeys((row["c0"], row["N"]) for row in table.select(kind=kind))
    ]


def report(table: Results) -> str:
    text = ["| planted | corpora | intervals that hold the truth | of c | rank correlation of stability with error "
            "| marked, of topics with an error over 0.5 | of the others |",
            "|---|---|---|---|---|---|---|"]  # fmt: skip
    for wanted in settings(table, "planted") + settings(table, "weak"):
        error, stability, held, c_held = columns(table, "error", "stability", "held", "c_held", **wanted)
        n = len({row["seed"] for row in table.select(**wanted)})
        wrong, marked = error > 0.5, stability < UNSTABLE
        text.append(
            f"| c0 = {wanted['c0']}, N = {wanted['N']} | {n} | {held.mean():.1%} | {c_held.mean():.0%} "
            f"| {rank_correlation(stability, error):.2f} "
            f"| {(marked & wrong).sum()} of {wrong.sum()} | {(marked & ~wrong).sum()} of {(~wrong).sum()} |"
        )
    text += ["", "| AP, K = 100 | topics reproduced | area under the ROC curve | marked |", "|---|---|---|---|"]
    for name in ("moments", "refined"):
        for seed in dict.fromkeys(row["seed"] for row in table.select(kind="halves")):
            stability, overlap = columns(table, f"stability_{name}", f"overlap_{name}", kind="halves", seed=seed)
            found = overlap >= REPRODUCED
            text.append(
                f"| {name}, halves {seed} | {found.sum()} of {len(found)} | {area(stability, found):.2f} "
                f"| {(stability < UNSTABLE).sum()} |"
            )
    return "\n".join(text) + "\n"


def rank_correlation(a: FloatArray, b: FloatArray) -> float:
    """Return Spearman's correlation (of values without ties)."""
    ranks = [np.argsort(np.argsort(values)) for values in (a, b)]
    return float(np.corrcoef(ranks[0], ranks[1])[0, 1])


def draw(table: Results, setting: Setting) -> None:
    with plots.figure(setting.out / "confidence.png", 3, columns=3) as axes:
        for wanted, colour in zip(settings(table, "planted"), ("#1b5e9e", "#c2551d"), strict=False):
            held = [
                np.mean(table.values("held", **wanted, seed=seed))
                for seed in dict.fromkeys(row["seed"] for row in table.select(**wanted))
            ]
            axes[0].hist(
                held, bins=np.linspace(0.6, 1, 21), color=colour, alpha=0.6, label=f"$c_0$ = {float(wanted['c0']):g}"
            )
        axes[0].axvline(0.9, color="#666666", linestyle="--", linewidth=0.8)
        axes[0].set(xlabel="90 % intervals that hold the truth", ylabel="corpora")
        axes[0].legend()
        for wanted, colour in zip(settings(table, "weak"), ("#c2551d", "#4fa3d1", "#0b2545"), strict=False):
            error, stability = columns(table, "error", "stability", **wanted)
            axes[1].plot(error, stability, ".", color=colour, markersize=3, label=f"N = {int(wanted['N']):,}")
        axes[1].axhline(UNSTABLE, color="#666666", linestyle="--", linewidth=0.8)
        axes[1].set(xlabel="true error of a topic", ylabel="stability", ylim=(0, 1))
        axes[1].legend()
        for name, colour in (("moments", "#1b5e9e"), ("refined", "#b5123e")):
            stability, overlap = columns(table, f"stability_{name}", f"overlap_{name}", kind="halves")
            axes[2].plot(overlap, stability, ".", color=colour, markersize=3, label=name)
        axes[2].set(xlabel="overlap with a topic of the other half", ylabel="stability", ylim=(0, 0.7))
        axes[2].legend()
