"""How much memory a fit will take, before it begins; and how to keep it under a limit.

The estimates are of what is held at a time: the corpus or its largest blocks, the arrays of words x topics of whitening
and recovery, the tensor, the partial sums of each thread, and what a refinement remembers of every document and token.
They are meant to be a little too large.
"""

from __future__ import annotations

import re
from typing import Any

import numpy as np

from momentopic.corpus.blocks import Corpus
from momentopic.engine.threads import ThreadEngine, available_cores
from momentopic.exceptions import MemoryLimitError
from momentopic.moments import groups
from momentopic.moments.triples import packed_size
from momentopic.refine.parts import (
    draws_tokens,
    few_documents,
    number_of_parts,
    padded_width,
    passes_of_first_round,
    responsibilities_bytes,
)

_PROCESS = 300 << 20  # the interpreter, the libraries and the compiled loops
_WORD = 100  # bytes of a word in a list
_UNITS = {"": 1, "k": 10**3, "m": 10**6, "g": 10**9, "t": 10**12}
_BINARY = {"k": 1 << 10, "m": 1 << 20, "g": 1 << 30, "t": 1 << 40}


def parse_size(size: int | str) -> int:
    """Return a number of bytes: 3000000000, "3GB", "2.5GiB" or "800MB"."""
    if not isinstance(size, str):
        return int(size)
    match = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([kmgt]?)(i?)b?\s*", size.lower())
    if match is None or (match[3] and not match[2]):
        raise ValueError(f"a memory limit is a number of bytes, or one with a unit as in 3GB or 800MB; got {size!r}")
    return int(float(match[1]) * (_BINARY if match[3] else _UNITS)[match[2]])


def most_threads(
    corpus: Corpus,
    K: int,
    limit: int,
    *,
    refine: str | None,
    n_sweeps: int | None = None,
    n_threads: int | None = None,
    n_groups: int | None = None,
) -> int:
    """Return the most threads that keep a fit under a limit; the topics do not depend on them.

    Parameters
    ----------
    corpus : Corpus
    K : int
    limit : int
        Bytes, of the whole process.
    refine, n_sweeps, n_groups
        As in `DiscreteICA`.
    n_threads : int, optional
        No more than these.

    Raises
    ------
    MemoryLimitError
        If one thread is too many; the error says what is needed.
    """

    def need(n_threads: int) -> int:
        moments = moments_bytes(corpus, K, n_threads, n_groups)
        return moments if refine is None else max(moments, refinement_bytes(corpus, K, n_threads, refine, n_sweeps))

    if need(1) > limit:
        raise MemoryLimitError(_refusal(limit, need(1), moments_bytes(corpus, K, 1, n_groups), refine, corpus))
    return max(t for t in range(1, (n_threads or available_cores()) + 1) if need(t) <= limit)


def moments_bytes(corpus: Corpus, K: int, n_threads: int, n_groups: int | None = None) -> int:
    """Return what whitening, tensor and recovery hold at most, about."""
    M = corpus.shape[1]
    widest = 2 * K + max(8, K // 4) + max(80 - K, 0) + 16
    whitening = 8 * M * (widest + K + 6 * 16)
    solving = 8 * M * K * 6 + 8 * K**3 * 6
    documents = int(np.diff(corpus.boundaries).max())
    partial = 2 * 8 * M * 16 + 8 * packed_size(K)
    block = corpus.block_memory + documents * (3 * 4 * padded_width(K) + 6 * 8)
    waiting = (8 * M * 16 + 8 * packed_size(K)) * corpus.n_blocks.bit_length()  # sums are added in a tree
    if n_groups is not None:
        n_words = min(M, max(groups._WORDS, groups._WORDS_PER_TOPIC * K) + groups._SAMPLED)
        large = packed_size(K) + n_words * K  # numbers to a group, in single precision
        partial += n_groups * (4 * large + 8 * K * K)
        # beside the tree: the sum that is being added, and what is made of the result
        waiting += n_groups * 8 * (large + K * K) * (corpus.n_blocks.bit_length() + 2)
    return _held(corpus) + max(whitening, solving) + n_threads * (block + partial) + waiting


def refinement_bytes(corpus: Corpus, K: int, n_threads: int, refine: str, n_sweeps: int | None) -> int:
    """Return what a refinement holds at most, about."""
    N, M = corpus.shape
    width = padded_width(K)
    if refine == "variational":
        return _held(corpus) + 8 * N * K * 3 + 8 * M * K * (2 * n_threads + 5) + n_threads * corpus.block_memory
    tokens = corpus.tokens
    if draws_tokens(corpus, K, n_sweeps):
        passes = passes_of_first_round(tokens, N, K)
        # in the first round with the words of the tokens that take part, where these are not all
        of_tokens = int(tokens * (2 if passes == 1 else max(2, 10 / passes)))
        if few_documents(N, K):  # how many tokens of each entry are left of a burst
            of_tokens += 4 * corpus.nonzeros
    else:
        of_tokens = responsibilities_bytes(corpus.nonzeros, K) + (4 * corpus.nonzeros if few_documents(N, K) else 0)
    states = N * (4 * width + 5 * 8) + of_tokens
    # the start, the counts, their sums over samples, two means of these, and one more in passing; the samples' trend
    words = 4 * M * width * (7 if few_documents(N, K) else 6)
    parts = corpus.divided(number_of_parts(tokens, N))
    return _held(corpus) + states + words + n_threads * parts.block_memory


def _held(corpus: Corpus) -> int:
    return _PROCESS + corpus.memory + (0 if corpus.vocabulary is None else _WORD * corpus.shape[1])


def _refusal(limit: int, need: int, moments: int, refine: str | None, corpus: Corpus) -> str:
    cures = []
    if refine is not None and moments <= limit:
        cures.append("leave the refinement out (refine=None; --refine none on the command line)")
    cures.append(f"allow {_shown(need)}")
    if corpus.memory > limit // 4:
        cures.append("keep the corpus on disk (momentopic pack, Corpus.open)")
    cures.append("ask for fewer topics")
    return (
        f"this fit needs about {_shown(need)} of memory on one thread, more than the limit of {_shown(limit)}: "
        f"{', or '.join(cures)}"
    )


def _shown(size: int) -> str:
    return f"{size / 1e9:.1f} GB" if size >= 10**9 else f"{size / 1e6:.0f} MB"


def limited(engine: Any, n_threads: int | None) -> Any:
    """Return the engine with no more threads than these."""
    return ThreadEngine(n_threads, engine.progress) if type(engine) is ThreadEngine else engine
