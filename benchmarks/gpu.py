"""The CUDA engine beside the threads of the same machine: JD fits of two large shapes, and sweeps of the refinement.

    python -m benchmarks.gpu [--shapes nyt pubmed] [--sweeps 20]

The corpora are sampled on the device from the GP model: as many documents and words as the New York Times and PubMed
collections of UCI, word frequencies that fall as rank^-1.05, 100 topics. A fit begins with the documents on the device;
bringing them there is timed by itself. The first fit of each engine (which compiles) is not counted; then the best of
three. Sweeps are timed one by one, the median is shown, beside two threads and all threads of the machine, where the
corpus is small enough to wait for them. Writes benchmarks/results/gpu.csv.
"""

from __future__ import annotations

import argparse
import csv
import os
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

from momentopic import Corpus, DiscreteICA, metrics
from momentopic.engine import ThreadEngine
from momentopic.engine.cuda import CudaEngine
from momentopic.refine import refine_collapsed

RESULTS = Path(__file__).parent / "results"
TOPICS = 100
SHAPES = {"nyt": (300_000, 102_660, 470), "pubmed": (8_200_000, 141_043, 88)}  # documents, words, tokens a document
_TOKENS = 30_000_000  # at a time


def parameters(n_words: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    frequencies = 1 / np.arange(1, n_words + 1) ** 1.05
    rng.shuffle(frequencies)
    D = frequencies[:, None] * rng.gamma(0.1, size=(n_words, TOPICS))
    c = rng.uniform(0.5, 1.5, TOPICS)
    return D / D.sum(axis=0), c / c.sum()


def sample(D: np.ndarray, c: np.ndarray, n_docs: int, mean_length: float) -> sp.csr_matrix:
    """Return counts of the GP model, drawn on the device."""
    import cupy as cp

    n_words, K = D.shape
    cp.random.seed(0)
    # all topics in one ascending list: topic k in [k, k + 1)
    cumulative = cp.minimum(cp.cumsum(cp.asarray(D.T), axis=1), 1.0)
    cumulative[:, -1] = 1.0
    listed = (cumulative + cp.arange(K)[:, None]).ravel()
    shapes, scale = cp.asarray(c), mean_length / float(c.sum())
    step = int(_TOKENS / mean_length)
    parts = []
    for first in range(0, n_docs, step):
        n = min(step, n_docs - first)
        tokens = cp.random.poisson(cp.random.standard_gamma(shapes, size=(n, K)) * scale)
        ends = cp.cumsum(tokens.ravel())
        source = cp.searchsorted(ends, cp.arange(int(ends[-1])), side="right")
        document, topic = source // K, source % K
        place = cp.searchsorted(listed, topic + cp.random.random_sample(len(source)), side="right")
        word = cp.minimum(place - topic * n_words, n_words - 1)
        keys, counts = cp.unique(document * n_words + word, return_counts=True)
        indptr = cp.searchsorted(keys, cp.arange(n + 1) * n_words)
        arrays = (counts.astype(cp.int32), (keys % n_words).astype(cp.int32), indptr.astype(cp.int64))
        parts.append(tuple(array.get() for array in arrays))
    cp.get_default_memory_pool().free_all_blocks()
    offsets = np.cumsum([0] + [part[2][-1] for part in parts])
    indptr = np.concatenate([[0]] + [part[2][1:] + offset for part, offset in zip(parts, offsets, strict=False)])
    data, indices = (np.concatenate([part[i] for part in parts]) for i in (0, 1))
    return sp.csr_matrix((data, indices, indptr.astype(np.int32)), shape=(n_docs, n_words))


def best_of(repeats: int, function: Callable[..., Any], *args: Any) -> tuple[float, Any]:
    """Return the best of some times, after one that is not counted, and the last result."""
    best, result = np.inf, function(*args)
    for _ in range(repeats):
        begin = time.perf_counter()
        result = function(*args)
        best = min(best, time.perf_counter() - begin)
    return best, result


def sweep_seconds(corpus: Corpus, topics: np.ndarray, engine: Any, n_sweeps: int) -> float:
    """Return the median time of a sampled sweep."""
    times: list[float] = []
    refine_collapsed(corpus, topics, engine, n_sweeps=n_sweeps, callback=lambda *_: times.append(time.perf_counter()))
    return float(np.median(np.diff(times)))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--shapes", nargs="+", choices=tuple(SHAPES), default=list(SHAPES))
    parser.add_argument("--sweeps", type=int, default=20)
    parser.add_argument("--out", type=Path, default=RESULTS)
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    import cupy

    name = cupy.cuda.runtime.getDeviceProperties(0)["name"].decode()
    rows = []
    for shape in options.shapes:
        n_docs, n_words, mean_length = SHAPES[shape]
        D, c = parameters(n_words)
        corpus = Corpus(sample(D, c, n_docs, mean_length))
        tokens = float(corpus.counts.sum(dtype=np.float64))
        print(f"{shape}: {corpus}, {tokens:.3g} tokens", flush=True)
        cuda = CudaEngine()
        begin = time.perf_counter()
        cuda.place(corpus)
        placing = time.perf_counter() - begin
        engines: dict[str, Any] = {name: cuda}
        if shape == "nyt":
            engines[f"{os.cpu_count()} threads"] = ThreadEngine()
        for label, engine in engines.items():
            best, model = best_of(3, DiscreteICA(TOPICS, refine=None, engine=engine).fit, corpus)
            row = {
                "shape": shape, "nonzeros": int(corpus.counts.nnz), "engine": label, "what": "JD fit, K = 100",
                "seconds": round(best, 3), "l1": round(metrics.recovery_error(model.components_, D), 5),
                "placing": round(placing, 3) if engine is cuda else "",
                "stages": " ".join(f"{stage} {value:.3f}" for stage, value in model.timings_.items()),
            }  # fmt: skip
            rows.append(row)
            print(row, flush=True)
        if shape == "nyt":
            engines["2 threads"] = ThreadEngine(2)
        for label, engine in engines.items():
            n_sweeps = options.sweeps if engine is cuda else 4
            once = sweep_seconds(corpus, model.components_, engine, n_sweeps)
            row = {
                "shape": shape, "nonzeros": int(corpus.counts.nnz), "engine": label, "what": "sampled sweep",
                "seconds": round(once, 4), "million_tokens_a_second": round(tokens / once / 1e6),
            }  # fmt: skip
            rows.append(row)
            print(row, flush=True)
    options.out.mkdir(exist_ok=True)
    fields = list(dict.fromkeys(key for row in rows for key in row))
    with (options.out / "gpu.csv").open("w", newline="") as file:
        writer = csv.DictWriter(file, fields)
        writer.writeheader()
        writer.writerows(rows)


if __name__ == "__main__":
    main()
