"""The exceptions of Ergometer. Each has a `message` (what happened) and a `hint` (how to fix it)."""

from __future__ import annotations

import errno
import os

__all__ = ["ErgometerError", "MeterError", "MissingFileError", "ProfilingError", "RunError", "TraceError"]


class ErgometerError(Exception):
    """Base class of the exceptions of this package.

    Args:
        message: What happened.
        hint: How to fix it, if known.

    >>> str(ErgometerError("the monitor was not started", hint="call start()"))
    'the monitor was not started. hint: call start()'
    """

    def __init__(self, message: str, hint: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint

    def __str__(self) -> str:
        return with_hint(self.message, self.hint)


class MissingFileError(ErgometerError, FileNotFoundError):
    """A file or folder does not exist."""

    def __init__(
        self, message: str, hint: str | None = None, filename: str | os.PathLike[str] | None = None
    ) -> None:
        super().__init__(message, hint)
        self.errno = errno.ENOENT
        self.filename = filename


class TraceError(ErgometerError, ValueError):
    """A trace cannot be read."""


class ProfilingError(ErgometerError):
    """Profiling failed, or the profile lacks the requested data."""


class MeterError(ErgometerError):
    """Energy cannot be measured."""


class RunError(ErgometerError, ValueError):
    """A folder is not a finished run, or a file in it is damaged."""


def with_hint(message: str, hint: str | None) -> str:
    """The text of a message with its hint, for built-in exceptions and warnings, which have no `hint`.

    >>> with_hint("no variants", "pass a dictionary")
    'no variants. hint: pass a dictionary'
    """
    return message if hint is None else f"{message}. hint: {hint}"


def message_of(error: BaseException) -> str:
    """The text of any exception without its hint.

    >>> message_of(ErgometerError("it failed", hint="try again")), message_of(ValueError("wrong"))
    ('it failed', 'wrong')
    """
    return error.message if isinstance(error, ErgometerError) else str(error)


def hint_of(error: BaseException) -> str | None:
    """The hint of any exception; None if it has none.

    >>> hint_of(ErgometerError("it failed", hint="try again")), hint_of(ValueError("wrong"))
    ('try again', None)
    """
    return error.hint if isinstance(error, ErgometerError) else None
