"""What AI inference costs, in time and in energy: from a whole benchmark run down to one GPU kernel."""

from __future__ import annotations

from ergometer.autotune import Tuning, autotune
from ergometer.errors import ProfilingError
from ergometer.measure import measure, measured
from ergometer.measurement import Measurement
from ergometer.monitor import Monitor
from ergometer.profiler import Profiler

__all__ = ["Measurement", "Monitor", "Profiler", "ProfilingError", "Tuning", "autotune", "measure", "measured"]
