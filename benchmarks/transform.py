"""`transform` beside scikit-learn's, with the same topics, in turn.

    python -m benchmarks.transform [--repeats 5]

20 Newsgroups, all 18,846 documents, K = 100. scikit-learn's LatentDirichletAllocation is given our topics (as counts of
as many tokens) and its own prior, on all cores and on one, its default. Medians, with the fastest and the slowest.
Needs ../shared/datasets. Writes benchmarks/results/transform.csv.
"""

from __future__ import annotations

import argparse
import csv
import time
from typing import Any

import numpy as np
from scipy.special import psi
from sklearn.decomposition import LatentDirichletAllocation

from benchmarks.quality import DATASETS, HERE
from momentopic import DiscreteICA
from momentopic.corpus import read_corpus

TOPICS = 100


def peer(X: Any, topics: np.ndarray, n_jobs: int) -> LatentDirichletAllocation:
    """Return scikit-learn's model with these topics."""
    tokens = np.maximum(topics * X.sum() / TOPICS, 0.01)
    model = LatentDirichletAllocation(TOPICS, max_iter=1, n_jobs=n_jobs, random_state=0).fit(X[:300])
    model.components_ = tokens
    # what its transform reads, made when it is fitted: exp E log φ
    model.exp_dirichlet_component_ = np.exp(psi(tokens) - psi(tokens.sum(axis=1, keepdims=True)))
    return model


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeats", type=int, default=5)
    options = parser.parse_args()
    X = read_corpus(DATASETS / "newsgroups20" / "docs.jsonl.gz").counts
    model = DiscreteICA(TOPICS, n_sweeps=60).fit(X)
    transforms = {
        "momentopic": model.transform,
        "scikit-learn, all cores": peer(X, model.components_, -1).transform,
        "scikit-learn, one core": peer(X, model.components_, 1).transform,
    }
    model.transform(X[:100])
    seconds: dict[str, list[float]] = {name: [] for name in transforms}
    for _ in range(options.repeats):
        for name, transform in transforms.items():
            begin = time.perf_counter()
            transform(X)
            seconds[name].append(time.perf_counter() - begin)
    ours = float(np.median(seconds["momentopic"]))
    rows = [
        {
            "transform": name,
            "seconds": round(float(np.median(of)), 3),
            "fastest": round(min(of), 3),
            "slowest": round(max(of), 3),
            "times_ours": round(float(np.median(of)) / ours, 1),
        }
        for name, of in seconds.items()
    ]
    for row in rows:
        print(*(f"{key} {value}" for key, value in row.items()), sep="  ")
    with (HERE / "results" / "transform.csv").open("w", newline="") as file:
        writer = csv.DictWriter(file, rows[0].keys())
        writer.writeheader()
        writer.writerows(rows)


if __name__ == "__main__":
    main()
