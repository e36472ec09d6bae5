"""What a stretch of time cost: `Measurement`, the figures that `measure`, `measured` and `Monitor` give."""

from __future__ import annotations

from collections.abc import Mapping
from html import escape
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from ergometer import _native
from ergometer._figures import estimate, quantity
from ergometer._shared_meter import SECOND_NS, Settled, Window
from ergometer.errors import MeterError

if TYPE_CHECKING:
    from ergometer._native import Energy, Table

_DOCTOR = "hint: `ergo doctor` says what is missing and how to mend it"

# The scopes that are all of a device; it goes by its name alone.
_WHOLE = ("device", "package")


def place_name(device: str, scope: str) -> str:
    """A part of a device as users name it: `gpu:0`, `gpu:0 memory`, `cpu:0`, `cpu:0 dram`.

    >>> place_name("gpu:0", "device"), place_name("gpu:0", "memory")
    ('gpu:0', 'gpu:0 memory')
    """
    return device if scope in _WHOLE else f"{device} {scope}"


class Measurement(Window):
    """The energy and the time of a window, and how sure they are.

    The time is known when the window is over. The energy is known about 0.4 s later, because sensors hand their
    readings out late: who asks earlier waits for it, with Ctrl-C as ever. Once told, a figure never changes.

    Energy is that of whole devices, whoever used them. What was measured and what was modelled are never added; where
    anything was measured, the figures are of that. `low..high` is a 95 % interval. None is what is not known, and
    `missing` says why.

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
        """What was measured, as it was called."""
        return self._name

    @property
    def parent(self) -> Measurement | None:
        """The window that was open around this one, in the same thread or task."""
        return self._parent

    @property
    def depth(self) -> int:
        """How many windows were open around this one."""
        return self._depth

    @property
    def is_open(self) -> bool:
        """Whether the window is not over yet."""
        return self.end_ns is None

    @property
    def seconds(self) -> float:
        """How long it took."""
        return (self._ended_ns() - self.start_ns) / SECOND_NS

    @property
    def joules(self) -> float | None:
        """The energy of all devices; None where nothing knows it."""
        total = self._settle().total
        return None if total is None else total.joules

    @property
    def low(self) -> float | None:
        """The lower end of the interval of `joules`."""
        total = self._settle().total
        return None if total is None else total.low

    @property
    def high(self) -> float | None:
        """The upper end of the interval of `joules`."""
        total = self._settle().total
        return None if total is None else total.high

    @property
    def interval(self) -> tuple[float, float] | None:
        """Both ends of the interval of `joules`."""
        low, high = self.low, self.high
        return None if low is None or high is None else (low, high)

    @property
    def margin(self) -> float | None:
        """Half of the interval of `joules`. Its lower end stops at zero, so the upper one tells."""
        joules, high = self.joules, self.high
        return None if joules is None or high is None else high - joules

    @property
    def watts(self) -> float | None:
        """The mean power."""
        return _power(self.joules, self.seconds)

    @property
    def method(self) -> str | None:
        """How the energy was found: `activity_aware`, `counter_and_power`, `counter`, `power` or `modelled`."""
        total = self._settle().total
        return None if total is None else total.method

    @property
    def provenance(self) -> str | None:
        """`measured`, or `modelled` where nothing was; None where there is no energy."""
        total = self._settle().total
        return None if total is None or total.joules is None else total.provenance

    @property
    def devices(self) -> Mapping[str, Energy]:
        """The energy of each device: `gpu:0`, `cpu:0`; of a part of it: `gpu:0 memory`. Only `summed` ones add up."""
        places = self._settle().devices
        return MappingProxyType({place_name(place.device, place.scope): place for place in places})

    @property
    def notes(self) -> list[str]:
        """What to know about these figures: a window too short for its sensor, a silence of it, a device left out."""
        total = self._settle().total
        return [*self._notes, *(total.notes if total is not None else ())]

    @property
    def missing(self) -> str | None:
        """Why there is no energy, and what to do about it; None where there is."""
        settled = self._settle()
        if settled.total is not None and settled.total.joules is not None:
            return None
        reason = settled.missing or (settled.total.missing if settled.total is not None else None)
        reason = reason or "no sensor measured energy or power"
        return reason if "hint: " in reason else f"{reason}. {_DOCTOR}"

    @property
    def table(self) -> Table:
        """A row for each device and part of one, to go on with in pandas, polars or pyarrow."""
        places = self._settle().devices
        seconds = self.seconds
        count = len(places)
        return _native.table(
            {
                "name": [self.name] * count,
                "start_ns": [self.start_ns] * count,
                "end_ns": [self.end_ns] * count,
                "seconds": [seconds] * count,
                "device": [place.device for place in places],
                "scope": [place.scope for place in places],
                "joules": [place.joules for place in places],
                "low": [place.low for place in places],
                "high": [place.high for place in places],
                "watts": [_power(place.joules, seconds) for place in places],
                "provenance": [place.provenance for place in places],
                "method": [place.method for place in places],
                "summed": [place.summed for place in places],
                "missing": [place.missing for place in places],
            }
        )

    def to_dict(self) -> dict[str, Any]:
        """All figures, as JSON can have them."""
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
                    "device": place.device,
                    "scope": place.scope,
                    "joules": place.joules,
                    "low": place.low,
                    "high": place.high,
                    "watts": _power(place.joules, seconds),
                    "method": place.method,
                    "provenance": place.provenance,
                    "summed": place.summed,
                    "notes": list(place.notes),
                    "missing": place.missing,
                }
                for place in self._settle().devices
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
        # Never waits: debuggers and notebooks ask at any time.
        if self.is_open:
            return f"<Measurement {self.name or 'window'}: open>"
        if self._settled is None:
            return f"<Measurement {self.name or 'window'}: {quantity(self.seconds, 's')}, energy not asked for yet>"
        return f"<Measurement {self}>"

    def __reduce__(self) -> str:
        raise TypeError("a Measurement stays in the process that measured it. hint: send its to_dict()")

    def _repr_html_(self) -> str:
        if self.is_open:
            return f"<p>{escape(str(self))}</p>"
        heads = ("device", "energy", "mean power", "", "method")
        rows = []
        for name, place in self.devices.items():
            figures = estimate(place.joules, place.low, place.high, "J")
            power = quantity(_power(place.joules, self.seconds), "W")
            provenance = place.provenance or ""
            if provenance == "measured" and not place.summed:
                provenance += ", part of another"
            rows.append((name, figures, power, provenance, place.method or place.missing or ""))
        lines = [f"<caption>{escape(str(self))}</caption>", _row("th", heads), *(_row("td", row) for row in rows)]
        notes = "".join(f"<p>note: {escape(note)}</p>" for note in self.notes)
        return f"<table>{''.join(lines)}</table>{notes}"

    def _source(self) -> str:
        """Which devices the energy is of, and how it is known: `gpu:0 measured (activity_aware)`."""
        provenance = self.provenance
        # What is modelled is found by the model: once said is enough.
        method = "" if self.method == provenance else f" ({self.method})"
        return f"{' + '.join(self._counted())} {provenance}{method}".strip()

    def _counted(self) -> list[str]:
        """The devices whose joules are in the sum: those that were measured, or else those that were modelled."""
        provenance = self.provenance
        return [
            name
            for name, place in self.devices.items()
            if place.joules is not None
            and place.provenance == provenance
            and (place.summed or provenance == "modelled")
        ]

    def _ended_ns(self) -> int:
        if self.end_ns is None:
            self._meter.check_process()
            raise MeterError(
                f"{self.name or 'the window'} is still being measured. hint: look at it after the `with` block"
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
