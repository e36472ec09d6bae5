"""Computes the energy of windows of time, with the sensors of this process.

All windows of the same devices share one native `Meter`. The first window starts it; it stops a few seconds after the
last one. A window is settled (its energy is computed and fixed) on first access, or before its readings are discarded:
so memory does not grow, even if measurements are never read.
"""

from __future__ import annotations

import atexit
import os
import threading
import weakref
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ergometer import _native
from ergometer.errors import MeterError, hint_of, message_of

if TYPE_CHECKING:
    from ergometer._native import Energy, Meter

SECOND_NS = 1_000_000_000

LATE_NS = 400_000_000
"""Delay after which all readings of a moment are available: counters update every 100 ms, drivers deliver late."""

FIRST_READINGS_S = 0.5
"""Timeout of a window for the first readings of a meter that was just started."""

KEEP_NS = 5 * SECOND_NS
"""Time that a meter runs after its last use. Starting one takes 0.1 s, and its first readings take longer."""

SETTLE_AFTER_NS = 10 * SECOND_NS
"""A window whose energy was not read is settled after this time, so that its readings can be discarded."""

HISTORY_NS = 10 * SECOND_NS
"""Time before a window for which readings are kept, to estimate the lag of a sensor."""

MAX_RECENT_WINDOWS = 200
"""Number of recent windows that the meter gets as known activity."""

Key = tuple[tuple[str, ...] | None, bool]


@dataclass(frozen=True)
class Settled:
    """The final energy of a window, or why it is unknown."""

    total: Energy | None
    devices: list[Energy]
    missing: str | None = None
    hint: str | None = None


class Window:
    """A window of time on the clock of a meter. `end_ns` is None while it is open."""

    _meter: SharedMeter
    _start_ns: int
    _end_ns: int | None = None
    _settled: Settled | None = None

    @property
    def start_ns(self) -> int:
        """When it began, in nanoseconds since the Unix epoch."""
        return self._start_ns

    @property
    def end_ns(self) -> int | None:
        """When it ended; None while it is open."""
        return self._end_ns

    def _take(self, native: Meter, settled: Settled) -> None:
        """Called once, when the energy is known and the readings are still available."""
        self._settled = settled


# Guards the state of all meters; never held while waiting for readings or computing energy. Reentrant: Python may close
# a forgotten generator, and the window in it, at any moment, also while this thread holds the lock.
_lock = threading.RLock()
_meters: dict[Key, SharedMeter] = {}
_all_meters: weakref.WeakSet[SharedMeter] = weakref.WeakSet()


