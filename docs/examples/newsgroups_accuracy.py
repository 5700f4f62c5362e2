"""Topics as features: 20 Newsgroups, logistic regression on momentopic's and on scikit-learn's LDA proportions.

    python docs/examples/newsgroups_accuracy.py newsgroups.jsonl.gz

The file has fields text, label and split ("train" or "test"). Both models see the same counts and have 20 topics.
"""

from __future__ import annotations

import gzip
import json
import sys
import time
import warnings
from pathlib import Path

import numpy as np
from sklearn.decomposition import LatentDirichletAllocation
from sklearn.linear_model import LogisticRegression

from momentopic import Corpus, DiscreteICA

K = 20


def main(path: Path) -> None:
    """Fit both on the training part and print the accuracy on the test part."""
    with gzip.open(path, "rt", encoding="utf-8") as file:
        rows = [json.loads(line) for line in file]
    parts = {name: [row for row in rows if row["split"] == name] for name in ("train", "test")}
    labels = {name: np.array([row["label"] for row in part]) for name, part in parts.items()}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # a few messages have no words of the vocabulary
        train = Corpus.from_texts([row["text"] for row in parts["train"]], email=True)
        print(f"{train.shape[0]} training documents, {train.shape[1]} words", flush=True)
        for seed in range(3):
            begin = time.perf_counter()
            model = DiscreteICA(K, random_state=seed).fit(train)
            seconds = time.perf_counter() - begin
            test = model.count([row["text"] for row in parts["test"]])
            show("momentopic", seed, model.transform(train), model.transform(test), labels, seconds)
    for iterations, seeds in ((10, 3), (50, 1)):
        for seed in range(seeds):
            begin = time.perf_counter()
            lda = LatentDirichletAllocation(K, max_iter=iterations, random_state=seed, n_jobs=-1).fit(train.counts)
            seconds = time.perf_counter() - begin
            features = lda.transform(train.counts), lda.transform(test.counts)
            show(f"scikit-learn LDA, {iterations} iterations", seed, *features, labels, seconds)


def show(name: str, seed: int, train: np.ndarray, test: np.ndarray, labels: dict, seconds: float) -> None:
    """Print the test accuracy of a logistic regression on topic proportions."""
    classifier = LogisticRegression(max_iter=2000).fit(train, labels["train"])
    accuracy = classifier.score(test, labels["test"])
    print(f"{name}, seed {seed}: accuracy {accuracy:.4f}, fit {seconds:.1f} s", flush=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
