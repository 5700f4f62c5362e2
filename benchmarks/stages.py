"""Each stage of the work beside the ceiling of the machine that bounds it, measured in the same run.

    python -m benchmarks stages

The corpus is Figure 1's (N = 50,000, M = 10,473, K = 50; the authors' AP parameters, or random topics without
../shared). Repeats are interleaved: every stage once, then every stage again; the median and the spread are of seven.
Then whole fits, and the share of their time that the calling thread spends in each kernel. Writes
benchmarks/results/stages.csv and share.csv and prints both.
"""

from __future__ import annotations

import csv
import gzip
import json
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import scipy.io
import scipy.sparse as sp
from threadpoolctl import threadpool_limits

from benchmarks.fit import parameters
from momentopic import Corpus, DiscreteICA, heldout, kernels, simulate
from momentopic.corpus import read_corpus
from momentopic.engine import ThreadEngine
from momentopic.moments import dica_moments, eigen, whiten
from momentopic.moments.base import word_sum
from momentopic.moments.triples import packed_size, padded_rows
from momentopic.refine.blocks import expected_block, sampled_block
from momentopic.refine.collapsed import _Run

HERE = Path(__file__).parent
REPEATS = 7
K = 50


class Stage(NamedTuple):
    name: str
    run: Callable[[], Any]
    work: float  # flops, bytes, or whatever the ceiling is counted in
    unit: str
    ceiling: str  # the name of the ceiling that bounds it, or "" where none is known


def ceilings() -> list[Stage]:
    rng = np.random.default_rng(0)
    A32 = rng.random((1536, 1536), dtype=np.float32)
    A64 = A32.astype(np.float64)
    source = np.ones(1 << 25)
    target = np.empty_like(source)
    # a vocabulary so small that both operands of a sparse product stay in the second-level cache
    narrow = Corpus(
        simulate.gamma_poisson(rng.dirichlet(np.full(1500, 0.1), 20).T, np.full(20, 0.1), 30_000, mean_length=200)
    )
    moments, V = dica_moments(narrow), rng.standard_normal((1500, 16))
    rows, V64 = narrow.block(0), rng.standard_normal((1500, 64)).astype(np.float32)
    Y = np.empty((rows.n_docs, 64), dtype=np.float32)
    return [
        Stage("GEMM, float32", lambda: A32 @ A32, 2 * 1536**3, "flop", ""),
        Stage("GEMM, float64", lambda: A64 @ A64, 2 * 1536**3, "flop", ""),
        Stage("GEMM, float32, one thread", lambda: _on_one(lambda: A32 @ A32), 2 * 1536**3, "flop", ""),
        Stage("GEMM, float64, one thread", lambda: _on_one(lambda: A64 @ A64), 2 * 1536**3, "flop", ""),
        Stage("memory copy", lambda: np.copyto(target, source), 2 * source.nbytes, "B", ""),
        Stage("sparse product, in the cache", lambda: moments.second(V), 4 * narrow.counts.nnz * 16, "flop", ""),
        Stage(
            "gather 64 columns in the cache, float32, one thread",
            lambda: kernels.tiles.project(rows.indptr, rows.indices, rows.counts, V64, Y),
            2 * len(rows.indices) * 64,
            "flop",
            "",
        ),
        Stage(
            "sparse product, in the cache, float32",
            lambda: moments.second(V.astype(np.float32)),
            4 * narrow.counts.nnz * 16,
            "flop",
            "",
        ),
    ]


def _on_one(run: Callable[[], Any]) -> None:
    with threadpool_limits(1):
        run()


