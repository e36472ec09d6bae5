"""Waiting for accelerators: `wait_for_devices` returns when all work that JAX and torch have queued is done,
`wait_for_output` when the result of one call is there.

Nothing is imported or started here: a library that the process does not use, or has not begun to use its devices
with, has nothing to wait for.
"""

from __future__ import annotations

import contextlib
import os
import sys
import threading
from collections.abc import Callable
from types import ModuleType
from typing import Any

# Devices of JAX -> runs a tiny computation on them and waits for it. Compiled once.
_barriers: dict[Any, Callable[[], object]] = {}
# Reentrant: while a barrier compiles, Python may end a forgotten generator, and the window inside it waits for devices.
_compiling = threading.RLock()


def wait_for_devices() -> None:
    """Waits until the devices of JAX and of torch have done all that they were given.

    JAX is waited for only where its backends are initialised, torch only where its devices are. The first call that
    sees a device of JAX compiles a computation of one addition for it, which takes 0.1 s on an H200; later ones take
    0.6 ms there. Of what other threads gave to JAX, results that nobody holds any more are not waited for.

    Raises:
        Exception: what the computation that was waited for raised.

    >>> wait_for_devices()
    """
    jax = sys.modules.get("jax")
    if jax is not None and _is_jax_running():
        _wait_for_jax(jax)
    torch = sys.modules.get("torch")
    if torch is not None:
        _wait_for_torch(torch)


def wait_for_output(output: Any) -> None:
    """Waits until the output of a call has been computed: arrays of JAX by themselves, all that torch was given.

    >>> wait_for_output([1, 2])
    """
    jax = sys.modules.get("jax")
    if hasattr(jax, "block_until_ready"):
        jax.block_until_ready(output)  # type: ignore[union-attr]
    torch = sys.modules.get("torch")
    if torch is not None:
        _wait_for_torch(torch)


def is_of_jax(output: Any) -> bool:
    """Whether there is an array of JAX in the output of a call: to look for one in a long list takes a while.

    >>> is_of_jax([1, 2])
    False
    """
    jax = sys.modules.get("jax")
    if jax is None or not hasattr(jax, "tree_util"):
        return False
    return any(isinstance(leaf, jax.Array) for leaf in jax.tree_util.tree_leaves(output))


def wait_for_torch() -> None:
    """Waits until all that torch was given has been computed, where the process uses it."""
    torch = sys.modules.get("torch")
    if torch is not None:
        _wait_for_torch(torch)


def _is_jax_running() -> bool:
    bridge = sys.modules.get("jax._src.xla_bridge")
    asked = getattr(bridge, "backends_are_initialized", None)
    return bool(asked()) if asked is not None else bool(getattr(bridge, "_backends", None))


def _wait_for_jax(jax: ModuleType) -> None:
    # First what has no array to show for it: callbacks and other ordered effects.
    jax.effects_barrier()
    for array in jax.live_arrays():
        try:
            array.block_until_ready()
        except RuntimeError:
            # Another thread may give an array away in between. What failed on the device is for the caller.
            if not array.is_deleted():
                raise
    # A result that nobody holds is not alive, but its computation goes on. A device takes what one thread gives it in
    # order, and so does a CPU: when what is queued last has ended, so has all else.
    devices = list(jax.local_devices())
    if all(device.platform != "cpu" for device in devices):
        with contextlib.suppress(RuntimeError):  # JAX_PLATFORMS may leave the CPU out.
            devices += jax.local_devices(backend="cpu")
    if jax.config.jax_disable_jit:
        return  # Nothing can be compiled now; what was computed one by one is waited for by its arrays.
    for device in devices:
        _barrier_of(jax, (device,))()
    # What runs on several devices at once has a queue of its own on a CPU: only another such computation waits for it.
    for platform in {device.platform for device in devices}:
        together = tuple(device for device in devices if device.platform == platform)
        if len(together) > 1:
            _barrier_of(jax, together)()


def _barrier_of(jax: ModuleType, devices: tuple[Any, ...]) -> Callable[[], object]:
    barrier = _barriers.get(devices)
    if barrier is None:
        with _compiling:
            barrier = _barriers.get(devices) or _compile_barrier(jax, devices)
            _barriers[devices] = barrier
    return barrier


def _compile_barrier(jax: ModuleType, devices: tuple[Any, ...]) -> Callable[[], object]:
    """A computation of one addition, ready to run: later calls must not compile inside what is being measured."""
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
    # Metal does not say whether it was begun to be used; waiting for an idle one is quick and starts nothing big.
    metal = getattr(getattr(torch, "backends", None), "mps", None)
    if metal is not None and metal.is_available():
        torch.mps.synchronize()


def _is_cuda_device_in_use(torch: ModuleType, index: int) -> bool:
    """Waiting for a GPU nobody uses would create a context on it, some 500 MB of its memory."""
    asked = getattr(getattr(torch, "_C", None), "_cuda_hasPrimaryContext", None)
    return True if asked is None else bool(asked(index))


def _after_fork_in_child() -> None:
    global _compiling
    _compiling = threading.RLock()
    _barriers.clear()


# Neither JAX nor CUDA survives a fork; a lock that another thread held would never be let go.
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork_in_child)
