"""The meter shared by all windows of a process: start and stop, memory, signals and forks."""

from __future__ import annotations

import os
import signal
import threading
from typing import Any

import pytest

from ergometer import _shared_meter, measure
from ergometer._native import Meter
from energy_sensors import needs_energy, wait_for, work
from subprocess_python import run_python

pytestmark = needs_energy


def test_ctrl_c_interrupts_the_wait_and_a_later_access_works(monkeypatch: pytest.MonkeyPatch) -> None:
    with measure() as m:
        work(0.01)
    with monkeypatch.context() as patch:
        patch.setattr(_shared_meter, "LATE_NS", 600 * _shared_meter.SECOND_NS)
        with pytest.raises(KeyboardInterrupt):
            threading.Timer(0.2, os.kill, (os.getpid(), signal.SIGINT)).start()
            _ = m.joules
    assert m._settled is None
    assert m.joules is not None


def test_a_signal_handler_can_read_energy_during_the_computation(monkeypatch: pytest.MonkeyPatch) -> None:
    with measure() as m:
        work(0.01)
    with measure() as other:
        work(0.01)
    output: list[float | None] = []
    meter = m._meter
    native = meter.native

    class Interrupted:
        """A meter that gets a signal during its computation."""

        def __getattr__(self, name: str) -> Any:
            return getattr(native, name)

        def energies(self, *arguments: Any) -> Any:
            meter.native = native
            signal.raise_signal(signal.SIGUSR1)
            return native.energies(*arguments)

    def ask(number: int, frame: object) -> None:
        # A deadlocked thread would never finish.
        assert meter._settling.acquire(blocking=False), "deadlock"
        meter._settling.release()
        output.extend([m.joules, other.joules])

    before = signal.signal(signal.SIGUSR1, ask)
    try:
        monkeypatch.setattr(meter, "native", Interrupted())
        first = m.joules
    finally:
        signal.signal(signal.SIGUSR1, before)
    assert first is not None and output[0] == first == m.joules and output[1] == other.joules is not None


def test_a_stopped_meter_keeps_no_readings(monkeypatch: pytest.MonkeyPatch) -> None:
    with measure() as m:
        work(0.3)
    assert m.joules is not None
    native = m._meter.native
    before = native.timeline().num_rows
    channels = native.latest().num_rows
    assert before > channels
    monkeypatch.setattr(_shared_meter, "KEEP_NS", 0)
    wait_for(lambda: native.timeline().num_rows <= channels)
    assert m._meter.is_stopped and m.joules is not None


def test_an_unread_window_does_not_keep_the_meter_running(monkeypatch: pytest.MonkeyPatch) -> None:
    with measure() as m:
        work(0.05)
    monkeypatch.setattr(_shared_meter, "KEEP_NS", _shared_meter.LATE_NS)
    wait_for(lambda: m._meter.is_stopped and not m._meter.native.is_running)
    assert m._settled is not None and m.joules is not None
    monkeypatch.undo()
    with measure() as later:
        work(0.05)
    assert later._meter is not m._meter and later.joules is not None


def test_old_readings_are_discarded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_shared_meter, "HISTORY_NS", 0)
    with measure() as keeps_the_meter:
        with measure() as m:
            work(0.05)
        assert m.joules is not None
        # The outer window is open, so its readings are kept.
        end_ns = m.end_ns or 0
        assert first_power_ns(m._meter.native) <= end_ns
    assert keeps_the_meter.joules is not None
    monkeypatch.setattr(_shared_meter, "KEEP_NS", 600 * _shared_meter.SECOND_NS)
    wait_for(lambda: first_power_ns(m._meter.native) > end_ns)


def test_a_deleted_window_keeps_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    block = measure()
    meter = block.__enter__()._meter
    del block
    monkeypatch.setattr(_shared_meter, "KEEP_NS", 0)
    wait_for(lambda: meter.is_stopped)


def test_a_forked_child_starts_its_own_meter() -> None:
    output = run_python(FORKS)
    assert output.splitlines() == [
        "child: the window was opened before this process was forked",
        "child: joules True, new meter True, parent None",
        "parent: joules True",
        "child exit 0",
    ]


def test_a_process_can_exit_with_open_or_unread_windows() -> None:
    output = run_python(
        "import atexit, ergometer\n"
        "with ergometer.measure() as unread: sum(range(100000))\n"
        "ergometer.measure().__enter__()\n"
        "print('ends')"
    )
    assert output.strip() == "ends"


FORKS = """
import os, select, signal, sys
import ergometer
from ergometer.errors import MeterError

readable, writable = os.pipe()
with ergometer.measure("parent") as m:
    sum(range(1_000_000))
    child = os.fork()
    if child == 0:
        output = os.fdopen(writable, "w")
        try:
            try:
                m.joules
            except MeterError as error:
                print("child:", str(error).partition(";")[0], file=output)
            with ergometer.measure("child") as own:
                sum(range(1_000_000))
            print(f"child: joules {own.joules is not None}, new meter {own._meter is not m._meter}",
                  end=", ", file=output)
            print("parent", own.parent, file=output)
            output.flush()
            code = 0
        except BaseException as error:
            print("child:", repr(error), file=output, flush=True)
            code = 1
        os._exit(code)
    os.close(writable)
    received = b""
    while True:
        ready, _, _ = select.select([readable], [], [], 60)
        if not ready:
            os.kill(child, signal.SIGKILL)
            sys.exit("the child is stuck")
        some = os.read(readable, 4096)
        if not some:
            break
        received += some
    print(received.decode(), end="")
print("parent: joules", m.joules is not None)
print("child exit", os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""


def first_power_ns(meter: Meter) -> int:
    """The time of the oldest energy or power reading."""
    timeline = meter.timeline()
    kinds = zip(timeline["time_ns"], timeline["provenance"])
    return min(int(time_ns) for time_ns, provenance in kinds if provenance != "gauge")
