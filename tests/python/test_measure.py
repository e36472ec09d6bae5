"""`measure` and `measured`, with the sensors of this machine."""

from __future__ import annotations

import asyncio
import gc
import inspect
import os
import pickle
import signal
import threading
import time
from collections.abc import Callable, Iterator

import pytest

import ergometer
from ergometer import Measurement, _shared_meter, measure, measured
from ergometer._native import Meter
from ergometer.errors import MeterError
from other_process import run_python


@pytest.fixture(scope="session", autouse=True)
def _needs_energy() -> None:
    if not Meter().has_energy:
        pytest.skip("nothing knows of energy on this machine, not even a model")


def work(seconds: float = 0.15) -> None:
    end = time.perf_counter() + seconds
    while time.perf_counter() < end:
        sum(range(1000))


def test_a_block_has_energy_with_its_interval() -> None:
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


def test_an_open_window_has_no_figures() -> None:
    with measure("work") as m:
        for figure in ("joules", "low", "watts", "seconds", "devices", "missing", "table", "notes"):
            with pytest.raises(MeterError, match="still being measured") as raised:
                getattr(m, figure)
            assert raised.value.hint is not None
        assert m.is_open and str(m) == "work  open" and "open" in repr(m)
    assert not m.is_open


def test_leaving_the_block_does_not_find_the_energy_yet() -> None:
    with measure() as m:
        work(0.01)
    assert m.settled is None and "not asked for" in repr(m)
    first = m.joules
    assert m.settled is not None and m.joules is not None and m.joules == first


def test_a_window_serves_once() -> None:
    block = measure()
    with block:
        pass
    with pytest.raises(MeterError, match="opened before"), block:
        pass


def test_an_exception_passes_and_the_energy_is_kept() -> None:
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
        # A thread begins with no window around it.
        assert outer.parent is None and inner.parent is outer
        assert outer.meter is around.meter
        low, high = around.interval or (0, 0)
        assert inner.low is not None and inner.low <= high


def test_a_device_that_is_not_there_is_an_error() -> None:
    with pytest.raises(MeterError, match="gpu:99") as raised, measure(devices=["gpu:99"]):
        pytest.fail("a window was opened")
    assert raised.value.hint is not None


def test_devices_can_be_chosen() -> None:
    with measure() as everything:
        work(0.05)
    device = next(place.device for place in everything.devices.values() if place.joules is not None)
    with measure(devices=device) as one:
        work(0.05)
    assert {place.device for place in one.devices.values()} == {device}
    assert one.meter is not everything.meter


def test_without_a_sensor_there_is_a_reason_and_no_error() -> None:
    if Meter(model=False).has_energy:
        pytest.skip("this machine measures energy")
    with measure(model=False) as m:
        work(0.01)
    assert m.joules is None and m.watts is None and m.provenance is None
    assert m.missing is not None and "hint: `ergo doctor`" in m.missing
    assert m.seconds > 0 and m.missing in str(m)


