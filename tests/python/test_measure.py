"""`measure`, with the sensors of this machine."""

from __future__ import annotations

import gc
import pickle
import threading
from collections.abc import Iterator

import pytest

import ergometer
from ergometer import Measurement, measure, measured
from ergometer._native import Meter
from ergometer.errors import MeterError
from energy_sensors import needs_energy, work

pytestmark = needs_energy


def test_a_block_has_energy_with_an_interval() -> None:
    with measure("work") as m:
        work()
    assert m.joules is not None and m.low is not None and m.high is not None
    assert 0 <= m.low <= m.joules <= m.high and m.joules > 0
    assert m.interval == (m.low, m.high)
    assert m.watts == pytest.approx(m.joules / m.seconds)
    assert m.provenance in ("measured", "modelled")
    assert m.missing is None
    assert m.end_ns is not None and m.seconds == pytest.approx((m.end_ns - m.start_ns) / 1e9)
    assert m.table.num_rows == len(m.devices) > 0
    summed = [place.joules for place in m.devices.values() if place.summed or m.provenance == "modelled"]
    assert m.joules == pytest.approx(sum(joules for joules in summed if joules is not None))


def test_an_open_window_has_no_values() -> None:
    with measure("work") as m:
        for figure in ("joules", "low", "watts", "seconds", "devices", "missing", "table", "notes"):
            with pytest.raises(MeterError, match="still being measured") as raised:
                getattr(m, figure)
            assert raised.value.hint is not None
        assert m.is_open and str(m) == "work  open" and "open" in repr(m)
    assert not m.is_open


def test_leaving_the_block_does_not_compute_the_energy() -> None:
    with measure() as m:
        work(0.01)
    assert m._settled is None and "energy not read yet" in repr(m)
    first = m.joules
    assert m._settled is not None and m.joules is not None and m.joules == first


def test_a_window_can_be_used_once() -> None:
    block = measure()
    with block:
        pass
    with pytest.raises(MeterError, match="already used"), block:
        pass


def test_an_exception_propagates_and_the_energy_is_kept() -> None:
    with pytest.raises(ZeroDivisionError), measure() as m:
        work()
        _ = 1 / 0
    assert m.joules is not None and m.joules > 0


def test_nested_windows_are_parts_of_the_outer_one() -> None:
    with measure("whole") as whole:
        with measure("first") as first:
            work(0.3)
        with measure("second") as second:
            work(0.3)
            with measure("deep") as deep:
                work(0.1)
    assert [m.parent for m in (whole, first, second, deep)] == [None, whole, whole, second]
    assert [m.depth for m in (whole, first, second, deep)] == [0, 1, 1, 2]
    low_whole, high_whole = whole.interval or (0, 0)
    ends = [m.interval or (0, 0) for m in (first, second, deep)]
    for low, _ in ends:
        assert low <= high_whole
    assert ends[0][0] + ends[1][0] <= high_whole and ends[0][1] + ends[1][1] >= low_whole
    with measure() as after:
        pass
    assert after.parent is None


def test_windows_of_many_threads_share_one_meter() -> None:
    barrier = threading.Barrier(4)
    found: dict[int, list[Measurement]] = {}

    def run(number: int) -> None:
        barrier.wait(30)
        with measure(f"outer {number}") as outer:
            barrier.wait(30)
            with measure(f"inner {number}") as inner:
                work(0.05)
            barrier.wait(30)
        assert outer.joules is not None and inner.joules is not None
        found[number] = [outer, inner]

    with measure("around") as around:
        threads = [threading.Thread(target=run, args=(number,)) for number in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(60)
    assert sorted(found) == [0, 1, 2, 3]
    for outer, inner in found.values():
        # A thread starts without an enclosing window.
        assert outer.parent is None and inner.parent is outer
        assert outer._meter is around._meter
        low, high = around.interval or (0, 0)
        assert inner.low is not None and inner.low <= high


def test_an_unknown_device_is_an_error() -> None:
    with pytest.raises(MeterError, match="gpu:99") as raised, measure(devices=["gpu:99"]):
        pytest.fail("a window was opened")
    assert raised.value.hint is not None


def test_devices_can_be_selected() -> None:
    with measure() as everything:
        work(0.05)
    device = next(place.device for place in everything.devices.values() if place.joules is not None)
    with measure(devices=device) as one:
        work(0.05)
    assert {place.device for place in one.devices.values()} == {device}
    assert one._meter is not everything._meter


def test_a_missing_sensor_is_a_reason_not_an_error() -> None:
    if Meter(model=False).has_energy:
        pytest.skip("this machine measures energy")
    with measure(model=False) as m:
        work(0.01)
    assert m.joules is None and m.watts is None and m.provenance is None
    assert m.missing is not None and "hint: run `ergo doctor`" in m.missing
    assert m.seconds > 0 and m.missing in str(m)


class TestSync:
    def test_sync_function_is_called_before_and_after(self) -> None:
        calls: list[str] = []
        with measure(sync=lambda: calls.append("sync")):
            calls.append("block")
        assert calls == ["sync", "block", "sync"]

    def test_a_failed_wait_at_the_end_closes_the_window(self) -> None:
        cause = OSError("the device is gone")
        calls = iter([None, cause])

        def sync() -> None:
            error = next(calls)
            if error is not None:
                raise error

        with pytest.raises(MeterError, match="the device is gone") as raised, measure(sync=sync) as m:
            work(0.01)
        assert raised.value.__cause__ is cause and raised.value.hint is not None
        assert not m.is_open and m.joules is not None

    def test_a_failed_wait_at_the_start_opens_no_window(self) -> None:
        def sync() -> None:
            raise OSError("no device")

        with pytest.raises(MeterError, match="no device"), measure(sync=sync):
            pytest.fail("the block was entered")
        with measure() as after:
            pass
        assert after.parent is None

    def test_the_exception_of_the_block_has_priority(self) -> None:
        calls = iter([False, True])

        def sync() -> None:
            if next(calls):
                raise OSError("the device is gone")

        with pytest.raises(KeyError), measure(sync=sync) as m:
            raise KeyError
        assert any("the device is gone" in note for note in m.notes)

    def test_other_values_are_an_error(self) -> None:
        with pytest.raises(TypeError, match="not 'always'"):
            measure(sync="always")  # type: ignore[arg-type]
        with pytest.raises(TypeError, match="not 7"):
            measured(sync=7)  # type: ignore[call-overload]


def test_a_window_in_a_deleted_generator_is_closed() -> None:
    seen: list[Measurement] = []

    def numbers() -> Iterator[int]:
        with measure() as m:
            seen.append(m)
            yield 1
            yield 2

    taken = numbers()
    assert next(taken) == 1
    del taken
    gc.collect()
    assert not seen[0].is_open and seen[0].joules is not None


def test_a_measurement_cannot_be_pickled() -> None:
    with measure() as m:
        pass
    with pytest.raises(TypeError, match="to_dict"):
        pickle.dumps(m)


def test_a_measurement_is_read_only() -> None:
    with measure() as m:
        pass
    shown = [name for name in dir(m) if not name.startswith("_") and name != "to_dict"]
    assert {"start_ns", "end_ns", "joules"} <= set(shown) and not {"meter", "settled", "take"} & set(shown)
    for name in shown:
        with pytest.raises(AttributeError):
            setattr(m, name, 1)


def test_public_names_exist() -> None:
    assert {"measure", "measured", "Measure", "MeasuredFunction", "Measurement", "Monitor"} <= set(ergometer.__all__)
