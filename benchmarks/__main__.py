"""python -m benchmarks NAME: stages, fit, scale, transform, disk, stream, cluster, recovery, quality or gpu."""

from __future__ import annotations

import importlib
import sys

NAMES = ("stages", "fit", "scale", "transform", "disk", "stream", "cluster", "recovery", "quality", "gpu")

if __name__ == "__main__":
    if len(sys.argv) < 2 or sys.argv[1] not in NAMES:
        sys.exit(f"python -m benchmarks {'|'.join(NAMES)}")
    name = sys.argv.pop(1)
    importlib.import_module(f"benchmarks.{name}").main()
