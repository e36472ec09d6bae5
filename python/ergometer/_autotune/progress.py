"""What people see while variants are tuned: one line on standard error that is rewritten, or a callable of theirs."""

from __future__ import annotations

import shutil
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from ergometer._figures import quantity

# Ten times a second is as often as anybody can look.
_SECONDS_BETWEEN_LINES = 0.1


@dataclass(frozen=True)
class Progress:
    """How far it is.

    Attributes:
        phase: "prepare" while variants are compiled and warmed up, "time" in rounds, "energy" while that is measured.
        variants: How many there are that did not fail.
        round: Rounds that are done, or variants in the other phases.
        rounds: How many there are at most.
        best_name: The variant with the smallest median so far, by wall time; or the one that is at work.
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
            doing = "compiling and warming up" if self.phase == "prepare" else "energy of"
            return f"{start}  {doing} {self.best_name} ({self.round} of {self.rounds})"
        line = f"{start}  round {self.round} of {self.rounds}"
        if self.best_name is not None and self.best_s is not None:
            # Device times are known only when the profiler's session has ended.
            line += f"  best {self.best_name} {quantity(self.best_s, 's')} (wall)"
        return line


class Reporter:
    """Tells whoever wants to know. A context: the line is gone when it ends."""

    def __init__(self, wanted: bool | Callable[[Progress], None] | None) -> None:
        self._callable = wanted if callable(wanted) else None
        self._writes = sys.stderr is not None and (wanted is True or (wanted is None and sys.stderr.isatty()))
        self._written = 0
        self._due = 0.0

    def __call__(self, progress: Progress) -> None:
        """Tells how far it is."""
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
        # A line that wraps cannot be rewritten. Blanks instead of an escape: notebooks and logs know no escapes.
        line = line[: shutil.get_terminal_size().columns - 1]
        sys.stderr.write("\r" + line.ljust(self._written))
        sys.stderr.flush()
        self._written = len(line)
