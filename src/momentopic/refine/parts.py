"""How a collapsed refinement goes about a corpus: which tokens it draws, from what start, until when, in what parts."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from momentopic import kernels
from momentopic._types import FloatArray, IntArray
from momentopic.corpus.blocks import Corpus

MOST_RESPONSIBILITIES = 1 << 28  # bytes: what a refinement may keep of a corpus unless expected sweeps are asked for
_MOST_REPEATS = 8.0  # tokens a nonzero, above which tokens are not drawn one by one
_MOST_PARTS = 16
_TOKENS_PER_PART = 32768  # of the documents' parts times the words' parts: enough to keep a thread busy
# what the first round of sampled sweeps has of a topic and of a document, at least, where it has not all tokens
_TOKENS_OF_TOPIC, _TOKENS_OF_DOCUMENT = 5000, 60
_MOST_PASSES = 8
_PASSES = 3  # of the inference that tokens are drawn from
_FEW_DOCUMENTS, _MANY_DOCUMENTS = 50, 100  # to a topic
_AT_REST, _USUAL_TOKENS = 0.026, 7000  # for topics of so many tokens
_STRICTEST, _STRICTEST_FOR_FEW, _LAXEST = 0.65, 0.4, 1.5
_AT_REST_LEAPING = 0.1  # by a stretch: each leap moves them, and then is averaged over
_MANY_TOKENS, _STRICTEST_LEAPING = 28000, 0.75  # for topics of more tokens than that, down to this part of it


class Start(NamedTuple):
    """How tokens are drawn under topics that are given: a sampler that starts from sharp topics stays near them.

    Attributes
    ----------
    background : float
        The part of the corpus' word frequencies that is mixed into the topics.
    n_passes : int
        How often the inference goes over the documents: the more often, the more it makes of the topics.
    """

    background: float
    n_passes: int


AFTER_LEAP = Start(0.0, 2 * _PASSES)


def draws_tokens(corpus: Corpus, K: int, n_sweeps: int | None, engine: Any = None) -> bool:
    """Return whether tokens are drawn, rather than expected: see `refine.collapsed`."""
    if not words_repeat_little(corpus):
        return False
    if n_sweeps is not None:
        return n_sweeps > 0
    return getattr(engine, "draws", False) or responsibilities_bytes(corpus.nonzeros, K) > MOST_RESPONSIBILITIES


def responsibilities_bytes(n_entries: int, K: int) -> int:
    """Return how much memory the responsibilities of so many entries take."""
    itemsize: int = np.dtype(kernels.exchange.STORED).itemsize
    return n_entries * padded_width(K) * itemsize


def words_repeat_little(corpus: Corpus) -> bool:
    """Return whether words occur in documents as often as in texts, not thousands of times."""
    return corpus.tokens <= _MOST_REPEATS * corpus.nonzeros


def passes_of_first_round(n_tokens: float, n_docs: int, K: int) -> int:
    """Return n: the first round of sweeps takes one token in n, and goes over these n times for a sweep.

    Long chains find better topics than short ones, and where topics have many tokens a part of them is enough to see
    which: so the first round goes further for the same work.
    """
    passes = min(n_tokens / (_TOKENS_OF_TOPIC * K), n_tokens / (_TOKENS_OF_DOCUMENT * n_docs), _MOST_PASSES)
    return max(int(passes), 1)


def first_start(passes: int, n_docs: int, K: int) -> Start:
    """Return how tokens are first drawn, for a round of so many passes.

    With few documents to a topic the moments say little, and a round that goes over a part of the tokens several times
    finds better topics by itself.
    """
    return Start(0.3, 1 if passes > 1 and few_documents(n_docs, K) else _PASSES)


def second_start(passes: int, n_docs: int, K: int) -> Start:
    """Return how tokens are drawn anew, after a first round of so many passes."""
    if n_docs >= _MANY_DOCUMENTS * K:
        return Start(0.5, 2 * _PASSES)
    return Start(0.5 if passes == 1 else 0.2, _PASSES)


def few_documents(n_docs: int, K: int) -> bool:
    """Return whether topics have few documents: then sweeps leap along their trend, and bursts are shortened."""
    return n_docs < _FEW_DOCUMENTS * K


def movement_at_rest(n_tokens: float, n_docs: int, K: int) -> float:
    """Return how little averaged topics may still move, in mean l1 error, when the sweeps end.

    By chance alone, topics of fewer tokens move more. Where a topic has many tokens, but not many documents, sweeps go
    on paying for longer.
    """
    by_chance = np.sqrt(_USUAL_TOKENS * K / n_tokens)
    if few_documents(n_docs, K):
        for_many = np.sqrt(_MANY_TOKENS * K / n_tokens)
        return _AT_REST_LEAPING * float(np.clip(by_chance, np.clip(for_many, _STRICTEST_LEAPING, 1), _LAXEST))
    strictest = _STRICTEST if n_docs >= _MANY_DOCUMENTS * K else _STRICTEST_FOR_FEW
    return _AT_REST * float(np.clip(by_chance, strictest, _LAXEST))


def number_of_parts(n_tokens: float, n_docs: int) -> int:
    """Return into how many parts documents and words are divided: a power of two that depends on the corpus alone."""
    n_parts = 1
    while 2 * n_parts <= min(_MOST_PARTS, n_docs) and (2 * n_parts) ** 2 * _TOKENS_PER_PART <= n_tokens:
        n_parts *= 2
    return n_parts


def word_boundaries(frequencies: FloatArray, n_parts: int) -> IntArray:
    """Divide the words into ranges of about as many tokens: the first words, then M.

    Parameters
    ----------
    frequencies : array of shape (M,)
    n_parts : int
        As many ranges, or fewer where a word is very frequent.
    """
    cuts = np.searchsorted(np.cumsum(frequencies), np.arange(1, n_parts) / n_parts) + 1
    return np.unique(np.concatenate(([0], np.minimum(cuts, len(frequencies)), [len(frequencies)]))).astype(np.int64)


def padded_width(K: int) -> int:
    """Return how many numbers an array over topics has: whole vectors of the processor."""
    width: int = kernels.lanes.padded_length(K)
    return width
