"""Held-out likelihood and time of a whole fit, this library and its peers in one run, scored by the same code.

    python -m benchmarks.quality [ap:1 kos:1 ap:2 kos:2 sotu_paragraphs]

K = 50. AP and KOS: the authors' fold of that number. The constants of the collapsed refinement were chosen while
looking at fold 1 of both, so the other data are the fair comparison. State of the Union paragraphs: 500 held out. Chib
with 1,000 states; words unseen in training are left out for everyone. Needs ../shared/datasets and the peers of the
`bench` extra. Writes benchmarks/results/quality.csv, keeping the rows of data that were not asked for.
"""

from __future__ import annotations

import csv
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

from momentopic import Corpus, DiscreteICA, heldout
from momentopic.corpus import read_corpus
from momentopic.refine import variational_lda

HERE = Path(__file__).parent
DATASETS = HERE.parent.parent / "shared" / "datasets"
K = 50


def load(name: str) -> tuple[sp.csr_matrix, sp.csr_matrix]:
    if name == "sotu_paragraphs":
        X = read_corpus(DATASETS / name / "docs.jsonl.gz").counts
        order = np.random.default_rng(0).permutation(X.shape[0])
        return X[np.sort(order[500:])], X[np.sort(order[:500])]
    name, fold = name.split(":")
    X = sp.load_npz(DATASETS / name / "counts.npz").tocsr()
    with np.load(DATASETS / name / "folds.npz") as folds:
        return X[folds[f"train_{fold}"]], X[folds[f"test_{fold}"]]


def ours(**options: Any) -> Callable[[sp.csr_matrix], tuple[np.ndarray, np.ndarray]]:
    def fit(X: sp.csr_matrix) -> tuple[np.ndarray, np.ndarray]:
        model = DiscreteICA(K, **options).fit(X)
        return model.components_, model.concentration_

    return fit


def variational(X: sp.csr_matrix) -> tuple[np.ndarray, np.ndarray]:
    found = variational_lda(Corpus(X), K)
    return found.topics, found.concentration


def topica(X: sp.csr_matrix) -> tuple[np.ndarray, np.ndarray]:
    import topica as peer

    ends = X.indptr[1:]
    words = [f"w{m}" for m in range(X.shape[1])]
    tokens = [
        [words[m] for m, x in zip(X.indices[a:b], X.data[a:b], strict=True) for _ in range(x)]
        for a, b in zip(X.indptr, ends, strict=False)
    ]
    begin = time.perf_counter()
    model = peer.LDA(K)
    model.fit(tokens)
    fit_seconds["topica LDA"] = time.perf_counter() - begin  # without turning counts into its tokens
    topics = np.zeros((K, X.shape[1]))
    topics[:, [int(word[1:]) for word in model.vocabulary]] = np.asarray(model.topic_word)
    return topics / topics.sum(axis=1, keepdims=True), np.asarray(model.alpha) * np.ones(K)


fit_seconds: dict[str, float] = {}
FITTERS = {
    "momentopic, collapsed": ours(refine="collapsed"),
    "momentopic, collapsed, n_sweeps=0": ours(refine="collapsed", n_sweeps=0),
    "momentopic, VI-JD": ours(refine="variational"),
    "momentopic, VI": variational,
    "topica LDA": topica,
}


def main() -> None:
    asked = sys.argv[1:] or ["ap:1", "kos:1", "ap:2", "kos:2", "sotu_paragraphs"]
    results = HERE / "results" / "quality.csv"
    rows: list[dict[str, Any]] = []
    if results.exists():
        with results.open() as file:
            rows = [row for row in csv.DictReader(file) if row["data"] not in asked]
    for data in asked:
        train, test = load(data)
        for name, fit in FITTERS.items():
            if name.startswith("momentopic"):
                fit(train[:300])  # compiles
            begin = time.perf_counter()
            topics, concentration = fit(train)
            seconds = fit_seconds.pop(name, time.perf_counter() - begin)
            result = heldout.chib(test, topics, concentration)
            row = {
                "data": data,
                "fitter": name,
                "seconds": round(seconds, 2),
                "bits_per_token": round(result.bits_per_token, 4),
                "stderr": round(result.stderr, 4),
                "tokens_left_out": result.tokens_left_out,
            }
            rows.append(row)
            print(*row.values(), sep="  ", flush=True)
    with results.open("w", newline="") as file:
        writer = csv.DictWriter(file, rows[0].keys())
        writer.writeheader()
        writer.writerows(rows)


if __name__ == "__main__":
    main()
