"""The profiler that autotuners of JAX kernels know, with exact times and without TensorFlow."""

from __future__ import annotations

import importlib
import logging
import operator
import os
import re
import tempfile
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

from ergometer import _native, _patterns
from ergometer._capture import profile_files, profiler_session
from ergometer.errors import ErgometerError, ProfilingError, TraceError

_logger = logging.getLogger("ergometer")

# A `ProfileData` has to be walked event by event, which takes seconds where there are many, and is asked for its planes
# one after the other. It never changes, and takes no weak reference: so the last one is kept until another profile is
# given, and only that.
_last_converted: tuple[Any, _native.Trace] | None = None

# Which planes there are does not depend on what of them counts.
_ANY_EVENT = _native.ProfilerRules(
    prefix_filter="", event_filter_regex=None, min_duration_ns=0.0, max_events_per_profile=None, verbose=False
)


class Profiler:
    """Times of events and functions from profiles of JAX.

    Attributes:
        prefix_filter: Events whose module, or name where they have none, begins with this count; empty for all.
        event_filter_regex: Where it is found in the module, op or kernel of an event, that event counts; times are then
            those of such events only. In the syntax of `re`. With look-around or back references it sees names only,
            without the numbers in brackets.
        min_duration_ns: Events at least this long count. Many kernels are shorter than a microsecond: `verbose` tells.
        max_events_per_profile: So many events of a plane at most; None for all. What that cuts, a warning tells.
        verbose: Whether to log what is only worth knowing.
        require_tf: Whether to refuse to profile without TensorFlow's hooks. Nothing here needs them.

    Example:
        >>> import jax, jax.numpy as jnp
        >>> def autotune_fn_7(x):
        ...     return x @ x
        >>> function, x = jax.jit(autotune_fn_7), jnp.ones((256, 256))
        >>> _ = function(x)
        >>> times = Profiler().profile_time_by_function_id(lambda: function(x), platform="cpu", total_calls_number=5)
        >>> mean_s, std_s = times[7]
        >>> mean_s > 0
        True
    """

    def __init__(
        self,
        *,
        prefix_filter: str = "jit_",
        event_filter_regex: str | None = None,
        min_duration_ns: float = 1000.0,
        max_events_per_profile: int | None = None,
        verbose: bool = False,
        require_tf: bool = False,
        silence_tf_cpp_logs: bool = True,
    ) -> None:
        """Takes note of what is to count.

        Args:
            prefix_filter: See the attribute of this name, as for all but the last.
            event_filter_regex: See there.
            min_duration_ns: See there.
            max_events_per_profile: See there.
            verbose: See there.
            require_tf: See there.
            silence_tf_cpp_logs: Sets TF_CPP_MIN_LOG_LEVEL to 3 where it is not set: XLA heeds it too.

        Raises:
            re.error: `event_filter_regex` is no pattern.
        """
        if event_filter_regex is not None:
            re.compile(event_filter_regex)
        self.prefix_filter = prefix_filter
        self.event_filter_regex = event_filter_regex
        self.min_duration_ns = min_duration_ns
        self.max_events_per_profile = max_events_per_profile
        self.verbose = verbose
        self.require_tf = require_tf
        self._tf_avail_cache: bool | None = None
        if silence_tf_cpp_logs:
            os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

    @staticmethod
    def parse_profile_from_bytes(profile_bytes: bytes) -> _native.Trace:
        """A profile from the bytes of an `.xplane.pb` file, packed or not.

        What comes back has the properties of `jax.profiler.ProfileData`, and the tables of `ergometer.read_trace`.

        Raises:
            ProfilingError: They are none, or damaged.
        """
        try:
            # Bytes are read where they are, any other memory is copied. A text would be a path.
            is_bytes = isinstance(profile_bytes, bytes)
            return _native.read_trace(profile_bytes if is_bytes else memoryview(profile_bytes))
        except Exception as cause:
            raise ProfilingError(f"Failed to parse profile data: {cause}") from cause

    @staticmethod
    def find_device_plane_ids(p: Any, device_str: str) -> list[int]:
        """The numbers of the planes whose name has the device in it, whatever the case: "gpu", "TPU:1", "cpu".

        Args:
            p: A profile: `ergometer.Trace`, `jax.profiler.ProfileData`, an XSpace message, bytes or a path.
            device_str: What to look for.

        Raises:
            ProfilingError: There are none, and the message lists those that are there; or `p` is no profile.
        """
        return _ANY_EVENT.find_device_plane_ids(_trace_of(p), device_str)

    def get_events_from_plane(self, p: Any, plane_idx: int) -> dict[str, float]:
        """Seconds by `name(P-S)` of the events of a plane whose names pass the prefix.

        The name is that of the module, or of the event where it has none; P is the `program_id`, or the `run_id` where
        there is none; S the `scope_range_id`; what is missing reads None. Events of one name count by the length of
        their union. With `event_filter_regex` the time is that of what matches: these events, or those nested in them.

        Args:
            p: A profile, as for `find_device_plane_ids`.
            plane_idx: A number from there; below zero it counts from the last.

        Raises:
            ProfilingError: There is no such plane, `p` is no profile, or the pattern was changed to one that is none.
        """
        try:
            trace = _trace_of(p)
            count = len(trace.planes)
            plane = operator.index(plane_idx)
            if not -count <= plane < count:
                raise ProfilingError(f"Plane index {plane_idx} out of range (0-{count - 1})")
            found, notes = self._rules(trace).events_of_plane(trace, plane % count)
        except re.error as cause:
            raise ProfilingError(f"Invalid regex pattern '{self.event_filter_regex}': {cause}") from cause
        except Exception as cause:
            raise ProfilingError(f"Failed to extract events from plane {plane_idx}: {cause}") from cause
        _tell(notes)
        return found

    def profile_time_by_function_id(
        self,
        timing_closure: Callable[[], Any],
        platform: str,
        total_calls_number: int,
    ) -> dict[int, tuple[float, float]]:
        """Mean and standard deviation in seconds of the device time of `jit_autotune_fn_<id>`, by id.

        The closure runs so many times in one session of `jax.profiler`; compile before, or the first time has that in
        it. Each execution counts once, with the longest of its devices. Of more than two the smallest and the largest
        are dropped, and the deviation is that of the population.

        Args:
            timing_closure: Calls the functions. The devices are waited for.
            platform: "gpu", "tpu" or "cpu": all planes that have it in their name count.
            total_calls_number: How many times.

        Returns:
            Those that ran on the platform; nothing, where none did.

        Raises:
            ProfilingError: JAX is missing, a session is active already, the profile has no plane of the platform, the
                number is not positive, or `require_tf` asks for hooks that are not there.
            RuntimeError: No profile was created.
            Exception: What the closure raises comes through. The session has ended then.
        """
        if self.require_tf and not self._tf_python_profiler_available():
            raise ProfilingError("TensorFlow Python profiler hooks are not available")
        if total_calls_number < 1:
            raise ProfilingError(
                f"total_calls_number is {total_calls_number}: nothing would run. hint: 5 or more give a deviation"
            )
        with tempfile.TemporaryDirectory(prefix="tuning_profile_") as name:
            folder = Path(name)
            with profiler_session(folder):
                for _ in range(total_calls_number):
                    timing_closure()
            trace = _read_files(profile_files(folder))
        self.find_device_plane_ids(trace, platform)
        try:
            found, notes = self._rules(trace).function_seconds([trace], platform)
        except re.error as cause:
            raise ProfilingError(f"Invalid regex pattern '{self.event_filter_regex}': {cause}") from cause
        _tell(notes)
        return found

    def _rules(self, trace: _native.Trace) -> _native.ProfilerRules:
        # Made anew each time: attributes may have changed.
        pattern = self.event_filter_regex
        return _native.ProfilerRules(
            prefix_filter=self.prefix_filter or "",
            event_filter_regex=None if pattern is None else _patterns.for_rules(pattern, trace),
            min_duration_ns=float(self.min_duration_ns),
            max_events_per_profile=self.max_events_per_profile,
            verbose=self.verbose,
        )

    def _tf_python_profiler_available(self) -> bool:
        if self._tf_avail_cache is None:
            try:
                importlib.import_module("tensorflow.python.profiler.trace")
                self._tf_avail_cache = True
            except Exception:
                # A broken installation raises whatever it likes.
                self._tf_avail_cache = False
        return self._tf_avail_cache


def _trace_of(p: Any) -> _native.Trace:
    """The profile as ours, whatever it was."""
    global _last_converted
    last = _last_converted
    if last is not None and last[0] is p:
        return last[1]
    _last_converted = None
    if isinstance(p, _native.Trace):
        return p
    try:
        trace = _native.read_trace(p)
    except (TraceError, OSError) as cause:
        raise ProfilingError(f"Failed to parse profile data: {cause}") from cause
    except (AttributeError, TypeError, ErgometerError) as cause:
        raise ProfilingError(f"Invalid profile structure: {cause}") from cause
    if type(p).__name__ == "ProfileData":
        _last_converted = (p, trace)
    return trace


def _read_files(files: list[Path]) -> _native.Trace:
    try:
        return _native.read_trace(files)
    except Exception as cause:
        raise ProfilingError(f"Failed to parse profile data: {cause}") from cause


def _tell(notes: list[tuple[bool, str]]) -> None:
    for is_caution, note in notes:
        if is_caution:
            warnings.warn(note, UserWarning, stacklevel=3)
        else:
            _logger.warning("%s", note)
