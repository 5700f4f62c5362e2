"""Figure 1: the diagonalisation algorithms, with GP cumulants (left) and LDA moments (right).

Topics of AP, K = 50, GP sampling, c0 = 0.5, mean length 200, N from 1,000 to 50,000, five corpora each.
"""

from __future__ import annotations

from typing import Any

from experiments import plots, recovery
from experiments.common import Experiment, Results, Setting, Task

SIZES = (1000, 10_000, 20_000, 30_000, 40_000, 50_000)
ALGORITHMS: dict[str, dict[str, Any]] = {
    "JD": {},
    "JD(k)": {"projections": "random"},
    "JD(f)": {"projections": "vocabulary"},
    "Spec": {"algorithm": "spectral"},
    "TPM": {"algorithm": "tpm"},
}
PANELS = {"fig_1_left": "GP cumulants", "fig_1_right": "LDA moments"}
C0 = 0.5


def methods(names: tuple[str, ...] = tuple(ALGORITHMS)) -> dict[tuple[str, str], dict[str, Any]]:
    """Return the options of every algorithm on both moments."""
    moments = {"fig_1_left": {}, "fig_1_right": {"moments": "lda", "c0": C0}}
    return {(panel, name): ALGORITHMS[name] | more for panel, more in moments.items() for name in names}


def experiment(setting: Setting) -> Experiment:
    sizes, seeds, parameters, which = SIZES, recovery.SEEDS, "ap_K50", methods()
    if setting.quick:
        sizes, seeds, which = SIZES[:3], 2, methods(("JD", "JD(k)", "Spec", "TPM"))
    if setting.toy:
        sizes, seeds, parameters = (300,), 1, "ap_K10"
    tasks = []
    for N in sizes:
        for seed in range(seeds):
            keys = tuple((panel, N, algorithm, seed) for panel, algorithm in which)
            sampling = recovery.Sampling(parameters, C0, N, seed, length=200)
            tasks.append(Task(keys, recovery.errors, (setting.cache, sampling, list(which.values()))))

    def finish(table: Results) -> None:
        draw(table, setting)

    return Experiment("figure1", setting.out / "figure1.csv", recovery.KEYS, tasks, finish)


def draw(table: Results, setting: Setting) -> None:
    with plots.figure(setting.out / "figure1.png", 2) as axes:
        for ax, (panel, title) in zip(axes, PANELS.items(), strict=True):
            known = recovery.authors_lines(panel)
            for algorithm, line in recovery.lines(table, panel).items():
                plots.ours(ax, [x / 1000 for x in line], list(line.values()), algorithm)
                theirs = known[algorithm]
                plots.theirs(ax, [x / 1000 for x in theirs], [mean for mean, _, _ in theirs.values()], algorithm)
            ax.set(title=title, xlabel="documents, in thousands", ylabel=r"$\ell_1$ error", ylim=(0, None))
        plots.legend(axes[0], 6)


def report(table: Results) -> str:
    found = recovery.points(table, tuple(PANELS))
    return recovery.summary(found) + "\n" + recovery.comparison(found, PANELS)
