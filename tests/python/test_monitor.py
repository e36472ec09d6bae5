"""`Monitor`, with the sensors of this machine."""

from __future__ import annotations

import gc
from typing import Any

import pytest

from ergometer import Monitor, _shared_meter, measure
from ergometer.errors import MeterError
from energy_sensors import needs_energy, wait_for, work
from subprocess_python import run_python

pytestmark = needs_energy

COLUMNS = ["time_ns", "after_ns", "sensor", "device", "scope", "signal", "value", "unit", "provenance"]


def test_the_timeline_has_the_readings_of_its_period() -> None:
    with Monitor() as monitor:
        wait_for(lambda: monitor.timeline().num_rows > 0)
    energy = monitor.energy()
    timeline = monitor.timeline()
    assert timeline.column_names == COLUMNS and timeline.num_rows > 0
    assert energy.start_ns <= min(timeline["time_ns"]) and max(timeline["time_ns"]) <= (energy.end_ns or 0)
    assert {"power_modelled", "energy", "power_ring", "power_average"} & set(timeline["signal"])


def test_the_timeline_converts_to_data_frames() -> None:
    with Monitor() as monitor:
        wait_for(lambda: monitor.timeline().num_rows > 0)
    rows = monitor.timeline().num_rows
    frames = {"pandas": Monitor.to_pandas, "polars": Monitor.to_polars, "pyarrow": Monitor.to_pyarrow}
    for library, frame in frames.items():
        pytest.importorskip(library)
        output = frame(monitor)
        assert output.shape == (rows, len(COLUMNS))
    assert set(monitor.to_pandas()["unit"]) >= {"W"}


def test_values_are_available_while_the_monitor_is_on() -> None:
    with Monitor() as monitor:
        assert monitor.is_on
        work(1.0)
        so_far = monitor.energy()
        assert not so_far.is_open and so_far.joules is not None and so_far.joules > 0
        assert monitor.timeline().num_rows > 0
        latest = monitor.latest()
        assert latest and all(":" in device and value == value for (device, _), value in latest.items())
        work(0.1)
    assert not monitor.is_on
    whole = monitor.energy()
    assert whole.seconds > so_far.seconds
    assert whole.high is not None and so_far.low is not None and so_far.low <= whole.high
    assert set(monitor.latest()) == set(latest)


def test_warnings_are_limited_to_the_period(monkeypatch: pytest.MonkeyPatch) -> None:
    """The meter may have started earlier and have more warnings."""
    asked: list[tuple[int, int | None]] = []

    class Warned:
        def __init__(self, native: Any) -> None:
            self._native = native

        def __getattr__(self, name: str) -> Any:
            return getattr(self._native, name)

        def warnings(self, start_ns: int, end_ns: int | None) -> list[str]:
            asked.append((start_ns, end_ns))
            assert isinstance(self._native.warnings(start_ns, end_ns), list)
            return ["a clock was stepped"]

    with Monitor() as monitor:
        assert monitor._span is not None
        meter = monitor._span._meter
        monkeypatch.setattr(meter, "native", Warned(meter.native))
        assert monitor.warnings == ["a clock was stepped"]
    span = monitor.energy()
    assert monitor.warnings == ["a clock was stepped"] == monitor.warnings
    assert asked == [(span.start_ns, None), (span.start_ns, span.end_ns)]


def test_there_are_no_warnings_before_the_start() -> None:
    with Monitor() as monitor:
        span = monitor.energy()
        assert span._meter.native.warnings(0, 1) == []


def test_reading_energy_while_on_is_not_activity() -> None:
    """Reading the energy so far is not recorded as activity, and does not extend the life of the meter."""
    with Monitor() as monitor:
        work(0.05)
        span = monitor._span
        assert span is not None
        meter = span._meter
        with measure() as later:
            pass
        recent, used_ns = list(meter._recent), meter._used_ns
        assert used_ns == later.end_ns
        so_far = monitor.energy()
        assert so_far.joules is not None and so_far.end_ns is not None
        assert (list(meter._recent), meter._used_ns) == (recent, used_ns)
        assert (so_far.start_ns, so_far.end_ns) not in recent
    assert list(meter._recent)[-1] == (span.start_ns, span.end_ns)


def test_a_monitor_agrees_with_a_window_of_the_same_time() -> None:
    with Monitor() as monitor, measure() as m:
        work(0.3)
    assert m._meter is monitor.energy()._meter
    low, high = monitor.energy().interval or (0, 0)
    assert m.low is not None and m.high is not None and m.low <= high and m.high >= low


def test_readings_stay_after_the_meter_has_stopped(monkeypatch: pytest.MonkeyPatch) -> None:
    with Monitor() as monitor:
        wait_for(lambda: monitor.timeline().num_rows > 0)
    monkeypatch.setattr(_shared_meter, "KEEP_NS", _shared_meter.LATE_NS)
    meter = monitor.energy()._meter
    wait_for(lambda: meter.is_stopped)
    first = monitor.timeline()
    assert first.num_rows > 0 and monitor.timeline() is first
    assert monitor.energy().joules is not None and monitor.latest()


def test_other_devices_have_a_separate_meter() -> None:
    with Monitor() as everything, Monitor(devices=["cpu"]) as processors:
        wait_for(lambda: processors.timeline().num_rows > 0)
    assert everything.energy()._meter is not processors.energy()._meter
    assert {device.partition(":")[0] for device in processors.timeline()["device"]} == {"cpu"}


def test_a_monitor_can_be_started_once() -> None:
    monitor = Monitor()
    for ask in (monitor.timeline, monitor.energy, monitor.latest, monitor.stop):
        with pytest.raises(MeterError, match="not started"):
            ask()
    assert monitor.start() is monitor
    with pytest.raises(MeterError, match="already started"):
        monitor.start()
    monitor.stop()
    monitor.stop()
    assert repr(monitor) == "<Monitor: stopped>"


def test_a_deleted_monitor_keeps_no_meter(monkeypatch: pytest.MonkeyPatch) -> None:
    monitor = Monitor().start()
    assert monitor._span is not None
    meter = monitor._span._meter
    del monitor
    gc.collect()
    monkeypatch.setattr(_shared_meter, "KEEP_NS", 0)
    wait_for(lambda: meter.is_stopped)


def test_a_monitor_raises_an_error_in_a_forked_child() -> None:
    output = run_python(
        """
import os
import ergometer

readable, writable = os.pipe()
with ergometer.Monitor() as monitor:
    while monitor.timeline().num_rows == 0:
        sum(range(1_000_000))
    child = os.fork()
    if child == 0:
        try:
            monitor.timeline()
        except ergometer.errors.MeterError as error:
            os.write(writable, str(error).partition(";")[0].encode())
        os._exit(0)
    os.waitpid(child, 0)
os.close(writable)
print(os.read(readable, 1000).decode())
print(monitor.timeline().num_rows > 0)
"""
    )
    assert output.splitlines() == ["the window was opened before this process was forked", "True"]
