"""Waiting for the devices of JAX, and of torch, which is replaced by a fake that records calls."""

from __future__ import annotations

import gc
import sys
import threading
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest

import ergometer
from ergometer import _device_sync
from ergometer._device_sync import wait_for_devices, wait_for_output
from ergometer._shared_meter import SharedMeter
from subprocess_python import run_python


@pytest.mark.parametrize("sync", ["auto", None])
def test_a_window_ends_after_the_last_queued_work(monkeypatch: pytest.MonkeyPatch, sync: Any) -> None:
    """On CPU JAX may compute within the call, so the test checks the order of calls, not times."""
    jax = pytest.importorskip("jax")
    device = jax.devices()[0]
    steps: list[str] = []
    barrier = _device_sync._compile_barrier(jax, (device,))
    close = SharedMeter.close

    def wait() -> object:
        done = barrier()
        steps.append("waited")
        return done

    def close_window(meter: SharedMeter, window: Any, end_ns: int) -> None:
        steps.append("closed")
        close(meter, window, end_ns)

    monkeypatch.setattr(jax, "local_devices", lambda *_, **__: [device])
    monkeypatch.setattr(_device_sync, "_barriers", {(device,): wait})
    monkeypatch.setattr(SharedMeter, "close", close_window)
    with ergometer.measure(sync=sync) as m:
        steps.append("block")
    assert steps == (["waited", "block", "waited", "closed"] if sync == "auto" else ["block", "closed"])
    assert m.seconds > 0


def test_a_window_ends_when_an_array_is_ready(monkeypatch: pytest.MonkeyPatch) -> None:
    jax = pytest.importorskip("jax")
    jax.devices()
    is_asked, is_ready = threading.Event(), threading.Event()

    def block_until_ready() -> None:
        is_asked.set()
        assert is_ready.wait(60)

    slow = SimpleNamespace(is_deleted=lambda: False, block_until_ready=block_until_ready)
    left: list[ergometer.Measurement] = []

    def run() -> None:
        with ergometer.measure() as m:
            monkeypatch.setattr(jax, "live_arrays", lambda: [slow])
        left.append(m)

    thread = threading.Thread(target=run)
    thread.start()
    assert is_asked.wait(60)
    assert left == [], "the window ended before the array was ready"
    is_ready.set()
    thread.join(60)
    assert len(left) == 1 and not left[0].is_open


def test_an_error_of_jax_is_the_cause(monkeypatch: pytest.MonkeyPatch) -> None:
    jax = pytest.importorskip("jax")
    jax.devices()
    broken = SimpleNamespace(is_deleted=lambda: False, block_until_ready=_raise)
    monkeypatch.setattr(jax, "live_arrays", lambda: [broken])
    with pytest.raises(ergometer.errors.MeterError, match="out of memory") as raised, ergometer.measure():
        pytest.fail("the block was entered")
    assert isinstance(raised.value.__cause__, RuntimeError)


def _raise() -> None:
    raise RuntimeError("out of memory")


def test_deleted_arrays_are_not_waited_for() -> None:
    jax = pytest.importorskip("jax")
    array = jax.numpy.ones(8)
    array.delete()
    wait_for_devices()
    assert array.is_deleted()


def test_each_device_runs_a_barrier(monkeypatch: pytest.MonkeyPatch) -> None:
    jax = pytest.importorskip("jax")
    device = jax.devices()[0]
    accelerator = type("Accelerator", (), {"platform": "gpu"})()
    compile_barrier = _device_sync._compile_barrier
    compiled: list[object] = []
    waited: list[Any] = []

    def compile_for(module: Any, asked: object) -> Any:
        compiled.append(asked)
        barrier: Any = compile_barrier(module, (device,))
        return lambda: waited.append(barrier())

    monkeypatch.setattr(jax, "local_devices", lambda: [device, accelerator])
    monkeypatch.setattr(_device_sync, "_compile_barrier", compile_for)
    monkeypatch.setattr(_device_sync, "_barriers", {})
    wait_for_devices()
    wait_for_devices()
    assert compiled == [(device,), (accelerator,)] and [float(number) for number in waited] == [1.0] * 4


