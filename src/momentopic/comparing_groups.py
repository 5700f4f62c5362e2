"""What changed between two groups of documents of one corpus: other words in the same topics, other shares.

Two fits on two groups differ because the groups do, and because two fits always differ. So there is one set of topics,
fitted on both groups, and each group has its version of it:

*A group's topics.* A Gibbs sampler (`momentopic.intensity`) draws the topics of the tokens of each group under the
common topics, with the intensities' distributions estimated for the group itself: a topic that is rare in a group is
not made of other topics' tokens there. Each group's version of a topic is the frequency of the words among its tokens.
As tokens were told apart by the common topics, what is seen of a change is a little less than it was: a lower bound.

*Their errors.* The tokens of a document are not independent draws (words come in bursts), nor are the paragraphs of a
speech. So errors are taken over units: documents, or what `units` puts together. A jackknife leaves out one unit after
another; for a ratio of sums, as a word's frequency is, what this changes is known without doing it.

*Changed?* Random signs before the influences of the units (a wild bootstrap) show how unlike the two versions of a
topic would be if there were nothing but noise, for its own number of tokens in either group. A topic has changed if it
is more unlike than that, beyond chance (p < 0.05, Holm's over the topics) and by at least 0.03 of its probability.
A topic is gone, or new, if its share falls to, or was, less than a tenth of the other, with 95 % confidence.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import scipy.sparse as sp
from scipy.stats import norm

from momentopic._types import FloatArray, IntArray
from momentopic.comparing import Comparison, Status, TopicChange, changed_words, in_order, top_words
from momentopic.corpus.blocks import Corpus
from momentopic.corpus.selection import some_documents
from momentopic.engine.blas import single_threaded_blas
from momentopic.intensity import check_affordable, topics_of_tokens
from momentopic.mixing import holm
from momentopic.partial import _named
from momentopic.progress import Steps

_DRAWS = 200  # of random signs
_LEVEL, _LEAST_CHANGE = 0.05, 0.03
_GONE = 0.1
_NORMAL_95 = 1.645  # one-sided
_LEAST_UNITS = 10


def compare_groups(
    X: Any,
    groups: Sequence[Any],
    *,
    first: Any = None,
    second: Any = None,
    n_components: int = 10,
    model: Any = None,
    units: Sequence[Any] | None = None,
    n_words: int = 10,
    random_state: int = 0,
    verbose: int = 0,
) -> Comparison:
    """Compare the topics of two groups of documents.

    Parameters
    ----------
    X : array-like, scipy sparse matrix, DataFrame or Corpus, shape (N, M), or list of str
        The documents of both groups; those of others are left out.
    groups : sequence of length N
        The group of each document: labels, or years, or True and False. None: in no group.
    first, second : optional
        The two groups, where there are more than two values. Without `second`, all others.
    n_components : int
        The number of topics of the fit on both groups.
    model : DiscreteICA, optional
        Fitted: its topics are compared, and none are fitted.
    units : sequence of length N, optional
        What documents belong together (the paragraphs of one speech, say): errors are taken over units. By default
        each document is one.
    n_words : int
        Words to a topic.
    random_state : int
    verbose : int
        1 shows progress.

    Returns
    -------
    Comparison
        The topics have the numbers that they have in `model`, and in a fit with `n_components` and `random_state`.
    """
    from momentopic.model import DiscreteICA

    if n_words < 1:
        raise ValueError(f"n_words must be at least 1, got {n_words}")
    fitted = model is not None
    if fitted:
        n_components = len(model.components_)
    else:
        model = DiscreteICA(n_components, random_state=random_state, verbose=verbose)
    corpus = model._as_known_corpus(X) if fitted else _named(model, model._as_corpus(X))
    names, members = _two_groups(groups, first, second, corpus.shape[0])
    unit_of = _units(units, corpus.shape[0])
    parts = []
    for name, rows in zip(names, members, strict=True):
        n_units = len(np.unique(unit_of[rows]))
        if n_units < _LEAST_UNITS:
            raise ValueError(
                f"group {name!r} has {n_units} units of documents, too few to tell a change from chance: "
                f"at least {_LEAST_UNITS} are needed"
            )
        parts.append(some_documents(corpus, rows))
        check_affordable(parts[-1], n_components)  # before any long work
    if not fitted:
        model.fit(some_documents(corpus, np.sort(np.concatenate(members))))
    words = getattr(model, "feature_names_in_", None)
    if words is None:
        words = [f"word{m}" for m in range(corpus.shape[1])]
    with Steps(verbose) as steps, steps.step("topics of tokens"):
        versions = [
            _Version(part, unit_of[rows], model.components_, random_state, steps)
            for part, rows in zip(parts, members, strict=True)
        ]
    return _compared(versions, words, names, n_words, random_state)


class _Version:
    """The topics of a group's tokens, summed over units.

    Parameters
    ----------
    corpus : Corpus
        Of the documents of the group.
    units : int array of shape (N,)
    topics : array of shape (K, M)
    """

    def __init__(
        self, corpus: Corpus, units: IntArray, topics: FloatArray, random_state: int, steps: Steps | None
    ) -> None:
        self.parts = topics_of_tokens(corpus, topics, random_state=random_state, steps=steps)
        self.counts = corpus.counts
        _, of = np.unique(units, return_inverse=True)
        N = len(of)
        self.membership = sp.csr_matrix((np.ones(N), (of, np.arange(N))), shape=(int(of.max()) + 1, N))
        tokens = np.empty((N, len(topics)))
        for k in range(len(topics)):
            tokens[:, k] = np.asarray(self._matrix(k).sum(axis=1)).ravel()
        self.tokens = self.membership @ tokens
        totals = self.tokens.sum(axis=0)
        self.totals = totals
        whole = max(float(totals.sum()), 1e-300)
        self.shares = totals / whole
        # what leaving out a unit does to a share
        lengths = self.tokens.sum(axis=1)
        influence = (self.tokens - self.shares * lengths[:, None]) * _leaving_out(lengths, whole)[:, None]
        self.shares_stderr = np.sqrt((influence**2).sum(axis=0))

    def _matrix(self, k: int) -> sp.csr_matrix:
        data = self.counts.data * self.parts[:, k].astype(np.float64)
        return sp.csr_matrix((data, self.counts.indices, self.counts.indptr), shape=self.counts.shape)

    def topic(self, k: int) -> tuple[FloatArray, sp.csr_matrix, FloatArray]:
        """Return p, the words' frequencies in a topic, and C and t, whose C - t p' are the units' influences on it."""
        total = max(float(self.totals[k]), 1e-300)
        units = self.membership @ self._matrix(k)
        p = np.asarray(units.sum(axis=0)).ravel() / total
        scale = _leaving_out(self.tokens[:, k], total)
        return p, sp.diags(scale) @ units, self.tokens[:, k] * scale


