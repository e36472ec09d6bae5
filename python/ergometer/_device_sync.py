"""Waits for accelerators: `wait_for_devices` for all work that JAX and torch have queued, `wait_for_output` for the
result of one call.

This module never imports JAX or torch and never initializes a device: without them there is nothing to wait for.
"""

from __future__ import annotations

import contextlib
import os
import sys
import threading
from collections.abc import Callable
from types import ModuleType
from typing import Any

# By tuple of JAX devices: a function that runs a tiny computation on them and waits for it. Compiled once.
_barriers: dict[Any, Callable[[], object]] = {}
# Reentrant: while a barrier compiles, Python may close a forgotten generator, and a window in it then waits for
# devices.
_compiling = threading.RLock()


def wait_for_devices() -> None:
    """Waits until the devices of JAX and torch have finished all queued work.

    Waits for JAX only if its backends are initialized, and for torch only if its devices are. The first call for a JAX
    device compiles a computation of one addition, which takes 0.1 s on an H200; later calls take 0.6 ms there. Work of
    other threads in JAX is not waited for if its results have been discarded.

    Raises:
        Exception: The error of a computation that failed on a device.

    >>> wait_for_devices()
    """
    jax = sys.modules.get("jax")
    if jax is not None and _is_jax_running():
        _wait_for_jax(jax)
    torch = sys.modules.get("torch")
    if torch is not None:
        _wait_for_torch(torch)


def wait_for_output(output: Any) -> None:
    """Waits until the output of a call has been computed: for its JAX arrays, and for all work of torch.

    >>> wait_for_output([1, 2])
    """
    jax = sys.modules.get("jax")
    if hasattr(jax, "block_until_ready"):
        jax.block_until_ready(output)  # type: ignore[union-attr]
    torch = sys.modules.get("torch")
    if torch is not None:
        _wait_for_torch(torch)


def has_jax_array(output: Any) -> bool:
    """Whether the output of a call contains a JAX array. This can be slow for a long list.

    >>> has_jax_array([1, 2])
    False
    """
    jax = sys.modules.get("jax")
    if jax is None or not hasattr(jax, "tree_util"):
        return False
    return any(isinstance(leaf, jax.Array) for leaf in jax.tree_util.tree_leaves(output))


def wait_for_torch() -> None:
    """Waits for all work of torch, if the process uses it."""
    torch = sys.modules.get("torch")
    if torch is not None:
        _wait_for_torch(torch)


def _is_jax_running() -> bool:
    bridge = sys.modules.get("jax._src.xla_bridge")
    is_initialized = getattr(bridge, "backends_are_initialized", None)
    return bool(is_initialized()) if is_initialized is not None else bool(getattr(bridge, "_backends", None))


def _wait_for_jax(jax: ModuleType) -> None:
    # First work without an output array: callbacks and other ordered effects.
    jax.effects_barrier()
    for array in jax.live_arrays():
        try:
            array.block_until_ready()
        except RuntimeError:
            # Another thread may have donated or deleted the array meanwhile. Other errors go to the caller.
            if not array.is_deleted():
                raise
    # A discarded result is not among the live arrays, but its computation goes on. Devices, CPUs included, run the work
    # of one thread in order: when work queued last has finished, all earlier work has finished.
    devices = list(jax.local_devices())
    if all(device.platform != "cpu" for device in devices):
        with contextlib.suppress(RuntimeError):  # JAX_PLATFORMS may leave the CPU out.
            devices += jax.local_devices(backend="cpu")
    if jax.config.jax_disable_jit:
        return  # Nothing can be compiled now; the live arrays have been waited for.
    for device in devices:
        _barrier(jax, (device,))()
    # On CPU, computations on several devices have a separate queue: only another such computation waits for them.
    for platform in {device.platform for device in devices}:
        together = tuple(device for device in devices if device.platform == platform)
        if len(together) > 1:
            _barrier(jax, together)()


def _barrier(jax: ModuleType, devices: tuple[Any, ...]) -> Callable[[], object]:
    barrier = _barriers.get(devices)
    if barrier is None:
        with _compiling:
            barrier = _barriers.get(devices) or _compile_barrier(jax, devices)
            _barriers[devices] = barrier
    return barrier


def _compile_barrier(jax: ModuleType, devices: tuple[Any, ...]) -> Callable[[], object]:
    """Compiles a computation of one addition in advance, so that nothing is compiled inside a measured window."""
    number = jax.device_put(0.0, devices[0])
    if len(devices) > 1:
        import numpy

        mesh = jax.sharding.Mesh(numpy.array(devices, dtype=object), ("device",))
        shared = jax.sharding.NamedSharding(mesh, jax.sharding.PartitionSpec("device"))
        number = jax.device_put(numpy.zeros(len(devices), dtype=numpy.float32), shared)

    def ergometer_barrier(value: Any) -> Any:
        return value + 1

    compiled = jax.jit(ergometer_barrier).lower(number).compile()

    def wait() -> object:
        return compiled(number).block_until_ready()

    wait()
    return wait


def _wait_for_torch(torch: ModuleType) -> None:
    for kind in ("cuda", "xpu"):
        backend = getattr(torch, kind, None)
        if backend is None or not getattr(backend, "is_initialized", bool)():
            continue
        for index in range(backend.device_count()):
            if kind != "cuda" or _is_cuda_device_in_use(torch, index):
                backend.synchronize(index)
    # Metal does not report whether it is in use; waiting for an idle device is quick and initializes little.
    metal = getattr(getattr(torch, "backends", None), "mps", None)
    if metal is not None and metal.is_available():
        torch.mps.synchronize()


def _is_cuda_device_in_use(torch: ModuleType, index: int) -> bool:
    """Whether torch uses this GPU; True if unknown.

    Waiting for an unused GPU would create a CUDA context on it, which takes about 500 MB of its memory.
    """
    has_context = getattr(getattr(torch, "_C", None), "_cuda_hasPrimaryContext", None)
    return True if has_context is None else bool(has_context(index))


def _after_fork_in_child() -> None:
    global _compiling
    _compiling = threading.RLock()
    _barriers.clear()


# JAX and CUDA do not work after a fork, and a lock held by another thread would never be released.
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork_in_child)