class SharedMeter:
    """A native meter and the windows that use it. `open_window` returns a meter that runs."""

    def __init__(self, key: Key) -> None:
        devices, model = key
        self.key = key
        self.native = _native.Meter(None if devices is None else list(devices), model=model)
        self.has_energy = self.native.has_energy
        self.is_ready = False
        self._first_timeout_s = FIRST_READINGS_S
        self.is_stopped = False
        self.is_forked = False
        self._used_ns = self.native.now_ns()
        self._kept_from_ns = self._used_ns
        # By id, as weak references: a discarded window needs no energy.
        self._open: dict[int, weakref.ref[Window]] = {}
        self._unread: dict[int, weakref.ref[Window]] = {}
        self._recent: deque[tuple[int, int]] = deque(maxlen=MAX_RECENT_WINDOWS)
        # One thread at a time computes energies, because computing one takes as long as computing all. Reentrant: a
        # signal handler may read joules while this thread computes some.
        self._settling = threading.RLock()
        self._over = threading.Event()
        threading.Thread(target=self._housekeep, name="ergometer-meter", daemon=True).start()

    def wait_for_readings(self) -> bool:
        """Waits up to half a second until every channel of energy or power has a reading.

        Waits only once: a sensor without a reading by then may never have one, and later windows need not wait again.
        """
        if not self.is_ready:
            self.is_ready = not self.has_energy or self.native.wait_for_readings(self._first_timeout_s)
            self._first_timeout_s = 0.0
        return self.is_ready

    def now_ns(self) -> int:
        return self.native.now_ns()

    def close(self, window: Window, end_ns: int) -> None:
        """Ends a window. Its energy is available a little later."""
        window._end_ns = end_ns
        with _lock:
            self._open.pop(id(window), None)
            self._unread[id(window)] = weakref.ref(window)
            self._recent.append((window.start_ns, end_ns))
            self._used_ns = max(self._used_ns, end_ns)

    def add_part(self, window: Window) -> None:
        """Adds a window in the past that is a part of an open window.

        It is not recorded as activity, because no work started or ended at its limits, and not as a use of the meter.
        """
        with _lock:
            self._unread[id(window)] = weakref.ref(window)

    def drop(self, window: Window) -> None:
        """Removes an open window that will not be measured."""
        with _lock:
            self._open.pop(id(window), None)

    def settle(self, window: Window) -> None:
        """Waits until the readings around a closed window are available, and computes its energy.

        Ctrl-C interrupts the wait; a later call waits again.
        """
        self.check_process()
        assert window.end_ns is not None
        if not self.is_stopped and self.has_energy:
            self.native.wait_until(window.end_ns + LATE_NS)
        self._settle_due(LATE_NS, window)

    def check_process(self) -> None:
        """Raises MeterError if the window was opened before this process was forked."""
        if self.is_forked:
            raise MeterError(
                "the window was opened before this process was forked; only the parent process measures it",
                hint="open a new window in the child process",
            )

    def _settle_due(self, after_ns: int, requested: Window | None = None) -> None:
        """Settles windows that ended at least `after_ns` ago, from one power curve, so that adjacent windows add up."""
        with self._settling:
            if requested is not None and requested._settled is not None:
                return
            latest_ns = self.native.now_ns() - after_ns
            with _lock:
                windows = [window for reference in list(self._unread.values()) if (window := reference()) is not None]
                recent = list(self._recent)
            due = [window for window in windows if window.end_ns is not None and window.end_ns <= latest_ns]
            if requested is not None and requested not in due:
                due.append(requested)
            if not due:
                return
            spans = [(window.start_ns, window.end_ns or window.start_ns) for window in due]
            first_ns = min(start for start, _ in spans) - HISTORY_NS
            energies = self.native.energies(spans, [span for span in recent if span[1] >= first_ns])
            for window, (total, devices) in zip(due, energies):
                # A signal handler may have settled it meanwhile: the first result stays.
                if window._settled is None:
                    window._take(self.native, Settled(total, devices))
            with _lock:
                for window in due:
                    self._unread.pop(id(window), None)

    def _housekeep(self) -> None:
        """Once a second: settles old windows, discards readings that no window needs, and stops an unused meter."""
        is_over = False
        while not self._over.wait(1.0):
            now_ns = self.native.now_ns()
            with _lock:
                self._drop_discarded()
                is_idle = not self._open and now_ns - self._used_ns >= KEEP_NS
            after_ns = KEEP_NS if is_idle else SETTLE_AFTER_NS
            try:
                self._settle_due(after_ns)
            except Exception as error:  # Reported when the window's energy is read.
                self._give_up(now_ns - after_ns, error)
            with _lock:
                if not self._open and not self._unread and now_ns - self._used_ns >= KEEP_NS:
                    self._leave()
                    is_over = True
                    break
                references = (*self._open.values(), *self._unread.values())
                starts = [window.start_ns for reference in references if (window := reference()) is not None]
                horizon_ns = min(starts, default=now_ns) - HISTORY_NS
            if horizon_ns - self._kept_from_ns > HISTORY_NS:
                self.native.forget_before(horizon_ns)
                self._kept_from_ns = horizon_ns
        self.native.stop()
        if is_over:
            # Settled windows keep a reference to the meter, but need none of its readings.
            self.native.forget_before(self.native.now_ns())

    def _give_up(self, latest_ns: int, error: Exception) -> None:
        with _lock:
            windows = [window for reference in list(self._unread.values()) if (window := reference()) is not None]
            lost = [window for window in windows if window.end_ns is not None and window.end_ns <= latest_ns]
            for window in lost:
                self._unread.pop(id(window), None)
                window._settled = Settled(None, [], message_of(error), hint_of(error))

    def _drop_discarded(self) -> None:
        for references in (self._open, self._unread):
            for key in [key for key, reference in list(references.items()) if reference() is None]:
                references.pop(key, None)

    def _leave(self) -> None:
        """Removes the meter from those that new windows use. The caller holds the lock."""
        self.is_stopped = True
        if _meters.get(self.key) is self:
            del _meters[self.key]

    def stop_at_exit(self) -> None:
        with _lock:
            self._leave()
        self._over.set()
        self.native.stop()


def open_window(window: Window, devices: Sequence[str] | None, model: bool) -> SharedMeter:
    """Opens a window on the meter of these devices, and starts the meter if it does not run.

    The start of the window is provisional: readings are kept from then on. Set it again when the measured work begins.

    Raises:
        MeterError: A device does not exist.
    """
    key: Key = (None if devices is None else tuple(sorted(set(devices))), model)
    with _lock:
        meter = _meters.get(key)
        if meter is None:
            meter = SharedMeter(key)
            _meters[key] = meter
            _all_meters.add(meter)
        window._meter = meter
        window._start_ns = meter._used_ns = meter.now_ns()
        meter._open[id(window)] = weakref.ref(window)
    return meter


def has_energy(devices: Sequence[str] | None, model: bool) -> bool:
    """Whether a sensor has the energy or power of these devices. Starts their meter if it does not run.

    Raises:
        MeterError: A device does not exist.
    """
    window = Window()
    meter = open_window(window, devices, model)
    meter.drop(window)
    return meter.has_energy


def _stop_all() -> None:
    for meter in list(_meters.values()):
        meter.stop_at_exit()


# Kept forever in a forked child: freeing a meter could wait for threads that do not exist.
_abandoned: list[Meter] = []


def _after_fork_in_child() -> None:
    global _lock
    _lock = threading.RLock()
    for meter in list(_all_meters):
        meter.is_forked = True
        meter.native.abandon()
        _abandoned.append(meter.native)
    _meters.clear()
    _all_meters.clear()


atexit.register(_stop_all)
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork_in_child)
