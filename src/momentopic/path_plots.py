"""Pictures of a path: what speaks for each K, and which topics split into which."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from momentopic.flow import drawing
from momentopic.plots import _CHOSEN, _QUIET, _TOPIC, _literal, _pyplot

if TYPE_CHECKING:
    from momentopic.paths import TopicPath

_BAR = 0.012  # width, of the width of the drawing
_LABELLED = 40  # topics of the last K that have room for their words
_LEAST = 0.005  # of the height, for a bar to be labelled


def plot_path(found: TopicPath) -> Any:
    """Draw the table of a path, a panel a column; the suggested K is marked.

    Parameters
    ----------
    found : TopicPath

    Returns
    -------
    matplotlib.figure.Figure
    """
    rows = found.table
    ks = np.array(found.ks)
    titles = {
        "eigenvalue": "eigenvalue of S",
        "bits_per_token": "bits per token of documents set aside",
        "coherence": "coherence (NPMI)",
        "stability": "stability",
    }
    panels = [(key, title) for key, title in titles.items() if any(row[key] is not None for row in rows)]
    columns = 2 if len(panels) > 1 else 1
    lines = max(1, -(-len(panels) // columns))
    figure, axes = _pyplot().subplots(
        lines, columns, figsize=(4.6 * columns, 2.6 * lines),
        layout="constrained", squeeze=False, sharex=True,
    )  # fmt: skip
    for panel, (key, title) in zip(axes.flat, panels, strict=False):
        values = np.array([row[key] for row in rows], dtype=float)
        if key == "eigenvalue":
            panel.plot(ks, np.maximum(values, np.finfo(float).tiny), "o-", color=_TOPIC, markersize=3)
            panel.axhline(rows[0]["floor"], color=_QUIET, linestyle="--", label="largest of noise alone")
            panel.set_yscale("log")
            panel.legend(fontsize=7, frameon=False)
        else:
            errors = np.array([row["stderr"] for row in rows], dtype=float) if key == "bits_per_token" else None
            panel.errorbar(ks, values, errors, fmt="o-", color=_TOPIC, markersize=3, capsize=2)
        if found.suggestion.k is not None:
            panel.axvline(found.suggestion.k, color=_CHOSEN, linewidth=1)
        panel.set_title(title, fontsize=9)
        panel.tick_params(labelsize=8)
        panel.spines[["top", "right"]].set_visible(False)
    for panel in axes.flat[len(panels) :]:
        panel.axis("off")
    figure.supxlabel("number of topics", fontsize=9)
    k = found.suggestion.k
    figure.suptitle("no number of topics is suggested" if k is None else f"suggested: {k} topics", fontsize=10)
    return figure


def plot_flow(found: TopicPath, n_words: int = 3) -> Any:
    """Draw which topics split into which: a column for each K, bars as high as the shares of the topics.

    Parameters
    ----------
    found : TopicPath
    n_words : int
        Words beside each topic of the first K, and of the last if there are no more than 40.

    Returns
    -------
    matplotlib.figure.Figure
    """
    from matplotlib.patches import PathPatch, Rectangle
    from matplotlib.path import Path as Outline

    bars, ribbons = drawing(found.flow)
    ks = found.ks
    figure, panel = _pyplot().subplots(figsize=(max(7, 1.1 * len(ks) + 4), 8), layout="constrained")
    for ribbon in ribbons:
        x0, top0, bottom0 = ribbon.left
        x1, top1, bottom1 = ribbon.right
        x0, middle = x0 + _BAR, (x0 + _BAR + x1) / 2
        outline = Outline(
            [(x0, top0), (middle, top0), (middle, top1), (x1, top1), (x1, bottom1), (middle, bottom1),
             (middle, bottom0), (x0, bottom0), (x0, top0)],
            [Outline.MOVETO, *[Outline.CURVE4] * 3, Outline.LINETO, *[Outline.CURVE4] * 3, Outline.CLOSEPOLY],
        )  # fmt: skip
        panel.add_patch(PathPatch(outline, facecolor=_TOPIC, edgecolor="none", alpha=0.1 + 0.45 * ribbon.similarity**4))
    words = {k: found.models[k].topics(n_words) for k in (ks[0], ks[-1])}
    for bar in bars:
        chosen = bar.k == found.suggestion.k
        height = max(bar.bottom - bar.top, 1e-3)
        panel.add_patch(Rectangle((bar.x, bar.top), _BAR, height, facecolor=_CHOSEN if chosen else _TOPIC))
        labelled = bar.k == ks[0] or (bar.k == ks[-1] and bar.k <= _LABELLED)
        if labelled and bar.bottom - bar.top > _LEAST:
            text = " ".join(_literal(word) for word, _ in words[bar.k][bar.topic])
            first = bar.k == ks[0]
            panel.text(
                bar.x - 0.008 if first else bar.x + _BAR + 0.008, (bar.top + bar.bottom) / 2, text,
                ha="right" if first else "left", va="center", fontsize=6.5,
            )  # fmt: skip
    for i, k in enumerate(ks):
        panel.text(i / max(len(ks) - 1, 1) + _BAR / 2, -0.02, str(k), ha="center", va="bottom", fontsize=8)
    panel.set_xlim(-0.3, 1.3 if ks[-1] <= _LABELLED else 1.03)
    panel.set_ylim(1.01, -0.06)
    panel.axis("off")
    return figure
