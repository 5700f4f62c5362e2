"""Who runs the tasks: one process, or several with a share of the threads each; one bar over the whole."""

from __future__ import annotations

import multiprocessing
import os
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from pathlib import Path
from typing import Any

from experiments.common import Experiment, Results, Row, Task
from momentopic.engine import ThreadEngine, available_cores

_threads: int | None = None


def engine() -> ThreadEngine:
    """Return the engine that a task is to use: all threads, or this process' share of them."""
    return ThreadEngine(_threads)


def _start(threads: int) -> None:
    global _threads  # noqa: PLW0603  it is the worker process' own
    _threads = threads
    threading.Thread(target=_end_with_parent, daemon=True).start()


def _end_with_parent() -> None:
    """End this process when the one that started it has ended: a killed run must not leave others behind."""
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)


def _timed(function: Callable[..., list[Row]], args: tuple[Any, ...]) -> tuple[list[Row], float]:
    begin = time.perf_counter()
    rows = function(*args)
    return rows, time.perf_counter() - begin


class _Work:
    """The tasks that are left, and the tables they go to."""

    def __init__(self, experiments: Sequence[Experiment]) -> None:
        self.experiments = experiments
        self.tables: dict[Path, Results] = {}
        self.left: dict[str, int] = {}
        self.finished: set[str] = set()
        self.waiting: list[tuple[Experiment, Task]] = []
        claimed = set()
        for one in experiments:
            table = self.tables.setdefault(one.path, Results(one.path, one.keys))
            tasks = [task for task in one.tasks if not table.has(*task.keys) and (one.path, task.keys) not in claimed]
            claimed |= {(one.path, task.keys) for task in tasks}
            self.waiting += [(one, task) for task in tasks]
            self.left[one.name] = len(tasks)

    def next(self) -> tuple[Experiment, Task, tuple[Any, ...]] | None:
        """Return a task whose row is there that it needs, with its arguments; None if there is none now."""
        for i, (one, task) in enumerate(self.waiting):
            table = self.tables[one.path]
            if task.needs is None or table.has(task.needs):
                del self.waiting[i]
                return one, task, task.args if task.needs is None else (*task.args, table.get(task.needs))
        return None

    def take(self, one: Experiment, task: Task, result: tuple[list[Row], float]) -> None:
        self.tables[one.path].add(task.keys, *result)
        self.left[one.name] -= 1
        if not self.left[one.name]:
            self.finish(one)

    def finish(self, one: Experiment) -> None:
        """Draw an experiment, once."""
        if one.name not in self.finished:
            self.finished.add(one.name)
            one.finish(self.tables[one.path])


def run(experiments: Sequence[Experiment], jobs: int = 1) -> dict[str, Results]:
    """Run whatever is not in the results yet; the results are the same for any number of jobs.

    Parameters
    ----------
    experiments : sequence of Experiment
        Those that measure time come last, one task at a time.
    jobs : int
        Processes; each uses its share of the cores.

    Returns
    -------
    dict of str to Results
        The table of each experiment.
    """
    together = _Work([one for one in experiments if not one.alone])
    alone = _Work([one for one in experiments if one.alone])
    with _Bar(len(together.waiting) + len(alone.waiting)) as bar:
        if jobs > 1 and len(together.waiting) > 1:
            _in_processes(together, jobs, bar)
        else:
            _here(together, bar)
        _here(alone, bar)
    for work in (together, alone):
        for one in work.experiments:
            work.finish(one)
    return {one.name: work.tables[one.path] for work in (together, alone) for one in work.experiments}


def _here(work: _Work, bar: _Bar) -> None:
    while work.waiting:
        one, task, args = _found(work.next(), work)
        bar.show(one.name)
        work.take(one, task, _timed(task.function, args))
        bar.done(one.name, task)


def _in_processes(work: _Work, jobs: int, bar: _Bar) -> None:
    context = multiprocessing.get_context("spawn")  # a fork would not carry the threads over
    threads = max(1, available_cores() // jobs)
    with ProcessPoolExecutor(jobs, mp_context=context, initializer=_start, initargs=(threads,)) as pool:
        running: dict[Future[Any], tuple[Experiment, Task]] = {}
        try:
            while work.waiting or running:
                while len(running) < jobs and (ready := work.next()) is not None:
                    one, task, args = ready
                    running[pool.submit(_timed, task.function, args)] = (one, task)
                if not running:
                    _found(None, work)
                bar.show(", ".join(dict.fromkeys(one.name for one, _ in running.values())))
                for future in wait(running, return_when=FIRST_COMPLETED).done:
                    one, task = running.pop(future)
                    work.take(one, task, future.result())
                    bar.done(one.name, task)
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            raise


def _found(ready: Any, work: _Work) -> Any:
    if ready is None:
        raise RuntimeError(f"nobody computes the row {work.waiting[0][1].needs} that another one needs")
    return ready


class _Bar:
    """A bar on a terminal; in a log file, a line for each task."""

    def __init__(self, total: int) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
        from rich.progress import TimeRemainingColumn as Remaining

        self._console = Console(stderr=True)
        columns = (
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
            Remaining(),
        )
        quiet = total == 0 or not self._console.is_terminal
        self._progress = Progress(*columns, console=self._console, disable=quiet)
        self._task = self._progress.add_task("", total=total)

    def __enter__(self) -> _Bar:
        self._progress.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._progress.stop()

    def show(self, text: str) -> None:
        self._progress.update(self._task, description=text)

    def done(self, name: str, task: Task) -> None:
        self._progress.advance(self._task)
        if self._progress.disable:
            self._console.log(name, *task.keys[0], highlight=False)
