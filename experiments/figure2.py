"""Figure 2: GP cumulants against LDA moments, four kinds of corpora, topics of NIPS with K = 10 and 90, c0 = 1.

The K = 10 pair is the authors'; theirs with K = 90 is lost, so that one is learned anew by variational inference. The
caption of the GP panel says that its documents have 1,300 tokens on average. The authors' numbers are those of 200,
which the panel therefore has; "fig_2_long", which is not drawn, has the 1,300.
"""

from __future__ import annotations

from experiments import plots, recovery
from experiments.common import Experiment, Results, Setting, Task

SIZES = (1000, 10_000, 20_000, 30_000, 40_000, 50_000)
FRACTIONS = tuple(i / 10 for i in range(11))
PANELS = {
    "fig_2_top_left": "GP",
    "fig_2_top_right": "LDA-fix(200)",
    "fig_2_bottom_left": "LDA-fix2(0.5, 20, 200)",
    "fig_2_bottom_right": r"LDA-fix2($\gamma$, 20, 200), N = 20,000",
}
LONG = {"fig_2_long": "GP with the caption's mean length of 1,300, K = 10 (the authors' numbers are the panel's again)"}
LONG_SIZES = (1000, 10_000, 50_000)
C0 = 1.0
METHODS = {"JD-GP": {}, "JD-LDA": {"moments": "lda", "c0": C0}}


def experiment(setting: Setting) -> Experiment:
    def finish(table: Results) -> None:
        draw(table, setting)

    return Experiment("figure2", setting.out / "figure2.csv", recovery.KEYS, tasks(setting, (*PANELS, *LONG)), finish)


def tasks(setting: Setting, panels: tuple[str, ...]) -> list[Task]:
    """Return the tasks of some panels: a corpus each."""
    sizes, fractions, seeds, fraction_size = SIZES, FRACTIONS, recovery.SEEDS, 20_000
    pairs = {10: "nips_K10", 90: recovery.learn("nips", 5 if setting.toy else 90, setting)}
    if setting.quick:
        sizes, fractions, seeds, fraction_size = SIZES[:2], FRACTIONS[::5], 1, 10_000
    if setting.toy:
        sizes, fractions, seeds, fraction_size = (300,), (0.5,), 1, 300
    grids = {"fig_2_bottom_right": fractions, "fig_2_long": LONG_SIZES if sizes == SIZES else sizes}
    result = []
    for panel in panels:
        for x in grids.get(panel, sizes):
            for K, parameters in {10: pairs[10]}.items() if panel in LONG else pairs.items():
                for seed in range(seeds):
                    keys = tuple((panel, x, f"{name}({K})", seed) for name in METHODS)
                    sampling = _sampling(panel, x, parameters, seed, fraction_size)
                    result.append(Task(keys, recovery.errors, (setting.cache, sampling, list(METHODS.values()))))
    return result


def _sampling(panel: str, x: float, parameters: str, seed: int, fraction_size: int) -> recovery.Sampling:
    if panel in ("fig_2_top_left", "fig_2_long"):
        return recovery.Sampling(parameters, C0, int(x), seed, length=1300 if panel in LONG else 200)
    if panel == "fig_2_top_right":
        return recovery.Sampling(parameters, C0, int(x), seed, length=200, model="fix")
    if panel == "fig_2_bottom_left":
        return recovery.Sampling(parameters, C0, int(x), seed, length=200, model="fix2", fraction=0.5)
    return recovery.Sampling(parameters, C0, fraction_size, seed, length=200, model="fix2", fraction=x)


def draw(table: Results, setting: Setting) -> None:
    with plots.figure(setting.out / "figure2.png", 4) as axes:
        for ax, (panel, title) in zip(axes, PANELS.items(), strict=True):
            by_size = panel != "fig_2_bottom_right"
            scale = 1000 if by_size else 1
            known = recovery.authors_lines(panel)
            for algorithm, line in recovery.lines(table, panel).items():
                plots.ours(ax, [x / scale for x in line], list(line.values()), algorithm)
                theirs = known[algorithm]
                plots.theirs(ax, [x / scale for x in theirs], [mean for mean, _, _ in theirs.values()], algorithm)
            xlabel = "documents, in thousands" if by_size else r"$\gamma$, the part of long documents"
            ax.set(title=title, xlabel=xlabel, ylabel=r"$\ell_1$ error", ylim=(0, None))
        plots.legend(axes[0])


def report(table: Results) -> str:
    found = recovery.points(table, tuple(PANELS))
    ten = [point for point in found if point.key[1].endswith("(10)")]
    heads = {panel: title.replace(r"$\gamma$", "γ") for panel, title in PANELS.items()}
    known = recovery.authors_lines("fig_2_top_left")
    for algorithm, line in recovery.lines(table, "fig_2_long").items():
        for x, values in line.items():
            if x in known[algorithm]:
                mean = sum(values) / len(values)
                found.append(recovery.Point(("fig_2_long", algorithm, x), mean, *known[algorithm][x]))
    return f"K = 10: {recovery.summary(ten)}\n" + recovery.comparison(found, heads | LONG)
