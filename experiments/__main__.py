"""The command: ``python -m experiments NAME|all [--quick] [--jobs N] [--out DIR]``."""

from __future__ import annotations

import argparse
import importlib
from pathlib import Path

from experiments import report, schedule
from experiments.common import ROOT, Experiment, Setting

NAMES = (
    "figure1",
    "figure2",
    "figure3",
    "figure5",
    "figure6",
    "figure7",
    "concentration",
    "proposition",
    "table1",
    "confidence",
)

RESULTS = ROOT / "experiments" / "results"


def experiment(name: str, setting: Setting) -> Experiment:
    """Return one of the experiments, each of which has a module."""
    found: Experiment = importlib.import_module(f"experiments.{name}").experiment(setting)
    return found


def main(arguments: list[str] | None = None) -> None:
    """Run the experiments that were asked for."""
    parser = argparse.ArgumentParser(prog="python -m experiments", description=__doc__)
    parser.add_argument("names", nargs="+", choices=(*NAMES, "all"), metavar="NAME", help=", ".join((*NAMES, "all")))
    parser.add_argument("--quick", action="store_true", help="fewer corpora, sizes and iterations: minutes, not hours")
    parser.add_argument("--jobs", type=int, default=1, help="processes, each with its share of the cores (default: 1)")
    parser.add_argument("--out", type=Path, default=RESULTS, help="where the results go")
    options = parser.parse_args(arguments)
    if options.jobs < 1:
        parser.error("--jobs must be at least 1")
    setting = Setting(options.out / "quick" if options.quick else options.out, options.quick)
    names = NAMES if "all" in options.names else tuple(dict.fromkeys(options.names))
    schedule.run([experiment(name, setting) for name in names], options.jobs)
    if setting.out == RESULTS:
        report.fill(RESULTS)


if __name__ == "__main__":
    main()
