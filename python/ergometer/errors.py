"""The exceptions of Ergometer. Each says what happened and where; its `hint`, where there is one, what to do."""

from __future__ import annotations

import errno
import os


class ErgometerError(Exception):
    """What went wrong. Every exception of this package that is not one of Python's own is one."""

    @property
    def hint(self) -> str | None:
        """What to do about it, where that is known."""
        _, found, hint = str(self).rpartition("hint: ")
        return hint if found else None


class MissingFileError(ErgometerError, FileNotFoundError):
    """There is nothing at a path."""

    def __init__(self, message: str, filename: str | os.PathLike[str] | None = None) -> None:
        super().__init__(message)
        self._message = message
        self.errno = errno.ENOENT
        self.filename = filename

    def __str__(self) -> str:
        return self._message


class TraceError(ErgometerError, ValueError):
    """A trace cannot be read."""


class ProfilingError(ErgometerError):
    """Profiling failed, or what was profiled has not what was asked for."""


class MeterError(ErgometerError):
    """Energy cannot be measured as asked."""


class RunError(ErgometerError, ValueError):
    """A folder is no finished run, or a damaged one."""
