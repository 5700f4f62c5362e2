"""`momentopic topics`."""

from __future__ import annotations

from typing import Annotated

import typer

from momentopic.cli import options
from momentopic.cli.console import print_json, print_table

EXAMPLES = ("momentopic topics model", "momentopic topics model -n 20 --json")


def topics(
    model: options.ModelFolder,
    n_words: Annotated[int, typer.Option("-n", "--words", help="Words to a topic.", min=1)] = 10,
    as_json: options.AsJson = False,
) -> None:
    """Print the most probable words of each topic."""
    from momentopic import load

    fitted = load(model)
    shares = fitted.concentration_ / fitted.concentration_.sum()
    found = fitted.topics(n_words)
    if as_json:
        print_json(
            {
                "topics": [
                    {"topic": i, "share": float(share), "words": dict(words)}
                    for i, (share, words) in enumerate(zip(shares, found, strict=True))
                ]
            }
        )
        return
    rows = [
        (str(i), f"{share:.1%}", " ".join(word for word, _ in words))
        for i, (share, words) in enumerate(zip(shares, found, strict=True))
    ]
    print_table(("topic", "share", "words"), rows)
