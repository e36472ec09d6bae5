"""Waiting for the devices of JAX, which is there, and of torch, of which a stand-in records what is asked."""

from __future__ import annotations

import sys
import threading
from types import SimpleNamespace
from typing import Any

import pytest

import ergometer
from ergometer import _device_sync
from ergometer._device_sync import wait_for_devices
from other_process import run_python


def test_a_window_ends_when_jax_does() -> None:
    jax = pytest.importorskip("jax")
    import numpy

    release = threading.Event()

    def slow(value: Any) -> Any:
        assert release.wait(60)
        return numpy.asarray(value)

    compute = jax.jit(lambda value: jax.pure_callback(slow, jax.ShapeDtypeStruct((), "float32"), value) + 1)

    value = jax.numpy.float32(1)
    with ergometer.measure() as m:
        timer = threading.Timer(0.2, release.set)
        timer.start()
        result = compute(value)
    assert release.is_set() and result.is_ready()
    assert m.seconds > 0 and float(result) == 2


def test_what_jax_raises_is_kept_as_the_cause(monkeypatch: pytest.MonkeyPatch) -> None:
    jax = pytest.importorskip("jax")
    jax.devices()
    broken = SimpleNamespace(is_deleted=lambda: False, block_until_ready=_raise)
    monkeypatch.setattr(jax, "live_arrays", lambda: [broken])
    with pytest.raises(ergometer.errors.MeterError, match="out of memory") as raised, ergometer.measure():
        pytest.fail("the block was entered")
    assert isinstance(raised.value.__cause__, RuntimeError)


def _raise() -> None:
    raise RuntimeError("out of memory")


def test_arrays_that_were_deleted_are_not_waited_for() -> None:
    jax = pytest.importorskip("jax")
    array = jax.numpy.ones(8)
    array.delete()
    wait_for_devices()
    assert array.is_deleted()


def test_each_device_is_given_a_last_computation(monkeypatch: pytest.MonkeyPatch) -> None:
    jax = pytest.importorskip("jax")
    device = jax.devices()[0]
    accelerator = type("Accelerator", (), {"platform": "gpu"})()
    compile_barrier = _device_sync._compile_barrier
    compiled: list[object] = []
    waited: list[Any] = []

    def compile_for(module: Any, asked: object) -> Any:
        compiled.append(asked)
        barrier: Any = compile_barrier(module, device)
        return lambda: waited.append(barrier())

    monkeypatch.setattr(jax, "local_devices", lambda: [device, accelerator])
    monkeypatch.setattr(_device_sync, "_compile_barrier", compile_for)
    monkeypatch.setattr(_device_sync, "_barriers", {})
    wait_for_devices()
    wait_for_devices()
    assert compiled == [device, accelerator] and [float(number) for number in waited] == [1.0] * 4


def test_jax_that_is_only_imported_is_not_started() -> None:
    pytest.importorskip("jax")
    script = (
        "import jax, ergometer\n"
        "from jax._src import xla_bridge\n"
        "with ergometer.measure(): pass\n"
        "print(xla_bridge.backends_are_initialized())"
    )
    assert run_python(script).strip() == "False"


@pytest.mark.parametrize("is_initialized", [True, False])
def test_every_device_torch_uses_is_waited_for(monkeypatch: pytest.MonkeyPatch, is_initialized: bool) -> None:
    waited: list[object] = []

    def backend(name: str, count: int) -> SimpleNamespace:
        return SimpleNamespace(
            is_initialized=lambda: is_initialized,
            device_count=lambda: count,
            synchronize=lambda index: waited.append((name, index)),
        )

    torch = SimpleNamespace(
        cuda=backend("cuda", 3),
        xpu=backend("xpu", 1),
        backends=SimpleNamespace(mps=SimpleNamespace(is_available=lambda: is_initialized)),
        mps=SimpleNamespace(synchronize=lambda: waited.append("mps")),
        _C=SimpleNamespace(_cuda_hasPrimaryContext=lambda index: index != 1),
    )
    monkeypatch.setitem(sys.modules, "torch", torch)
    wait_for_devices()
    assert waited == ([("cuda", 0), ("cuda", 2), ("xpu", 0), "mps"] if is_initialized else [])
