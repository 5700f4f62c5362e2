"""The same fits by the threads of this machine and by a Dask cluster of as many single-threaded processes on it.

    python -m benchmarks.cluster [--docs 300000] [--corpus counts.npz] [--sweeps 2]

The corpus of benchmarks/scale.py (the shape of the New York Times, K = 100) is fitted in turn by `ThreadEngine` and by
`DaskEngine`, three times; each Dask fit begins with a corpus that the workers do not have yet. Once JD alone, once with
some sampled sweeps of the refinement. The best of each is written to benchmarks/results/cluster.csv, with whether the
topics have the same bits. Processor seconds are those of all processes together: unlike the others, they hardly depend
on what else the machine has to do.
"""

from __future__ import annotations

import argparse
import csv
import time
from typing import Any

import scipy.sparse as sp

from benchmarks.scale import RESULTS, TOPICS, sample
from momentopic import Corpus, DiscreteICA
from momentopic.engine import ThreadEngine, get_engine


def processor_seconds(client: Any) -> float:
    """Return what this process (with the scheduler in it) and the workers have used so far."""
    used = [time.process_time(), *client.run(time.process_time).values()]
    return float(sum(used))


def measure(X: Any, client: Any, options: dict[str, Any], repeats: int, processes: int) -> dict[str, Any]:
    seconds: dict[str, list[float]] = {"threads": [], "dask": []}
    processor: dict[str, list[float]] = {"threads": [], "dask": []}
    bits = set()
    for _ in range(repeats):
        for name, taken in seconds.items():
            engine = ThreadEngine(processes) if name == "threads" else get_engine(client)
            corpus = Corpus(X)
            begin, used = time.perf_counter(), processor_seconds(client)
            model = DiscreteICA(TOPICS, engine=engine, **options).fit(corpus)
            taken.append(time.perf_counter() - begin)
            processor[name].append(processor_seconds(client) - used)
            bits.add(model.components_.tobytes())
            steps = "  ".join(f"{step} {value:.2f}" for step, value in model.timings_.items())
            print(f"  {name}: {taken[-1]:.2f} s, processor {processor[name][-1]:.2f} s  ({steps})", flush=True)
    best = {name: min(taken) for name, taken in seconds.items()}
    least = {name: min(used) for name, used in processor.items()}
    return {
        "fit": "JD" if options["refine"] is None else f"JD and {options['n_sweeps']} sampled sweeps",
        "documents": X.shape[0],
        "nonzeros": int(X.nnz),
        "processes": processes,
        "threads_seconds": round(best["threads"], 2),
        "dask_seconds": round(best["dask"], 2),
        "ratio": round(best["dask"] / best["threads"], 2),
        "threads_processor_seconds": round(least["threads"], 2),
        "dask_processor_seconds": round(least["dask"], 2),
        "processor_ratio": round(least["dask"] / least["threads"], 2),
        "same_bits": len(bits) == 1,
    }


def main() -> None:
    from distributed import Client, LocalCluster

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--docs", type=int, default=300_000)
    parser.add_argument("--corpus", help="counts to take instead of simulated ones (.npz)")
    parser.add_argument("--sweeps", type=int, default=2)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--processes", type=int, default=2)
    options = parser.parse_args()
    X = sp.load_npz(options.corpus).tocsr()[: options.docs] if options.corpus else sample(options.docs)
    fits: list[dict[str, Any]] = [{"refine": None}]
    if options.sweeps:
        fits.append({"refine": "collapsed", "n_sweeps": options.sweeps})
    with (
        LocalCluster(n_workers=options.processes, threads_per_worker=1, dashboard_address=":0") as cluster,
        Client(cluster) as client,
    ):
        warm = Corpus(X[:2000])  # loads the compiled code
        for settings in fits:
            for engine in (ThreadEngine(options.processes), get_engine(client)):
                DiscreteICA(10, engine=engine, **settings).fit(warm)
        rows = []
        for settings in fits:
            rows.append(measure(X, client, settings, options.repeats, options.processes))
            print(*(f"{key} {value}" for key, value in rows[-1].items()), sep="  ", flush=True)
    RESULTS.mkdir(exist_ok=True)
    with (RESULTS / "cluster.csv").open("w", newline="") as file:
        writer = csv.DictWriter(file, rows[0].keys())
        writer.writeheader()
        writer.writerows(rows)


if __name__ == "__main__":
    main()
