"""The page of a path: the suggestion, what speaks for each K, and the flow of topics, as one file without a script.

Every string of the data is escaped; the page's policy allows its own style, by its hash, and nothing else.
"""

from __future__ import annotations

import html
import math
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from momentopic.flow import Bar, Ribbon, drawing
from momentopic.report.page import _hash, _part, check_report_destination, write_page

if TYPE_CHECKING:
    from momentopic.paths import Row, TopicPath

_WIDTH, _HEIGHT, _BAR, _TOP, _SIDE = 1200.0, 800.0, 12.0, 24.0, 20.0  # of the flow
_CHART = (360.0, 190.0)
_WORDS = 8
_COLUMNS = (
    ("k", "topics", "{:d}"),
    ("eigenvalue", "eigenvalue", "{:.4g}"),
    ("floor", "largest of noise", "{:.4g}"),
    ("found_again", "found again", "{:.0%}"),
    ("bits_per_token", "bits per token", "{:.4f}"),
    ("stderr", "standard error", "{:.4f}"),
    ("coherence", "coherence", "{:.3f}"),
    ("stability", "stability", "{:.2f}"),
    ("unstable", "unstable topics", "{:d}"),
    ("splits", "splits", "{:d}"),
)


def write_path_report(found: TopicPath, destination: str | Path, *, title: str | None = None) -> Path:
    """Write a path as one HTML file that needs no network.

    Parameters
    ----------
    found : TopicPath
    destination : str or Path
        The .html file; it is written under a temporary name and renamed when it is whole.
    title : str, optional

    Returns
    -------
    Path
    """
    path = Path(destination)
    check_report_destination(path)
    write_page(render_path(found, title or "How many topics?"), path)
    return path


def render_path(found: TopicPath, title: str) -> str:
    """Return the page of a path."""
    style = _part("style.css") + _part("path.css")
    n_docs, n_words = found.shape
    return f"""<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src {_hash(style)}; img-src data:; \
base-uri 'none'; form-action 'none'">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<meta name="referrer" content="no-referrer">
<meta name="generator" content="momentopic">
<link rel="icon" href="data:,">
<title>{html.escape(title)}</title>
<style>{style}</style>
</head>
<body>
<header><div><h1>{html.escape(title)}</h1>
<p id="summary">{n_docs:,} documents, {n_words:,} words; {len(found.ks)} numbers of topics</p></div></header>
<div class="path">{sections(found)}</div>
<footer>Made by momentopic; nothing is loaded from a network.</footer>
</body>
</html>
"""


def sections(found: TopicPath) -> str:
    """Return the parts of the page that other pages may have too: suggestion, evidence, flow and topics."""
    chosen = found.suggestion.k
    return f"""<section class="panel" aria-labelledby="suggestion-title"><h2 id="suggestion-title">Suggestion</h2>
<p class="suggestion">{html.escape(str(found.suggestion))}</p></section>
<section class="panel" aria-labelledby="evidence-title"><h2 id="evidence-title">What speaks for each number</h2>
<p class="note">The vertical line is the suggested number. The table has the same figures.</p>
<div class="charts">{_charts(found)}</div>
<div class="scroll">{_table(found.table, chosen)}</div></section>
<section class="panel" aria-labelledby="flow-title"><h2 id="flow-title">Which topics split into which</h2>
<p class="note">A column for each number of topics; the height of a bar is the topic’s share. Each topic is joined to
the one before whose words it shares most, in a darker colour the more it shares. Point at a bar for its words; the
lists below have the same in words.</p>
<div class="scroll">{_flow(found)}</div></section>
<section class="panel" aria-labelledby="topics-title"><h2 id="topics-title">Topics</h2>{_topics(found)}</section>"""


