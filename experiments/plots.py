"""One look for all figures: small panels, our means with bars from minimum to maximum, the authors' means dashed."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

_COLOURS = {
    "JD": "#1b5e9e", "JD(k)": "#4fa3d1", "JD(f)": "#0b2545", "Spec": "#c2551d", "TPM": "#2e8b57",
    "JD-GP": "#1b5e9e", "Spec-GP": "#4fa3d1", "JD-LDA": "#c2551d", "Spec-LDA": "#e5a36f", "VI": "#2e8b57",
    "VI-JD": "#7b3294", "momentopic": "#b5123e",
}  # fmt: skip
_MARKERS = {"JD": "o", "JD(k)": "s", "JD(f)": "d", "Spec": "^", "TPM": "v", "JD-GP": "o", "Spec-GP": "s", "JD-LDA": "^",
            "Spec-LDA": "v", "VI": "d", "VI-JD": "P", "momentopic": "*"}  # fmt: skip
_STYLE = {
    "font.family": "serif", "mathtext.fontset": "cm", "font.size": 9, "axes.titlesize": 9, "axes.labelsize": 9,
    "legend.fontsize": 7.5, "xtick.labelsize": 8, "ytick.labelsize": 8, "axes.linewidth": 0.6, "axes.grid": True,
    "grid.linewidth": 0.3, "grid.color": "#cccccc", "legend.frameon": False, "lines.linewidth": 1.1,
}  # fmt: skip


@contextmanager
def figure(path: Path, n_panels: int, columns: int = 2, height: float = 2.5) -> Iterator[list[Any]]:
    """Yield the axes of a figure's panels, then write it."""
    import matplotlib as mpl
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    with mpl.rc_context(_STYLE):
        rows = -(-n_panels // columns)
        drawing = Figure(figsize=(3.3 * columns, height * rows), layout="constrained")
        axes = [drawing.add_subplot(rows, columns, i + 1) for i in range(n_panels)]
        yield axes
        path.parent.mkdir(parents=True, exist_ok=True)
        temporary = path.with_name(f".{path.name}.tmp")
        FigureCanvasAgg(drawing).print_figure(temporary, dpi=130, format="png")
        temporary.replace(path)


def ours(ax: Any, x: Sequence[float], values: Sequence[Sequence[float]], label: str, **changes: Any) -> None:
    """Draw our line: means, with bars from the least to the largest of the repetitions."""
    if not x:
        return
    mean = np.array([np.mean(some) for some in values])
    bars = [mean - [np.min(some) for some in values], [np.max(some) for some in values] - mean]
    ax.errorbar(
        x, mean, np.maximum(bars, 0), label=label, **(_look(label) | {"capsize": 1.5, "elinewidth": 0.7}) | changes
    )


def theirs(ax: Any, x: Sequence[float], means: Sequence[float], label: str, **changes: Any) -> None:
    """Draw the authors' line of the same name: dashed, without marks."""
    ax.plot(x, means, **(_look(label) | {"linestyle": "--", "marker": "", "linewidth": 0.8, "alpha": 0.8}) | changes)


def legend(ax: Any, columns: int = 5, authors: bool = True) -> None:
    """Explain the lines of a panel below the whole figure; the dashed ones are the authors'."""
    handles, labels = ax.get_legend_handles_labels()
    if authors:
        (dashed,) = ax.plot([], [], "--", color="#666666", linewidth=0.8)
        handles, labels = [*handles, dashed], [*labels, "authors"]
    if handles:
        ax.figure.legend(handles, labels, loc="outside lower center", ncols=columns, handlelength=2.2)


def _look(label: str) -> dict[str, Any]:
    name = re.sub(r"\(\d+\)$", "", label)  # "JD-GP(10)"
    light = {"markerfacecolor": "white"} if label.endswith("(10)") else {}
    return {"color": _COLOURS.get(name, "#333333"), "marker": _MARKERS.get(name, "."), "markersize": 3.5} | light
