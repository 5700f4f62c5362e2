"""How much memory a fit will take, before it begins; and how to keep it under a limit.

The estimates are of what is held at a time: the corpus or its largest blocks, the arrays of words x topics of whitening
and recovery, the tensor, the partial sums of each thread, and what a refinement remembers of every document and token.
They are meant to be a little too large.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from momentopic.corpus.blocks import Corpus
from momentopic.engine.threads import ThreadEngine, available_cores
from momentopic.exceptions import MemoryLimitError
from momentopic.moments import groups
from momentopic.moments.triples import packed_size
from momentopic.refine.collapsed import RESPONSIBILITIES, number_of_parts, padded_width, phases

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


@dataclass(frozen=True)
class Plan:
    """How a fit keeps under its limit.

    Attributes
    ----------
    n_threads : int or None
        None where it does not matter.
    responsibilities : int
        Bytes that the expected sweeps of a collapsed refinement may take.
    """

    n_threads: int | None = None
    responsibilities: int = RESPONSIBILITIES


NO_LIMIT = Plan()


def plan_fit(
    corpus: Corpus,
    K: int,
    limit: int,
    *,
    refine: str | None,
    n_sweeps: int | None = None,
    n_threads: int | None = None,
    n_groups: int | None = None,
) -> Plan:
    """Find the form of the refinement, then the most threads, that keep a fit under a limit.

    The form, on which the topics depend, is what fits with one thread: it must not depend on how many cores there are.

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
    most = n_threads or available_cores()
    steps = [moments_bytes(corpus, K, 1, n_groups)]
    if refine is not None:
        steps.append(refinement_bytes(corpus, K, 1, refine, n_sweeps, 0))
    need = max(steps)
    if need > limit:
        raise MemoryLimitError(_refusal(limit, need, steps[0], refine, corpus))
    threads = max(t for t in range(1, most + 1) if moments_bytes(corpus, K, t, n_groups) <= limit)
    if refine is None:
        return Plan(threads)

    def fits(t: int, room: int) -> bool:
        return refinement_bytes(corpus, K, t, refine, n_sweeps, room) <= limit

    room = next((room for room in _rooms(limit) if fits(1, room)), 0)
    return Plan(max(t for t in range(1, threads + 1) if fits(t, room)), room)


def _rooms(limit: int) -> Iterator[int]:
    yield from (room for room in (RESPONSIBILITIES >> i for i in range(12)) if room < limit)


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


def refinement_bytes(
    corpus: Corpus, K: int, n_threads: int, refine: str, n_sweeps: int | None, responsibilities: int
) -> int:
    """Return what a refinement holds at most, about, if its expected sweeps may take so many bytes."""
    N, M = corpus.shape
    width = padded_width(K)
    if refine == "variational":
        return _held(corpus) + 8 * N * K * 3 + 8 * M * K * (2 * n_threads + 5) + n_threads * corpus.block_memory
    tokens = corpus.tokens
    sample, expect = phases(corpus.nonzeros, tokens, K, n_sweeps, responsibilities)
    states = N * (4 * width + 5 * 8) + (4 * int(tokens) if sample else 0)
    if expect:
        states += 4 * width * corpus.nonzeros
    words = 4 * M * width * (2 * n_threads + 3) + 8 * M * K * 6
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