def stages(folder: Path) -> list[Stage]:
    D, c = parameters()
    X = simulate.gamma_poisson(D, c, 50_000, mean_length=200, random_state=0)
    corpus = Corpus(X)
    nnz, (N, M) = X.nnz, X.shape
    moments = dica_moments(corpus)
    white = whiten(moments, K)
    W32 = white.W.astype(np.float32)
    V = np.random.default_rng(0).standard_normal((M, 16))
    tensor = moments.third(white.W, white.unwhiten)
    F = np.ascontiguousarray(white.unwhiten)
    part = Corpus(X[:5000])
    run, expected_run = (_Run(part, ThreadEngine(), K, None, None, None, sample) for sample in (True, False))
    for each in (run, expected_run):
        each.start(np.ascontiguousarray(D.T), 0)
    tokens = float(part.counts.sum())
    width = 64
    model = DiscreteICA(K, n_sweeps=0).fit(part)
    few = X[:100]
    counted = X[:20_000]
    files = written(counted, folder)
    A = np.array(tensor.transpose(1, 2, 0), order="C")

    rng = np.random.default_rng(0)
    rows = padded_rows(rng.standard_normal((K, 8192)).astype(np.float32))
    packed = np.zeros(packed_size(K))
    basis = np.linalg.qr(rng.standard_normal((M, 100)))[0]

    def triples() -> None:
        kernels.triples.add_triples(packed, (rows,), (rows,), rows, K)

    block, W64 = corpus.block(0), rng.standard_normal((M, 64)).astype(np.float32)
    Y = np.empty((block.n_docs, 64), dtype=np.float32)
    coefficients, left, gram, out = np.zeros((100, 16)), np.zeros((100, 16)), np.zeros((16, 16)), np.empty_like(V)
    coefficients[-32:] = 1

    def take_out() -> None:
        kernels.tall.take_out(basis, 100 - 32, coefficients, V, 0, M, out, left, gram)

    def divide() -> None:
        kernels.tall.take_out_and_divide(basis, coefficients, out, 0, M, np.eye(16), gram)

    def jacobi() -> None:
        kernels.jacobi.sweep(A.copy(), np.eye(K), 1e-30)

    done = [
        Stage("S V, 16 columns", lambda: moments.second(V), 4 * nnz * 16, "flop", "sparse product, in the cache"),
        Stage(
            "S V, 16 columns, float32",
            lambda: moments.second(V.astype(np.float32)),
            4 * nnz * 16,
            "flop",
            "sparse product, in the cache, float32",
        ),
        Stage(
            "what a basis of 100 has of 16 columns, one thread",
            take_out,
            2 * M * 16 * (100 + 32 + 16),
            "flop",
            "GEMM, float64, one thread",
        ),
        Stage("... taken out, one thread", divide, 2 * M * 16 * (100 + 32), "flop", "GEMM, float64, one thread"),
        Stage(
            "project documents on 64 columns, one thread",
            lambda: kernels.tiles.project(block.indptr, block.indices, block.counts, W64, Y),
            2 * len(block.indices) * 64,
            "flop",
            "gather 64 columns in the cache, float32, one thread",
        ),
        Stage(
            "tensor, float32",
            lambda: moments.third(W32, white.unwhiten),
            2 * (N + 2 * M) * K**3 / 6,
            "flop",
            "GEMM, float32",
        ),
        Stage("of which the words", lambda: word_sum(W32, F), 4 * M * K**3 / 6, "flop", "GEMM, float32"),
        Stage("third-order sums, one thread", triples, 2 * 8192 * K**3 / 6, "flop", "GEMM, float32, one thread"),
        Stage("a Jacobi sweep", jacobi, 6.0 * K**4, "flop", "GEMM, float64, one thread"),
        Stage(
            "an expected sweep (CVB0)",
            lambda: expected_run.sweep(expected_block, np.float32(1), np.float32(1)),
            12 * part.counts.nnz * width,
            "flop",
            "GEMM, float32",
        ),
        Stage("a sampled sweep (Gibbs)", lambda: run.sweep(sampled_block), 3 * tokens * width, "flop", "GEMM, float32"),
        Stage(
            "Chib, 1,000 states, 100 documents",
            lambda: heldout.chib(few, model.components_, model.concentration_),
            2e3 * float(few.sum()) * K,
            "flop",
            "GEMM, float64",
        ),
        Stage("transform, 5,000 documents", lambda: model.transform(part), 0, "", ""),
        Stage("simulate 5,000 documents", lambda: simulate.gamma_poisson(D, c, 5000, mean_length=200), 0, "", ""),
    ]
    for name, path in files.items():
        done.append(Stage(f"read {name}", lambda path=path: read_corpus(path), path.stat().st_size, "B", "memory copy"))
    return done


