"""The command: ``python -m experiments NAME|all [--quick] [--out DIR]``."""

from __future__ import annotations

import argparse
import importlib
from pathlib import Path

from experiments.common import ROOT, Setting

NAMES = ("figure3",)


def main() -> None:
    """Run the experiments that were asked for."""
    parser = argparse.ArgumentParser(prog="python -m experiments", description=__doc__)
    parser.add_argument("names", nargs="+", choices=(*NAMES, "all"), metavar="NAME", help=", ".join((*NAMES, "all")))
    parser.add_argument("--quick", action="store_true", help="fewer corpora, sizes and iterations: minutes, not hours")
    parser.add_argument("--out", type=Path, default=ROOT / "experiments" / "results", help="where the results go")
    options = parser.parse_args()
    out = options.out / "quick" if options.quick else options.out
    for name in NAMES if "all" in options.names else options.names:
        importlib.import_module(f"experiments.{name}").run(Setting(out, options.quick))


if __name__ == "__main__":
    main()
