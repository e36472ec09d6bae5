"""The result of tuning: one row per variant, fastest first."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, fields
from typing import Any, Literal

from ergometer import _native
from ergometer._figures import estimate
from ergometer._autotune.text import aligned, as_html
from ergometer.errors import with_hint

NOT_REQUESTED = "not requested"
"""Why the energy is unknown if `energy=False`."""

_MOSTLY_BUSY = 0.5
"""Minimum busy share of a device for which the energy of calls back to back counts as that of the calls."""

_TYPES = {"int": "int", "float": "float", "float | None": "float"}

_HEADER = ("variant", "calls", "median", "", "ratio", "", "verdict", "energy/call", "")
_LEFT = (0, 3, 5, 6, 8)


@dataclass(frozen=True)
class Row:
    """One variant.

    Attributes:
        name: The name of the variant.
        id: The number in the name of its module, `jit_autotune_fn_<id>`.
        n: The number of timed calls.
        median_s: The median time of a call in seconds, used for ranking; None if the variant failed.
        low_s: The lower end of the median's interval; None with too few calls.
        high_s: The upper end of the median's interval.
        mean_s: The mean time of a call.
        ratio: The time relative to the fastest variant: the median of the ratios of all pairs of a call of this variant
            and a call of the fastest, which is less sensitive to outliers than the ratio of the medians.
        ratio_low: The lower end of the ratio's interval, for this comparison alone. Verdicts account for the number of
            comparisons and early tests, so a variant with an interval above 1 can be too close to call. None for the
            fastest variant.
        ratio_high: The upper end of the ratio's interval.
        verdict: "fastest", "slower", "too_close_to_call", "too_few_samples" or "failed".
        joules_per_call: The energy of a call, of all devices in `energy_devices`; None if unknown.
        joules_low: The lower end of its 95 % interval.
        joules_high: The upper end of its 95 % interval.
        energy_provenance: "measured" or "modelled".
        energy_devices: The devices of the energy.
        energy_call_s: The time from one call to the next while energy was measured. If it is much longer than
            `median_s`, most of the energy is that of a device waiting for the host.
        energy_missing: Why the energy is unknown.
        timer: "device", or "wall" if calls were timed with the host's clock.
        error: The exception of a variant that failed.
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
    """The variants ranked by time.

    Attributes:
        best: The fastest variant: the function that was passed.
        best_name: The name of the fastest variant.
        is_clear: Whether every other variant that did not fail is significantly slower.
        rows: One row per variant, fastest first, failed ones last.
        stopped: Why the rounds ended.
        timer: "device" or "wall".
        platform: The platform of the device times.
        level: The confidence level of the intervals of times.
        trace: The profile, if device times were used.
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
        # From the annotations, so that a column without any value has the right type.
        types = {column.name: _TYPES.get(str(column.type), "str") for column in fields(Row)}
        return _native.table(columns, types)

    def notes(self) -> list[str]:
        """Remarks on the result, one sentence each."""
        notes = [f"{self._kind()}; {self.stopped}; intervals at {self.level * 100:g} %"]
        notes += [f"{row.name} failed: {row.error}" for row in self.rows if row.error is not None]
        close = [row.name for row in self.rows if row.verdict in ("too_close_to_call", "too_few_samples")]
        if close:
            more = "min_calls" if self.stopped.startswith("clear") else "calls"
            hint = f"increase {more} to detect smaller differences"
            notes.append(with_hint(f"not clear: {', '.join(close)} may be as fast as {self.best_name}", hint))
        sources = {(row.energy_provenance, row.energy_devices) for row in self.rows if row.joules_per_call is not None}
        for provenance, devices in sorted(sources, key=str):
            notes.append(f"energy of {devices}, {provenance}{', not measured' if provenance == 'modelled' else ''}")
        notes += [note for row in self.rows if (note := self._idle_note(row)) is not None]
        timed = [row for row in self.rows if row.error is None]
        for reason in sorted({row.energy_missing for row in timed if row.energy_missing not in (None, NOT_REQUESTED)}):
            without = [row.name for row in timed if row.energy_missing == reason]
            variants = "" if len(without) == len(timed) else f" of {', '.join(without)}"
            notes.append(f"no energy{variants}: {reason}")
        return notes

    def __str__(self) -> str:
        lines = aligned(_HEADER, [_cells(row) for row in self.rows], _LEFT)
        return "\n".join([*lines, *(f"  {note}" for note in self.notes())])

    def __repr__(self) -> str:
        clear = "clear" if self.is_clear else "not clear"
        return f"<Tuning of {len(self.rows)} variants: best {self.best_name}, {clear}, {self.timer} times>"

    def _repr_html_(self) -> str:
        return as_html(_HEADER, [_cells(row) for row in self.rows], self.notes())

    def _idle_note(self, row: Row) -> str | None:
        """A note if the device was idle for most of the time in which energy was measured."""
        if self.timer != "device" or row.median_s is None or not row.energy_call_s:
            return None
        busy = row.median_s / row.energy_call_s
        if busy >= _MOSTLY_BUSY:
            return None
        return (
            f"{row.name}: the device was busy for only {busy:.0%} of the energy measurement, because the host takes "
            f"longer for a call than the device: most of the energy is that of waiting"
        )

    def _kind(self) -> str:
        if self.timer == "wall":
            return "wall times, including host time"
        return f"device times on {self.platform}"


def _cells(row: Row) -> list[str]:
    if row.error is not None:
        return [_printable(row.name), "-", "-", "", "-", "", "failed", "", ""]
    return [
        _printable(row.name),
        str(row.n),
        *_value_and_interval(estimate(row.median_s, row.low_s, row.high_s, "s")),
        *_ratio(row),
        row.verdict.replace("_", " "),
        *_value_and_interval(estimate(row.joules_per_call, row.joules_low, row.joules_high, "J")),
    ]


def _printable(name: str) -> str:
    """The name in one line, escaped if it has other than printable characters."""
    return name if name.isprintable() and name else repr(name)


def _value_and_interval(text: str) -> tuple[str, str]:
    """Splits `13.05 ms ± 0.12` and `13.05 ms (12.90 to 13.60)` in two, so that values align in columns."""
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
