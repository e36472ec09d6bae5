"""The decorator `measured`, with the sensors of this machine."""

from __future__ import annotations

import asyncio
import inspect

import pytest

from ergometer import Measurement, measure, measured
from energy_sensors import needs_energy

pytestmark = needs_energy


def test_a_function_keeps_its_signature() -> None:
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


def test_on_result_is_called() -> None:
    results: list[Measurement] = []

    @measured(name="halving", on_result=results.append, sync=None)
    def half(number: float) -> float:
        return number / 2

    assert [half(4), half(8)] == [2, 4]
    assert results == list(half.measurements) and [m.name for m in results] == ["halving"] * 2
    assert not any(m.is_open for m in results)


def test_a_call_that_raises_is_measured() -> None:
    @measured
    def fail() -> None:
        raise LookupError

    with pytest.raises(LookupError):
        fail()
    assert fail.last is not None and fail.last.seconds > 0


def test_the_last_1000_measurements_are_kept() -> None:
    @measured(sync=None)
    def nothing() -> None: ...

    for _ in range(1001):
        nothing()
    assert len(nothing.measurements) == 1000
    # They are settled together, from one power curve.
    assert nothing.measurements[-1].joules is not None
    assert all(m._settled is not None for m in nothing.measurements)


def test_methods_can_be_decorated() -> None:
    class Model:
        @measured
        def run(self, number: int) -> int:
            return number + 1

    assert Model().run(1) == 2
    assert Model.run.last is not None and Model.run.last.name == "Model.run"


def test_a_coroutine_window_includes_awaiting() -> None:
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


def test_generators_are_an_error() -> None:
    def numbers() -> object:
        yield 1

    async def later() -> object:
        yield 1

    for function in (numbers, later):
        with pytest.raises(TypeError, match="is a generator.*hint: "):
            measured(function)
    with pytest.raises(TypeError, match="measured takes a function"):
        measured("name")  # type: ignore[call-overload]