def _table(rows: Sequence[Row], chosen: int | None) -> str:
    columns = [column for column in _COLUMNS if any(row[column[0]] is not None for row in rows)]
    head = "".join(f'<th scope="col">{name}</th>' for _, name, _ in columns)
    body = ""
    for row in rows:
        cells = "".join(
            f"<td>{'' if row[key] is None else shape.format(row[key])}</td>" for key, _, shape in columns[1:]
        )
        mark = ' class="suggested"' if row["k"] == chosen else ""
        body += f'<tr{mark}><th scope="row">{row["k"]}</th>{cells}</tr>'
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def _charts(found: TopicPath) -> str:
    rows, chosen = found.table, found.suggestion.k
    titles = {
        "eigenvalue": "Eigenvalue of S (dashed: largest of noise alone)",
        "bits_per_token": "Bits per token of documents set aside",
        "coherence": "Coherence (NPMI)",
        "stability": "Stability",
    }
    return "".join(
        _chart([row for row in rows if row[key] is not None], key, title, chosen, log=key == "eigenvalue")
        for key, title in titles.items()
        if any(row[key] is not None for row in rows)
    )


def _chart(rows: Sequence[Row], key: str, title: str, chosen: int | None, *, log: bool = False) -> str:
    """Draw a column of the table as a line."""

    def height(value: float) -> float:
        return math.log10(max(value, 1e-300)) if log else value

    width, tall = _CHART
    left, right, top, bottom = 52.0, width - 16, 12.0, tall - 26
    ks = [int(row["k"] or 0) for row in rows]
    values = [float(row[key] or 0.0) for row in rows]
    errors = [float(row["stderr"] or 0.0) if key == "bits_per_token" else 0.0 for row in rows]
    low = [height(v - e) for v, e in zip(values, errors, strict=True) if not log or v > 0]
    high = [height(v + e) for v, e in zip(values, errors, strict=True) if not log or v > 0]
    floor = float(rows[0]["floor"] or 0.0) if key == "eigenvalue" else 0.0
    if floor > 0:
        low.append(height(floor))
        high.append(height(floor))
    least, most = (min(low), max(high)) if low else (0.0, 1.0)
    span = (most - least) or 1.0

    def x(k: float) -> float:
        return left + (right - left) * (k - ks[0]) / max(ks[-1] - ks[0], 1)

    def y(value: float) -> float:
        return bottom - (bottom - top) * (min(max(height(value), least), most) - least) / span

    parts = [f'<path class="axis" d="M{left:.1f} {top:.1f}V{bottom:.1f}H{right:.1f}"/>']
    if floor > 0:
        parts.append(f'<path class="floor" d="M{left:.1f} {y(floor):.1f}H{right:.1f}"/>')
    if chosen is not None and ks[0] <= chosen <= ks[-1]:
        parts.append(f'<path class="mark" d="M{x(chosen):.1f} {top:.1f}V{bottom:.1f}"/>')
    points = " ".join(f"{x(k):.1f},{y(value):.1f}" for k, value in zip(ks, values, strict=True))
    parts.append(f'<polyline class="line" points="{points}"/>')
    for k, value, error in zip(ks, values, errors, strict=True):
        if error:
            parts.append(f'<path class="error" d="M{x(k):.1f} {y(value - error):.1f}V{y(value + error):.1f}"/>')
        title_of = f"<title>K = {k}: {value:.4g}</title>"
        parts.append(f'<circle class="point" cx="{x(k):.1f}" cy="{y(value):.1f}" r="3">{title_of}</circle>')
    for value, place in ((most, top + 8), (least, bottom)):
        shown = 10**value if log else value
        parts.append(f'<text x="{left - 6:.1f}" y="{place:.1f}" text-anchor="end">{shown:.3g}</text>')
    parts += [
        f'<text x="{x(k):.1f}" y="{tall - 8:.1f}" text-anchor="middle">{k}</text>' for k in sorted({ks[0], ks[-1]})
    ]
    label = html.escape(f"{title}, for {ks[0]} to {ks[-1]} topics; the table has the figures.")
    return (
        f'<figure><figcaption>{html.escape(title)}</figcaption><svg viewBox="0 0 {width:.0f} {tall:.0f}" role="img" '
        f'aria-label="{label}">{"".join(parts)}</svg></figure>'
    )


