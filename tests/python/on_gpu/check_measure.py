"""Checks `measure`, `measured` and `Monitor` against the energy counter of a GPU, under a JAX matmul loop.

Run it on a machine with an NVIDIA GPU and JAX: `python tests/python/on_gpu/check_measure.py`. It prints its results and exits
with 1 if a check fails; without a GPU it prints a message and exits with 0.
"""

from __future__ import annotations

import sys
import time
from typing import Any

import ergometer
from ergometer._device_sync import wait_for_devices

SECONDS = 6.0


def main() -> int:
    with ergometer.Monitor() as first_look:
        pass
    gpus = [device for device in first_look.energy().devices if device.startswith("gpu:") and " " not in device]
    if not gpus:
        print("skipped: no sensor of an NVIDIA GPU here", file=sys.stderr)
        return 0
    import jax

    if jax.default_backend() != "gpu":
        print("skipped: JAX has no GPU here", file=sys.stderr)
        return 0
    compute, start = prepare(jax)
    failures: list[str] = []

    with ergometer.Monitor() as monitor:
        time.sleep(0.5)
        with ergometer.measure("loop") as loop:
            queue_for(compute, start, SECONDS)
        with ergometer.measure("whole") as whole:
            with ergometer.measure("first") as first:
                queue_for(compute, start, 0.5)
            with ergometer.measure("second") as second:
                queue_for(compute, start, 0.5)
        decorated = ergometer.measured(queue_for)
        for _ in range(3):
            decorated(compute, start, 0.3)
        with ergometer.measure("rest") as rest:
            time.sleep(0.5)
        time.sleep(0.5)
    timeline = monitor.timeline()

    for shown in (loop, whole, first, second, *decorated.measurements, rest, monitor.energy()):
        print(shown)
        for note in shown.notes:
            print(f"    note: {note}")
    print(compared(monitor, timeline, gpus[0], failures))
    print(f"monitor: {timeline.num_rows} readings, warnings {monitor.warnings}")
    for (device, signal), value in sorted(monitor.latest().items()):
        print(f"    {device:14} {signal:20} {value:.6g}")

    check(failures, loop.provenance == "measured", "the loop is measured")
    check(failures, loop.watts is not None and rest.watts is not None and loop.watts > rest.watts, "load draws power")
    if first.interval and second.interval and whole.interval:
        low, high = (one + other for one, other in zip(first.interval, second.interval))
        check(failures, low <= whole.interval[1] and high >= whole.interval[0], "two halves sum to the whole")
    check(failures, len(decorated.measurements) == 3 and decorated.last is not None, "three calls were measured")
    leave_early(jax, failures)
    for failure in failures:
        print(f"FAILED: {failure}")
    return 1 if failures else 0


def prepare(jax: Any) -> tuple[Any, Any]:
    """A compiled product of large matrices, and its input."""
    start = jax.random.normal(jax.random.PRNGKey(0), (8192, 8192), dtype=jax.numpy.bfloat16)
    compute = jax.jit(lambda matrix: matrix @ matrix / 90)
    compute(start).block_until_ready()
    return compute, start


def queue_for(compute: Any, matrix: Any, seconds: float) -> None:
    """Keeps the GPU busy for about `seconds`, with twenty products at a time."""
    end = time.perf_counter() + seconds
    while time.perf_counter() < end:
        result = matrix
        for _ in range(20):
            result = compute(result)
        result.block_until_ready()


def leave_early(jax: Any, failures: list[str]) -> None:
    """A window waits for work with discarded results; with sync=None it ends when all work is queued.

    JAX queues some dozens of computations and then waits itself, so these are few, and long.
    """
    start = jax.random.normal(jax.random.PRNGKey(0), (16384, 16384), dtype=jax.numpy.bfloat16)
    compute = jax.jit(lambda matrix: matrix @ matrix / 128)
    compute(start).block_until_ready()
    spans = {}
    for name, sync in (("waits", "auto"), ("does not wait", None)):
        with ergometer.measure(name, sync=sync) as window:  # type: ignore[arg-type]
            for _ in range(16):
                compute(start)
        wait_for_devices()
        spans[name] = window.seconds
        print(window)
    check(failures, spans["waits"] > 2 * spans["does not wait"], "a window waits for the GPU")


def compared(monitor: ergometer.Monitor, timeline: Any, gpu: str, failures: list[str]) -> str:
    """The counter's energy between its first and last reading, and the energy of a window of the same time."""
    rows = zip(timeline["device"], timeline["scope"], timeline["signal"], timeline["time_ns"], timeline["value"])
    counted = [
        (time_ns, value)
        for device, scope, signal, time_ns, value in rows
        if (device, scope, signal) == (gpu, "device", "energy")
    ]
    if len(counted) < 2:
        failures.append("the counter was read twice")
        return "nothing to compare"
    (first_ns, first), (last_ns, last) = counted[0], counted[-1]
    assert monitor._span is not None
    _, devices = monitor._span._meter.native.energy(first_ns, last_ns)
    place = next(place for place in devices if (place.device, place.scope) == (gpu, "device"))
    joules, seconds = last - first, (last_ns - first_ns) / 1e9
    is_inside = place.low is not None and place.high is not None and place.low <= joules <= place.high
    check(failures, is_inside, "the difference of the counter is in the interval")
    return f"counter: {joules:.1f} J in {seconds:.3f} s, {len(counted)} readings; {place}"


def check(failures: list[str], holds: bool, what: str) -> None:
    if not holds:
        failures.append(what)


if __name__ == "__main__":
    sys.exit(main())
