"""The meters of this process: windows of time go in, their energy comes out.

All windows of the same devices share one native `Meter`. It is started by the first, and stopped some seconds after
the last. A window is settled (its energy found and fixed) when somebody first asks, and at the latest when
readings are to be forgotten: so memory does not grow, whatever is measured and never looked at.
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
from ergometer.errors import MeterError

if TYPE_CHECKING:
    from ergometer._native import Energy, Meter

SECOND_NS = 1_000_000_000

LATE_NS = 400_000_000
"""So late after a moment are all readings of it in: a counter steps every 100 ms, a driver hands samples out later."""

FIRST_READINGS_S = 0.5
"""So long a window waits for the first readings of a meter that was just started."""

KEEP_NS = 5 * SECOND_NS
"""So long after its last use a meter goes on: starting one takes a tenth of a second, and its first readings more."""

SETTLE_AFTER_NS = 10 * SECOND_NS
"""A window that nobody asked about is settled after this time, so that its readings can go."""

HISTORY_NS = 10 * SECOND_NS
"""Readings before a window that are kept for it: how a sensor lags is learned from them."""

MOST_EDGES = 200
"""Of so many windows before those asked for the edges are told to the meter."""

Key = tuple[tuple[str, ...] | None, bool]


@dataclass(frozen=True)
class Settled:
    """What the meter says about a window, once and for all."""

    total: Energy | None
    devices: list[Energy]
    missing: str | None = None


class Window:
    """A stretch of time on the clock of a meter. `end_ns` is None while it is open."""

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
        """Called once, when the energy is known and the readings are still there."""
        self._settled = settled


# Guards the state of all meters; never held while waiting for readings or finding energy. Reentrant: Python may end a
# forgotten generator, and the window inside it, at any moment, also while this thread holds it.
_lock = threading.RLock()
_meters: dict[Key, SharedMeter] = {}
_all_meters: weakref.WeakSet[SharedMeter] = weakref.WeakSet()


class SharedMeter:
    """A native meter and the windows that need it. `open_window` gives one that runs."""

    def __init__(self, key: Key) -> None:
        devices, model = key
        self.key = key
        self.native = _native.Meter(None if devices is None else list(devices), model=model)
        self.has_energy = self.native.has_energy
        self.is_ready = False
        self._patience_s = FIRST_READINGS_S
        self.is_stopped = False
        self.is_forked = False
        self._used_ns = self.native.now_ns()
        self._kept_from_ns = self._used_ns
        # By id, weakly: what nobody holds any more needs no energy.
        self._open: dict[int, weakref.ref[Window]] = {}
        self._unread: dict[int, weakref.ref[Window]] = {}
        self._recent: deque[tuple[int, int]] = deque(maxlen=MOST_EDGES)
        # One at a time finds energies: they come from one curve, and each takes as long as all. Reentrant: a handler of
        # a signal may ask for joules while this thread finds some.
        self._settling = threading.RLock()
        self._over = threading.Event()
        threading.Thread(target=self._keep_house, name="ergometer-meter", daemon=True).start()

    def wait_for_readings(self) -> bool:
        """Waits until every channel of energy or power has a reading, for half a second at most.

        Once only: a sensor that has not spoken by then may never do, and later windows need not wait for it again.
        """
        if not self.is_ready:
            self.is_ready = not self.has_energy or self.native.wait_for_readings(self._patience_s)
            self._patience_s = 0.0
        return self.is_ready

    def now_ns(self) -> int:
        return self.native.now_ns()

    def close(self, window: Window, end_ns: int) -> None:
        """Ends a window. What it cost is known a little later."""
        window._end_ns = end_ns
        with _lock:
            self._open.pop(id(window), None)
            self._unread[id(window)] = weakref.ref(window)
            self._recent.append((window.start_ns, end_ns))
            self._used_ns = max(self._used_ns, end_ns)

    def add_part(self, window: Window) -> None:
        """Takes in a window that ended before, as a part of one that is open still.

        Nothing began or ended with it: it is no activity that readings could show, and no use of the meter.
        """
        with _lock:
            self._unread[id(window)] = weakref.ref(window)

    def drop(self, window: Window) -> None:
        """A window that was opened and will not be measured."""
        with _lock:
            self._open.pop(id(window), None)

    def settle(self, window: Window) -> None:
        """Waits until the readings that frame a closed window are in, and finds its energy.

        Ctrl-C breaks the wait; it can be asked again.
        """
        self.check_process()
        assert window.end_ns is not None
        if not self.is_stopped and self.has_energy:
            self.native.wait_until(window.end_ns + LATE_NS)
        self._settle_those_due(LATE_NS, window)

    def check_process(self) -> None:
        """Raises MeterError where the window was opened by the process this one was forked from."""
        if self.is_forked:
            raise MeterError(
                "the window was opened before this process was forked; it is measured in the process it was opened in. "
                "hint: open a window of its own in the child"
            )

    def _settle_those_due(self, after_ns: int, asked: Window | None = None) -> None:
        """Settles what ended at least so long ago. One curve for all, so that adjacent windows sum to the whole."""
        with self._settling:
            if asked is not None and asked._settled is not None:
                return
            latest_ns = self.native.now_ns() - after_ns
            with _lock:
                windows = [window for reference in list(self._unread.values()) if (window := reference()) is not None]
                recent = list(self._recent)
            due = [window for window in windows if window.end_ns is not None and window.end_ns <= latest_ns]
            if asked is not None and asked not in due:
                due.append(asked)
            if not due:
                return
            spans = [(window.start_ns, window.end_ns or window.start_ns) for window in due]
            first_ns = min(start for start, _ in spans) - HISTORY_NS
            found = self.native.energies(spans, [span for span in recent if span[1] >= first_ns])
            for window, (total, devices) in zip(due, found):
                # A handler of a signal may have asked meanwhile: what was told stays.
                if window._settled is None:
                    window._take(self.native, Settled(total, devices))
            with _lock:
                for window in due:
                    self._unread.pop(id(window), None)

    def _keep_house(self) -> None:
        """Once a second: settles what waits too long, forgets what nobody needs, and stops when nobody is there."""
        is_over = False
        while not self._over.wait(1.0):
            now_ns = self.native.now_ns()
            with _lock:
                self._drop_dead()
                is_idle = not self._open and now_ns - self._used_ns >= KEEP_NS
            after_ns = KEEP_NS if is_idle else SETTLE_AFTER_NS
            try:
                self._settle_those_due(after_ns)
            except Exception as error:  # No one is there to hear it but who asks about the window later.
                self._give_up(now_ns - after_ns, str(error))
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
            # A window that is settled holds its meter, and needs none of the readings.
            self.native.forget_before(self.native.now_ns())

    def _give_up(self, latest_ns: int, reason: str) -> None:
        with _lock:
            windows = [window for reference in list(self._unread.values()) if (window := reference()) is not None]
            lost = [window for window in windows if window.end_ns is not None and window.end_ns <= latest_ns]
            for window in lost:
                self._unread.pop(id(window), None)
                window._settled = Settled(None, [], reason)

    def _drop_dead(self) -> None:
        for references in (self._open, self._unread):
            for key in [key for key, reference in list(references.items()) if reference() is None]:
                references.pop(key, None)

    def _leave(self) -> None:
        """No longer the meter that new windows find. With the lock held."""
        self.is_stopped = True
        if _meters.get(self.key) is self:
            del _meters[self.key]

    def stop_at_exit(self) -> None:
        with _lock:
            self._leave()
        self._over.set()
        self.native.stop()


def open_window(window: Window, devices: Sequence[str] | None, model: bool) -> SharedMeter:
    """Begins a window on the meter of these devices, which is started where none runs.

    The window's start is provisional: readings are kept from then on. Set it anew when what is measured begins.

    Raises:
        MeterError: there is no such device.
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
    """Whether anything tells of the energy of these devices. The meter that was asked waits for windows, as ever.

    Raises:
        MeterError: there is no such device.
    """
    window = Window()
    meter = open_window(window, devices, model)
    meter.drop(window)
    return meter.has_energy


def _stop_all() -> None:
    for meter in list(_meters.values()):
        meter.stop_at_exit()


# Kept for good in a child: the threads of these meters are not there, and freeing one could wait for them.
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
