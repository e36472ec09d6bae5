"""Saved runs: the folder that `ergo profile` wrote goes in, its tables come out. Nothing is written."""

from __future__ import annotations

import json
from os import PathLike
from pathlib import Path
from typing import Any

from ergometer._native import Run as _NativeRun
from ergometer._native import Table, open_run, open_sweep

__all__ = ["Run", "load_run", "load_sweep"]


class Run:
    """A finished run. `load_run` makes one.

    Its tables are read when they are asked for first, and kept. What each column is stands in docs/run-folder.md.

    >>> run = load_run("fixtures/runs/h200_one")
    >>> run.name, run.requests.num_rows
    ('h200_one', 60)
    """

    def __init__(self, native: _NativeRun) -> None:
        self._native = native
        self._tables: dict[str, Table] = {}

    @property
    def folder(self) -> Path:
        """The folder it was read from."""
        return Path(self._native.folder)

    @property
    def name(self) -> str:
        """The name of its folder."""
        return self.folder.resolve().name

    @property
    def records(self) -> Table:
        """One row for each query: problem, answer, what the model answered, its metrics, and what Ergometer adds."""
        return self._table("records")

    @property
    def requests(self) -> Table:
        """One row for each request: when it was due and sent, when each chunk came, tokens, outcome."""
        return self._table("requests")

    @property
    def telemetry(self) -> Table:
        """Every reading of every sensor: time, device, scope, signal, value, provenance."""
        return self._table("telemetry")

    @property
    def summary(self) -> Table:
        """What the run came to, in one row."""
        return self._table("summary")

    @property
    def summary_dict(self) -> dict[str, Any]:
        """The same as summary.json has it: dictionaries in dictionaries. Each call gives a new one.

        >>> load_run("fixtures/runs/h200_one").summary_dict["total_queries"]
        60
        """
        summary: dict[str, Any] = json.loads(self._native.summary_json)
        return summary

    def _table(self, name: str) -> Table:
        # Two threads may both read one for the first time: they get equal tables, and the later is kept.
        if name not in self._tables:
            self._tables[name] = getattr(self._native, name)
        return self._tables[name]

    def __repr__(self) -> str:
        summary = self.summary_dict
        what = ", ".join(str(summary[key]) for key in ("model", "dataset", "hardware_label") if summary.get(key))
        return f"<Run {self.name}: {what}, {summary.get('total_queries', '?')} queries>"


def load_run(path: str | PathLike[str]) -> Run:
    """Opens the folder of a finished run.

    Args:
        path: what `ergo profile` told as `saved`.

    Raises:
        FileNotFoundError: there is no such folder.
        RunError: it is no run, a run that has not ended, a sweep, or a file of it is damaged.

    >>> run = load_run("fixtures/runs/h200_one")
    >>> run.requests["outcome"].count("completed")
    27
    """
    return Run(open_run(path))


def load_sweep(path: str | PathLike[str]) -> list[Run]:
    """Opens the runs of a sweep, point by point in its order, repeats beside one another.

    Args:
        path: the folder with `sweep.json`, as `ergo profile --concurrency 1,4,16` makes it.

    Raises:
        FileNotFoundError: there is no such folder.
        RunError: it is no sweep, or one of its runs has no end yet or cannot be read.

    >>> [run.name for run in load_sweep("fixtures/runs/h200_sweep")][:3]
    ['concurrency_1', 'concurrency_2', 'concurrency_4']
    """
    return [Run(native) for native in open_sweep(path)]
