"""Held-out likelihood and time of a whole fit, this library and its peers in one run, scored by the same code.

    python -m benchmarks.quality [ap:1 kos:1 nips:1 sotu_paragraphs newsgroups20 ...] [--only NAME ...] [-k 50]

AP, KOS, NIPS: the authors' fold of that number. State of the Union paragraphs, 20 Newsgroups: 500 held out. Chib with
1,000 states (200 on NIPS); words unseen in training are left out for everyone. The time is that of the fit alone (ours:
the median of three, where they take less than 10 s together), without bringing the counts into a peer's own form. Needs
../shared/datasets and the `bench` extra. Writes benchmarks/results/quality.csv, keeping rows that were not measured
again, and quality.png.
"""

from __future__ import annotations

import argparse
import csv
import time
import warnings
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
RESULTS = HERE / "results" / "quality.csv"
DEFAULT = ["ap:1", "kos:1", "nips:1", "ap:2", "kos:2", "sotu_paragraphs"]
SHORT = 10.0  # seconds
Model = tuple[np.ndarray, np.ndarray, float]  # topics, concentration, seconds


def load(name: str) -> tuple[sp.csr_matrix, sp.csr_matrix]:
    """Return the training and the test documents."""
    if ":" not in name:
        X = read_corpus(DATASETS / name / "docs.jsonl.gz").counts
        order = np.random.default_rng(0).permutation(X.shape[0])
        return X[np.sort(order[500:])], X[np.sort(order[:500])]
    name, fold = name.split(":")
    X = sp.load_npz(DATASETS / name / "counts.npz").tocsr()
    with np.load(DATASETS / name / "folds.npz") as folds:
        return X[folds[f"train_{fold}"]], X[folds[f"test_{fold}"]]


def token_lists(X: sp.csr_matrix) -> list[list[str]]:
    """Return the documents as lists of words, as samplers want them."""
    words = [f"w{m}" for m in range(X.shape[1])]
    return [
        [words[m] for m, x in zip(X.indices[a:b], X.data[a:b], strict=True) for _ in range(x)]
        for a, b in zip(X.indptr, X.indptr[1:], strict=False)
    ]


def spread(topics: np.ndarray, words: list[str], M: int) -> np.ndarray:
    """Put a peer's topics over the words of the counts, and scale them to sum 1."""
    result = np.zeros((len(topics), M))
    result[:, [int(word[1:]) for word in words]] = topics
    return result / result.sum(axis=1, keepdims=True)


def ours(**options: Any) -> Callable[[sp.csr_matrix, int], Model]:
    def fit(X: sp.csr_matrix, K: int) -> Model:
        seconds: list[float] = []
        while len(seconds) < 3 and sum(seconds) < SHORT:  # the median of three, where that is soon done
            begin = time.perf_counter()
            model = DiscreteICA(K, **options).fit(X)
            seconds.append(time.perf_counter() - begin)
        return model.components_, model.concentration_, float(np.median(seconds))

    return fit


def variational(X: sp.csr_matrix, K: int) -> Model:
    begin = time.perf_counter()
    found = variational_lda(Corpus(X), K)
    return found.topics, found.concentration, time.perf_counter() - begin


def topica(X: sp.csr_matrix, K: int) -> Model:
    import topica as peer

    tokens = token_lists(X)
    begin = time.perf_counter()
    model = peer.LDA(K)
    model.fit(tokens)
    seconds = time.perf_counter() - begin
    topics = spread(np.asarray(model.topic_word), model.vocabulary, X.shape[1])
    return topics, np.asarray(model.alpha) * np.ones(K), seconds


def tomotopy(X: sp.csr_matrix, K: int) -> Model:
    import tomotopy as peer

    model = peer.LDAModel(k=K, seed=0)
    for tokens in token_lists(X):
        if tokens:
            model.add_doc(tokens)
    model.optim_interval = 10
    begin = time.perf_counter()
    model.burn_in = 100
    model.train(1000, workers=2)
    seconds = time.perf_counter() - begin
    topics = np.array([model.get_topic_word_dist(k) for k in range(K)])
    return spread(topics, list(model.used_vocabs), X.shape[1]), np.asarray(model.alpha, dtype=float), seconds


def sklearn(learning_method: str, max_iter: int) -> Callable[[sp.csr_matrix, int], Model]:
    def fit(X: sp.csr_matrix, K: int) -> Model:
        from sklearn.decomposition import LatentDirichletAllocation

        begin = time.perf_counter()
        model = LatentDirichletAllocation(
            K, learning_method=learning_method, max_iter=max_iter, n_jobs=2, random_state=0
        ).fit(X)
        seconds = time.perf_counter() - begin
        topics = model.components_ * (np.asarray(X.sum(axis=0)).ravel() > 0)
        return topics / topics.sum(axis=1, keepdims=True), np.full(K, model.doc_topic_prior_), seconds

    return fit


