"""Figure 6: the l1 error beside the l2 error, on the corpora of Figure 2 (top, left)."""

from __future__ import annotations

import numpy as np

from experiments import figure2, plots, recovery
from experiments.common import Experiment, Results, Setting

PANEL = "fig_2_top_left"


def experiment(setting: Setting) -> Experiment:
    def finish(table: Results) -> None:
        draw(table, setting)

    # every row of Figure 2 has both errors
    return Experiment("figure6", setting.out / "figure2.csv", recovery.KEYS, figure2.tasks(setting, (PANEL,)), finish)


def draw(table: Results, setting: Setting) -> None:
    with plots.figure(setting.out / "figure6.png", 2) as axes:
        for ax, column in zip(axes, ("l1", "l2"), strict=True):
            for algorithm, line in recovery.lines(table, PANEL, column).items():
                plots.ours(ax, [x / 1000 for x in line], list(line.values()), algorithm)
            title = rf"$\ell_{column[1]}$ error"
            ax.set(title=title, xlabel="documents, in thousands", ylabel=title, ylim=(0, None))
        plots.legend(axes[0], authors=False)


def report(table: Results) -> str:
    first, second = (recovery.lines(table, PANEL, column) for column in ("l1", "l2"))
    sizes = sorted({x for line in first.values() for x in line})
    text = ["| | | " + " | ".join(f"{x:,g}" for x in sizes) + " |", "|---|---|" + "---|" * len(sizes)]
    for algorithm in first:
        for name, found in (("l1", first), ("l2", second)):
            means = [f"{np.mean(found[algorithm][x]):.3f}" for x in sizes]
            text.append(f"| {algorithm if name == 'l1' else ''} | {name} | " + " | ".join(means) + " |")
    return "\n".join(text) + "\n"
