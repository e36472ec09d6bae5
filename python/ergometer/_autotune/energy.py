"""Measures the energy of a call: runs a variant back to back in a window, and divides the energy by the number of
calls.

Energy sensors update every 20 to 100 ms, and a call may take microseconds: one call cannot be measured, a second of
calls can. The profiler is off during the window, because it uses energy itself.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from ergometer._autotune.progress import Progress
from ergometer._autotune.result import NOT_REQUESTED
from ergometer._autotune.variants import Prepared, describe
from ergometer._measure import measure
from ergometer._shared_meter import has_energy
from ergometer.errors import MeterError, with_hint

# Work queued before waiting for it: enough to keep a device busy, little enough that Ctrl-C is handled soon and the
# results in the queue fit into memory.
_QUEUED_SECONDS = 0.02
_MAX_QUEUED_CALLS = 32

_GPU_PLATFORMS = ("gpu", "cuda", "rocm")


@dataclass(frozen=True)
class CallEnergy:
    """The energy of one call with its 95 % interval, or the reason why it is unknown."""

    joules: float | None = None
    low: float | None = None
    high: float | None = None
    provenance: str | None = None
    devices: str | None = None
    call_s: float | None = None
    missing: str | None = None


def measure_energy(
    prepared: list[Prepared],
    median_s: Mapping[str, float],
    wanted: bool | None,
    seconds: float,
    platform: str | None,
    report: Callable[[Progress], None],
) -> dict[str, CallEnergy]:
    """The energy of a call of each variant that did not fail, by name.

    Args:
        prepared: The variants.
        median_s: The median time of a call, by name.
        wanted: True to accept modelled energy, None for measured energy only, False for none.
        seconds: How long to run each variant.
        platform: Where they run, if known: on a GPU the energy of the CPU alone does not count.
        report: Called with the progress.
    """
    live = [one for one in prepared if one.call is not None]
    reason = _reason_for_none(wanted)
    if reason is not None:
        return {one.variant.name: CallEnergy(missing=reason) for one in live}
    energies: dict[str, CallEnergy] = {}
    for number, one in enumerate(live, start=1):
        name = one.variant.name
        report(Progress("energy", len(live), number, len(live), name))
        try:
            energies[name] = _measure_call(one, median_s[name], wanted is True, seconds, platform)
        except Exception as cause:
            # The times of the variant stay valid; the error is reported in place of its energy.
            energies[name] = CallEnergy(missing=describe(cause))
    return energies


def _reason_for_none(wanted: bool | None) -> str | None:
    """Why energy is not measured at all; None if it is."""
    if wanted is False:
        return NOT_REQUESTED
    if wanted is None:
        try:
            if not has_energy(None, model=False):
                hint = "set energy=True for modelled energy, or run `ergo doctor` to see which sensors are missing"
                return with_hint("no sensor measures energy on this machine", hint)
        except MeterError as cause:
            return str(cause)
    return None


def _measure_call(one: Prepared, median_s: float, model: bool, seconds: float, platform: str | None) -> CallEnergy:
    assert one.call is not None
    with measure(one.variant.name, model=model) as window:
        calls = _run_for(one.call, one.wait, seconds, median_s)
    if window.joules is None:
        return CallEnergy(missing=window.missing)
    devices = window._counted()
    if platform in _GPU_PLATFORMS and not any(name.startswith("gpu") for name in devices):
        reason = f"no sensor measures the GPU, only {' + '.join(devices)}"
        return CallEnergy(missing=with_hint(reason, "run `ergo doctor` to see which sensors are missing"))
    low, high = window.low, window.high
    return CallEnergy(
        joules=window.joules / calls,
        low=None if low is None else low / calls,
        high=None if high is None else high / calls,
        provenance=window.provenance,
        devices=" + ".join(devices),
        call_s=window.seconds / calls,
    )


def _run_for(call: Callable[[], Any], wait: Callable[[Any], None], seconds: float, median_s: float) -> int:
    """Calls back to back for about `seconds`, and returns the number of calls."""
    queued = max(1, min(_MAX_QUEUED_CALLS, int(_QUEUED_SECONDS / max(median_s, 1e-9))))
    calls = 0
    end = time.perf_counter() + seconds
    while calls == 0 or time.perf_counter() < end:
        output = None
        for _ in range(queued):
            output = call()
        wait(output)
        calls += queued
    return calls
