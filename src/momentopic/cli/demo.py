"""`momentopic demo`."""

from __future__ import annotations

from typing import Annotated

import typer

from momentopic.cli import options
from momentopic.cli.console import print_seconds, print_table, say

EXAMPLES = ("momentopic demo -k 20",)


def demo(
    k: Annotated[int, typer.Option("-k", "--topics", help="The number of topics.", min=1)] = 20,
    seed: options.Seed = 0,
) -> None:
    """Find the topics of the docstrings of the Python packages installed here: no data needed."""
    from momentopic.demo import demonstrate

    found = demonstrate(k, seed)
    N, M = found.corpus.shape
    say(f"{N} docstrings of {found.n_modules} modules, {M} words, {k} topics:\n")
    rows = [
        (str(i), f"{share:.1%}", " ".join(word for word, _ in words), ", ".join(modules))
        for i, (share, words, modules) in enumerate(
            zip(found.shares, found.model.topics(8), found.modules, strict=True)
        )
    ]
    print_table(("topic", "share", "words", "modules"), rows)
    print_seconds(found.seconds)