def _compared(
    versions: list[_Version], words: Sequence[str], names: tuple[str, str], n_words: int, random_state: int
) -> Comparison:
    K = len(versions[0].shares)
    rng = np.random.default_rng(random_state)
    signs = [rng.choice([-1.0, 1.0], size=(_DRAWS, version.membership.shape[0])) for version in versions]
    found, p_values = [], np.ones(K)
    with single_threaded_blas():
        for k in range(K):
            sides = [version.topic(k) for version in versions]
            p, q = sides[0][0], sides[1][0]
            variance = sum(_squared_influence(C, t, frequency) for frequency, C, t in sides)
            noise = sum(
                sign @ C - np.outer(sign @ t, frequency) for sign, (frequency, C, t) in zip(signs, sides, strict=True)
            )
            chance = abs(np.asarray(noise)).sum(axis=1) / 2
            # a topic without tokens in a group shares nothing: its frequencies are all zero
            distance = float(max(p.sum(), q.sum()) - np.minimum(p, q).sum())
            direction = np.sign(q - p)
            error = sum(float(((C @ direction - t * (frequency @ direction)) ** 2).sum()) for frequency, C, t in sides)
            # a sum over many words, so nearly normal: the draws themselves could not show p-values below 1 / 200
            p_values[k] = norm.sf(distance, loc=chance.mean(), scale=max(float(chance.std()), 1e-12))
            found.append((p, q, np.sqrt(variance), distance, float(np.sqrt(error)) / 2, float(chance.mean())))
    adjusted = holm(p_values)
    topics = []
    for k, (p, q, stderr, distance, error, chance) in enumerate(found):
        shares = (float(versions[0].shares[k]), float(versions[1].shares[k]))
        errors = (float(versions[0].shares_stderr[k]), float(versions[1].shares_stderr[k]))
        status = _status(shares, errors, bool(adjusted[k] < _LEVEL and distance - chance >= _LEAST_CHANGE))
        topics.append(
            TopicChange(
                status, None if status == "new" else k, None if status == "gone" else k, 1 - distance, error,
                max(0.0, 1 - chance), shares, errors, top_words(words, shares[0] * p + shares[1] * q, n_words),
                changed_words(words, p, q, stderr, n_words) if status in ("matched", "changed") else (),
            )
        )  # fmt: skip
    return Comparison(in_order(topics), names, len(words), 0, 0, (1.0, 1.0), float("nan"), 1.0)