def written(X: sp.csr_matrix, folder: Path) -> dict[str, Path]:
    """Write counts in the formats that are read."""
    paths = {name: folder / name for name in ("x.npz", "x.mtx", "docword.x.txt", "x.dat", "x.jsonl.gz")}
    sp.save_npz(paths["x.npz"], X, compressed=False)
    scipy.io.mmwrite(paths["x.mtx"], X)
    rows = np.column_stack([np.repeat(np.arange(X.shape[0]), np.diff(X.indptr)) + 1, X.indices + 1, X.data])
    with paths["docword.x.txt"].open("w") as file:
        file.write(f"{X.shape[0]}\n{X.shape[1]}\n{X.nnz}\n")
        np.savetxt(file, rows, fmt="%d")
    documents = [range(a, b) for a, b in zip(X.indptr, X.indptr[1:], strict=False)]
    with paths["x.dat"].open("w") as file:
        for entries in documents:
            pairs = " ".join(f"{X.indices[e]}:{X.data[e]}" for e in entries)
            file.write(f"{len(entries)} {pairs}\n")
    letters = str.maketrans("0123456789", "abcdefghij")  # words are made of letters
    words = [f"w{m}".translate(letters) for m in range(X.shape[1])]
    with gzip.open(paths["x.jsonl.gz"], "wt", compresslevel=1) as file:
        for entries in documents[:5000]:
            text = " ".join(words[X.indices[e]] for e in entries for _ in range(X.data[e]))
            file.write(json.dumps({"text": text}) + "\n")
    return paths


def share() -> list[dict[str, Any]]:
    """Return the share of a JD fit that the calling thread, which works as much as the others, spends in kernels."""
    D, c = parameters()
    X = simulate.gamma_poisson(D, c, 50_000, mean_length=200, random_state=0)
    spent: dict[str, float] = {}

    def watch(module: Any, name: str) -> None:
        function = getattr(module, name)

        def watched(*args: Any) -> Any:
            begin = time.perf_counter()
            result = function(*args)
            if threading.current_thread() is threading.main_thread():
                spent[name] = spent.get(name, 0.0) + time.perf_counter() - begin
            return result

        setattr(module, name, watched)

    for module, names in (
        (kernels.tiles, ("second_product", "project")),
        (kernels.triples, ("add_triples",)),
        (kernels.jacobi, ("sweep",)),
        (kernels.tall, ("coefficients", "take_out", "take_out_and_divide")),
        (eigen, ("_combined",)),
    ):
        for name in names:
            watch(module, name)
    rows = []
    for repeat in range(REPEATS + 1):
        spent.clear()
        begin = time.perf_counter()
        DiscreteICA(K, refine=None).fit(X)
        seconds = time.perf_counter() - begin
        if repeat:
            rows.append({"seconds": seconds} | {name: part / seconds for name, part in spent.items()})
    median = {name: float(np.median([row[name] for row in rows])) for name in rows[0]}
    return [{"name": name, "value": round(value, 3)} for name, value in median.items()]


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        tops = ceilings()
        every = tops + stages(Path(folder))
        times: dict[str, list[float]] = {stage.name: [] for stage in every}
        for repeat in range(REPEATS + 1):
            for stage in every:
                begin = time.perf_counter()
                stage.run()
                if repeat:  # the first compiles and warms up
                    times[stage.name].append(time.perf_counter() - begin)
    speed = {stage.name: stage.work / float(np.median(times[stage.name])) for stage in tops}
    rows = []
    for stage in every:
        seconds = np.array(times[stage.name])
        median = float(np.median(seconds))
        rate = stage.work / median if stage.work else float("nan")
        rows.append(
            {
                "stage": stage.name,
                "milliseconds": round(1e3 * median, 3),
                "fastest": round(1e3 * seconds.min(), 3),
                "slowest": round(1e3 * seconds.max(), 3),
                "giga_per_second": round(rate / 1e9, 2) if stage.work else "",
                "of": stage.unit,
                "ceiling": stage.ceiling,
                "part_of_ceiling": round(rate / speed[stage.ceiling], 3) if stage.ceiling else "",
            }
        )
        print("| " + " | ".join(str(value) for value in rows[-1].values()) + " |", flush=True)
    shares = share()
    print(shares)
    for name, table in (("stages", rows), ("share", shares)):
        with (HERE / "results" / f"{name}.csv").open("w", newline="") as file:
            writer = csv.DictWriter(file, table[0].keys())
            writer.writeheader()
            writer.writerows(table)


if __name__ == "__main__":
    main()
