"""The experiments at toy size: that they run, go on where they were, and say the same twice."""

from __future__ import annotations

import pytest
from experiments import figure3
from experiments.common import Results, Setting, Task

from .conftest import shared


def test_results_survive_a_kill(tmp_path):
    path = tmp_path / "deep" / "x.csv"
    ran = []

    def task(i, fails=False):
        def run():
            ran.append(i)
            if fails:
                raise KeyboardInterrupt
            return {"value": i / 3, "note": "a, b"}

        return Task(("ap", i), run)

    results = Results(path, ("data", "K"))
    with pytest.raises(KeyboardInterrupt):
        results.fill([task(10), task(2), task(3, fails=True), task(4)], "test")
    again = Results(path, ("data", "K"))
    again.fill([task(i) for i in (10, 2, 3, 4)], "test")
    assert ran == [10, 2, 3, 3, 4]
    text = path.read_text()
    assert text.splitlines()[1:] == [
        'ap,2,0.666667,"a, b"',
        'ap,3,1,"a, b"',
        'ap,4,1.33333,"a, b"',
        'ap,10,3.33333,"a, b"',
    ]
    assert again.values("value", data="ap") == [0.666667, 1.0, 1.33333, 3.33333]
    path.write_text(text + "ap,99,0.")  # a line cut off by a kill
    assert not Results(path, ("data", "K")).has(("ap", 99))
    assert not list(path.parent.glob(".*"))


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_figure3(tmp_path):
    shared("datasets", "kos", "counts.npz")
    setting = Setting(tmp_path, toy=True)
    table = figure3.run(setting)
    rows = table.select(data="kos", K=5, fold=5)
    assert {row["algorithm"] for row in rows} == set(figure3.ALGORITHMS)
    assert all(-20 < float(row["bits_per_token"]) < -5 for row in rows)
    assert len({row["left_out"] for row in rows}) == 1  # all are scored on the same tokens
    first = (tmp_path / "figure3.csv").read_text()
    before = (tmp_path / "figure3.csv").stat().st_mtime_ns
    figure3.run(setting)  # nothing is left to do
    assert (tmp_path / "figure3.csv").stat().st_mtime_ns == before
    assert first == (tmp_path / "figure3.csv").read_text()