def _squared_influence(C: sp.csr_matrix, t: FloatArray, p: FloatArray) -> FloatArray:
    """Return Σ_u (C_uw - t_u p_w)² for every word w."""
    squares = np.asarray(C.multiply(C).sum(axis=0)).ravel()
    found: FloatArray = np.maximum(squares - 2 * p * (C.T @ t) + p**2 * (t @ t), 0.0)
    return found


def _status(shares: tuple[float, float], errors: tuple[float, float], changed: bool) -> Status:
    for status, (small, large), (small_error, large_error) in (
        ("gone", shares[::-1], errors[::-1]),
        ("new", shares, errors),
    ):
        # small < large / 10, beyond the error of the difference
        if small - _GONE * large < -_NORMAL_95 * np.hypot(small_error, _GONE * large_error):
            return "gone" if status == "gone" else "new"
    return "changed" if changed else "matched"


def _leaving_out(tokens: FloatArray, total: float) -> FloatArray:
    """Return the factors that make the deviations C - t p of units those of a jackknife.

    The ratio without unit u is off by -(C_u - t_u p) / (T - t_u); (n - 1) / n times the sum of squares is the variance.
    """
    n = len(tokens)
    # of a topic that is in one unit alone nothing is known: an error as large as can be
    factors: FloatArray = np.sqrt((n - 1) / n) / np.maximum(total - tokens, 0.01 * total)
    return factors


def _two_groups(
    groups: Sequence[Any], first: Any, second: Any, n_docs: int
) -> tuple[tuple[str, str], tuple[IntArray, IntArray]]:
    values = list(groups)
    if len(values) != n_docs:
        raise ValueError(f"there are {n_docs} documents, but groups are given for {len(values)}")
    there = list(dict.fromkeys(value for value in values if value is not None))
    if first is None:
        if second is not None:
            raise ValueError(f"second={second!r} is given without first: say from which group to it, first=...")
        if len(there) != 2:
            raise ValueError(
                f"the documents are in {len(there)} groups: say which two to compare, first=..., second=..."
            )
        first, second = sorted(there, key=str)
    for name in (first, second):
        if name is not None and name not in there:
            known = ", ".join(repr(value) for value in there[:10])
            raise ValueError(f"no document is in group {name!r}; there are {known}{', ...' if len(there) > 10 else ''}")
    if first == second:
        raise ValueError(f"group {first!r} cannot be compared with itself")
    in_first = np.array([value == first for value in values])
    in_second = np.array(
        [value is not None and value != first if second is None else value == second for value in values]
    )
    names = (str(first), "all others" if second is None else str(second))
    return names, (np.flatnonzero(in_first), np.flatnonzero(in_second))


def _units(units: Sequence[Any] | None, n_docs: int) -> IntArray:
    if units is None:
        return np.arange(n_docs)
    if len(units) != n_docs:
        raise ValueError(f"there are {n_docs} documents, but units are given for {len(units)}")
    numbers: dict[Any, int] = {}
    return np.array([numbers.setdefault(unit, len(numbers)) for unit in units], dtype=np.int64)
