"""`Measurement`: the time and energy of a window, the result of `measure`, `measured` and `Monitor`."""

from __future__ import annotations

from collections.abc import Mapping
from html import escape
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from ergometer import _native
from ergometer._figures import estimate, quantity
from ergometer._shared_meter import SECOND_NS, Settled, Window
from ergometer.errors import MeterError, with_hint

if TYPE_CHECKING:
    from ergometer._native import Energy, Table

_DOCTOR_HINT = "run `ergo doctor` to see which sensors are missing and how to enable them"

# Scopes that cover the whole device; the device is then named without its scope.
_WHOLE_DEVICE = ("device", "package")


def scope_name(device: str, scope: str) -> str:
    """The name of a device or of a part of it: `gpu:0`, `gpu:0 memory`, `cpu:0`, `cpu:0 dram`.

    >>> scope_name("gpu:0", "device"), scope_name("gpu:0", "memory")
    ('gpu:0', 'gpu:0 memory')
    """
    return device if scope in _WHOLE_DEVICE else f"{device} {scope}"


class Measurement(Window):
    """The time and energy of a window, with an interval.

    The time is known when the window ends. The energy is known about 0.4 s later, because sensors deliver readings
    late: an earlier access waits, and Ctrl-C interrupts the wait. Once computed, a value never changes.

    Energy is that of whole devices, whichever program used them. Measured and modelled energy are never added: if
    anything was measured, the values are those of the measured devices. `low..high` is a 95 % interval. An unknown
    value is None, and `missing` gives the reason.

    >>> import ergometer
    >>> with ergometer.measure("sum") as outer:
    ...     with ergometer.measure("half") as inner:
    ...         _ = sum(range(500_000))
    >>> inner.parent is outer, inner.depth, outer.depth
    (True, 1, 0)
    >>> outer.provenance in ("measured", "modelled", None)
    True
    """

    def __init__(self, name: str | None = None, parent: Measurement | None = None) -> None:
        self._name = name
        self._parent = parent
        self._depth = 0 if parent is None else parent.depth + 1
        self._notes: list[str] = []

    @property
    def name(self) -> str | None:
        """The name given to the measurement."""
        return self._name

    @property
    def parent(self) -> Measurement | None:
        """The enclosing window, in the same thread or task."""
        return self._parent

    @property
    def depth(self) -> int:
        """The number of enclosing windows."""
        return self._depth

    @property
    def is_open(self) -> bool:
        """Whether the window has not ended yet."""
        return self.end_ns is None

    @property
    def seconds(self) -> float:
        """The duration."""
        return (self._ended_ns() - self.start_ns) / SECOND_NS

    @property
    def joules(self) -> float | None:
        """The energy of all devices; None if unknown."""
        total = self._settle().total
        return None if total is None else total.joules

    @property
    def low(self) -> float | None:
        """The lower end of the 95 % interval of `joules`."""
        total = self._settle().total
        return None if total is None else total.low

    @property
    def high(self) -> float | None:
        """The upper end of the 95 % interval of `joules`."""
        total = self._settle().total
        return None if total is None else total.high

    @property
    def interval(self) -> tuple[float, float] | None:
        """The lower and upper end of the 95 % interval of `joules`."""
        low, high = self.low, self.high
        return None if low is None or high is None else (low, high)

    @property
    def margin(self) -> float | None:
        """The distance from `joules` to the upper end of its interval. The lower end is cut off at zero."""
        joules, high = self.joules, self.high
        return None if joules is None or high is None else high - joules

    @property
    def watts(self) -> float | None:
        """The mean power."""
        return _power(self.joules, self.seconds)

    @property
    def method(self) -> str | None:
        """The method of the estimate: `activity_aware`, `counter_and_power`, `counter`, `power` or `modelled`."""
        total = self._settle().total
        return None if total is None else total.method

    @property
    def provenance(self) -> str | None:
        """`measured`, or `modelled` if nothing was measured; None if the energy is unknown."""
        total = self._settle().total
        return None if total is None or total.joules is None else total.provenance

    @property
    def devices(self) -> Mapping[str, Energy]:
        """The energy of each device (`gpu:0`) and part of one (`gpu:0 memory`). `joules` sums those with `summed`."""
        energies = self._settle().devices
        return MappingProxyType({scope_name(energy.device, energy.scope): energy for energy in energies})

    @property
    def notes(self) -> list[str]:
        """Remarks on accuracy: a window too short for its sensor, missing readings, a device left out."""
        total = self._settle().total
        return [*self._notes, *(total.notes if total is not None else ())]

    @property
    def missing(self) -> str | None:
        """Why the energy is unknown, with a hint; None if it is known."""
        settled = self._settle()
        if settled.total is not None and settled.total.joules is not None:
            return None
        reason = settled.missing or (settled.total.missing if settled.total is not None else None)
        return with_hint(reason or "no sensor measured energy or power", settled.hint or _DOCTOR_HINT)

    @property
    def table(self) -> Table:
        """One row per device and part of a device, for pandas, polars or pyarrow."""
        energies = self._settle().devices
        seconds = self.seconds
        count = len(energies)
        return _native.table(
            {
                "name": [self.name] * count,
                "start_ns": [self.start_ns] * count,
                "end_ns": [self.end_ns] * count,
                "seconds": [seconds] * count,
                "device": [energy.device for energy in energies],
                "scope": [energy.scope for energy in energies],
                "joules": [energy.joules for energy in energies],
                "low": [energy.low for energy in energies],
                "high": [energy.high for energy in energies],
                "watts": [_power(energy.joules, seconds) for energy in energies],
                "provenance": [energy.provenance for energy in energies],
                "method": [energy.method for energy in energies],
                "summed": [energy.summed for energy in energies],
                "missing": [energy.missing for energy in energies],
            }
        )

    def to_dict(self) -> dict[str, Any]:
        """All values, in types that JSON supports."""
        seconds = self.seconds
        return {
            "name": self.name,
            "start_ns": self.start_ns,
            "end_ns": self.end_ns,
            "seconds": seconds,
            "depth": self.depth,
            "joules": self.joules,
            "low": self.low,
            "high": self.high,
            "watts": self.watts,
            "method": self.method,
            "provenance": self.provenance,
            "notes": self.notes,
            "missing": self.missing,
            "devices": [
                {
                    "device": energy.device,
                    "scope": energy.scope,
                    "joules": energy.joules,
                    "low": energy.low,
                    "high": energy.high,
                    "watts": _power(energy.joules, seconds),
                    "method": energy.method,
                    "provenance": energy.provenance,
                    "summed": energy.summed,
                    "notes": list(energy.notes),
                    "missing": energy.missing,
                }
                for energy in self._settle().devices
            ],
        }

    def __str__(self) -> str:
        name = self.name or "window"
        if self.is_open:
            return f"{name}  open"
        parts = [name, quantity(self.seconds, "s"), estimate(self.joules, self.low, self.high, "J")]
        if self.joules is None:
            return "  ".join([*parts, self.missing or ""])
        return "  ".join([*parts, quantity(self.watts, "W"), self._source()])

    def __repr__(self) -> str:
        # Must not wait, because debuggers and notebooks call it at any time.
        if self.is_open:
            return f"<Measurement {self.name or 'window'}: open>"
        if self._settled is None:
            return f"<Measurement {self.name or 'window'}: {quantity(self.seconds, 's')}, energy not read yet>"
        return f"<Measurement {self}>"

    def __reduce__(self) -> str:
        raise TypeError(with_hint("a Measurement cannot be pickled", "pickle the result of to_dict()"))

    def _repr_html_(self) -> str:
        if self.is_open:
            return f"<p>{escape(str(self))}</p>"
        headings = ("device", "energy", "mean power", "", "method")
        rows = []
        for name, energy in self.devices.items():
            energy_text = estimate(energy.joules, energy.low, energy.high, "J")
            power = quantity(_power(energy.joules, self.seconds), "W")
            provenance = energy.provenance or ""
            if provenance == "measured" and not energy.summed:
                provenance += ", included in another row"
            rows.append((name, energy_text, power, provenance, energy.method or energy.missing or ""))
        lines = [f"<caption>{escape(str(self))}</caption>", _row("th", headings), *(_row("td", row) for row in rows)]
        notes = "".join(f"<p>note: {escape(note)}</p>" for note in self.notes)
        return f"<table>{''.join(lines)}</table>{notes}"

    def _source(self) -> str:
        """The devices, provenance and method of the energy: `gpu:0 measured (activity_aware)`."""
        provenance = self.provenance
        # Modelled energy has the method `modelled`: do not print the word twice.
        method = "" if self.method == provenance else f" ({self.method})"
        return f"{' + '.join(self._counted())} {provenance}{method}".strip()

    def _counted(self) -> list[str]:
        """The devices in the sum: the measured ones, or the modelled ones if nothing was measured."""
        provenance = self.provenance
        return [
            name
            for name, energy in self.devices.items()
            if energy.joules is not None
            and energy.provenance == provenance
            and (energy.summed or provenance == "modelled")
        ]

    def _ended_ns(self) -> int:
        if self.end_ns is None:
            self._meter.check_process()
            raise MeterError(
                f"{self.name or 'the window'} is still being measured", hint="read its values after the `with` block"
            )
        return self.end_ns

    def _settle(self) -> Settled:
        settled = self._settled
        if settled is None:
            self._ended_ns()
            self._meter.settle(self)
            settled = self._settled
            assert settled is not None
        return settled


def _power(joules: float | None, seconds: float) -> float | None:
    return None if joules is None or seconds <= 0 else joules / seconds


def _row(tag: str, cells: tuple[str, ...]) -> str:
    return f"<tr>{''.join(f'<{tag}>{escape(cell)}</{tag}>' for cell in cells)}</tr>"
