"""Measures time and energy of AI inference, from a whole benchmark run down to one GPU kernel.

`read_trace` reads traces, `autotune` and `Profiler` time functions on a device, `measure`, `measured` and `Monitor`
measure the energy of blocks of code, `load_run` and `load_sweep` load saved runs.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ergometer._native import __version__

if TYPE_CHECKING:
    from ergometer._autotune import Progress, Row, Tuning, autotune
    from ergometer._measure import Measure, MeasuredFunction, measure, measured
    from ergometer._native import Energy, Event, Line, Plane, Table, Trace, read_trace
    from ergometer.errors import ErgometerError, MeterError, MissingFileError, ProfilingError, RunError, TraceError
    from ergometer.measurement import Measurement
    from ergometer.monitor import Monitor
    from ergometer.profiler import Profiler
    from ergometer.run import Run, Sweep, load_run, load_sweep

# Imported on first use, so that `ergo` and scripts that only read traces start fast.
_MODULES = {
    "ergometer._autotune": ("Progress", "Row", "Tuning", "autotune"),
    "ergometer._measure": ("Measure", "MeasuredFunction", "measure", "measured"),
    "ergometer._native": ("Energy", "Event", "Line", "Plane", "Table", "Trace", "read_trace"),
    "ergometer.errors": (
        "ErgometerError",
        "MeterError",
        "MissingFileError",
        "ProfilingError",
        "RunError",
        "TraceError",
    ),
    "ergometer.measurement": ("Measurement",),
    "ergometer.monitor": ("Monitor",),
    "ergometer.profiler": ("Profiler",),
    "ergometer.run": ("Run", "Sweep", "load_run", "load_sweep"),
}
_MODULE_OF = {name: module for module, names in _MODULES.items() for name in names}

__all__ = [
    "Energy",
    "ErgometerError",
    "Event",
    "Line",
    "Measure",
    "MeasuredFunction",
    "Measurement",
    "MeterError",
    "MissingFileError",
    "Monitor",
    "Plane",
    "Profiler",
    "ProfilingError",
    "Progress",
    "Row",
    "Run",
    "RunError",
    "Sweep",
    "Table",
    "Trace",
    "TraceError",
    "Tuning",
    "__version__",
    "autotune",
    "load_run",
    "load_sweep",
    "measure",
    "measured",
    "read_trace",
]


def __getattr__(name: str) -> Any:
    module = _MODULE_OF.get(name)
    if module is None:
        raise AttributeError(f"module 'ergometer' has no attribute {name!r}")
    import importlib

    value = getattr(importlib.import_module(module), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
