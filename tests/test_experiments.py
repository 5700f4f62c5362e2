"""The experiments at toy size: that they run, go on where they were, and say the same with any number of jobs."""

from __future__ import annotations

import math

import numpy as np
import pytest
import scipy.sparse as sp
from experiments import figure3, figure5, proposition, recovery, report, schedule
from experiments.__main__ import NAMES, experiment
from experiments.common import Experiment, Results, Setting

from .conftest import shared

pytest.importorskip("matplotlib")

RAN = []


def double(i, fails=False):
    RAN.append(i)
    if fails:
        raise KeyboardInterrupt
    return [{"value": i / 3, "note": "a, b", "seconds": 1.0}]


def after(i, row):
    return [{"value": i * float(row["value"]), "note": row["K"]}]


def counting(path, tasks, finish=id):
    return Experiment("count", path, ("data", "K"), tasks, finish)


def test_results_survive_a_kill(tmp_path):
    path = tmp_path / "deep" / "x.csv"
    RAN.clear()

    def task(i, fails=False):
        return schedule.Task((("ap", i),), double, (i, fails))

    with pytest.raises(KeyboardInterrupt):
        schedule.run([counting(path, [task(10), task(2), task(3, fails=True), task(4)])])
    done = []
    schedule.run([counting(path, [task(i) for i in (10, 2, 3, 4)], done.append)])
    assert RAN == [10, 2, 3, 3, 4]
    assert len(done) == 1
    text = path.read_text()
    assert text.splitlines() == [
        "data,K,value,note",
        'ap,2,0.666667,"a, b"',
        'ap,3,1,"a, b"',
        'ap,4,1.33333,"a, b"',
        'ap,10,3.33333,"a, b"',
    ]
    assert "seconds" in (path.parent / "x_seconds.csv").read_text()
    again = Results(path, ("data", "K"))
    assert again.values("value", data="ap") == [0.666667, 1.0, 1.33333, 3.33333]
    path.write_text(text + "ap,99,0.")  # a line cut off by a kill
    assert not Results(path, ("data", "K")).has(("ap", 99))
    assert not list(path.parent.glob(".*"))


def test_tasks_wait_for_the_rows_they_need(tmp_path):
    path = tmp_path / "x.csv"
    tasks = [
        schedule.Task((("a", 2),), after, (2,), ("a", 1)),
        schedule.Task((("a", 3),), after, (3,), ("a", 2)),
        schedule.Task((("a", 1),), double, (6,)),
    ]
    schedule.run([counting(path, tasks)])
    assert path.read_text().splitlines()[1:] == ['a,1,2,"a, b"', "a,2,4,1", "a,3,12,2"]


def test_a_row_that_nobody_computes_is_named(tmp_path):
    task = schedule.Task((("a", 2),), after, (2,), ("a", 1))
    with pytest.raises(RuntimeError, match=r"\('a', 1\)"):
        schedule.run([counting(tmp_path / "x.csv", [task])])


@pytest.fixture(scope="module")
def toy(tmp_path_factory):
    """All experiments at toy size, run once."""
    shared("datasets", "kos", "counts.npz")
    shared("paper", "params_ap_K50.npz")
    out = tmp_path_factory.mktemp("toy")
    setting = Setting(out, toy=True, cache=out / "cache")
    return setting, schedule.run([experiment(name, setting) for name in NAMES])


def test_every_experiment_gives_its_figure(toy):
    setting, tables = toy
    assert set(tables) == set(NAMES)
    for name in NAMES:
        ending = "md" if name in ("concentration", "table1") else "png"
        assert (setting.out / f"{name}.{ending}").stat().st_size > 200
    for name, column in (("figure1", "l1"), ("figure2", "l2"), ("figure5", "l1"), ("table1", "l1")):
        values = tables[name].values(column)
        assert len(values) > 5
        assert all(0.1 < value < 1 for value in values)
    errors = [np.mean(values) for values in proposition.series(tables["proposition"], "N", "GP").values()]
    assert len(errors) == 2
    assert errors[0] > 1.2 * errors[1]  # four times the documents


def test_heldout_cells(toy):
    rows = toy[1]["figure3"].select(data="kos", K=5, fold=5)
    assert {row["algorithm"] for row in rows} == set(figure3.ALGORITHMS)
    assert all(-20 < float(row[column]) < -5 for row in rows for column in ("bits_per_token", "bits_as_authors"))
    assert len({row["left_out"] for row in rows}) == 1  # all are scored on the same tokens
    by_name = {row["algorithm"]: float(row["c0"]) for row in rows}
    assert by_name["VI"] != by_name["JD-LDA"]


def test_a_finished_run_does_nothing_and_two_jobs_do_the_same(toy, tmp_path):
    setting, _ = toy
    before = {path: path.read_text() for path in setting.out.glob("*.csv") if "seconds" not in path.name}
    times = {path: path.stat().st_mtime_ns for path in before}
    schedule.run([experiment(name, setting) for name in NAMES])
    assert {path: path.stat().st_mtime_ns for path in before} == times
    again = Setting(tmp_path, toy=True, cache=setting.cache)
    schedule.run([experiment(name, again) for name in ("figure3", "figure5", "proposition")], jobs=2)
    for name in ("figure3", "figure5", "proposition"):
        assert (tmp_path / f"{name}.csv").read_text() == before[setting.out / f"{name}.csv"]


def test_authors_topics_are_smoothed_only_where_a_word_is_impossible():
    topics = np.array([[0.5, 0.5, 0.0, 0.0], [0.0, 1.0, 0.0, 0.0]])
    assert figure3.authors_smoothing(topics, sp.csr_matrix([[3, 1, 0, 0]])) == 0
    assert figure3.authors_smoothing(topics, sp.csr_matrix([[3, 1, 0, 2]])) == pytest.approx(4e-4 / 1.0004)


def test_the_page_is_filled_from_the_results(toy, tmp_path):
    setting, _ = toy
    page = tmp_path / "paper.md"
    page.write_text(report.PAGE.read_text())
    report.fill(setting.out, page)
    first = page.read_text()
    report.fill(setting.out, page)
    assert page.read_text() == first
    assert "| JD-GP(10) | ours | 0." in first
    assert "| KOS | 5 |" in first.split("<!-- concentration -->")[1]
    page.write_text("nothing")
    with pytest.raises(ValueError, match="no place for figure1"):
        report.fill(setting.out, page)
    assert page.read_text() == "nothing"


def test_comparison_marks_what_is_far_from_the_authors():
    far = recovery.Point(("f", "JD", 1000.0), 0.30, 0.20, 0.19, 0.21)
    near = recovery.Point(("f", "JD", 2000.0), 0.205, 0.20, 0.19, 0.21)
    nothing = recovery.Point(("f", "JD", 3000.0), 0.1, math.nan, math.nan, math.nan)
    text = recovery.comparison([far, near, nothing], {"f": "panel"})
    assert "| | difference | **+0.100** ° | +0.005 |  |" in text
    assert recovery.summary([far, near]).startswith("1 of 2 means")


def test_the_grid_of_c0_is_the_authors_without_its_double():
    shared("paper", "authors_recovery.csv")
    line = figure5.authors_lines("fig_5_right")["JD-LDA(50)"]
    assert list(line) == [0.01, 1.0, 10.0, 100.0]
    assert line[1.0][0] == 0.12264
