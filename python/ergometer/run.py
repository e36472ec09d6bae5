"""Saved runs: the folder that `ergo profile` wrote goes in, its tables come out. Nothing is written."""

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

    def __reduce__(self) -> tuple[Callable[[Path], Run], tuple[Path]]:
        """Another process reads it from its folder."""
        return load_run, (self.folder.resolve(),)

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


class Sweep(Sequence[Run]):
    """The runs of a sweep, in its order, repeats beside one another. `load_sweep` makes one.

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
        """What differs between its runs: "concurrency", "rate" or "replay"."""
        return self._native.axis

    @property
    def values(self) -> list[float]:
        """Of each run its place on the axis."""
        return [value for value, _ in self._native.runs]

    @property
    def points(self) -> Table:
        """A row for each point of the axis: its value, and its figures with the ends of the interval of repeats.

        >>> points = load_sweep("fixtures/runs/h200_sweep").points
        >>> points.column_names[:4]
        ['concurrency', 'completed', 'completed_low', 'completed_high']
        """
        points = self._native.points
        names = sorted({name for _, figures in points for name in figures})
        columns: dict[str, list[Any]] = {self.axis: [value for value, _ in points]}
        for name in names:
            found = [figures.get(name, (None, None, None)) for _, figures in points]
            for place, end in enumerate(("", "_low", "_high")):
                columns[f"{name}{end}"] = [figure[place] for figure in found]
        return table(columns)

    @overload
    def __getitem__(self, place: int) -> Run: ...
    @overload
    def __getitem__(self, place: slice) -> list[Run]: ...
    def __getitem__(self, place: int | slice) -> Run | list[Run]:
        return self._runs[place]

    def __len__(self) -> int:
        return len(self._runs)

    def __repr__(self) -> str:
        return f"<Sweep {self.folder.resolve().name}: {len(self)} runs by {self.axis}>"


def load_sweep(path: str | PathLike[str]) -> Sweep:
    """Opens the runs of a sweep.

    Args:
        path: the folder with `sweep.json`, as `ergo profile --concurrency 1,4,16` makes it.

    Raises:
        FileNotFoundError: there is no such folder.
        RunError: it is no sweep, or one of its runs has no end yet or cannot be read.

    >>> [run.name for run in load_sweep("fixtures/runs/h200_sweep")][:3]
    ['concurrency_1', 'concurrency_2', 'concurrency_4']
    """
    return Sweep(open_sweep(path))
