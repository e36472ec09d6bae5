"""The readings of all sensors over a stretch of time: `Monitor`."""

from __future__ import annotations

from collections.abc import Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Any

from ergometer._shared_meter import LATE_NS, Settled, open_window
from ergometer.errors import MeterError
from ergometer._measure import _device_names
from ergometer.measurement import Measurement, place_name

if TYPE_CHECKING:
    from ergometer._native import Meter, Table


class _Span(Measurement):
    """The time a monitor was on. When it is settled, its readings are taken over from the meter."""

    timeline: Table | None = None
    warnings: list[str] | None = None

    def _take(self, native: Meter, settled: Settled) -> None:
        self.timeline = native.timeline(self.start_ns, self.end_ns)
        self.warnings = native.warnings(self.start_ns, self.end_ns)
        super()._take(native, settled)


class Monitor:
    """Keeps every reading of the sensors while it is on: power, energy, memory, temperature, clocks, utilization.

    It is on in a `with` block, or from `start()` to `stop()`, once. What it has read can be asked for at any time,
    also after its end; the readings of the last 0.4 s may not be in yet while it is on. They are kept until the
    monitor is let go: an hour with one GPU is some 480,000 readings, 10 MB.

    Args:
        devices: only these, as `ergo doctor` names them: `gpu:0`, `gpu`, `cpu:0`; all by default.
        model: whether the power of a CPU that nothing measures is modelled from its use.

    Raises:
        MeterError: when it is started: there is no such device.

    >>> import ergometer
    >>> with ergometer.Monitor() as monitor:
    ...     total = sum(range(1_000_000))
    >>> monitor.timeline().column_names
    ['time_ns', 'after_ns', 'sensor', 'device', 'scope', 'signal', 'value', 'unit', 'provenance']
    >>> monitor.energy().seconds > 0
    True
    """

    def __init__(self, devices: Sequence[str] | None = None, *, model: bool = True) -> None:
        self._devices = _device_names(devices)
        self._model = model
        self._span: _Span | None = None

    def start(self) -> Monitor:
        """Begins to keep readings, when each sensor of energy or power has a first one; half a second at most."""
        if self._span is not None:
            raise MeterError("this monitor was started before. hint: make another one")
        span = _Span("monitor")
        meter = open_window(span, self._devices, self._model)
        try:
            if not meter.wait_for_readings():
                span._notes.append("a sensor had no reading when the monitor began")
        except BaseException:
            meter.drop(span)
            raise
        span._start_ns = meter.now_ns()
        self._span = span
        return self

    def stop(self) -> None:
        """Ends the span. What was read stays. Stopping again does nothing."""
        span = self._started()
        if span.is_open:
            span._meter.check_process()
            span._meter.close(span, span._meter.now_ns())

    def __enter__(self) -> Monitor:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        # In a process that was forked inside the block there is nothing to stop.
        if not self._started()._meter.is_forked:
            self.stop()

    @property
    def is_on(self) -> bool:
        """Whether readings are being kept now."""
        return self._span is not None and self._span.is_open and not self._span._meter.is_forked

    def timeline(self) -> Table:
        """All readings of the span so far, a row each, with the columns of a run's `telemetry.parquet` but for its
        session.

        `time_ns` is the sensor's own time in nanoseconds since the Unix epoch; `after_ns` the earliest time at which
        the value can have come to be, where that is another. Rows stand by sensor and channel, then time.
        """
        span = self._started()
        if not span.is_open:
            span._settle()
            if span.timeline is not None:
                return span.timeline
        span._meter.check_process()
        return span._meter.native.timeline(span.start_ns, span.end_ns)

    def energy(self) -> Measurement:
        """The energy of the span so far: until 0.4 s ago while the monitor is on, all of it after its end."""
        span = self._started()
        if not span.is_open:
            return span
        span._meter.check_process()
        so_far = Measurement("monitor")
        so_far._notes.extend(span._notes)
        so_far._meter, so_far._start_ns = span._meter, span.start_ns
        now_ns = span._meter.now_ns()
        # A monitor younger than that says what it has; who asks waits until its readings are in.
        so_far._end_ns = now_ns - LATE_NS if now_ns - span.start_ns >= 2 * LATE_NS else now_ns
        span._meter.add_part(so_far)
        return so_far

    def latest(self) -> dict[tuple[str, str], float]:
        """The last value of each signal, by device and signal: `("gpu:0", "power_average")`.

        The parts of a device have names of their own: `("gpu:0 memory", "power_average")`.
        """
        span = self._started()
        # Rows of a channel stand in the order of time, so that of a whole timeline the last one stays.
        table = span._meter.native.latest() if self.is_on else self.timeline()
        places = zip(table["device"], table["scope"], table["signal"], table["value"])
        return {(place_name(device, scope), signal): value for device, scope, signal, value in places}

    @property
    def warnings(self) -> list[str]:
        """What happened to the sensors in its time: reads that failed, samples lost, a clock that was stepped."""
        span = self._started()
        if not span.is_open:
            span._settle()
        if span.warnings is not None:
            return span.warnings
        span._meter.check_process()
        return span._meter.native.warnings(span.start_ns, span.end_ns)

    def to_pandas(self) -> Any:
        """The timeline as a pandas DataFrame."""
        return self.timeline().to_pandas()

    def to_polars(self) -> Any:
        """The timeline as a polars DataFrame."""
        return self.timeline().to_polars()

    def to_pyarrow(self) -> Any:
        """The timeline as a pyarrow Table."""
        return self.timeline().to_pyarrow()

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        """The timeline for whatever takes Arrow: `polars.DataFrame(monitor)`."""
        return self.timeline().__arrow_c_stream__(requested_schema)

    def __repr__(self) -> str:
        if self._span is None:
            return "<Monitor: not started>"
        return f"<Monitor: {'on' if self.is_on else 'stopped'}>"

    def _started(self) -> _Span:
        if self._span is None:
            raise MeterError("this monitor was not started. hint: use `with ergometer.Monitor() as monitor:`")
        return self._span
