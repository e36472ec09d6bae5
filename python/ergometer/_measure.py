"""The energy of a block or a function: `measure` and `measured`."""

from __future__ import annotations

import functools
import inspect
import weakref
from collections import deque
from collections.abc import Callable, Sequence
from contextvars import ContextVar
from types import TracebackType
from typing import Any, Concatenate, Literal, ParamSpec, Protocol, TypeVar, overload

from ergometer._device_sync import wait_for_devices
from ergometer._shared_meter import open_window
from ergometer.errors import MeterError
from ergometer.measurement import Measurement

Parameters = ParamSpec("Parameters")
AfterFirst = ParamSpec("AfterFirst")
Result = TypeVar("Result")
ResultOut = TypeVar("ResultOut", covariant=True)

Sync = Literal["auto"] | Callable[[], object] | None

MOST_KEPT = 1000
"""So many of its last measurements a decorated function keeps."""

# The window around what runs now; threads and tasks have their own. Weakly: one that is never left, in a generator
# that nobody goes on with, must not keep the sensors running for good.
_innermost: ContextVar[weakref.ref[Measurement] | None] = ContextVar("ergometer_innermost", default=None)


class Measure:
    """A block that is measured; `measure` makes one, and it serves once."""

    def __init__(self, name: str | None, devices: Sequence[str] | None, sync: Sync, model: bool) -> None:
        self._name = name
        self._devices = devices
        self._wait = _waiting(sync)
        self._model = model
        self._measurement: Measurement | None = None

    def __enter__(self) -> Measurement:
        if self._measurement is not None:
            raise MeterError("this window was opened before. hint: call ergometer.measure() for each block")
        window = Measurement(self._name, _open_around())
        meter = open_window(window, self._devices, self._model)
        try:
            if not meter.wait_for_readings():
                window._notes.append("a sensor had no reading when the window began")
            self._synchronize()
        except BaseException:
            meter.drop(window)
            raise
        self._measurement = window
        _enclose(window)
        window._start_ns = meter.now_ns()
        return window

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        window = self._measurement
        assert window is not None, "left before it was entered"
        if _enclosing() is window:
            _enclose(window.parent)
        if window._meter.is_forked:
            return
        try:
            self._synchronize()
        except MeterError as failure:
            # What the block itself raised says more.
            if error is None:
                raise
            window._notes.append(str(failure))
        finally:
            window._meter.close(window, window._meter.now_ns())

    def _synchronize(self) -> None:
        try:
            self._wait()
        except Exception as cause:
            raise MeterError(
                f"waiting for the devices failed: {type(cause).__name__}: {cause}. "
                "hint: `sync=None` measures without waiting for them"
            ) from cause


def measure(
    name: str | None = None,
    *,
    devices: Sequence[str] | None = None,
    sync: Sync = "auto",
    model: bool = True,
) -> Measure:
    """Measures the energy and the time of a `with` block.

    The first window of a process starts the sensors, and waits for the first reading of each, half a second at most,
    before it begins: so its start lies between readings. They go on for five seconds after the last window. Leaving
    the block costs no more than waiting for the devices; the energy is found when it is asked for, and that waits
    until 0.4 s after the block's end. Windows may be nested, and be open in many threads at once: each has the energy
    of the devices in its time, whoever used them.

    An exception ends the window too: what was used is kept, and the exception passes.

    Args:
        name: what is measured, for people.
        devices: only these, as `ergo doctor` names them: `gpu:0`, `gpu`, `cpu:0`; all by default.
        sync: what to wait for before the window begins and before it ends, so that it ends when a GPU does.
            `"auto"` waits for JAX and torch where the process uses them, a function is called, None is nothing. The
            first time a window sees a GPU of JAX it compiles an addition to wait with: before it begins, or, where
            JAX is first used in the block, at its end, 0.1 s on an H200. Later waits take 0.6 ms there.
        model: whether the power of a CPU that nothing measures is modelled from its use.

    Returns:
        A context manager; `as` gives the `Measurement`.

    Raises:
        MeterError: there is no such device, or waiting for the devices failed. No sensor at all is no error: then
            `joules` is None, and `missing` says why.

    >>> import ergometer
    >>> with ergometer.measure("sum of squares") as m:
    ...     total = sum(i * i for i in range(1_000_000))
    >>> print(m)  # doctest: +ELLIPSIS
    sum of squares  ...s  ...
    >>> m.seconds > 0
    True
    """
    return Measure(name, _device_names(devices), sync, model)


