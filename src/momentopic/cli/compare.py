"""`momentopic compare`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from momentopic.cli import options
from momentopic.cli.console import print_json, print_table, say

if TYPE_CHECKING:
    from momentopic.comparing import Comparison

EXAMPLES = (
    "momentopic compare last-month this-month",
    "momentopic compare last-month this-month -o changes.png --json",
)
_SHOWN = 5  # words to a cell


def compare(
    first: Annotated[Path, typer.Argument(help="A model folder.")],
    second: Annotated[Path, typer.Argument(help="Another one: what changed from the first to this?")],
    n_words: Annotated[int, typer.Option("-n", "--words", help="Words to a topic.", min=1)] = 10,
    output: Annotated[
        Path | None, typer.Option("-o", "--output", help="Also draw the changes: a .png, .svg or .pdf file.")
    ] = None,
    as_json: options.AsJson = False,
) -> None:
    """Compare two models: topics matched, changed (with the words that changed), new and gone."""
    from momentopic import load
    from momentopic.comparing import compare as compared

    if output is not None:
        from momentopic.plots import check_figure

        check_figure(output)  # before any work
    names = (first.name, second.name) if first.name != second.name else (str(first), str(second))
    found = compared(load(first), load(second), n_words=n_words, names=names)
    if as_json:
        print_json(found.to_dict())
    else:
        _print(found)
    if output is not None:
        from momentopic.plots import plot_comparison, save_figure

        save_figure(plot_comparison(found), output)


def _print(found: Comparison) -> None:
    rows = []
    for topic in found.topics:
        sure = [word for word in topic.words if abs(word.z) >= 2]
        paired = topic.status in ("changed", "matched")
        alike = f"{topic.similarity:.2f}" + (f" ± {topic.similarity_stderr:.2f}" if paired else " at most")
        rows.append(
            (
                topic.status,
                "" if topic.first is None else str(topic.first),
                "" if topic.second is None else str(topic.second),
                alike,
                f"{topic.shares[0]:.1%}" if topic.first is not None else "",
                f"{topic.shares[1]:.1%}" if topic.second is not None else "",
                " ".join(topic.top_words[:_SHOWN]),
                " ".join([f"+{word.word}" for word in sure if word.z > 0][:_SHOWN]),
                " ".join([f"-{word.word}" for word in sure if word.z < 0][:_SHOWN]),
            )
        )
    print_table(("", *found.names, "similarity", "share", "share", "words", "rising", "falling"), rows)
    say(f"\n{found.summary()}")
    several = any(topic.first or topic.second for topic in found.topics)  # a topic that is not number 0
    reason = ": 95 % of the topics of either are less like any other of their own" if several else ""
    say(
        f"A match is above {found.threshold:.2f}{reason}. The usual match differs {found.inflation:.1f} times as much "
        "as counting noise alone; words are named where they changed by two standard errors."
    )
