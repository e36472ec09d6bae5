"""`Monitor`: keeps the readings of all sensors over a period of time."""

from __future__ import annotations

from collections.abc import Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Any

from ergometer._shared_meter import LATE_NS, Settled, open_window
from ergometer.errors import MeterError
from ergometer._measure import _device_names
from ergometer.measurement import Measurement, scope_name

if TYPE_CHECKING:
    from ergometer._native import Meter, Table


class _Span(Measurement):
    """The period of a monitor. When it is settled, it copies its readings from the meter."""

    timeline: Table | None = None
    warnings: list[str] | None = None

    def _take(self, native: Meter, settled: Settled) -> None:
        self.timeline = native.timeline(self.start_ns, self.end_ns)
        self.warnings = native.warnings(self.start_ns, self.end_ns)
        super()._take(native, settled)


class Monitor:
    """Keeps all sensor readings while it is on: power, energy, memory, temperature, clocks, utilization.

    It is on during a `with` block, or from `start()` to `stop()`, and can be used once. Its readings are available at
    any time, also after its end; while it is on, readings of the last 0.4 s may be missing. They are kept until the
    monitor is deleted: an hour with one GPU has about 480,000 readings, which take 10 MB.

    Args:
        devices: The devices to read, with the names of `ergo doctor`: `gpu:0`, `gpu`, `cpu:0`; by default all.
        model: Whether to model the power of a CPU without a power sensor from its utilization.

    Raises:
        MeterError: A device does not exist. Raised when the monitor starts.

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
        """Starts keeping readings. Waits up to half a second for the first reading of each energy or power sensor."""
        if self._span is not None:
            raise MeterError("this monitor was already started", hint="create another Monitor")
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
        """Stops keeping readings. Existing readings stay. Has no effect on a stopped monitor."""
        span = self._started()
        if span.is_open:
            span._meter.check_process()
            span._meter.close(span, span._meter.now_ns())

    def __enter__(self) -> Monitor:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        # A process forked inside the block has nothing to stop.
        if not self._started()._meter.is_forked:
            self.stop()

    @property
    def is_on(self) -> bool:
        """Whether readings are being kept now."""
        return self._span is not None and self._span.is_open and not self._span._meter.is_forked

    def timeline(self) -> Table:
        """All readings so far, one row each, with the columns of a run's `telemetry.parquet` except `session`.

        `time_ns` is the sensor's own time in nanoseconds since the Unix epoch. `after_ns` is the earliest time at which
        the value can have been reached, if that differs. Rows are sorted by sensor, channel and time.
        """
        span = self._started()
        if not span.is_open:
            span._settle()
            if span.timeline is not None:
                return span.timeline
        span._meter.check_process()
        return span._meter.native.timeline(span.start_ns, span.end_ns)

    def energy(self) -> Measurement:
        """The energy so far: until 0.4 s ago while the monitor is on, of the whole period after its end."""
        span = self._started()
        if not span.is_open:
            return span
        span._meter.check_process()
        so_far = Measurement("monitor")
        so_far._notes.extend(span._notes)
        so_far._meter, so_far._start_ns = span._meter, span.start_ns
        now_ns = span._meter.now_ns()
        # A shorter period is measured until now, and reading its energy waits for the readings.
        so_far._end_ns = now_ns - LATE_NS if now_ns - span.start_ns >= 2 * LATE_NS else now_ns
        span._meter.add_part(so_far)
        return so_far

    def latest(self) -> dict[tuple[str, str], float]:
        """The last value of each signal, by device and signal: `("gpu:0", "power_average")`.

        Parts of a device have separate names: `("gpu:0 memory", "power_average")`.
        """
        span = self._started()
        # Rows of a channel are sorted by time, so the last value wins.
        table = span._meter.native.latest() if self.is_on else self.timeline()
        places = zip(table["device"], table["scope"], table["signal"], table["value"])
        return {(scope_name(device, scope), signal): value for device, scope, signal, value in places}

    @property
    def warnings(self) -> list[str]:
        """Problems of the sensors during the period: failed reads, lost samples, a clock that was stepped."""
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
        """Exports the timeline through Arrow: `polars.DataFrame(monitor)`."""
        return self.timeline().__arrow_c_stream__(requested_schema)

    def __repr__(self) -> str:
        if self._span is None:
            return "<Monitor: not started>"
        return f"<Monitor: {'on' if self.is_on else 'stopped'}>"

    def _started(self) -> _Span:
        if self._span is None:
            raise MeterError("this monitor was not started", hint="use `with ergometer.Monitor() as monitor:`")
        return self._span
