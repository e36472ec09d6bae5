"""Measures the energy of a block (`measure`) or of a function (`measured`)."""

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
from ergometer.errors import MeterError, with_hint
from ergometer.measurement import Measurement

Parameters = ParamSpec("Parameters")
AfterFirst = ParamSpec("AfterFirst")
Result = TypeVar("Result")
ResultOut = TypeVar("ResultOut", covariant=True)

Sync = Literal["auto"] | Callable[[], object] | None

MAX_MEASUREMENTS = 1000
"""Number of latest measurements that a decorated function keeps."""

# The innermost open window of the current thread or task. A weak reference: a window in a generator that is never
# resumed must not keep the sensors running forever.
_innermost: ContextVar[weakref.ref[Measurement] | None] = ContextVar("ergometer_innermost", default=None)


class Measure:
    """The context manager of `measure`. It can be used once."""

    def __init__(self, name: str | None, devices: Sequence[str] | None, sync: Sync, model: bool) -> None:
        self._name = name
        self._devices = devices
        self._wait = _wait_function(sync)
        self._model = model
        self._measurement: Measurement | None = None

    def __enter__(self) -> Measurement:
        if self._measurement is not None:
            raise MeterError("this window was already used", hint="call ergometer.measure() for each block")
        window = Measurement(self._name, _enclosing_open())
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
        assert window is not None, "__exit__ without __enter__"
        if _enclosing() is window:
            _enclose(window.parent)
        if window._meter.is_forked:
            return
        try:
            self._synchronize()
        except MeterError as failure:
            # The exception of the block is more important.
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
                f"waiting for the devices failed: {type(cause).__name__}: {cause}",
                hint="set sync=None to measure without waiting for them",
            ) from cause


def measure(
    name: str | None = None,
    *,
    devices: Sequence[str] | None = None,
    sync: Sync = "auto",
    model: bool = True,
) -> Measure:
    """Measures the energy and the time of a `with` block.

    The first window of a process starts the sensors and waits up to half a second for the first reading of each, so
    that the start of the window lies between readings. The sensors run for five more seconds after the last window.
    Leaving the block only waits for the devices. The energy is computed on first access, which waits until 0.4 s after
    the end of the block. Windows can be nested, and can be open in many threads at once: each has the energy of whole
    devices during its time, whichever program used them.

    An exception also ends the window: the measurement is kept, and the exception propagates.

    Args:
        name: A label for the measurement.
        devices: The devices to measure, with the names of `ergo doctor`: `gpu:0`, `gpu`, `cpu:0`; by default all.
        sync: How to wait for the devices at the start and at the end of the window, so that the window includes all
            work of a GPU. `"auto"` waits for JAX and torch if the process uses them, a function is called, None does
            not wait. The first wait for a JAX GPU compiles an addition (0.1 s on an H200): before the window begins, or
            at its end if JAX is first used in the block. Later waits take 0.6 ms.
        model: Whether to model the power of a CPU without a power sensor from its utilization.

    Returns:
        A context manager; `as` gives the `Measurement`.

    Raises:
        MeterError: A device does not exist, or waiting for the devices failed. A machine without sensors is not an
            error: then `joules` is None, and `missing` gives the reason.

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
        """The measurements of its last 1000 calls, the latest at the end."""

    @property
    def last(self) -> Measurement | None:
        """The measurement of the call that ended last; None before the first call."""

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
    """Measures every call of a function, like `measure` does for a block.

    The function keeps its name and its signature. Its attribute `measurements` has the measurements of the last 1000
    calls, including calls that raise; `last` is the latest. The window of an `async def` function includes the time it
    awaits; waiting for devices at its start and end blocks the event loop.

    Args:
        name: The name of the measurements, instead of the function's name.
        on_result: Called with the `Measurement` after each call. Reading its joules waits for the sensors.
        devices: See `measure`.
        sync: See `measure`.
        model: See `measure`.

    Raises:
        TypeError: The function is a generator, so a call of it does not run its body.

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
        raise TypeError(
            with_hint(f"measured takes a function, not {function!r}", f"use @ergometer.measured(name={function!r})")
        )
    label = name or getattr(function, "__qualname__", type(function).__name__).rpartition("<locals>.")[2]
    if inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function):
        raise TypeError(
            with_hint(
                f"{label} is a generator: other code runs between its values, so its calls cannot be measured",
                "use `with ergometer.measure():` around the loop over its values",
            )
        )
    measurements: deque[Measurement] = deque(maxlen=MAX_MEASUREMENTS)

    def keep(measurement: Measurement | None) -> None:
        # None if waiting for the devices failed before the window began.
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
                with Measure(label, *block) as measurement:
                    return await function(*args, **kwargs)
            finally:
                keep(measurement)

    else:

        @functools.wraps(function)
        def wrapper(*args: Any, **kwargs: Any) -> Any:
            measurement = None
            try:
                with Measure(label, *block) as measurement:
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


def _enclosing_open() -> Measurement | None:
    """The innermost window that is still open; a task may outlive the window it was started in."""
    window = _enclosing()
    while window is not None and (not window.is_open or window._meter.is_forked):
        window = window.parent
    return window


def _device_names(devices: Sequence[str] | None) -> Sequence[str] | None:
    if isinstance(devices, str):
        return (devices,)
    return None if devices is None else tuple(devices)


def _checked(sync: Sync) -> Sync:
    _wait_function(sync)
    return sync


def _wait_function(sync: Sync) -> Callable[[], object]:
    if sync is None:
        return lambda: None
    if sync == "auto":
        return wait_for_devices
    if callable(sync):
        return sync
    raise TypeError(f'sync must be "auto", a function or None, not {sync!r}')
