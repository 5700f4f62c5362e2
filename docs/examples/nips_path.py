"""Make the pictures and figures of docs/path.md: python docs/examples/nips_path.py COUNTS.npz VOCAB.txt FOLDER.

Prints the table of the path, the suggestion, what the topics cost beside a single fit, and how far each K is from a
separate fit.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

import momentopic
from momentopic import Corpus, DiscreteICA

_REPEATS = 3


def main(counts: str, vocabulary: str, folder: str) -> None:
    """Fit, measure, draw."""
    corpus = Corpus.from_file(counts, vocabulary=vocabulary)
    ks = range(5, 101, 5)
    momentopic.path(corpus, range(5, 21, 5))  # compiled loops are loaded once
    alone, together = [], []
    for _ in range(_REPEATS):
        alone.append(_timed(lambda: DiscreteICA(100, refine=None).fit(corpus)))
        together.append(_timed(lambda: momentopic.path(corpus, ks)))
    for name, i in (("seconds", 0), ("seconds of the processor", 1)):
        one, all_of_them = min(t[i] for t in alone), min(t[i] for t in together)
        print(f"{name}: a fit of 100 topics {one:.2f}, the path {all_of_them:.2f}, ratio {all_of_them / one:.2f}")
    found = momentopic.path(corpus, ks)
    apart = [
        abs(found.models[k].components_ - DiscreteICA(k, refine=None).fit(corpus).components_).max() for k in found.ks
    ]
    print(f"largest difference to a separate fit: {max(apart):.1e}, at K = {found.ks[int(np.argmax(apart))]}")
    print(found.to_frame().to_string(index=False, float_format="{:.4g}".format))
    print(found.suggestion)
    output = Path(folder)
    found.plot().savefig(output / "path_nips.png", dpi=110)
    found.report(output / "path_nips.html", title="NIPS papers, 1987 to 2003")
    few = momentopic.path(corpus, (5, 10, 15, 20, 30, 40), heldout=0)
    few.plot_flow().savefig(output / "path_nips_flow.png", dpi=110)


def _timed(function: Callable[[], object]) -> tuple[float, float]:
    wall, processor = time.perf_counter(), time.process_time()
    function()
    return time.perf_counter() - wall, time.process_time() - processor


if __name__ == "__main__":
    main(*sys.argv[1:])
