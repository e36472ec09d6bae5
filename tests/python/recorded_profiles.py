"""Shared by tests of the profiler: recorded traces, and times by the profiler's rules."""

from __future__ import annotations

from conftest import TRACES
from ergometer import _native
from ergometer.profiler import Profiler

AUTOTUNE = TRACES / "gpu_autotune.xplane.pb"


def read_recorded(name: str) -> _native.Trace:
    return Profiler.parse_profile_from_bytes((TRACES / f"{name}.xplane.pb").read_bytes())


def seconds_by_id(profiler: Profiler, trace: _native.Trace, platform: str) -> dict[int, tuple[float, float]]:
    return profiler._rules(trace).function_seconds([trace], platform)[0]
