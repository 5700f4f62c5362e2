"""A corpus of the shape of the New York Times, growing; peak memory; and a fit beside a process that takes a core.

    python -m benchmarks.scale [--sizes 30000 100000 300000]

The corpus is sampled from the GP model: 102,660 words whose frequencies fall as rank^-1.05, 100 topics, about 250
different words a document. JD with DICA cumulants, K = 100, each size in a process of its own, the best of three fits
(the first one compiles). Memory is the peak of that process, which holds nothing but the library and the corpus; and
that of another one, for a fit with 40 sweeps of refinement. Then
Figure 1's corpus (N = 50,000, K = 50) is fitted with a core taken by an endless loop and without, in turn: JD alone,
and the default fit of its first 5,000 documents. Writes benchmarks/results/scale.csv and busy.csv.
"""

from __future__ import annotations

import argparse
import csv
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

from benchmarks.fit import parameters as figure1_parameters
from benchmarks.fit import peak_megabytes
from momentopic import DiscreteICA, simulate

RESULTS = Path(__file__).parent / "results"
WORDS, TOPICS, MEAN_LENGTH = 102_660, 100, 470
_SWEEPS = 40  # after which a refinement holds all that it will hold


def parameters() -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    frequencies = 1 / np.arange(1, WORDS + 1) ** 1.05
    rng.shuffle(frequencies)
    D = frequencies[:, None] * rng.gamma(0.1, size=(WORDS, TOPICS))
    D /= D.sum(axis=0)
    c = rng.uniform(0.5, 1.5, TOPICS)
    return D, c / c.sum()


def sample(n_docs: int) -> sp.csr_matrix:
    D, c = parameters()
    return simulate.gamma_poisson(D, c, n_docs, mean_length=MEAN_LENGTH, random_state=0)


def measure(path: str) -> dict[str, Any]:
    """Fit a stored corpus in this process; meant for a fresh one."""
    X = sp.load_npz(path).tocsr()
    seconds = []
    model = None
    for _ in range(3):
        del model  # else the topics of the last fit are in the memory of the next one
        begin = time.perf_counter()
        model = DiscreteICA(TOPICS, refine=None).fit(X)
        seconds.append(time.perf_counter() - begin)
    corpus = (X.data.nbytes + X.indices.nbytes + X.indptr.nbytes) / 2**20
    return {
        "N": X.shape[0],
        "nonzeros": int(X.nnz),
        "seconds": round(min(seconds), 2),
        **{name: round(value, 2) for name, value in model.timings_.items()},
        "corpus_MB": round(corpus),
        "peak_MB": peak_megabytes(),
        "allowed_MB": round(2.5 * corpus + 600),
    }


def refined(path: str) -> int:
    """Return the peak memory of a fit with refinement of a stored corpus in this process; meant for a fresh one."""
    DiscreteICA(TOPICS, n_sweeps=_SWEEPS).fit(sp.load_npz(path).tocsr())
    return peak_megabytes()


def busy(repeats: int = 5) -> list[dict[str, Any]]:
    """Return the seconds of fits on a free machine and beside an endless loop, measured in turn."""
    D, c = figure1_parameters()
    X = simulate.gamma_poisson(D, c, 50_000, mean_length=200, random_state=0)
    fits = {
        "JD, 50,000 documents": lambda: DiscreteICA(50, refine=None).fit(X),
        "default fit, 5,000 documents": lambda: DiscreteICA(50, n_sweeps=40).fit(X[:5000]),
    }
    rows = []
    for name, fit in fits.items():
        fit()
        seconds: dict[bool, list[float]] = {False: [], True: []}
        for _ in range(repeats):
            for loaded in (False, True):
                loop = subprocess.Popen([sys.executable, "-c", "while True: pass"]) if loaded else None
                begin = time.perf_counter()
                fit()
                seconds[loaded].append(time.perf_counter() - begin)
                if loop is not None:
                    loop.kill()
                    loop.wait()
        free, taken = (float(np.median(seconds[loaded])) for loaded in (False, True))
        rows.append(
            {
                "fit": name,
                "free_seconds": round(free, 3),
                "busy_seconds": round(taken, 3),
                "ratio": round(taken / free, 2),
                "slowest_ratio": round(max(seconds[True]) / free, 2),
            }
        )
    return rows


def of_process(function: str, path: str) -> Any:
    """Return what a function of this module finds in a process of its own."""
    code = f"import json; from benchmarks.scale import {function} as f; print(json.dumps(f({path!r})))"
    return json.loads(subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sizes", type=int, nargs="+", default=[30_000, 100_000, 300_000])
    options = parser.parse_args()
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        path = str(Path(folder) / "corpus.npz")
        X = sample(max(options.sizes))
        for n_docs in options.sizes:
            sp.save_npz(path, X[:n_docs], compressed=False)
            found, refined_peak = (of_process(name, path) for name in ("measure", "refined"))
            rows.append({**found, "refined_peak_MB": refined_peak})
            print(*(f"{key} {value}" for key, value in rows[-1].items()), sep="  ", flush=True)
    loaded = busy()
    for row in loaded:
        print(*(f"{key} {value}" for key, value in row.items()), sep="  ")
    RESULTS.mkdir(exist_ok=True)
    for name, table in (("scale", rows), ("busy", loaded)):
        with (RESULTS / f"{name}.csv").open("w", newline="") as file:
            writer = csv.DictWriter(file, table[0].keys())
            writer.writeheader()
            writer.writerows(table)


if __name__ == "__main__":
    main()
