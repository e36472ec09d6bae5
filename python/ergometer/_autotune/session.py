"""The times of variants: by the device in one session of the profiler, or by the clock of the host."""

from __future__ import annotations

import contextlib
import tempfile
import warnings
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from ergometer import _native
from ergometer._autotune.agreement import refuse_others
from ergometer._autotune.progress import Progress
from ergometer._autotune.rounds import Plan, Rounds, run_rounds
from ergometer._autotune.variants import Prepared, Variant, as_given, compiled, prepare
from ergometer._capture import profile_files, profiler_session, require_jax
from ergometer.errors import ProfilingError, TraceError

Timer = Literal["device", "wall", "device-or-wall"]
Report = Callable[[Progress], None]

_WALL_HINT = 'hint: timer="wall" times calls by the clock of the host'


@dataclass(frozen=True)
class Timed:
    """The times of variants.

    Attributes:
        prepared: All variants; those that failed have an error and no times.
        seconds: The time of every call, by name.
        rounds: How they were taken.
        timer: By which clock.
        platform: Where the device times are from.
        trace: What the profiler wrote.
    """

    prepared: list[Prepared]
    seconds: dict[str, list[float]]
    rounds: Rounds
    timer: Literal["device", "wall"]
    platform: str | None = None
    trace: _native.Trace | None = None


@dataclass(frozen=True)
class Session:
    """Variants with their arguments, and how they are to be timed."""

    variants: list[Variant]
    args: tuple[Any, ...]
    kwargs: Mapping[str, Any]
    plan: Plan
    warmup: int
    platform: str | None
    trace_dir: Path | None
    report: Report
    check: float | None = None

    def time(self, timer: Timer) -> Timed:
        """Times them by the device, by the host, or by the host where the device cannot tell.

        Raises:
            ProfilingError: All variants failed, or there are no device times.
        """
        if timer == "wall":
            return self._by_wall(self._prepare(as_given(self.args, self.kwargs)))
        prepared = None
        try:
            prepared = self._prepare(compiled(require_jax(), self.args, self.kwargs))
            return self._by_device(prepared)
        except ProfilingError as cause:
            if timer == "device":
                raise
            warnings.warn(f"wall times instead of device times: {cause}", UserWarning, stacklevel=3)
        if prepared is None:
            prepared = self._prepare(as_given(self.args, self.kwargs))
        return self._by_wall(prepared)

    def _prepare(self, bind: Callable[[Variant], Callable[[], Any]]) -> list[Prepared]:
        count = len(self.variants)

        def tell(variant: Variant) -> None:
            self.report(Progress("prepare", count, variant.id + 1, count, variant.name))

        prepared = prepare(self.variants, bind, self.warmup, tell)
        if self.check is not None:
            refuse_others(prepared, self.check)
        _require_some(prepared)
        return prepared

    def _by_wall(self, prepared: list[Prepared]) -> Timed:
        rounds = run_rounds(prepared, self.plan, self.report)
        _require_some(prepared)
        return Timed(prepared, rounds.wall_s, rounds, "wall")

    def _by_device(self, prepared: list[Prepared]) -> Timed:
        platform = self.platform or str(require_jax().default_backend())
        with _folder(self.trace_dir) as folder:
            # Every call was waited for: nothing else need be in the trace.
            with profiler_session(folder, waits=False):
                rounds = run_rounds(prepared, self.plan, self.report)
            _require_some(prepared)
            try:
                trace = _native.read_trace(profile_files(folder))
            except (RuntimeError, OSError, TraceError) as cause:
                # A hint of its own says how to read a damaged file, which is none for who only tunes.
                raise ProfilingError(f"{_without_hint(cause)} {_WALL_HINT}") from cause
        seconds = _device_seconds(trace, platform, prepared)
        _tell_of_losses(seconds, rounds.count)
        return Timed(prepared, seconds, rounds, "device", platform, trace)


def _device_seconds(trace: _native.Trace, platform: str, prepared: list[Prepared]) -> dict[str, list[float]]:
    """The busy times of every execution of the variants that did not fail, by name.

    Raises:
        ProfilingError: The trace has no such platform, or no time of any variant on it.
    """
    planes = ", ".join(plane.name for plane in trace.planes)
    try:
        functions = trace.functions(device=platform)
    except ValueError as cause:
        problem = f"{_without_hint(cause)} The trace has planes {planes}."
        raise ProfilingError(f"{problem} {_WALL_HINT}; platform= names another device") from cause
    busy_ps = {int(row["id"]): row["busy_times_ps"] for row in functions}
    live = [one for one in prepared if one.error is None]
    missing = [one for one in live if not busy_ps.get(one.variant.id)]
    if len(missing) == len(live):
        names = ", ".join(one.variant.name for one in missing)
        modules = ", ".join(sorted({str(row["module"]) for row in trace.modules()})) or "no modules"
        raise ProfilingError(
            f"the trace has no time of {names} on {platform!r}. It has {modules}, on planes {planes}. "
            f"{_WALL_HINT}; platform= names another device"
        )
    for one in missing:
        # A function that computes nothing on the device is one; the others have their times.
        one.call, one.error = None, f"the trace has no time of it on {platform!r}: nothing of it ran there"
    return {one.variant.name: [ps / 1e12 for ps in busy_ps[one.variant.id]] for one in live if one.error is None}


def _without_hint(cause: Exception) -> str:
    sentence = str(cause).partition("hint: ")[0].strip()
    return sentence if sentence.endswith(".") else f"{sentence}."


def _tell_of_losses(seconds: dict[str, list[float]], calls: int) -> None:
    wrong = [f"{name} {len(times)}" for name, times in seconds.items() if len(times) != calls]
    if wrong:
        warnings.warn(
            f"of {calls} calls the trace has another number: {', '.join(wrong)}. Its times count. "
            "hint: fewer calls leave a profiler more room",
            UserWarning,
            stacklevel=5,
        )


def _require_some(prepared: list[Prepared]) -> None:
    if all(one.error is not None for one in prepared):
        reasons = "; ".join(f"{one.variant.name}: {one.error}" for one in prepared)
        raise ProfilingError(f"every variant failed. {reasons}")


@contextlib.contextmanager
def _folder(kept: Path | None) -> Iterator[Path]:
    if kept is not None:
        try:
            kept.mkdir(parents=True, exist_ok=True)
        except OSError as cause:
            hint = "trace_dir names another place"
            raise ProfilingError(f"cannot make {kept} for the profile: {cause}. hint: {hint}") from cause
        yield kept
        return
    with tempfile.TemporaryDirectory(prefix="tuning_profile_") as name:
        yield Path(name)
