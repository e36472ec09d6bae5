"""Loads saved runs and sweeps: the folders that `ergo profile` writes. Never writes to them."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from os import PathLike
from pathlib import Path
from typing import Any, overload

from ergometer._native import Run as _NativeRun
from ergometer._native import Sweep as _NativeSweep
from ergometer._native import Table, open_run, open_sweep, table

__all__ = ["Run", "Sweep", "load_run", "load_sweep"]


class Run:
    """A finished run, from `load_run`.

    Its tables are read on first access and cached. docs/run-folder.md describes the columns.

    >>> run = load_run("fixtures/runs/h200_one")
    >>> run.name, run.requests.num_rows
    ('h200_one', 40)
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
        """One row per query: problem, reference answer, model answer, metrics, and the columns that Ergometer adds."""
        return self._table("records")

    @property
    def requests(self) -> Table:
        """One row per attempt of a request: scheduled and sent time, time of each chunk, tokens, outcome."""
        return self._table("requests")

    @property
    def telemetry(self) -> Table:
        """One row per sensor reading: time, device, scope, signal, value, provenance."""
        return self._table("telemetry")

    @property
    def summary(self) -> Table:
        """The summary of the run as one row, with a column for each value, such as `energy.measured.gross_j`."""
        return self._table("summary")

    @property
    def summary_dict(self) -> dict[str, Any]:
        """summary.json as nested dictionaries. Each access returns a new copy.

        >>> load_run("fixtures/runs/h200_one").summary_dict["total_queries"]
        40
        """
        summary: dict[str, Any] = json.loads(self._native.summary_json)
        return summary

    def _table(self, name: str) -> Table:
        # Two threads may both read a table for the first time: they get equal tables, and the later one is cached.
        if name not in self._tables:
            self._tables[name] = getattr(self._native, name)
        return self._tables[name]

    def __reduce__(self) -> tuple[Callable[[Path], Run], tuple[Path]]:
        """Pickles the path; the other process reads the folder again."""
        return load_run, (self.folder.resolve(),)

    def __repr__(self) -> str:
        summary = self.summary_dict
        what = ", ".join(str(summary[key]) for key in ("model", "dataset", "hardware_label") if summary.get(key))
        return f"<Run {self.name}: {what}, {summary.get('total_queries', '?')} queries>"


def load_run(path: str | PathLike[str]) -> Run:
    """Opens the folder of a finished run.

    Args:
        path: The folder that `ergo profile` prints as `saved`.

    Raises:
        FileNotFoundError: The folder does not exist.
        RunError: The folder is not a run, is a sweep, the run has not finished, or a file is damaged.

    >>> run = load_run("fixtures/runs/h200_one")
    >>> run.requests["outcome"].count("completed")
    40
    """
    return Run(open_run(path))


class Sweep(Sequence[Run]):
    """The runs of a sweep in order, repeats next to each other, from `load_sweep`.

    >>> sweep = load_sweep("fixtures/runs/h200_sweep")
    >>> sweep.axis, sweep.values[:3]
    ('concurrency', [1.0, 2.0, 4.0])
    """

    def __init__(self, native: _NativeSweep) -> None:
        self._native = native
        self._runs = [Run(open_run(folder)) for _, folder in native.runs]

    @property
    def folder(self) -> Path:
        """The folder it was read from."""
        return self._native.folder

    @property
    def axis(self) -> str:
        """The variable of the sweep: "concurrency", "rate" or "replay"."""
        return self._native.axis

    @property
    def values(self) -> list[float]:
        """The value of each run on the axis."""
        return [value for value, _ in self._native.runs]

    @property
    def points(self) -> Table:
        """One row per point of the axis: its value, and its metrics with their intervals over repeats.

        >>> points = load_sweep("fixtures/runs/h200_sweep").points
        >>> points.column_names[:4]
        ['concurrency', 'completed', 'completed_low', 'completed_high']
        """
        points = self._native.points
        names = sorted({name for _, figures in points for name in figures})
        columns: dict[str, list[Any]] = {self.axis: [value for value, _ in points]}
        for name in names:
            values = [figures.get(name, (None, None, None)) for _, figures in points]
            for index, suffix in enumerate(("", "_low", "_high")):
                columns[f"{name}{suffix}"] = [value[index] for value in values]
        return table(columns)

    @overload
    def __getitem__(self, index: int) -> Run: ...
    @overload
    def __getitem__(self, index: slice) -> list[Run]: ...
    def __getitem__(self, index: int | slice) -> Run | list[Run]:
        return self._runs[index]

    def __len__(self) -> int:
        return len(self._runs)

    def __repr__(self) -> str:
        return f"<Sweep {self.folder.resolve().name}: {len(self)} runs by {self.axis}>"


def load_sweep(path: str | PathLike[str]) -> Sweep:
    """Opens the runs of a sweep.

    Args:
        path: The folder with `sweep.json`, from `ergo profile --concurrency 1,4,16`.

    Raises:
        FileNotFoundError: The folder does not exist.
        RunError: The folder is not a sweep, or one of its runs has not finished or cannot be read.

    >>> [run.name for run in load_sweep("fixtures/runs/h200_sweep")][:3]
    ['concurrency_1', 'concurrency_2', 'concurrency_4']
    """
    return Sweep(open_sweep(path))
