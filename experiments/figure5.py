"""Figure 5 of the code, the appendix' figure on c0: how sensitive the LDA moments are to it.

Topics of AP with K = 10 and 50, true c0 = 1, N = 20,000, GP sampling (left) and LDA-fix(200) (right). The authors' grid
holds 0.01 twice, so their point at 0.1 is the one at 0.01 again; ours has the 0.1.
"""

from __future__ import annotations

from experiments import plots, recovery
from experiments.common import Experiment, Results, Setting, Task

GRID = (0.01, 0.1, 1.0, 10.0, 100.0)
PANELS = {"fig_5_left": "GP", "fig_5_right": "LDA-fix(200)"}


def experiment(setting: Setting) -> Experiment:
    size, seeds, pairs = 20_000, recovery.SEEDS, {10: "ap_K10", 50: "ap_K50"}
    if setting.quick:
        seeds = 1
    if setting.toy:
        size, seeds, pairs = 300, 1, {10: "ap_K10"}
    tasks = []
    for panel in PANELS:
        for K, parameters in pairs.items():
            for seed in range(seeds):
                # the GP cumulants do not depend on c0: one row, which the figure draws as a level line
                keys = ((panel, 1.0, f"JD-GP({K})", seed), *((panel, c0, f"JD-LDA({K})", seed) for c0 in GRID))
                methods = [{}, *({"moments": "lda", "c0": c0} for c0 in GRID)]
                model = "gp" if panel == "fig_5_left" else "fix"
                sampling = recovery.Sampling(parameters, 1.0, size, seed, length=200, model=model)
                tasks.append(Task(keys, recovery.errors, (setting.cache, sampling, methods)))

    def finish(table: Results) -> None:
        draw(table, setting)

    return Experiment("figure5", setting.out / "figure5.csv", recovery.KEYS, tasks, finish)


def draw(table: Results, setting: Setting) -> None:
    with plots.figure(setting.out / "figure5.png", 2) as axes:
        for ax, (panel, title) in zip(axes, PANELS.items(), strict=True):
            known = authors_lines(panel)
            for algorithm, line in recovery.lines(table, panel).items():
                level = list(line.values()) * len(GRID)
                x, values = (GRID, level) if "GP" in algorithm else (list(line), list(line.values()))
                plots.ours(ax, x, values, algorithm)
                theirs = known[algorithm]
                xs = GRID if "GP" in algorithm else list(theirs)
                means = [mean for mean, _, _ in theirs.values()]
                plots.theirs(ax, xs, means * (len(xs) // len(means)), algorithm)
            ax.set(title=title, xlabel=r"$c_0$ given to the LDA moments", ylabel=r"$\ell_1$ error", xscale="log")
            ax.set_ylim(0, None)
        plots.legend(axes[0])


def authors_lines(panel: str) -> dict[str, dict[float, tuple[float, float, float]]]:
    """Return the authors' points by their true c0: without the second 0.01, and one for the GP cumulants.

    Their file numbers the points of the grid and calls K = 50 "90".
    """
    result = {}
    for algorithm, line in recovery.authors_lines(panel).items():
        kept = {GRID[int(i)]: point for i, point in line.items() if i != 1}
        if "GP" in algorithm:
            kept = {1.0: kept[1.0]}
        result[algorithm.replace("(90)", "(50)")] = kept
    return result


def report(table: Results) -> str:
    found = []
    for panel in PANELS:
        known = authors_lines(panel)
        for algorithm, line in recovery.lines(table, panel).items():
            for x, values in line.items():
                nothing = (float("nan"),) * 3
                mean = sum(values) / len(values)
                found.append(recovery.Point((panel, algorithm, x), mean, *known[algorithm].get(x, nothing)))
    compared = [point for point in found if point.authors == point.authors]
    return recovery.summary(compared) + "\n" + recovery.comparison(found, PANELS)
