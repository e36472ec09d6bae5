"""The exceptions of Ergometer. Each says what happened and where; its `hint`, where there is one, what to do."""

from __future__ import annotations


class ErgometerError(Exception):
    """What went wrong. Every exception of this package that is not one of Python's own is one."""

    @property
    def hint(self) -> str | None:
        """What to do about it, where that is known."""
        _, _, hint = str(self).partition("hint: ")
        return hint or None


class TraceError(ErgometerError, ValueError):
    """A trace cannot be read."""


class ProfilingError(ErgometerError):
    """Profiling failed, or what was profiled has not what was asked for."""


class MeterError(ErgometerError):
    """Energy cannot be measured as asked."""


class RunError(ErgometerError, ValueError):
    """A folder is no finished run, or a damaged one."""
