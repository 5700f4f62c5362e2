"""Topic recovery in the setting of the paper's Figure 1, beside the authors' own numbers.

    python -m benchmarks.recovery [--sizes 10000 50000] [--corpora 5]

AP K=50 parameters, GP sampling, c0 = 0.5, mean length 200, documents under 3 tokens drawn again. Needs the authors'
parameters and results in ../shared/paper. Writes benchmarks/results/recovery.csv.
"""

from __future__ import annotations

import argparse
import csv
from pathlib import Path
from statistics import mean

import numpy as np

from momentopic import DiscreteICA, metrics, simulate

HERE = Path(__file__).parent
PAPER = HERE.parent.parent / "shared" / "paper"
METHODS = {
    ("fig_1_left", "JD"): {},
    ("fig_1_left", "JD(k)"): {"projections": "random"},
    ("fig_1_left", "JD(f)"): {"projections": "vocabulary"},
    ("fig_1_left", "Spec"): {"algorithm": "spectral"},
    ("fig_1_left", "TPM"): {"algorithm": "tpm"},
    ("fig_1_right", "JD"): {"moments": "lda", "c0": 0.5},
    ("fig_1_right", "JD(k)"): {"moments": "lda", "c0": 0.5, "projections": "random"},
    ("fig_1_right", "Spec"): {"moments": "lda", "c0": 0.5, "algorithm": "spectral"},
    ("fig_1_right", "TPM"): {"moments": "lda", "c0": 0.5, "algorithm": "tpm"},
}


def authors() -> dict[tuple[str, int, str], float]:
    with (PAPER / "authors_recovery.csv").open() as file:
        return {(row["figure"], int(float(row["x"])), row["algorithm"]): float(row["l1_mean"])
                for row in csv.DictReader(file) if row["figure"] in ("fig_1_left", "fig_1_right")}  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sizes", type=int, nargs="+", default=[10_000, 50_000])
    parser.add_argument("--corpora", type=int, default=5)
    arguments = parser.parse_args()
    with np.load(PAPER / "params_ap_K50.npz") as file:
        D, c = file["D"], file["c"]
    c = 0.5 * c / c.sum()
    theirs = authors()
    rows = []
    for n_docs in arguments.sizes:
        errors: dict[tuple[str, str], list[float]] = {method: [] for method in METHODS}
        seconds: dict[tuple[str, str], list[float]] = {method: [] for method in METHODS}
        for seed in range(arguments.corpora):
            X = simulate.gamma_poisson(D, c, n_docs, mean_length=200, random_state=seed)
            for method, options in METHODS.items():
                if method[1] == "JD(f)" and seed > 0:
                    continue  # the same criterion's answer, ten times the time: one corpus shows it
                model = DiscreteICA(50, refine=None, random_state=seed, **options).fit(X)
                errors[method].append(metrics.recovery_error(model.components_, D))
                seconds[method].append(sum(model.timings_.values()))
        for (figure, name), found in errors.items():
            moments = "DICA" if figure == "fig_1_left" else "LDA"
            row = {
                "moments": moments, "algorithm": name, "N": n_docs, "corpora": len(found),
                "l1_mean": round(mean(found), 4), "l1_min": round(min(found), 4), "l1_max": round(max(found), 4),
                "authors_l1_mean": round(theirs.get((figure, n_docs, name), float("nan")), 4),
                "seconds_mean": round(mean(seconds[(figure, name)]), 2),
            }  # fmt: skip
            rows.append(row)
            print(*(f"{key} {value}" for key, value in row.items()), sep="  ", flush=True)
    results = HERE / "results" / "recovery.csv"
    results.parent.mkdir(exist_ok=True)
    with results.open("w", newline="") as file:
        writer = csv.DictWriter(file, rows[0].keys())
        writer.writeheader()
        writer.writerows(rows)


if __name__ == "__main__":
    main()