def test_a_forgotten_window_may_end_while_a_barrier_compiles(monkeypatch: pytest.MonkeyPatch) -> None:
    """The garbage collector can close a generator at any time, and closing its window waits for the devices."""
    jax = pytest.importorskip("jax")
    jax.devices()
    compile_barrier = _device_sync._compile_barrier
    forgotten: list[ergometer.Measurement] = []

    def in_a_circle() -> Iterator[Any]:
        myself: Any = yield
        with ergometer.measure(sync=None) as m:
            forgotten.append(m)
            with ergometer.measure():
                yield myself

    def compile_and_collect(module: Any, device: Any) -> Any:
        gc.collect()
        return compile_barrier(module, device)

    generator = in_a_circle()
    next(generator)
    gc.disable()
    try:
        generator.send([generator])
        del generator
        monkeypatch.setattr(_device_sync, "_compile_barrier", compile_and_collect)
        monkeypatch.setattr(_device_sync, "_barriers", {})
        # In a separate thread, so that a deadlock fails the test instead of hanging it.
        thread = threading.Thread(target=wait_for_devices, daemon=True)
        thread.start()
        thread.join(60)
    finally:
        gc.enable()
    assert not thread.is_alive(), "deadlock"
    assert len(forgotten) == 1 and not forgotten[0].is_open


def test_jax_is_not_initialized_by_waiting() -> None:
    pytest.importorskip("jax")
    script = (
        "import jax, ergometer\n"
        "from jax._src import xla_bridge\n"
        "with ergometer.measure(): pass\n"
        "print(xla_bridge.backends_are_initialized())"
    )
    assert run_python(script).strip() == "False"


def test_devices_of_one_platform_run_a_common_barrier() -> None:
    """Computations on several devices have a separate queue."""
    pytest.importorskip("jax")
    script = """
        import os
        os.environ["XLA_FLAGS"] = "--xla_force_host_platform_device_count=3"
        import jax
        from ergometer import _device_sync
        jax.devices()
        _device_sync.wait_for_devices()
        print(sorted(len(devices) for devices in _device_sync._barriers))
        with jax.disable_jit():
            _device_sync._barriers.clear()
            _device_sync.wait_for_devices()
        print(len(_device_sync._barriers))
    """
    assert run_python(script) == "[1, 1, 1, 3]\n0\n"


@pytest.mark.parametrize("is_initialized", [True, False])
def test_every_torch_device_in_use_is_waited_for(monkeypatch: pytest.MonkeyPatch, is_initialized: bool) -> None:
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
    for wait in (wait_for_devices, lambda: wait_for_output(None)):
        waited.clear()
        wait()
        assert waited == ([("cuda", 0), ("cuda", 2), ("xpu", 0), "mps"] if is_initialized else [])


def test_work_on_several_devices_is_waited_for() -> None:
    """The CPU as two devices: a barrier on both waits for an earlier computation on both."""
    output = run_python(
        """
        import os
        os.environ["XLA_FLAGS"] = "--xla_force_host_platform_device_count=2"
        import jax, numpy, ergometer
        from jax.sharding import Mesh, NamedSharding, PartitionSpec
        mesh = Mesh(numpy.array(jax.devices()), ("device",))
        x = jax.device_put(numpy.ones((700, 700), numpy.float32), NamedSharding(mesh, PartitionSpec("device", None)))
        def autotune_fn_0(x):
            return x @ x.T
        function = jax.jit(autotune_fn_0)
        function(x).block_until_ready()
        import tempfile
        from pathlib import Path
        from ergometer._capture import profiler_session, profile_files
        with tempfile.TemporaryDirectory() as folder:
            with profiler_session(Path(folder)):
                for _ in range(10):
                    function(x)
            print(ergometer.read_trace(profile_files(Path(folder))).functions()["n"])
        """
    )
    assert output.strip().endswith("[10]")


def test_without_jit_nothing_is_compiled() -> None:
    jax = pytest.importorskip("jax")
    with jax.disable_jit(), ergometer.measure() as m:
        jax.numpy.ones(3).sum()
    assert m.seconds > 0
