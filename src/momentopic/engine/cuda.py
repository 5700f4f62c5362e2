"""Sums over documents on an NVIDIA device, through CuPy.

The sums that take the time have a version for the device; the others are done by the threads of this machine. Products
in single precision are added in double: topics differ from those of the other engines in the fifth digit or so; on one
device they have the same bits on every run.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from momentopic._types import FloatArray
from momentopic.corpus.blocks import Corpus
from momentopic.engine.base import BlockFunction, P, Partial, S, Words
from momentopic.engine.threads import ThreadEngine
from momentopic.moments import sums
from momentopic.moments.triples import packed
from momentopic.refine.blocks import count_block, prior_block, sampled_block, start_block, taking_part

_PART_OF_MEMORY = 0.5  # of what is free on the device, for the documents


def device_available() -> bool:
    """Say whether CuPy is installed and sees a device."""
    try:
        import cupy

        return bool(cupy.cuda.runtime.getDeviceCount() > 0)
    except Exception:  # CuPy raises errors of its own where there is no driver
        return False


class CudaEngine(ThreadEngine):
    """The engine of a CUDA device.

    Parameters
    ----------
    memory : int, optional
        Bytes of device memory for the documents; those beyond it are copied in at every pass. By default half of what
        is free.
    n_threads : int, optional
        Of what the device does not do.
    """

    draws = True  # refinements draw tokens, which is what the device does

    def __init__(self, memory: int | None = None, n_threads: int | None = None) -> None:
        super().__init__(n_threads)
        try:
            import cupy
        except ImportError as error:
            raise ImportError(
                "engine='cuda' needs CuPy: pip install cupy-cuda12x (or -cuda13x, as the driver is), or use "
                "engine='threads'"
            ) from error
        if not device_available():
            raise RuntimeError("engine='cuda' finds no CUDA device or driver on this machine: use engine='threads'")
        self.memory = memory or int(_PART_OF_MEMORY * cupy.cuda.Device().mem_info[0])
        self._placed: list[tuple[Any, Any]] = []  # the last corpus, shared by copies of the engine

    def place(self, corpus: Corpus) -> None:
        """Bring the documents to the device now, rather than at the first sum; they stay until others come."""
        self._on_device(corpus).place()

    def _on_device(self, corpus: Corpus) -> Any:
        from momentopic.cuda.device import DeviceCorpus

        # copies of a corpus that are cut in other places share their counts, or their shards
        parts = vars(corpus)
        source: Any = parts.get("counts", parts.get("_shards", corpus))
        if not self._placed or self._placed[0][0] is not source:
            self._placed[:] = [(source, DeviceCorpus(corpus, self.memory))]  # one at a time: memory is short
        return self._placed[0][1]

    def _sweeps_fit(self, corpus: Corpus, n_topics: int) -> bool:
        """Say whether the device has room for a refinement: all documents, and the topics of all their tokens."""
        from momentopic.cuda import sweeps

        documents = 16 * corpus.nonzeros
        states = 4 * sweeps.width_of(n_topics) * corpus.shape[0] + 2 * corpus.tokens
        return sweeps.can_sweep(n_topics) and max(documents, states) <= self.memory

    def sum(self, function: BlockFunction[P], corpus: Corpus, *args: P.args, **kwargs: P.kwargs) -> Partial:
        """Return the sum over all blocks of ``function(block, *args, **kwargs)``; see `Engine.sum`."""
        on_device = _SUMS.get(function)
        if on_device is None:
            return super().sum(function, corpus, *args, **kwargs)
        return on_device(self._on_device(corpus), *args, **kwargs)

    def update(
        self, function: Callable[..., tuple[Partial, S]], corpus: Corpus, states: list[S], *args: Any, **kwargs: Any
    ) -> tuple[Partial, list[S]]:
        """Sum a function that remembers something of each block; see `Engine.update`."""
        if function is start_block:
            from momentopic.cuda import sweeps

            *given, boundaries, one_in, mixed = args
            simple = boundaries is None and one_in == 1 and mixed is None  # keeping nothing, with all tokens
            if simple and self._sweeps_fit(corpus, args[0].shape[1]):
                totals, held = sweeps.start(corpus, self._on_device(corpus), *given)
                return totals, held  # type: ignore[return-value]
        if function is prior_block and states and _is_on_device(states[0]):
            from momentopic.cuda import sweeps

            return sweeps.prior_sums(states[0], *args), states  # type: ignore[arg-type]
        return super().update(function, corpus, states, *args, **kwargs)

    def turn(
        self,
        function: Callable[..., tuple[Partial, S, Words]],
        corpus: Corpus,
        states: list[S],
        words: list[Words],
        turn: int,
        *args: Any,
        **kwargs: Any,
    ) -> tuple[Partial, list[S], list[Words]]:
        """Let each block work on its own part of an array over words; see `Engine.turn`."""
        held: Any = states
        parts: Any = words
        if function is count_block and _is_on_device(held[0]):
            from momentopic.cuda import sweeps

            parts = sweeps.counted(held[0], parts)
            return (), held, parts
        if function is sampled_block:
            from momentopic.cuda import sweeps

            if not _is_on_device(held[0]):
                part = taking_part(corpus, held)
                if self._sweeps_fit(part, held[0].N.shape[1]):
                    held = [sweeps.uploaded(part, self._on_device(part), held, held[0].N.shape[1])] * len(held)
            if _is_on_device(held[0]):
                change, parts = sweeps.sampled_turn(held[0], parts, turn, *args)
                return change, held, parts
        return super().turn(function, corpus, states, words, turn, *args, **kwargs)

    def solve(self, moments: Any, K: int, **options: Any) -> Any:
        """Return the solution of the DICA cumulants without bringing anything large back; see `cuda.solve`."""
        from momentopic.cuda.solve import solve

        return solve(moments, self._on_device(moments.corpus), K, **options)

    def __repr__(self) -> str:
        return f"CudaEngine(memory={self.memory})"


def _is_on_device(state: Any) -> bool:
    return hasattr(state, "chunks")


def _word_totals(corpus: Any, orders: tuple[int, ...]) -> Partial:
    from momentopic.cuda import products

    totals, some = products.word_totals(corpus, orders)
    return *totals.get(), some.get()


def _second_product(corpus: Any, V: Any, center: Any, order: int) -> Partial:
    import cupy

    from momentopic.cuda import products

    return (products.second_product(corpus, cupy.asarray(V), cupy.asarray(center), order).get(),)


def _third_tensor(corpus: Any, V: Any, center: FloatArray, order: int) -> Partial:
    import cupy

    from momentopic.cuda import products

    wide = cupy.asarray(V)
    middle = cupy.zeros(wide.shape[1], dtype=wide.dtype)
    middle[: len(center)] = cupy.asarray(center)
    T = products.third_tensor(corpus, wide, middle, len(center), order).get()
    return (packed(np.ascontiguousarray(T)),)


_SUMS: dict[Any, Callable[..., Partial]] = {
    sums.word_totals: _word_totals,
    sums.second_product: _second_product,
    sums.third_tensor: _third_tensor,
}
