"""Time and memory of a fit in the setting of the paper's Figure 1, growing N, with a peer beside it in the same run.

    python -m benchmarks.fit [--sizes 12500 25000 50000 100000 200000] [--no-peer]

JD with DICA cumulants, K = 50, on GP corpora from the AP K=50 parameters (c0 = 0.5, mean length 200) where they are in
../shared/paper, else from random topics of the same shape. Each size runs in a process of its own: one fit to warm up,
then the best of three; the memory is the peak of that process, corpus included. The peer is scikit-learn's
LatentDirichletAllocation, one pass of its online algorithm over the same corpus on all cores. Writes
benchmarks/results/fit.csv.
"""

from __future__ import annotations

import argparse
import csv
import json
import resource
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np

from momentopic import DiscreteICA, metrics, simulate

HERE = Path(__file__).parent
PARAMETERS = HERE.parent.parent / "shared" / "paper" / "params_ap_K50.npz"


def parameters() -> tuple[np.ndarray, np.ndarray]:
    if PARAMETERS.exists():
        with np.load(PARAMETERS) as file:
            D, c = file["D"], file["c"]
    else:
        rng = np.random.default_rng(0)
        D, c = rng.dirichlet(np.full(10_473, 0.02), size=50).T, rng.uniform(0.5, 1.5, 50)
    return D, 0.5 * c / c.sum()


def peak_megabytes() -> int:
    """Return the peak memory of this process: ru_maxrss is inherited from the parent on Linux, VmHWM is not."""
    status = Path("/proc/self/status")
    if status.exists():
        line = next(line for line in status.read_text().splitlines() if line.startswith("VmHWM"))
        return round(int(line.split()[1]) / 1024)
    return round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024)


def measure(n_docs: int) -> dict[str, Any]:
    """Fit in this process; meant for a fresh one."""
    D, c = parameters()
    X = simulate.gamma_poisson(D, c, n_docs, mean_length=200, random_state=0)
    begin = time.perf_counter()
    model = DiscreteICA(50, refine=None).fit(X)
    first = time.perf_counter() - begin
    seconds = []
    for _ in range(3):
        begin = time.perf_counter()
        model = DiscreteICA(50, refine=None).fit(X)
        seconds.append(time.perf_counter() - begin)
    return {
        "fitter": "momentopic",
        "N": n_docs,
        "nonzeros": int(X.nnz),
        "seconds": round(min(seconds), 3),
        "first_fit_seconds": round(first, 3),
        **{name: round(value, 3) for name, value in model.timings_.items()},
        "peak_MB": peak_megabytes(),
        "l1": round(metrics.recovery_error(model.components_, D), 4),
    }


def measure_peer(n_docs: int) -> dict[str, Any]:
    """One online pass of scikit-learn's LDA over the same corpus."""
    from sklearn.decomposition import LatentDirichletAllocation

    D, c = parameters()
    X = simulate.gamma_poisson(D, c, n_docs, mean_length=200, random_state=0)
    begin = time.perf_counter()
    model = LatentDirichletAllocation(50, learning_method="online", max_iter=1, n_jobs=-1, random_state=0).fit(X)
    seconds = time.perf_counter() - begin
    topics = model.components_ / model.components_.sum(axis=1, keepdims=True)
    return {
        "fitter": "scikit-learn LDA, one online pass",
        "N": n_docs,
        "seconds": round(seconds, 2),
        "l1": round(metrics.recovery_error(topics, D), 4),
    }


def in_a_fresh_process(name: str, n_docs: int) -> dict[str, Any]:
    code = f"import json; from benchmarks.fit import {name} as f; print(json.dumps(f({n_docs})))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    result: dict[str, Any] = json.loads(done.stdout)
    return result


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sizes", type=int, nargs="+", default=[12_500, 25_000, 50_000, 100_000, 200_000])
    parser.add_argument("--no-peer", action="store_true")
    arguments = parser.parse_args()
    rows = []
    for n_docs in arguments.sizes:
        rows.append(in_a_fresh_process("measure", n_docs))
        print(*(f"{key} {value}" for key, value in rows[-1].items()), sep="  ", flush=True)
    slope = np.polyfit(np.log([row["N"] for row in rows]), np.log([row["seconds"] for row in rows]), 1)[0]
    print(f"seconds grow as N^{slope:.2f}")
    if not arguments.no_peer:
        n_docs = 50_000 if 50_000 in arguments.sizes else max(arguments.sizes)
        ours = next(row for row in rows if row["N"] == n_docs)
        peer = in_a_fresh_process("measure_peer", n_docs)
        print(
            f"N {n_docs}: scikit-learn's LDA, one online pass: {peer['seconds']} s, l1 {peer['l1']}; momentopic: "
            f"{ours['seconds']} s, l1 {ours['l1']}; ratio {peer['seconds'] / ours['seconds']:.0f}"
        )
        rows.append(peer)
    results = HERE / "results"
    results.mkdir(exist_ok=True)
    with (results / "fit.csv").open("w", newline="") as file:
        writer = csv.DictWriter(file, rows[0].keys(), restval="")
        writer.writeheader()
        writer.writerows(rows)


if __name__ == "__main__":
    main()
