"""A corpus on the device: chunks of documents, by rows and by words, resident or brought in pass by pass."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import cache
from importlib import resources
from typing import Any

import cupy as cp
import cupyx
import numpy as np

from momentopic.corpus.blocks import Block, Corpus

CHUNK_NONZEROS = 1 << 26
PART_NONZEROS = 1024  # of a word that are added up by one owner: frequent words have many
_THREADS = 256
_LARGEST_EXACT = 1 << 24  # count in single precision


@cache
def module() -> Any:
    """Return the compiled kernels; CuPy keeps them on disk."""
    source = resources.files(__package__).joinpath("kernels.cu").read_text()
    names = [f"project<{t}, {n}, {c}>" for t, n in (("float", 4), ("double", 2)) for c in ("float", "double")]
    names += [f"{name}<{t}>" for name in ("combine", "pairs") for t in ("float", "double")]
    names += [f"{name}<{j}>" for name in ("start", "sampled") for j in (1, 2, 4, 8, 16)]
    names += ["rows_of_entries", "seek", "histogram"]
    return cp.RawModule(code=source, options=("-std=c++17",), name_expressions=names)


def kernel(name: str) -> Any:
    """Return one of the kernels."""
    return module().get_function(name)


@dataclass(eq=False)
class Chunk:
    """Consecutive documents on the device.

    Attributes
    ----------
    first, n_docs : int
        The number of its first document, and how many there are.
    indptr, indices, counts : int64, int32 and float arrays
        Its rows.
    """

    first: int
    n_docs: int
    n_words: int
    indptr: Any
    indices: Any
    counts: Any
    _transposed: Any = field(default=None, repr=False)

    @property
    def nbytes(self) -> int:
        """Bytes that it takes by rows and by words."""
        return int(self.indices.size * 2 * (4 + self.counts.itemsize))

    @property
    def transposed(self) -> tuple[Any, Any, Any, Any]:
        """Its columns: where the parts of words begin, documents, counts, and the first part of each word."""
        if self._transposed is None:
            self._transposed = self._by_words()
        return self._transposed  # type: ignore[no-any-return]

    def _by_words(self) -> tuple[Any, Any, Any, Any]:
        documents = cp.empty(len(self.indices), dtype=cp.int32)
        shape = (32, _THREADS // 32)
        kernel("rows_of_entries")(
            (-(-self.n_docs // shape[1]),), shape, (self.indptr, documents, np.int64(self.n_docs))
        )
        order = cp.argsort(self.indices)  # stable: documents stay in order
        words = self.indices[order]
        starts = cp.searchsorted(words, cp.arange(self.n_words + 1, dtype=cp.int32)).astype(cp.int64)
        first_part = cp.zeros(self.n_words + 1, dtype=cp.int64)
        cp.cumsum(-(-cp.diff(starts) // PART_NONZEROS), out=first_part[1:])
        n_parts = int(first_part[-1])
        part = cp.arange(n_parts, dtype=cp.int64)
        word = cp.searchsorted(first_part, part, side="right") - 1
        begins = cp.append(starts[word] + PART_NONZEROS * (part - first_part[word]), len(words))
        return begins, documents[order], self.counts[order], first_part.astype(cp.int32)


class DeviceCorpus:
    """The chunks of a corpus: kept on the device as far as memory goes, the others are brought in when needed.

    Parameters
    ----------
    corpus : Corpus
    memory : int
        Bytes of device memory that the chunks that stay may take.
    """

    def __init__(self, corpus: Corpus, memory: int) -> None:
        self.shape = corpus.shape
        self._corpus = corpus
        self._memory = memory
        self._spans = list(_spans(corpus))
        self._kept: dict[int, Chunk] = {}
        self._stream = cp.cuda.Stream(non_blocking=True)  # of the copies

    @property
    def resident(self) -> bool:
        """Whether all chunks stay on the device, as far as is known."""
        return len(self._kept) == len(self._spans)

    def place(self) -> None:
        """Bring in what fits."""
        for chunk in self.chunks():
            _ = chunk.transposed
        cp.cuda.Device().synchronize()

    def chunks(self) -> Iterator[Chunk]:
        """Yield the chunks in order; while one is worked on, the next one is on its way."""
        if self.resident:
            yield from (self._kept[i] for i in range(len(self._spans)))
            return
        missing = [i for i in range(len(self._spans)) if i not in self._kept]
        device = cp.cuda.Device()
        with ThreadPoolExecutor(1) as pool:
            coming = pool.submit(self._brought, missing[0], device)
            for i in range(len(self._spans)):
                if i in self._kept:
                    yield self._kept[i]
                    continue
                chunk, copied = coming.result()
                cp.cuda.get_current_stream().wait_event(copied)
                later = [j for j in missing if j > i]
                if later:
                    coming = pool.submit(self._brought, later[0], device)
                kept = sum(other.nbytes for other in self._kept.values())
                if kept + chunk.nbytes <= self._memory:
                    self._kept[i] = chunk
                yield chunk
                if i not in self._kept:
                    # its memory is the next copy's: not before the work on it is done
                    cp.cuda.get_current_stream().synchronize()
                    del chunk

    def _brought(self, i: int, device: Any) -> tuple[Chunk, Any]:
        blocks = [self._corpus.block(j) for j in range(*self._spans[i])]
        with device, self._stream as stream:
            chunk = _uploaded(blocks, stream)
            return chunk, stream.record()


def _spans(corpus: Corpus) -> Iterator[tuple[int, int]]:
    """Yield ranges of blocks that make up a chunk each."""
    first, nonzeros = 0, 0
    for i, size in enumerate(np.diff(corpus.indptr[corpus.boundaries])):
        if i > first and nonzeros + size > CHUNK_NONZEROS:
            yield first, i
            first, nonzeros = i, 0
        nonzeros += size
    yield first, corpus.n_blocks


def _uploaded(blocks: list[Block], stream: Any) -> Chunk:
    """Copy blocks to the device through pinned memory, from which it copies while it computes."""
    offsets = np.cumsum([0] + [len(block.indices) for block in blocks])
    largest = max((block.counts.max(initial=0) for block in blocks), default=0)
    dtype = np.float32 if largest <= _LARGEST_EXACT else np.float64
    indices = cp.empty(int(offsets[-1]), dtype=cp.int32)
    counts = cp.empty(int(offsets[-1]), dtype=dtype)
    for block, begin in zip(blocks, offsets, strict=False):
        for target, source in ((indices, block.indices), (counts, block.counts)):
            pinned = cupyx.empty_pinned(len(source), dtype=target.dtype)
            pinned[:] = source
            target[begin : begin + len(source)].set(pinned, stream=stream)
            # CuPy hands pinned memory out again as soon as it is let go: not before the copy is done
            stream.synchronize()
    indptr = np.concatenate([[0]] + [block.indptr[1:] + begin for block, begin in zip(blocks, offsets, strict=False)])
    n_docs = sum(block.n_docs for block in blocks)
    chunk = Chunk(blocks[0].first, n_docs, blocks[0].n_words, cp.asarray(indptr.astype(np.int64)), indices, counts)
    stream.synchronize()
    return chunk
