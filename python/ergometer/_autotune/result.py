"""What tuning found: a row for each variant, the fastest first, and which of them to take."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, fields
from typing import Any, Literal

from ergometer import _native
from ergometer._figures import estimate
from ergometer._autotune.text import aligned, as_html

NOT_ASKED_FOR = "not asked for"
"""Why there are no joules where nobody wanted them."""

_MOSTLY_BUSY = 0.5
"""The share of time from which on the joules of calls back to back are those of the calls."""

_TYPES = {"int": "int", "float": "float", "float | None": "float"}

_HEADER = ("variant", "calls", "median", "", "ratio", "", "verdict", "energy/call", "")
_LEFT = (0, 3, 5, 6, 8)


@dataclass(frozen=True)
class Row:
    """One variant.

    Attributes:
        name: What it is called.
        id: The number in the name of its module, `jit_autotune_fn_<id>`.
        n: How many calls were timed.
        median_s: The median of their times in seconds, which ranks; None where it failed.
        low_s: The lower end of the median's interval; None with too few calls.
        high_s: The upper end.
        mean_s: The mean.
        ratio: How many times as long as the fastest it takes: the median of the ratios of all pairs of a call of this
            one and one of that, which outliers move less than the ratio of the medians.
        ratio_low: The lower end of its interval, of this comparison alone: verdicts know how many there are, and how
            many looks, so that one may be too close to call whose interval is above 1. None for the fastest.
        ratio_high: The upper end.
        verdict: "fastest", "slower", "too_close_to_call", "too_few_samples" or "failed".
        joules_per_call: The energy of a call of all devices in `energy_devices`; None where there is none.
        joules_low: The lower end of its 95 % interval.
        joules_high: The upper end.
        energy_provenance: "measured" or "modelled".
        energy_devices: Whose energy it is.
        energy_call_s: How long it took from one call to the next while energy was measured; where that is much longer
            than `median_s`, most of the joules are those of a device that waits for the host.
        energy_missing: Why there is none.
        timer: "device", or "wall" where calls were timed by the clock of the host.
        error: What it raised, where it failed.
    """

    name: str
    id: int
    n: int
    median_s: float | None
    low_s: float | None
    high_s: float | None
    mean_s: float | None
    ratio: float | None
    ratio_low: float | None
    ratio_high: float | None
    verdict: str
    joules_per_call: float | None
    joules_low: float | None
    joules_high: float | None
    energy_provenance: str | None
    energy_devices: str | None
    energy_call_s: float | None
    energy_missing: str | None
    timer: Literal["device", "wall"]
    error: str | None


@dataclass(frozen=True, repr=False)
class Tuning:
    """Variants by their speed.

    Attributes:
        best: The fastest variant, as it was given.
        best_name: What it is called.
        is_clear: Whether every other variant that did not fail is slower, beyond what chance explains.
        rows: A row for each variant, the fastest first, those that failed last.
        stopped: Why it ended.
        timer: "device" or "wall".
        platform: Where the device times are from.
        level: The level of the intervals of times.
        trace: What the profiler wrote, where device times were taken.
    """

    best: Callable[..., Any]
    best_name: str
    is_clear: bool
    rows: list[Row]
    stopped: str
    timer: Literal["device", "wall"]
    platform: str | None
    level: float
    trace: _native.Trace | None = field(default=None)

    @property
    def table(self) -> _native.Table:
        """The rows as columns, for pandas, polars, pyarrow and others."""
        columns = {column.name: [getattr(row, column.name) for row in self.rows] for column in fields(Row)}
        # By what is declared: a column in which nothing is known has its type all the same.
        types = {column.name: _TYPES.get(str(column.type), "str") for column in fields(Row)}
        return _native.table(columns, types)

    def notes(self) -> list[str]:
        """What to know of the figures, in sentences."""
        notes = [f"{self._kind()}; {self.stopped}; intervals at {self.level * 100:g} %"]
        notes += [f"{row.name} failed: {row.error}" for row in self.rows if row.error is not None]
        close = [row.name for row in self.rows if row.verdict in ("too_close_to_call", "too_few_samples")]
        if close:
            more = "min_calls" if self.stopped.startswith("clear") else "calls"
            notes.append(f"not clear: {', '.join(close)} may be as fast. hint: more {more} tell closer ones apart")
        sources = {(row.energy_provenance, row.energy_devices) for row in self.rows if row.joules_per_call is not None}
        for provenance, devices in sorted(sources, key=str):
            notes.append(f"energy of {devices}, {provenance}{', not measured' if provenance == 'modelled' else ''}")
        notes += [note for row in self.rows if (note := self._waiting_of(row)) is not None]
        timed = [row for row in self.rows if row.error is None]
        for reason in sorted({row.energy_missing for row in timed if row.energy_missing not in (None, NOT_ASKED_FOR)}):
            without = [row.name for row in timed if row.energy_missing == reason]
            whose = "" if len(without) == len(timed) else f" of {', '.join(without)}"
            notes.append(f"no energy{whose}: {reason}")
        return notes

    def __str__(self) -> str:
        lines = aligned(_HEADER, [_cells(row) for row in self.rows], _LEFT)
        return "\n".join([*lines, *(f"  {note}" for note in self.notes())])

    def __repr__(self) -> str:
        clear = "clear" if self.is_clear else "not clear"
        return f"<Tuning of {len(self.rows)} variants: best {self.best_name}, {clear}, {self.timer} times>"

    def _repr_html_(self) -> str:
        return as_html(_HEADER, [_cells(row) for row in self.rows], self.notes())

    def _waiting_of(self, row: Row) -> str | None:
        """That a device was at rest for most of the time in which energy was measured, where it was."""
        if self.timer != "device" or row.median_s is None or not row.energy_call_s:
            return None
        busy = row.median_s / row.energy_call_s
        if busy >= _MOSTLY_BUSY:
            return None
        return (
            f"{row.name}: the device was busy for {busy:.0%} of the time in which energy was measured, as the host "
            f"takes longer for a call: most of the joules are those of waiting"
        )

    def _kind(self) -> str:
        if self.timer == "wall":
            return "wall times, with what the host does for a call"
        return f"device times on {self.platform}"


def _cells(row: Row) -> list[str]:
    if row.error is not None:
        return [_shown(row.name), "-", "-", "", "-", "", "failed", "", ""]
    return [
        _shown(row.name),
        str(row.n),
        *_value_and_interval(estimate(row.median_s, row.low_s, row.high_s, "s")),
        *_ratio(row),
        row.verdict.replace("_", " "),
        *_value_and_interval(estimate(row.joules_per_call, row.joules_low, row.joules_high, "J")),
    ]


def _shown(name: str) -> str:
    """In one line, whatever is in it."""
    return name if name.isprintable() and name else repr(name)


def _value_and_interval(text: str) -> tuple[str, str]:
    """`13.05 ms ± 0.12` and `13.05 ms (12.90 to 13.60)` in two, so that numbers stand below numbers."""
    for mark in (" ±", " ("):
        value, found, interval = text.partition(mark)
        if found:
            return value, (found.strip() + interval).strip("()")
    return text, ""


def _ratio(row: Row) -> tuple[str, str]:
    if row.ratio is None:
        return "-", ""
    if row.ratio_low is None or row.ratio_high is None:
        return "×1" if row.verdict == "fastest" else f"×{row.ratio:.2f}", ""
    if row.ratio >= 1000:
        return f"×{row.ratio:,.0f}", f"{row.ratio_low:,.0f} to {row.ratio_high:,.0f}"
    value, interval = _value_and_interval(estimate(row.ratio, row.ratio_low, row.ratio_high, ""))
    return f"×{value.strip()}", interval
