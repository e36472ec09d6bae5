"""What AI inference costs, in time and in energy: from a whole benchmark run down to one GPU kernel."""

from __future__ import annotations

from ergometer.errors import ProfilingError
from ergometer.profiler import Profiler

__all__ = ["Profiler", "ProfilingError"]
