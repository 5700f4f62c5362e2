"""Figure 7: the panels of Figure 3 for KOS and NIPS."""

from __future__ import annotations

from experiments import figure3
from experiments.common import Experiment, Results, Setting

CORPORA = ("kos", "nips")


def experiment(setting: Setting) -> Experiment:
    def finish(table: Results) -> None:
        figure3.draw(table, setting, "figure7.png", CORPORA)

    return Experiment("figure7", setting.out / "figure3.csv", figure3.KEYS, figure3.tasks(setting, CORPORA), finish)
