"""Table 1: running times of the algorithms of Figure 1 at N = 50,000, beside the paper's.

It wants a quiet machine. A time is that of a whole fit from counts in memory, with all threads; it differs from run to
run.
"""

from __future__ import annotations

import time
import warnings
from pathlib import Path
from typing import Any

from experiments import figure1, recovery, schedule
from experiments.common import Experiment, Results, Row, Setting, Task
from momentopic import DiscreteICA, metrics

KEYS = ("algorithm", "moments", "N", "seed")
PAPER = {  # min, mean and max of the paper's table, in seconds
    ("JD", "GP"): (148, 192, 247), ("JD", "LDA"): (252, 284, 366),
    ("JD(k)", "GP"): (157, 190, 247), ("JD(k)", "LDA"): (264, 290, 318),
    ("JD(f)", "GP"): (1628, 1846, 2058), ("JD(f)", "LDA"): (2545, 2649, 2806),
    ("Spec", "GP"): (101, 107, 111), ("Spec", "LDA"): (107, 140, 193),
    ("TPM", "GP"): (1734, 2393, 2726), ("TPM", "LDA"): (12723, 16460, 19356),
}  # fmt: skip


def experiment(setting: Setting) -> Experiment:
    size, seeds, parameters = 50_000, recovery.SEEDS, "ap_K50"
    if setting.quick:
        size, seeds = 10_000, 2
    if setting.toy:
        size, seeds, parameters = 300, 1, "ap_K10"
    tasks = []
    for seed in range(seeds):
        keys = tuple((algorithm, moments, size, seed) for algorithm, moments in PAPER)
        sampling = recovery.Sampling(parameters, figure1.C0, size, seed, length=200)
        tasks.append(Task(keys, times, (setting.cache, sampling)))

    def finish(table: Results) -> None:
        (setting.out / "table1.md").write_text(report(table))

    return Experiment("table1", setting.out / "table1.csv", KEYS, tasks, finish, alone=True)


def times(cache: Path, sampling: recovery.Sampling) -> list[Row]:
    """Return the seconds and the error of every method on one corpus."""
    D, c = recovery.parameters(sampling.parameters, cache)
    X = recovery.sample(sampling, D, c)
    rows = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the power method on LDA moments ends at its limit
        for algorithm, moments in PAPER:
            options: dict[str, Any] = dict(figure1.ALGORITHMS[algorithm])
            if moments == "LDA":
                options |= {"moments": "lda", "c0": figure1.C0}
            model = DiscreteICA(
                D.shape[1], refine=None, random_state=sampling.seed, engine=schedule.engine(), **options
            )
            model.fit(X[:300])  # kernels are compiled, or loaded, when they are first used
            begin = time.perf_counter()
            model.fit(X)
            seconds = time.perf_counter() - begin
            rows.append({"fit_seconds": round(seconds, 3), "l1": metrics.recovery_error(model.components_, D)})
    return rows


def report(table: Results) -> str:
    text = ["| | min | mean | max | paper: min | mean | max | times faster |", "|---|---|---|---|---|---|---|---|"]
    for (algorithm, moments), paper in PAPER.items():
        seconds = table.values("fit_seconds", algorithm=algorithm, moments=moments)
        if not seconds:
            continue
        mean = sum(seconds) / len(seconds)
        ours = f"{min(seconds):.2f} | {mean:.2f} | {max(seconds):.2f}"
        theirs = " | ".join(f"{value:,}" for value in paper)
        text.append(f"| {algorithm}-{moments} | {ours} | {theirs} | {paper[1] / mean:,.0f} |")
    return "\n".join(text) + "\n"
