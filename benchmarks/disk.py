"""A corpus larger than the memory of the fit: 3,000,000 documents, 480 M nonzeros, from disk.

    python -m benchmarks.disk FOLDER [--docs 3000000]

Samples the corpus of benchmarks.scale (102,660 words whose frequencies fall as rank^-1.05, 100 topics), about 160
different words a document, straight into shards; then fits K = 100 by JD from DICA cumulants in a process of its own,
three times: with the shards dropped from the operating system's cache twice a second, as if there were no memory for
it; with the cache dropped once before; and with all shards in it. Memory is the peak of that process (VmHWM). The share
of reading is the time that threads spent getting blocks, checks of the first pass included, over the time of all
threads. FOLDER is deleted in the end, unless it was there before and was used as it is. Writes
benchmarks/results/disk.csv.
"""

from __future__ import annotations

import argparse
import csv
import json
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from benchmarks.fit import peak_megabytes
from benchmarks.scale import RESULTS, TOPICS, parameters
from momentopic import Corpus, DiscreteICA, simulate
from momentopic.corpus import ShardWriter
from momentopic.engine import available_cores

MEAN_LENGTH = 280  # of about 160 different words


def write(folder: Path, n_docs: int) -> float:
    """Sample into shards; return the seconds."""
    begin = time.perf_counter()
    D, c = parameters()
    with ShardWriter(folder) as writer:
        for batch in simulate.gamma_poisson_batches(D, c, n_docs, mean_length=MEAN_LENGTH, random_state=0):
            writer.add(batch)
        writer.finish(len(D), name="simulated")
    return time.perf_counter() - begin


def drop_cache(folder: Path) -> None:
    """Have the operating system forget what it holds of the files."""
    for path in folder.iterdir():
        with path.open("rb") as file:
            os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def fitted(folder: Path, memory_limit: str, pressure: bool) -> dict[str, Any]:
    """Fit in a process of its own; under pressure, the cache is dropped again and again meanwhile."""
    code = (
        "import json; from benchmarks.disk import measure;"
        f"print(json.dumps(measure({str(folder)!r}, {memory_limit!r})))"
    )
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True) as process:
        while pressure and process.poll() is None:
            drop_cache(folder)
            time.sleep(0.5)
        output, _ = process.communicate()
    row: dict[str, Any] = json.loads(output)
    return row


def measure(folder: str, memory_limit: str | None = None) -> dict[str, Any]:
    """Fit in this process; meant for a fresh one."""
    begin = time.perf_counter()
    corpus: Any = Corpus.open(folder)
    opened = time.perf_counter() - begin
    model = DiscreteICA(TOPICS, refine=None, memory_limit=memory_limit).fit(corpus)
    seconds = time.perf_counter() - begin
    return {
        "N": corpus.shape[0],
        "nonzeros": corpus.nonzeros,
        "seconds": round(seconds, 1),
        "open": round(opened, 2),
        **{name: round(value, 2) for name, value in model.timings_.items()},
        "disk_GB": round(sum(path.stat().st_size for path in Path(folder).iterdir()) / 1e9, 2),
        "read_GB": round(corpus.bytes_read / 1e9, 1),
        "cpu_seconds": round(time.process_time(), 1),
        "reading_share": round(corpus.seconds_read / (seconds * min(available_cores(), corpus.n_blocks)), 3),
        "peak_MB": peak_megabytes(),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--docs", type=int, default=3_000_000)
    parser.add_argument("--memory-limit", default="3GB")
    options = parser.parse_args()
    made = not options.folder.exists()
    if made:
        print(f"sampled in {write(options.folder, options.docs):.0f} s", flush=True)
    rows = []
    try:
        for cache in ("dropped all the time", "dropped before", "as it is"):
            drop_cache(options.folder)
            if cache == "as it is":
                Corpus.open(options.folder).check()
            rows.append(
                {"cache": cache, **fitted(options.folder, options.memory_limit, cache == "dropped all the time")}
            )
            print(*(f"{key} {value}" for key, value in rows[-1].items()), sep="  ", flush=True)
    finally:
        if made:
            shutil.rmtree(options.folder)
    RESULTS.mkdir(exist_ok=True)
    with (RESULTS / "disk.csv").open("w", newline="") as file:
        writer = csv.DictWriter(file, rows[0].keys())
        writer.writeheader()
        writer.writerows(rows)


if __name__ == "__main__":
    main()
