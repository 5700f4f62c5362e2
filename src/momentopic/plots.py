"""Pictures of a fitted model with matplotlib, which is imported when the first one is drawn."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np

from momentopic.choosing import Spectrum
from momentopic.corpus.shards import write_whole
from momentopic.exceptions import MissingPackageError
from momentopic.report.layout import map_positions, topic_distances

# blue, vermilion and grey of the Okabe-Ito palette: told apart by people with any colour vision
_TOPIC, _CHOSEN, _QUIET = "#0072B2", "#D55E00", "#8A929C"


def plot_topics(model: Any, n_words: int = 8, topics: Any = None) -> Any:
    """Draw the most probable words of topics, a panel a topic.

    Parameters
    ----------
    model : DiscreteICA
        Fitted.
    n_words : int
    topics : sequence of int, optional
        Which topics; by default all.

    Returns
    -------
    matplotlib.figure.Figure
    """
    numbers = list(range(len(model.components_))) if topics is None else [int(k) for k in topics]
    words = model.topics(n_words)
    shares = model.concentration_ / model.concentration_.sum()
    columns = min(5, len(numbers))
    rows = math.ceil(len(numbers) / columns)
    figure, axes = _pyplot().subplots(
        rows, columns, figsize=(2.6 * columns, (0.22 * n_words + 0.6) * rows), squeeze=False, layout="constrained"
    )
    for panel, k in zip(axes.flat, numbers, strict=False):
        names, values = zip(*words[k], strict=True)
        panel.barh(range(len(names)), values, color=_TOPIC)
        panel.set_yticks(range(len(names)), [_literal(name) for name in names], fontsize=8)
        panel.invert_yaxis()
        panel.set_title(f"topic {k} ({shares[k]:.1%})", fontsize=9)
        panel.tick_params(axis="x", labelsize=7)
        panel.spines[["top", "right"]].set_visible(False)
    for panel in axes.flat[len(numbers) :]:
        panel.set_visible(False)
    return figure


def plot_spectrum(spectrum: Any) -> Any:
    """Draw the eigenvalues of S: with the noise floor, if they come from `momentopic.spectrum`.

    Parameters
    ----------
    spectrum : Spectrum or fitted DiscreteICA

    Returns
    -------
    matplotlib.figure.Figure
    """
    known = isinstance(spectrum, Spectrum)
    values = spectrum.eigenvalues if known else spectrum.eigenvalues_
    ranks = np.arange(1, len(values) + 1)
    positive = values > 0
    figure, panel = _pyplot().subplots(figsize=(7, 3.4), layout="constrained")
    floor = spectrum.floor if known else 0.0
    colours = np.where(values > floor, _TOPIC, _QUIET)
    panel.bar(ranks[positive], values[positive], color=colours[positive], width=0.8, label="eigenvalues of S")
    panel.set_yscale("log")
    if known:
        if floor > 0:
            panel.axhline(floor, color=_CHOSEN, linestyle="--", label="largest eigenvalue of noise")
        above = spectrum.heldout > 0
        panel.plot(
            ranks[above], spectrum.heldout[above], "o", color="black", markerfacecolor="none", markersize=4,
            label="found again in the other half",
        )  # fmt: skip
        low = min(values[positive].min(initial=np.inf), floor if floor > 0 else np.inf)
        if np.isfinite(low):
            panel.set_ylim(bottom=0.6 * low)
        panel.set_title(spectrum.advice(), fontsize=9)
        panel.legend(fontsize=8, frameon=False)
    panel.set_xlabel("rank")
    panel.set_ylabel("eigenvalue")
    panel.spines[["top", "right"]].set_visible(False)
    return figure


def plot_map(model: Any, n_words: int = 3) -> Any:
    """Draw the topics as circles: near each other if they use the same words, with areas as their prior shares.

    Parameters
    ----------
    model : DiscreteICA
        Fitted.
    n_words : int
        Words written beside each number.

    Returns
    -------
    matplotlib.figure.Figure
    """
    from matplotlib.patches import Circle

    pyplot = _pyplot()
    shares = model.concentration_ / model.concentration_.sum()
    positions, radii = map_positions(topic_distances(model.components_), shares)
    figure, panel = pyplot.subplots(figsize=(7, 7), layout="constrained")
    words = model.topics(n_words)
    for k, ((x, y), radius) in enumerate(zip(positions, radii, strict=True)):
        panel.add_patch(Circle((x, 1 - y), radius, facecolor=_TOPIC, edgecolor=_TOPIC, alpha=0.4))
        text = "\n".join([str(k), *(_literal(word) for word, _ in words[k])])
        panel.text(x, 1 - y, text, ha="center", va="center", fontsize=7)
    panel.set_xlim(0, 1)
    panel.set_ylim(0, 1)
    panel.set_aspect("equal")
    panel.axis("off")
    return figure


def plot_intensities(intensities: Any, topics: Any = None) -> Any:
    """Draw the distribution function of topics' intensities beside the gammas that fit best, a panel a topic.

    Parameters
    ----------
    intensities : Intensities
    topics : sequence of int, optional
        Which topics; by default all.

    Returns
    -------
    matplotlib.figure.Figure
    """
    numbers = list(range(len(intensities.weights))) if topics is None else [int(k) for k in topics]
    columns = min(5, len(numbers))
    rows = math.ceil(len(numbers) / columns)
    figure, axes = _pyplot().subplots(
        rows, columns, figsize=(2.6 * columns, 2.3 * rows), squeeze=False, layout="constrained"
    )
    strange = set(intensities.not_gamma.tolist())
    for panel, k in zip(axes.flat, numbers, strict=False):
        # from half a token, below which counts cannot tell intensities apart, to where hardly any document is
        last = min(int(np.searchsorted(np.cumsum(intensities.weights[k]), 0.999)), len(intensities.grid) - 1)
        x = np.geomspace(0.5, max(1.3 * float(intensities.grid[last]), 5.0), 300)
        panel.plot(x, intensities.gamma_cdf(k, x), color=_QUIET, linestyle="--", label="gamma")
        panel.plot(x, intensities.cdf(k, x), color=_CHOSEN if k in strange else _TOPIC, label="estimated")
        panel.set_xscale("log")
        panel.set_ylim(0.5 if min(intensities.cdf(k, x[0]), intensities.gamma_cdf(k, x[0])) > 0.5 else 0, 1.02)
        panel.set_title(f"topic {k}{': not a gamma' if k in strange else ''}", fontsize=9)
        panel.tick_params(labelsize=7)
        panel.spines[["top", "right"]].set_visible(False)
    for panel in axes.flat[len(numbers) :]:
        panel.set_visible(False)
    axes.flat[0].legend(fontsize=7, frameon=False, loc="lower right")
    figure.supxlabel("tokens of the topic in a document", fontsize=9)
    figure.supylabel("share of documents", fontsize=9)
    return figure


def plot_comparison(comparison: Any, topics: Any = None, n_words: int = 8) -> Any:
    """Draw the words that changed in topics, with two standard errors of the change, a panel a topic.

    Parameters
    ----------
    comparison : Comparison
    topics : sequence of int, optional
        Which of `comparison.topics`; by default those that are changed, or matched if none is, at most 10.
    n_words : int

    Returns
    -------
    matplotlib.figure.Figure
    """
    paired = [i for i, topic in enumerate(comparison.topics) if topic.words]
    changed = [i for i in paired if comparison.topics[i].status == "changed"]
    numbers = (changed or paired)[:10] if topics is None else [int(i) for i in topics]
    if not numbers:
        raise ValueError("there is nothing to draw: no topic is in both")
    columns = min(4, len(numbers))
    rows = math.ceil(len(numbers) / columns)
    figure, axes = _pyplot().subplots(
        rows, columns, figsize=(3.2 * columns, (0.22 * n_words + 0.9) * rows), squeeze=False, layout="constrained"
    )
    for panel, i in zip(axes.flat, numbers, strict=False):
        topic = comparison.topics[i]
        words = sorted(topic.words[:n_words], key=lambda word: word.first - word.second)
        change = [100 * (word.second - word.first) for word in words]
        colours = [_CHOSEN if value > 0 else _TOPIC for value in change]
        errors = [200 * word.stderr for word in words]
        panel.barh(range(len(words)), change, xerr=errors, color=colours, error_kw={"lw": 0.8, "ecolor": _QUIET})
        panel.axvline(0, color="black", linewidth=0.6)
        panel.set_yticks(range(len(words)), [_literal(word.word) for word in words], fontsize=8)
        panel.invert_yaxis()
        number = topic.first if topic.first == topic.second else f"{topic.first}, {topic.second}"
        named = _literal(" ".join(topic.top_words[:3]))
        alike = f"similarity {topic.similarity:.2f} ± {topic.similarity_stderr:.2f}"
        panel.set_title(f"{number}: {named}\n{alike}", fontsize=8)
        panel.tick_params(axis="x", labelsize=7)
        panel.spines[["top", "right", "left"]].set_visible(False)
    for panel in axes.flat[len(numbers) :]:
        panel.set_visible(False)
    first, second = (_literal(name) for name in comparison.names)
    figure.supxlabel(f"change of the words' probability from {first} to {second}, per cent", fontsize=9)
    return figure


def check_figure(path: Path) -> None:
    """Raise an error if a figure cannot be written at `path`: call it before long work."""
    _pyplot()
    if path.suffix not in (".png", ".svg", ".pdf"):
        raise ValueError(f"figures are written as .png, .svg or .pdf, but the name is {path}")
    if not path.parent.is_dir():
        raise FileNotFoundError(f"cannot write {path}: there is no folder {path.parent}")


def save_figure(figure: Any, path: Path) -> None:
    """Write a figure under a temporary name and rename it, and close it."""
    try:
        write_whole(path, lambda file: figure.savefig(file, format=path.suffix[1:], dpi=150))
    finally:
        _pyplot().close(figure)


def _literal(word: str) -> str:
    """Keep matplotlib from reading a word as mathematics."""
    return word.replace("$", r"\$")


def _pyplot() -> Any:
    try:
        from matplotlib import pyplot
    except ImportError as error:
        raise MissingPackageError("matplotlib", "plot", "to draw figures") from error
    return pyplot