def _flow(found: TopicPath) -> str:
    bars, ribbons = drawing(found.flow)
    words = {k: model.topics(_WORDS) for k, model in found.models.items()}
    chosen = found.suggestion.k
    drawn = "".join(_ribbon(ribbon) for ribbon in ribbons)
    for bar in bars:
        text = " ".join(word for word, _ in words[bar.k][bar.topic])
        drawn += _bar(bar, f"{bar.k} topics, number {bar.topic}: {text}", bar.k == chosen)
    for i, k in enumerate(found.ks):
        x = _across(i / max(len(found.ks) - 1, 1)) + _BAR / 2
        drawn += f'<text x="{x:.1f}" y="{_TOP - 8:.1f}" text-anchor="middle">{k}</text>'
    return (
        f'<svg id="flow" viewBox="0 0 {_WIDTH:.0f} {_HEIGHT:.0f}" role="img" aria-label="Flow of topics from '
        f'{found.ks[0]} to {found.ks[-1]}; the lists under Topics say the same in words.">{drawn}</svg>'
    )


def _across(x: float) -> float:
    return _SIDE + x * (_WIDTH - 2 * _SIDE - _BAR)


def _down(y: float) -> float:
    return _TOP + y * (_HEIGHT - _TOP - 4)


def _ribbon(ribbon: Ribbon) -> str:
    x0, x1 = _across(ribbon.left[0]) + _BAR, _across(ribbon.right[0])
    middle = (x0 + x1) / 2
    top0, bottom0, top1, bottom1 = (_down(y) for y in (*ribbon.left[1:], *ribbon.right[1:]))
    return (
        f'<path class="ribbon" fill-opacity="{0.1 + 0.45 * ribbon.similarity**4:.2f}" d="M{x0:.1f} {top0:.2f}'
        f"C{middle:.1f} {top0:.2f} {middle:.1f} {top1:.2f} {x1:.1f} {top1:.2f}V{bottom1:.2f}"
        f'C{middle:.1f} {bottom1:.2f} {middle:.1f} {bottom0:.2f} {x0:.1f} {bottom0:.2f}Z"/>'
    )


def _bar(bar: Bar, text: str, suggested: bool) -> str:
    height = max(_down(bar.bottom) - _down(bar.top), 1.0)
    return (
        f'<rect class="bar{" suggested" if suggested else ""}" x="{_across(bar.x):.1f}" y="{_down(bar.top):.2f}" '
        f'width="{_BAR:.0f}" height="{height:.2f}"><title>{html.escape(text)}</title></rect>'
    )


def _topics(found: TopicPath) -> str:
    """List the topics of each K with their words and where they come from."""
    lists = []
    for level in found.flow:
        before = level.parent[0] >= 0
        words = found.models[level.k].topics(_WORDS)
        head = '<th scope="col">topic</th><th scope="col">share</th>'
        head += '<th scope="col">part of</th><th scope="col">similarity</th>' if before else ""
        rows = ""
        for topic in range(level.k):
            origin = f"<td>{level.parent[topic]}</td><td>{level.similarity[topic]:.2f}</td>" if before else ""
            text = html.escape(" ".join(word for word, _ in words[topic]))
            rows += (
                f'<tr><th scope="row">{topic}</th><td>{level.shares[topic]:.1%}</td>{origin}'
                f'<td class="words">{text}</td></tr>'
            )
        shown = " open" if level.k == found.suggestion.k else ""
        lists.append(
            f'<details{shown}><summary>{level.k} topics</summary><div class="scroll"><table><thead><tr>{head}'
            f'<th scope="col" class="words">words</th></tr></thead><tbody>{rows}</tbody></table></div></details>'
        )
    return "".join(lists)
