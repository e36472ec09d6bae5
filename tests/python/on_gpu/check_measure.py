"""Checks `measure`, `measured` and `Monitor` against a GPU's own energy counter, under a JAX matmul loop.

Run it on a machine with an NVIDIA GPU and JAX for it: `python tests/python/on_gpu/check_measure.py`. It prints what it
found and exits with 1 where something does not hold; without a GPU it says so and exits with 0.
"""

from __future__ import annotations

import sys
import time
from typing import Any

import ergometer
from ergometer import Measurement

SECONDS = 2.0
COUNTER_STEP_S = 0.1


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
        print(f"    {compared(shown, timeline, gpus[0], failures)}")
        for note in shown.notes:
            print(f"    note: {note}")
    print(f"monitor: {timeline.num_rows} readings, warnings {monitor.warnings}")
    for (device, signal), value in sorted(monitor.latest().items()):
        print(f"    {device:14} {signal:20} {value:.6g}")

    check(failures, loop.provenance == "measured", "the loop is measured")
    check(failures, loop.watts is not None and rest.watts is not None and loop.watts > rest.watts, "work costs power")
    if first.interval and second.interval and whole.interval:
        low, high = (one + other for one, other in zip(first.interval, second.interval))
        check(failures, low <= whole.interval[1] and high >= whole.interval[0], "two halves are the whole")
    check(failures, len(decorated.measurements) == 3 and decorated.last is not None, "three calls were measured")
    leave_early(compute, start, failures)
    for failure in failures:
        print(f"FAILED: {failure}")
    return 1 if failures else 0


def prepare(jax: Any) -> tuple[Any, Any]:
    """A product of large matrices, compiled, and what it starts with."""
    start = jax.random.normal(jax.random.PRNGKey(0), (8192, 8192), dtype=jax.numpy.bfloat16)
    compute = jax.jit(lambda matrix: matrix @ matrix / 90)
    compute(start).block_until_ready()
    return compute, start


def queue_for(compute: Any, matrix: Any, seconds: float) -> None:
    """Keeps the GPU at work for about so long, twenty products at a time."""
    end = time.perf_counter() + seconds
    while time.perf_counter() < end:
        result = matrix
        for _ in range(20):
            result = compute(result)
        result.block_until_ready()


def leave_early(compute: Any, matrix: Any, failures: list[str]) -> None:
    """A window waits for work whose results were dropped; without waiting it ends when all is queued.

    Twenty products: JAX queues 32 computations at most before it waits by itself.
    """
    spans = {}
    for name, sync in (("waits", "auto"), ("does not wait", None)):
        with ergometer.measure(name, sync=sync) as window:  # type: ignore[arg-type]
            result = matrix
            for _ in range(20):
                result = compute(result)
            del result
        ergometer._device_sync.wait_for_devices()
        spans[name] = window.seconds
        print(window)
    check(failures, spans["waits"] > 2 * spans["does not wait"], "a window ends when the GPU does")


def compared(window: Measurement, timeline: Any, gpu: str, failures: list[str]) -> str:
    """The counter's own difference over the steps inside the window, as power, beside the estimate's."""
    # A step happened after `after_ns`, and was seen at `time_ns`: both must lie inside.
    counted = [
        (row["time_ns"], row["value"])
        for row in timeline
        if (row["device"], row["scope"], row["signal"]) == (gpu, "device", "energy")
        and (row["after_ns"] or row["time_ns"]) >= window.start_ns
        and row["time_ns"] <= (window.end_ns or 0)
    ]
    place = window.devices[gpu]
    if len(counted) < 2 or place.joules is None or place.low is None or place.high is None:
        return f"counter: {len(counted)} steps inside, nothing to compare"
    (first_ns, first), (last_ns, last) = counted[0], counted[-1]
    seconds, joules = (last_ns - first_ns) / 1e9, last - first
    # What the counter leaves out at both ends is less than a step; it cannot have been negative, nor more than that
    # of all of the window at twice its mean power.
    most = joules + 2 * COUNTER_STEP_S * 2 * place.joules / window.seconds
    is_near = joules <= place.high and place.low <= most
    check(failures, is_near, f"{window.name}: counter {joules:.1f} J, window {place.joules:.1f} J")
    return (
        f"counter: {joules:.1f} J over {seconds:.3f} of {window.seconds:.3f} s = {joules / seconds:.1f} W; "
        f"window: {place.joules:.1f} J ({place.low:.1f} to {place.high:.1f}) = {place.joules / window.seconds:.1f} W"
    )


def check(failures: list[str], holds: bool, what: str) -> None:
    if not holds:
        failures.append(what)


if __name__ == "__main__":
    sys.exit(main())