class TestMeasured:
    def test_a_function_keeps_its_face(self) -> None:
        def add(first: int, second: int = 2) -> int:
            """Adds."""
            return first + second

        wrapped = measured(add)
        assert inspect.signature(wrapped) == inspect.signature(add)
        assert wrapped.__doc__ == "Adds." and getattr(wrapped, "__name__") == "add"
        assert wrapped.last is None and len(wrapped.measurements) == 0
        assert wrapped(1, second=4) == 5
        assert wrapped.last is wrapped.measurements[-1] and wrapped.last.name == "add"
        assert wrapped.last.joules is not None

    def test_results_are_told(self) -> None:
        told: list[Measurement] = []

        @measured(name="halving", on_result=told.append, sync=None)
        def half(number: float) -> float:
            return number / 2

        assert [half(4), half(8)] == [2, 4]
        assert told == list(half.measurements) and [m.name for m in told] == ["halving"] * 2
        assert not any(m.is_open for m in told)

    def test_a_call_that_raises_is_measured(self) -> None:
        @measured
        def fail() -> None:
            raise LookupError

        with pytest.raises(LookupError):
            fail()
        assert fail.last is not None and fail.last.seconds > 0

    def test_the_last_thousand_are_kept(self) -> None:
        @measured(sync=None)
        def nothing() -> None: ...

        for _ in range(1001):
            nothing()
        assert len(nothing.measurements) == 1000
        # They are settled together, off one curve.
        assert nothing.measurements[-1].joules is not None
        assert all(m.settled is not None for m in nothing.measurements)

    def test_methods_are_functions(self) -> None:
        class Model:
            @measured
            def run(self, number: int) -> int:
                return number + 1

        assert Model().run(1) == 2
        assert Model.run.last is not None and Model.run.last.name == "Model.run"  # type: ignore[attr-defined]

    def test_a_coroutine_is_measured_over_its_awaiting(self) -> None:
        @measured
        async def wait(event: asyncio.Event) -> int:
            with measure("inside") as inside:
                await event.wait()
            assert inside.parent is not None and inside.parent.name == "wait"
            return 7

        async def main() -> tuple[int, int]:
            event = asyncio.Event()
            both = asyncio.gather(wait(event), wait(event))
            await asyncio.sleep(0)
            assert len(wait.measurements) == 0
            event.set()
            first, second = await both
            return first, second

        assert inspect.iscoroutinefunction(wait)
        assert asyncio.run(main()) == (7, 7)
        assert [m.depth for m in wait.measurements] == [0, 0]

    def test_generators_are_refused(self) -> None:
        def numbers() -> object:
            yield 1

        async def later() -> object:
            yield 1

        for function in (numbers, later):
            with pytest.raises(TypeError, match="is a generator.*hint: "):
                measured(function)
        with pytest.raises(TypeError, match="measured takes a function"):
            measured("name")  # type: ignore[call-overload]


class TestSync:
    def test_a_function_is_called_before_and_after(self) -> None:
        calls: list[str] = []
        with measure(sync=lambda: calls.append("sync")):
            calls.append("block")
        assert calls == ["sync", "block", "sync"]

    def test_a_failure_at_the_end_closes_the_window_first(self) -> None:
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

    def test_a_failure_at_the_start_opens_nothing(self) -> None:
        def sync() -> None:
            raise OSError("no device")

        with pytest.raises(MeterError, match="no device"), measure(sync=sync):
            pytest.fail("the block was entered")
        with measure() as after:
            pass
        assert after.parent is None

    def test_what_the_block_raises_comes_before(self) -> None:
        calls = iter([False, True])

        def sync() -> None:
            if next(calls):
                raise OSError("the device is gone")

        with pytest.raises(KeyError), measure(sync=sync) as m:
            raise KeyError
        assert any("the device is gone" in note for note in m.notes)

    def test_something_else_is_refused(self) -> None:
        with pytest.raises(TypeError, match="sync is 'always'"):
            measure(sync="always")  # type: ignore[arg-type]
        with pytest.raises(TypeError, match="sync is 7"):
            measured(sync=7)  # type: ignore[call-overload]


