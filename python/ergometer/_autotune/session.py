"""Times variants: device times from one session of the profiler, or wall times of the host."""

from __future__ import annotations

import contextlib
import tempfile
import warnings
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from ergometer import _native
from ergometer._autotune.agreement import fail_different
from ergometer._autotune.progress import Progress
from ergometer._autotune.rounds import Plan, Rounds, run_rounds
from ergometer._autotune.variants import Prepared, Variant, compiled, prepare, uncompiled
from ergometer._capture import profile_files, profiler_session, require_jax
from ergometer.errors import ProfilingError, TraceError, message_of, with_hint

Timer = Literal["device", "wall", "device-or-wall"]
Report = Callable[[Progress], None]

_WALL_HINT = 'set timer="wall" to use wall times'
_OTHER_DEVICE_HINT = f"{_WALL_HINT}, or platform= to another device"


@dataclass(frozen=True)
class Timed:
    """The times of variants.

    Attributes:
        prepared: All variants; failed ones have an error and no times.
        seconds: The time of every call, by name.
        rounds: The rounds in which they ran.
        timer: The clock: "device" or "wall".
        platform: The platform of the device times.
        trace: The profile.
    """

    prepared: list[Prepared]
    seconds: dict[str, list[float]]
    rounds: Rounds
    timer: Literal["device", "wall"]
    platform: str | None = None
    trace: _native.Trace | None = None


@dataclass(frozen=True)
class Session:
    """Variants with their arguments, and the options of timing."""

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
        """Times the variants by device time, wall time, or wall time if there are no device times.

        Raises:
            ProfilingError: All variants failed, or there are no device times.
        """
        if timer == "wall":
            return self._by_wall(self._prepare(uncompiled(self.args, self.kwargs)))
        prepared = None
        try:
            prepared = self._prepare(compiled(require_jax(), self.args, self.kwargs))
            return self._by_device(prepared)
        except ProfilingError as cause:
            if timer == "device":
                raise
            warnings.warn(f"using wall times instead of device times: {cause}", UserWarning, stacklevel=3)
        if prepared is None:
            prepared = self._prepare(uncompiled(self.args, self.kwargs))
        return self._by_wall(prepared)

    def _prepare(self, bind: Callable[[Variant], Callable[[], Any]]) -> list[Prepared]:
        count = len(self.variants)

        def report(variant: Variant) -> None:
            self.report(Progress("prepare", count, variant.id + 1, count, variant.name))

        prepared = prepare(self.variants, bind, self.warmup, report)
        if self.check is not None:
            fail_different(prepared, self.check)
        _require_some(prepared)
        return prepared

    def _by_wall(self, prepared: list[Prepared]) -> Timed:
        rounds = run_rounds(prepared, self.plan, self.report)
        _require_some(prepared)
        return Timed(prepared, rounds.wall_s, rounds, "wall")

    def _by_device(self, prepared: list[Prepared]) -> Timed:
        platform = self.platform or str(require_jax().default_backend())
        with _folder(self.trace_dir) as folder:
            # Every call was waited for, so the session need not wait.
            with profiler_session(folder, waits=False):
                rounds = run_rounds(prepared, self.plan, self.report)
            _require_some(prepared)
            try:
                trace = _native.read_trace(profile_files(folder))
            except (RuntimeError, OSError, TraceError) as cause:
                # The cause's own hint is about reading a damaged file, which does not help here.
                raise ProfilingError(message_of(cause), _WALL_HINT) from cause
        seconds = _device_seconds(trace, platform, prepared)
        _warn_about_losses(seconds, rounds.count)
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
        message = f"no plane of the trace has {platform!r} in its name; its planes are {planes}"
        raise ProfilingError(message, _OTHER_DEVICE_HINT) from cause
    busy_ps = {int(row["id"]): row["busy_times_ps"] for row in functions}
    live = [one for one in prepared if one.error is None]
    missing = [one for one in live if not busy_ps.get(one.variant.id)]
    if len(missing) == len(live):
        names = ", ".join(one.variant.name for one in missing)
        modules = ", ".join(sorted({str(row["module"]) for row in trace.modules()})) or "no modules"
        raise ProfilingError(
            f"the trace has no times of {names} on {platform!r}; it has {modules}, on planes {planes}",
            _OTHER_DEVICE_HINT,
        )
    for one in missing:
        # For example a function that computes nothing on the device.
        one.call, one.error = None, f"the trace has no times of it on {platform!r}: nothing of it ran there"
    return {one.variant.name: [ps / 1e12 for ps in busy_ps[one.variant.id]] for one in live if one.error is None}


def _warn_about_losses(seconds: dict[str, list[float]], calls: int) -> None:
    wrong = [f"{name} {len(times)}" for name, times in seconds.items() if len(times) != calls]
    if wrong:
        message = f"the trace does not have all {calls} calls: {', '.join(wrong)}; the result uses those in the trace"
        hint = "reduce calls, because the buffer of the profiler is limited"
        warnings.warn(with_hint(message, hint), UserWarning, stacklevel=5)


def _require_some(prepared: list[Prepared]) -> None:
    if all(one.error is not None for one in prepared):
        reasons = "; ".join(f"{one.variant.name}: {one.error}" for one in prepared)
        raise ProfilingError(f"all variants failed: {reasons}")


@contextlib.contextmanager
def _folder(trace_dir: Path | None) -> Iterator[Path]:
    if trace_dir is not None:
        try:
            trace_dir.mkdir(parents=True, exist_ok=True)
        except OSError as cause:
            hint = "set trace_dir to another folder"
            raise ProfilingError(f"cannot create {trace_dir} for the profile: {cause}", hint) from cause
        yield trace_dir
        return
    with tempfile.TemporaryDirectory(prefix="tuning_profile_") as name:
        yield Path(name)