def gensim(passes: int) -> Callable[[sp.csr_matrix, int], Model]:
    def fit(X: sp.csr_matrix, K: int) -> Model:
        from gensim.models import LdaModel

        pairs = [
            list(zip(X.indices[a:b].tolist(), X.data[a:b].tolist(), strict=True))
            for a, b in zip(X.indptr, X.indptr[1:], strict=False)
        ]
        words = {m: f"w{m}" for m in range(X.shape[1])}
        learned = {"alpha": "auto", "eta": "auto"}
        begin = time.perf_counter()
        model = LdaModel(pairs, num_topics=K, id2word=words, passes=passes, random_state=0, eval_every=None, **learned)
        seconds = time.perf_counter() - begin
        topics = model.get_topics() * (np.asarray(X.sum(axis=0)).ravel() > 0)
        return topics / topics.sum(axis=1, keepdims=True), np.asarray(model.alpha, dtype=float), seconds

    return fit


FITTERS: dict[str, Callable[[sp.csr_matrix, int], Model]] = {
    "momentopic": ours(),
    "momentopic, n_sweeps=240": ours(n_sweeps=240),
    "momentopic, VI-JD": ours(refine="variational"),
    "momentopic, VI": variational,
    "topica LDA": topica,
    "tomotopy, 1000 iterations": tomotopy,
    "scikit-learn, batch, 20": sklearn("batch", 20),
    "scikit-learn, online, 10": sklearn("online", 10),
    "gensim, 10 passes, auto": gensim(10),
    "scikit-learn, batch, 100": sklearn("batch", 100),
    "gensim, 50 passes, auto": gensim(50),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", nargs="*", default=DEFAULT)
    parser.add_argument("--only", nargs="+", choices=list(FITTERS), default=list(FITTERS), metavar="NAME")
    parser.add_argument("-k", type=int, default=50)
    options = parser.parse_args()
    rows = _read()
    for data in options.data:
        train, test = load(data)
        for name in options.only:
            if name.startswith("momentopic"):
                with warnings.catch_warnings(action="ignore"):
                    FITTERS[name](train[:300], options.k)  # compiles, or loads what was compiled, for so many topics
            topics, concentration, seconds = FITTERS[name](train, options.k)
            result = heldout.chib(test, topics, concentration, 200 if data.startswith("nips") else 1000)
            row = {
                "data": data,
                "K": options.k,
                "fitter": name,
                "seconds": round(seconds, 2),
                "bits_per_token": round(result.bits_per_token, 4),
                "stderr": round(result.stderr, 4),
                "tokens_left_out": result.tokens_left_out,
            }
            print(*row.values(), sep="  ", flush=True)
            rows[data, options.k, name] = row
            _write(rows)  # after each: a run of an hour may be interrupted
    draw(rows)


def _read() -> dict[Any, dict[str, Any]]:
    if not RESULTS.exists():
        return {}
    with RESULTS.open() as file:
        return {(row["data"], int(row["K"]), row["fitter"]): row for row in csv.DictReader(file)}


def _write(rows: dict[Any, dict[str, Any]]) -> None:
    with RESULTS.open("w", newline="") as file:
        writer = csv.DictWriter(file, next(iter(rows.values())).keys())
        writer.writeheader()
        writer.writerows(rows.values())


def draw(rows: dict[Any, dict[str, Any]]) -> None:
    """Draw time against bits per token, a panel for each corpus: up and to the left is better."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    panels = [(data, K) for data, K in dict.fromkeys((data, K) for data, K, _ in rows) if K == 50]
    figure, axes = plt.subplots(2, -(-len(panels) // 2), figsize=(4.2 * -(-len(panels) // 2), 7.4), squeeze=False)
    names = [name for name in FITTERS if any((*panel, name) in rows for panel in panels)]
    # Okabe and Ito's colours, which the colour-blind can tell apart
    colours = [
        "#D55E00",
        "#E69F00",
        "#F0E442",
        "#CC79A7",
        "#999999",
        "#000000",
        "#0072B2",
        "#009E73",
        "#56B4E9",
        "white",
        "#004949",
    ]
    style = {name: (colour, marker) for name, colour, marker in zip(FITTERS, colours, "os*D^vP<>Xh", strict=True)}
    for axis, panel in zip(axes.ravel(), panels, strict=False):
        for name in names:
            row = rows.get((*panel, name))
            if row is not None:
                colour, marker = style[name]
                axis.plot(
                    float(row["seconds"]),
                    float(row["bits_per_token"]),
                    marker,
                    color=colour,
                    ms=9,
                    mec="black",
                    mew=0.5,
                )
        axis.set_xscale("log")
        axis.set_xlim(0.15, 500)
        axis.set_title(f"{panel[0]}, K = {panel[1]}")
        axis.set_xlabel("seconds of the fit")
        axis.set_ylabel("held-out bits per token")
        axis.grid(alpha=0.3)
    for axis in axes.ravel()[len(panels) :]:
        axis.set_axis_off()
    handles = [
        plt.Line2D([], [], color=colour, marker=marker, ls="", ms=9, mec="black", mew=0.5)
        for colour, marker in (style[name] for name in names)
    ]
    figure.legend(handles, names, loc="lower center", ncol=4, frameon=False)
    figure.tight_layout(rect=(0, 0.09, 1, 1))
    figure.savefig(RESULTS.with_suffix(".png"), dpi=110)


if __name__ == "__main__":
    main()