class TestWholeProcess:
    def test_ctrl_c_breaks_the_wait_and_it_can_be_asked_again(self, monkeypatch: pytest.MonkeyPatch) -> None:
        with measure() as m:
            work(0.01)
        with monkeypatch.context() as patch:
            patch.setattr(_shared_meter, "LATE_NS", 600 * _shared_meter.SECOND_NS)
            with pytest.raises(KeyboardInterrupt):
                threading.Timer(0.2, os.kill, (os.getpid(), signal.SIGINT)).start()
                _ = m.joules
        assert m.settled is None
        assert m.joules is not None

    def test_nobody_has_to_ask_and_the_meter_stops(self, monkeypatch: pytest.MonkeyPatch) -> None:
        with measure() as m:
            work(0.05)
        monkeypatch.setattr(_shared_meter, "KEEP_NS", _shared_meter.LATE_NS)
        wait_for(lambda: m.meter.is_stopped and not m.meter.native.is_running)
        assert m.settled is not None and m.joules is not None
        monkeypatch.undo()
        with measure() as later:
            work(0.05)
        assert later.meter is not m.meter and later.joules is not None

    def test_what_nobody_needs_is_forgotten(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(_shared_meter, "HISTORY_NS", 0)
        with measure() as keeps_the_meter:
            with measure() as m:
                work(0.05)
            assert m.joules is not None
            # The outer window is open: nothing of it goes.
            end_ns = m.end_ns or 0
            assert first_power_ns(m.meter.native) <= end_ns
        assert keeps_the_meter.joules is not None
        monkeypatch.setattr(_shared_meter, "KEEP_NS", 600 * _shared_meter.SECOND_NS)
        wait_for(lambda: first_power_ns(m.meter.native) > end_ns)

    def test_a_window_that_is_let_go_holds_nothing(self, monkeypatch: pytest.MonkeyPatch) -> None:
        block = measure()
        meter = block.__enter__().meter
        del block
        monkeypatch.setattr(_shared_meter, "KEEP_NS", 0)
        wait_for(lambda: meter.is_stopped)

    def test_a_forked_child_has_a_meter_of_its_own(self) -> None:
        told = run_python(FORKS)
        assert told.splitlines() == [
            "child: the window was opened before this process was forked",
            "child: joules True, new meter True, parent None",
            "parent: joules True",
            "child exit 0",
        ]

    def test_nothing_is_imported_for_it(self) -> None:
        told = run_python(
            "import sys, ergometer\n"
            "with ergometer.measure() as m: pass\n"
            "m.joules\n"
            "print([name for name in ('jax', 'torch', 'numpy', 'pandas', 'polars', 'pyarrow') if name in sys.modules])"
        )
        assert told.strip() == "[]"

    def test_a_process_may_end_with_a_window_open_or_unread(self) -> None:
        told = run_python(
            "import atexit, ergometer\n"
            "with ergometer.measure() as unread: sum(range(100000))\n"
            "ergometer.measure().__enter__()\n"
            "print('ends')"
        )
        assert told.strip() == "ends"


FORKS = """
import os, select, signal, sys
import ergometer
from ergometer.errors import MeterError

readable, writable = os.pipe()
with ergometer.measure("parent") as m:
    sum(range(1_000_000))
    child = os.fork()
    if child == 0:
        told = os.fdopen(writable, "w")
        try:
            try:
                m.joules
            except MeterError as error:
                print("child:", str(error).partition(";")[0], file=told)
            with ergometer.measure("child") as own:
                sum(range(1_000_000))
            print(f"child: joules {own.joules is not None}, new meter {own.meter is not m.meter},", end=" ", file=told)
            print("parent", own.parent, file=told)
            told.flush()
            code = 0
        except BaseException as error:
            print("child:", repr(error), file=told, flush=True)
            code = 1
        os._exit(code)
    os.close(writable)
    heard = b""
    while True:
        ready, _, _ = select.select([readable], [], [], 60)
        if not ready:
            os.kill(child, signal.SIGKILL)
            sys.exit("the child is stuck")
        some = os.read(readable, 4096)
        if not some:
            break
        heard += some
    print(heard.decode(), end="")
print("parent: joules", m.joules is not None)
print("child exit", os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""


def first_power_ns(meter: Meter) -> int:
    """The time of the oldest reading of energy or power there is."""
    timeline = meter.timeline()
    kinds = zip(timeline["time_ns"], timeline["provenance"])
    return min(time_ns for time_ns, provenance in kinds if provenance != "gauge")


def wait_for(condition: Callable[[], bool], seconds: float = 60) -> None:
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "it did not come to be"
        time.sleep(0.05)


def test_a_window_in_a_generator_that_is_let_go_is_closed() -> None:
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


def test_a_measurement_stays_in_its_process() -> None:
    with measure() as m:
        pass
    with pytest.raises(TypeError, match="to_dict"):
        pickle.dumps(m)


def test_the_names_are_there() -> None:
    assert {"measure", "measured", "Measurement", "Monitor"} <= set(ergometer.__all__)
