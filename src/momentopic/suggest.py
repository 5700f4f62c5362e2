"""How many topics to ask for: what the eigenvalues and the held-out documents say, in words.

Two witnesses, neither of which has seen the documents it speaks of:

*The spectrum* (`momentopic.choosing`): how many directions of S the other half of the documents shows again, more
signal than noise. Topics beyond that number cannot be told from noise by their moments.

*Documents set aside*: of two numbers of topics that score the same up to one standard error, the smaller one. The
error is that of the difference, document by document: it is far smaller than the errors of the two scores, which mostly
say that some documents are harder than others.

For moment solutions the K nearest to the supported directions is taken, or the smallest one below that scores as well.
Where a refinement follows, which can use more topics than the moments tell apart, the documents set aside decide among
all K.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from momentopic.choosing import Spectrum
from momentopic.heldout import HeldOut


@dataclass(frozen=True)
class Suggestion:
    """A number of topics and the reason for it.

    Attributes
    ----------
    k : int or None
        None if there are no topics to find.
    reason : str
    """

    k: int | None
    reason: str

    def __str__(self) -> str:
        return self.reason if self.k is None else f"{self.k} topics. {self.reason}"


def suggest(
    ks: Sequence[int], noise: Spectrum | None, scores: Mapping[int, HeldOut] | None = None, *, refined: bool = False
) -> Suggestion:
    """Suggest one of several numbers of topics.

    Parameters
    ----------
    ks : sequence of int
        Increasing.
    noise : Spectrum or None
        Of at least as many eigenvalues as the largest K; None where there were too few documents for it.
    scores : mapping of int to HeldOut, optional
        Of the same documents for every K. A K without a score is taken only if no K below it has one.
    refined : bool
        Whether the topics were refined after the moments.

    Returns
    -------
    Suggestion
    """
    if noise is None:
        return Suggestion(None, "There are too few documents to tell topics from noise.")
    supported = noise.supported
    if supported <= 1:
        reason = "the words of this corpus vary together no more than document lengths and chance explain."
        return Suggestion(None, f"There are no topics to find: {reason}")
    found = f"{supported} directions are found again in the other half of the documents, more signal than noise"
    nearest = min(ks, key=lambda k: (abs(k - supported), k))
    scored = [k for k in ks if scores and k in scores]
    if refined and scores and scored:
        return _of_scores(scored, scores, f"{found}, and the sweeps that follow the moments can use more")
    if supported < ks[0] and nearest - supported > 1:
        return Suggestion(
            supported, f"{found[0].upper()}{found[1:]}: fewer than the smallest K that was looked at, {ks[0]}."
        )
    more = " All that were looked at are: larger K may do as well." if noise.open_ended else ""
    scored = [k for k in scored if k <= nearest]
    if not scores or not scored:
        which = "that number" if nearest == supported else f"the K nearest to {supported}"
        return Suggestion(nearest, f"{found[0].upper()}{found[1:]}: {which}.{more}")
    return _of_scores(scored, scores, found, more)


def _of_scores(ks: Sequence[int], scores: Mapping[int, HeldOut], found: str, more: str = "") -> Suggestion:
    best = max(ks, key=lambda k: scores[k].bits_per_token)
    chosen = next(k for k in ks if not _worse(scores[k], scores[best]))
    score = scores[chosen].bits_per_token
    if chosen == best:
        why = f"of K up to {ks[-1]}, {best} scores best on documents set aside ({score:.3f} bits per token)"
        smaller = [k for k in ks if k < chosen]
        if smaller:
            why += f", and {smaller[-1]} is worse by more than one standard error"
    else:
        why = (
            f"of K up to {ks[-1]}, {best} scores best on documents set aside, but {chosen} is within one standard "
            f"error of it ({score:.3f} bits per token)"
        )
    return Suggestion(chosen, f"{found[0].upper()}{found[1:]}; {why}.{more}")


def _worse(first: HeldOut, second: HeldOut) -> bool:
    """Whether the first score is below the second by more than the standard error of their difference."""
    difference = HeldOut(second.nats - first.nats, first.tokens, 0)
    return difference.bits_per_token > difference.stderr
