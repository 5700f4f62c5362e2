"""The page: template, style, script and data put together into one file.

Nothing that comes from the data is ever markup. The data are JSON in which the characters that could end a script or
begin an element are escaped, and the script puts them on the page as text alone. The page's own policy allows no script
but this one, by its hash, and no connection to anywhere.
"""

from __future__ import annotations

import base64
import hashlib
import html
import json
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING, Any

from momentopic.corpus.blocks import Corpus
from momentopic.corpus.shards import write_whole
from momentopic.report.data import prepare

if TYPE_CHECKING:
    from momentopic.paths import TopicPath

_ESCAPES = {"<": "\\u003c", ">": "\\u003e", "&": "\\u0026", "\u2028": "\\u2028", "\u2029": "\\u2029"}


def write_report(
    model: Any, path: str | Path, corpus: Corpus | None = None, *, topic_path: TopicPath | None = None, **options: Any
) -> Path:
    """Write a fitted model as one HTML file that needs no network.

    Parameters
    ----------
    model : DiscreteICA
        Fitted.
    path : str or Path
        The .html file; it is written under a temporary name and renamed when it is whole.
    corpus : Corpus, optional
        Documents of the model's words (`model.count(texts)`, or the corpus of the fit). With them the report shows the
        documents of each topic, and prevalence by label and over time where there are labels and dates.
    topic_path : TopicPath, optional
        What `momentopic.path` found: the report then also has the suggestion, what speaks for each number of topics,
        and which topics split into which.
    **options
        `title`, `n_words`, `n_documents`: see `prepare`.

    Returns
    -------
    Path
    """
    path = Path(path)
    check_report_destination(path)
    page = render(prepare(model, corpus, **options), topic_path)
    write_page(page, path)
    return path


def write_page(page: str, path: Path) -> None:
    """Write a page under a temporary name and rename it."""
    text = page.encode("utf-8", "replace")  # lone surrogates, which no encoding has
    write_whole(path, lambda file: file.write(text))


def check_report_destination(path: Path) -> None:
    """Raise an OSError if a report cannot be written at `path`: call it before a long fit."""
    if not path.parent.is_dir():
        raise FileNotFoundError(f"cannot write {path}: there is no folder {path.parent}")
    if path.is_dir():
        raise IsADirectoryError(f"cannot write {path}: it is a folder; give the name of an .html file")


def render(data: dict[str, Any], topic_path: TopicPath | None = None) -> str:
    """Return the page of what `prepare` returned, with a path over the numbers of topics if there is one."""
    style, script, sections = _part("style.css"), _part("script.js"), ""
    if topic_path is not None:
        from momentopic.report.path import sections as sections_of

        style, sections = style + _part("path.css"), f'<div class="path">{sections_of(topic_path)}</div>'
    return _filled(
        _part("template.html"),
        {
            "title": html.escape(data["title"]),
            "policy": f"default-src 'none'; style-src {_hash(style)}; script-src {_hash(script)}; img-src data:; "
            "base-uri 'none'; form-action 'none'",
            "style": style,
            "path": sections,
            "data": embedded(data),
            "script": script,
        },
    )


def embedded(data: Any) -> str:
    """Return data as JSON that can stand inside a script element."""
    text = json.dumps(data, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    for character, escape in _ESCAPES.items():
        text = text.replace(character, escape)
    return text


def _filled(template: str, values: dict[str, str]) -> str:
    """Replace each {{name}} of the template, and nothing in what it is replaced by."""
    parts = template.split("{{")
    filled = [parts[0]]
    for part in parts[1:]:
        name, rest = part.split("}}", 1)
        filled += [values[name], rest]
    return "".join(filled)


def _hash(text: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"


def _part(name: str) -> str:
    return (resources.files("momentopic.report") / name).read_text(encoding="utf-8")
