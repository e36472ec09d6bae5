"""Reports the progress of tuning: one line on standard error that is rewritten, or calls of a function."""

from __future__ import annotations

import shutil
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from ergometer._figures import quantity

# Ten updates per second are as fast as people can read.
_SECONDS_BETWEEN_LINES = 0.1


@dataclass(frozen=True)
class Progress:
    """The progress of tuning.

    Attributes:
        phase: "prepare" while variants are compiled and warmed up, "time" during rounds, "energy" while it is measured.
        variants: The number of variants that did not fail.
        round: The number of finished rounds; in the other phases, the number of the current variant.
        rounds: The maximum number of rounds; in the other phases, the number of variants.
        best_name: The variant with the smallest median wall time so far; in the other phases, the current variant.
        best_s: That median, in seconds.
    """

    phase: Literal["prepare", "time", "energy"]
    variants: int
    round: int
    rounds: int
    best_name: str | None = None
    best_s: float | None = None

    def __str__(self) -> str:
        start = f"autotune  {self.variants} variant{'' if self.variants == 1 else 's'}"
        if self.phase != "time":
            action = "compiling and warming up" if self.phase == "prepare" else "measuring energy of"
            return f"{start}  {action} {self.best_name} ({self.round} of {self.rounds})"
        line = f"{start}  round {self.round} of {self.rounds}"
        if self.best_name is not None and self.best_s is not None:
            # Device times are known only when the profiler's session has ended.
            line += f"  best {self.best_name} {quantity(self.best_s, 's')} (wall)"
        return line


class Reporter:
    """Reports progress. A context manager: it clears the line at its end."""

    def __init__(self, wanted: bool | Callable[[Progress], None] | None) -> None:
        self._callable = wanted if callable(wanted) else None
        self._writes = sys.stderr is not None and (wanted is True or (wanted is None and sys.stderr.isatty()))
        self._written = 0
        self._due = 0.0

    def __call__(self, progress: Progress) -> None:
        """Reports the progress."""
        if self._callable is not None:
            self._callable(progress)
        now = time.monotonic()
        is_last = progress.phase == "time" and progress.round == progress.rounds
        if self._writes and (now >= self._due or progress.phase != "time" or is_last):
            self._due = now + _SECONDS_BETWEEN_LINES
            self._write(str(progress))

    def __enter__(self) -> Reporter:
        return self

    def __exit__(self, *_: object) -> None:
        if self._written:
            self._write("")
            sys.stderr.write("\r")
            sys.stderr.flush()

    def _write(self, line: str) -> None:
        # A line that wraps cannot be rewritten. Spaces clear it, because notebooks and logs do not support escape
        # codes.
        line = line[: shutil.get_terminal_size().columns - 1]
        sys.stderr.write("\r" + line.ljust(self._written))
        sys.stderr.flush()
        self._written = len(line)
