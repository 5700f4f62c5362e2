"""`momentopic topics`."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from momentopic.cli import options
from momentopic.cli.console import print_json, print_table, say

EXAMPLES = ("momentopic topics model", "momentopic topics model -n 20 --json")


def topics(
    model: options.ModelFolder,
    n_words: Annotated[int, typer.Option("-n", "--words", help="Words to a topic.", min=1)] = 10,
    as_json: options.AsJson = False,
) -> None:
    """Print the most probable words of each topic."""
    from momentopic import load
    from momentopic.views import stability_mark

    fitted = load(model)
    shares = fitted.concentration_ / fitted.concentration_.sum()
    found = fitted.topics(n_words)
    if as_json:
        print_json(
            {
                "topics": [
                    {"topic": i, "share": float(share), **_stability(words), "words": dict(words)}
                    for i, (share, words) in enumerate(zip(shares, found, strict=True))
                ]
            }
        )
        return
    known = hasattr(fitted, "stability_")
    rows = [
        (
            str(i),
            f"{share:.1%}",
            *([stability_mark(float(fitted.stability_[i]))] if known else []),
            " ".join(word for word, _ in words),
        )
        for i, (share, words) in enumerate(zip(shares, found, strict=True))
    ]
    print_table(("topic", "share", *(["stability"] if known else []), "words"), rows)
    if any(topic.unstable for topic in found):
        say("? marks topics that are not reproducible: two halves of the corpus agree on less than 40 % of them")


def _stability(topic: Any) -> dict[str, Any]:
    """Return what is known of the stability of a topic: nothing, if the model was fitted without --confidence."""
    return {} if topic.stability is None else {"stability": topic.stability, "unstable": topic.unstable}