class MeasuredFunction(Protocol[Parameters, ResultOut]):
    """A function that measures each of its calls."""

    @property
    def measurements(self) -> deque[Measurement]:
        """Of its last 1000 calls, the latest at the end."""

    @property
    def last(self) -> Measurement | None:
        """Of the call that ended last; None before the first."""

    def __call__(self, *args: Parameters.args, **kwargs: Parameters.kwargs) -> ResultOut: ...

    @overload
    def __get__(self, instance: None, owner: type | None = None) -> MeasuredFunction[Parameters, ResultOut]: ...
    @overload
    def __get__(
        self: MeasuredFunction[Concatenate[Any, AfterFirst], ResultOut], instance: object, owner: type | None = None
    ) -> Callable[AfterFirst, ResultOut]: ...


@overload
def measured(function: Callable[Parameters, Result], /) -> MeasuredFunction[Parameters, Result]: ...
@overload
def measured(
    *,
    name: str | None = None,
    on_result: Callable[[Measurement], object] | None = None,
    devices: Sequence[str] | None = None,
    sync: Sync = "auto",
    model: bool = True,
) -> Callable[[Callable[Parameters, Result]], MeasuredFunction[Parameters, Result]]: ...
def measured(
    function: Callable[..., Any] | None = None,
    /,
    *,
    name: str | None = None,
    on_result: Callable[[Measurement], object] | None = None,
    devices: Sequence[str] | None = None,
    sync: Sync = "auto",
    model: bool = True,
) -> Any:
    """Measures every call of a function, as `measure` does a block.

    The function keeps its name and its signature. Its `measurements` are those of its last 1000 calls, `last` is the
    latest. Calls that raise are among them. Of an `async def` the window spans all its awaiting; waiting for devices
    at its ends blocks the event loop.

    Args:
        name: in place of the function's own.
        on_result: called with the `Measurement` after each call. Asking it for joules waits for them there.
        devices: as for `measure`; so are `sync` and `model`.

    Raises:
        TypeError: the function is a generator: it has no end that could be waited for.

    >>> import ergometer
    >>> @ergometer.measured
    ... def square(number):
    ...     return number * number
    >>> square(12)
    144
    >>> square.last.name, len(square.measurements)
    ('square', 1)
    """
    if function is None:
        return functools.partial(
            _decorate, name=name, on_result=on_result, block=(_device_names(devices), _checked(sync), model)
        )
    return _decorate(function, name=name, on_result=on_result, block=(_device_names(devices), _checked(sync), model))


def _decorate(
    function: Callable[..., Any],
    *,
    name: str | None,
    on_result: Callable[[Measurement], object] | None,
    block: tuple[Sequence[str] | None, Sync, bool],
) -> Any:
    if not callable(function):
        raise TypeError(f"measured takes a function, not {function!r}. hint: @ergometer.measured(name={function!r})")
    called = name or getattr(function, "__qualname__", type(function).__name__).rpartition("<locals>.")[2]
    if inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function):
        raise TypeError(
            f"{called} is a generator: between its values others run, so a call of it has no window. "
            "hint: use `with ergometer.measure():` around the loop that takes its values"
        )
    measurements: deque[Measurement] = deque(maxlen=MOST_KEPT)

    def keep(measurement: Measurement | None) -> None:
        # None where it did not come to a window: waiting for the devices failed before.
        if measurement is not None:
            measurements.append(measurement)
            wrapper.last = measurement  # type: ignore[attr-defined]
            if on_result is not None:
                on_result(measurement)

    if inspect.iscoroutinefunction(function):

        @functools.wraps(function)
        async def wrapper(*args: Any, **kwargs: Any) -> Any:
            measurement = None
            try:
                with Measure(called, *block) as measurement:
                    return await function(*args, **kwargs)
            finally:
                keep(measurement)

    else:

        @functools.wraps(function)
        def wrapper(*args: Any, **kwargs: Any) -> Any:
            measurement = None
            try:
                with Measure(called, *block) as measurement:
                    return function(*args, **kwargs)
            finally:
                keep(measurement)

    wrapper.measurements = measurements  # type: ignore[attr-defined]
    wrapper.last = None  # type: ignore[attr-defined]
    return wrapper


def _enclosing() -> Measurement | None:
    reference = _innermost.get()
    return None if reference is None else reference()


def _enclose(window: Measurement | None) -> None:
    _innermost.set(None if window is None else weakref.ref(window))


def _open_around() -> Measurement | None:
    """The innermost window that is still open; a task may outlive the one it was started in."""
    window = _enclosing()
    while window is not None and (not window.is_open or window._meter.is_forked):
        window = window.parent
    return window


def _device_names(devices: Sequence[str] | None) -> Sequence[str] | None:
    if isinstance(devices, str):
        return (devices,)
    return None if devices is None else tuple(devices)


def _checked(sync: Sync) -> Sync:
    _waiting(sync)
    return sync


def _waiting(sync: Sync) -> Callable[[], object]:
    if sync is None:
        return lambda: None
    if sync == "auto":
        return wait_for_devices
    if callable(sync):
        return sync
    raise TypeError(f'sync is {sync!r}. hint: give "auto", a function to call, or None')
