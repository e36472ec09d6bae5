"""Joules of a call: a variant runs back to back in a window of its own, and the window's energy is divided.

A sensor of energy steps every 20 to 100 ms and a call may take microseconds: one call alone cannot be measured, a
second of them can. The window is outside of the profiler, which costs energy itself.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from ergometer._autotune.progress import Progress
from ergometer._autotune.result import NOT_ASKED_FOR
from ergometer._autotune.variants import Prepared, describe
from ergometer._measure import measure
from ergometer._shared_meter import has_energy
from ergometer.errors import MeterError

# So much work is queued before it is waited for: enough to keep a device busy, little enough that Ctrl-C is heard and
# that the results in the queue fit into memory.
_QUEUED_SECONDS = 0.02
_MOST_QUEUED = 32

_GPU_PLATFORMS = ("gpu", "cuda", "rocm")


@dataclass(frozen=True)
class CallEnergy:
    """Joules of one call with their 95 % interval, or the reason why there are none."""

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
        median_s: How long a call takes, by name.
        wanted: True for modelled energy too, None for what is measured, False for none.
        seconds: How long each variant runs.
        platform: Where they run, if that is known: energy of a GPU is not that of the processor beside it.
        report: Hears how far it is.
    """
    live = [one for one in prepared if one.call is not None]
    reason = _why_none(wanted)
    if reason is not None:
        return {one.variant.name: CallEnergy(missing=reason) for one in live}
    found: dict[str, CallEnergy] = {}
    for number, one in enumerate(live, start=1):
        name = one.variant.name
        report(Progress("energy", len(live), number, len(live), name))
        try:
            found[name] = _energy_of(one, median_s[name], wanted is True, seconds, platform)
        except Exception as cause:
            # Its times stand; that a call failed later is told where its joules would be.
            found[name] = CallEnergy(missing=describe(cause))
    return found


def _why_none(wanted: bool | None) -> str | None:
    """Why energy is not measured at all; None where it is."""
    if wanted is False:
        return NOT_ASKED_FOR
    if wanted is None:
        try:
            if not has_energy(None, model=False):
                return "no sensor measures energy here. hint: energy=True gives it modelled; `ergo doctor` says more"
        except MeterError as cause:
            return str(cause)
    return None


def _energy_of(one: Prepared, median_s: float, model: bool, seconds: float, platform: str | None) -> CallEnergy:
    assert one.call is not None
    with measure(one.variant.name, model=model) as window:
        calls = _run_for(one.call, one.wait, seconds, median_s)
    if window.joules is None:
        return CallEnergy(missing=window.missing)
    devices = window._counted()
    if platform in _GPU_PLATFORMS and not any(name.startswith("gpu") for name in devices):
        return CallEnergy(missing=f"no sensor of the GPU, only of {' + '.join(devices)}. hint: see `ergo doctor`")
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
    """Calls back to back for about so long, and says how often."""
    queued = max(1, min(_MOST_QUEUED, int(_QUEUED_SECONDS / max(median_s, 1e-9))))
    calls = 0
    end = time.perf_counter() + seconds
    while calls == 0 or time.perf_counter() < end:
        output = None
        for _ in range(queued):
            output = call()
        wait(output)
        calls += queued
    return calls
