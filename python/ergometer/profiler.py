"""`Profiler`: a drop-in replacement for the profiler of the JAX autotuner `ejkernel`, without TensorFlow."""

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
from ergometer.errors import ErgometerError, ProfilingError, TraceError, hint_of, message_of

_logger = logging.getLogger("ergometer")

# Converting a `ProfileData` reads every event, which can take seconds, and callers ask for its planes one by one. It
# never changes, but supports no weak references: so only the last one is cached, until another profile is passed.
_last_converted: tuple[Any, _native.Trace] | None = None

# The planes of a profile do not depend on the filters.
_ANY_EVENT = _native.ProfilerRules(
    prefix_filter="", event_filter_regex=None, min_duration_ns=0.0, max_events_per_profile=None, verbose=False
)


class Profiler:
    """Computes times of events and functions from JAX profiles.

    Attributes:
        prefix_filter: Prefix of the module of an event, or of its name if it has no module; empty for all events.
        event_filter_regex: Only events whose module, op or kernel matches this pattern count. In the syntax of `re`. A
            pattern without look-around and back references is also compared with the keys `name(P-S)` of
            `get_events_from_plane`.
        min_duration_ns: Minimum duration of an event. Many kernels are shorter than a microsecond: `verbose` logs how
            many.
        max_events_per_profile: Maximum number of events of a plane; None for all. A warning reports events left out.
        verbose: Whether to also log how many events were shorter than `min_duration_ns`.
        require_tf: Whether to refuse to profile without TensorFlow's profiler. Nothing here needs TensorFlow.

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
        """Creates a profiler; the attributes describe the arguments.

        Args:
            prefix_filter: See the attribute.
            event_filter_regex: See the attribute.
            min_duration_ns: See the attribute.
            max_events_per_profile: See the attribute.
            verbose: See the attribute.
            require_tf: See the attribute.
            silence_tf_cpp_logs: Whether to set TF_CPP_MIN_LOG_LEVEL to 3 if it is not set. XLA uses it, too.

        Raises:
            re.error: `event_filter_regex` is not a valid pattern.
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
        """Reads a profile from the bytes of an `.xplane.pb` file, compressed or not.

        The result has the properties of `jax.profiler.ProfileData`, and the tables of `ergometer.read_trace`.

        Raises:
            ProfilingError: The bytes are not a profile, or damaged.
        """
        try:
            # Other buffers than bytes become a memoryview; a string would be a path.
            is_bytes = isinstance(profile_bytes, bytes)
            return _native.read_trace(profile_bytes if is_bytes else memoryview(profile_bytes))
        except Exception as cause:
            raise _wrapped("Failed to parse profile data", cause) from cause

    @staticmethod
    def find_device_plane_ids(p: Any, device_str: str) -> list[int]:
        """The numbers of the planes with the device in their name, ignoring case: "gpu", "TPU:1", "cpu".

        Args:
            p: A profile: `ergometer.Trace`, `jax.profiler.ProfileData`, an XSpace message, bytes or a path.
            device_str: The device.

        Raises:
            ProfilingError: No plane matches (the message lists the planes of the profile), or `p` is not a profile.
        """
        return _ANY_EVENT.find_device_plane_ids(_as_trace(p), device_str)

    def get_events_from_plane(self, p: Any, plane_idx: int) -> dict[str, float]:
        """Seconds by `name(P-S)` of the events of a plane whose names start with the prefix.

        The name is the event's module, or the event's own name if it has no module; P is the `program_id`, or the
        `run_id` if there is none; S is the `scope_range_id`; a missing number reads None. The time of several events
        with the same key is the length of their union. With `event_filter_regex`, it is the union of those
        events that match, and of matching events nested in any of them.

        Args:
            p: A profile, as for `find_device_plane_ids`.
            plane_idx: The number of a plane; a negative number counts from the end.

        Raises:
            ProfilingError: There is no such plane, `p` is not a profile, or `event_filter_regex` is invalid.
        """
        try:
            trace = _as_trace(p)
            count = len(trace.planes)
            plane = operator.index(plane_idx)
            if not -count <= plane < count:
                raise ProfilingError(f"Plane index {plane_idx} out of range (0-{count - 1})")
            seconds, notes = self._rules(trace).events_of_plane(trace, plane % count)
        except re.error as cause:
            raise ProfilingError(f"Invalid regex pattern '{self.event_filter_regex}': {cause}") from cause
        except Exception as cause:
            raise _wrapped(f"Failed to extract events from plane {plane_idx}", cause) from cause
        _warn(notes)
        return seconds

    def profile_time_by_function_id(
        self,
        timing_closure: Callable[[], Any],
        platform: str,
        total_calls_number: int,
    ) -> dict[int, tuple[float, float]]:
        """Mean and standard deviation in seconds of the device time of `jit_autotune_fn_<id>`, by id.

        Runs the closure `total_calls_number` times in one session of `jax.profiler`. Compile the functions before, or
        the first time includes compilation. Each execution counts once, with the time of its slowest device. With more
        than two executions the shortest and the longest are dropped; the deviation is the population standard
        deviation.

        Args:
            timing_closure: Calls the functions. The profiler waits for the devices afterwards.
            platform: "gpu", "tpu" or "cpu": all planes with it in their name count.
            total_calls_number: How often to run the closure.

        Returns:
            The functions that ran on the platform; empty if none did.

        Raises:
            ProfilingError: JAX is missing, another session is active, the profile has no plane of the platform,
                `total_calls_number` is not positive, or `require_tf` is set and TensorFlow's profiler is missing.
            RuntimeError: No profile was created.
            Exception: Exceptions of the closure propagate, after the session has ended.
        """
        if self.require_tf and not self._tf_python_profiler_available():
            raise ProfilingError("TensorFlow Python profiler hooks are not available")
        if total_calls_number < 1:
            raise ProfilingError(
                f"total_calls_number must be at least 1, not {total_calls_number}",
                hint="set it to 5 or more to get a standard deviation",
            )
        with tempfile.TemporaryDirectory(prefix="tuning_profile_") as name:
            folder = Path(name)
            with profiler_session(folder):
                for _ in range(total_calls_number):
                    timing_closure()
            trace = _read_files(profile_files(folder))
        self.find_device_plane_ids(trace, platform)
        try:
            seconds, notes = self._rules(trace).function_seconds([trace], platform)
        except re.error as cause:
            raise ProfilingError(f"Invalid regex pattern '{self.event_filter_regex}': {cause}") from cause
        _warn(notes)
        return seconds

    def _rules(self, trace: _native.Trace) -> _native.ProfilerRules:
        # Created for each call, because attributes may have changed.
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
                # A broken installation can raise any exception.
                self._tf_avail_cache = False
        return self._tf_avail_cache


def _as_trace(p: Any) -> _native.Trace:
    """Converts a profile of any supported type to a `Trace`."""
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
        raise _wrapped("Failed to parse profile data", cause) from cause
    except (AttributeError, TypeError, ErgometerError) as cause:
        raise _wrapped("Invalid profile structure", cause) from cause
    if type(p).__name__ == "ProfileData":
        _last_converted = (p, trace)
    return trace


def _read_files(files: list[Path]) -> _native.Trace:
    try:
        return _native.read_trace(files)
    except Exception as cause:
        raise _wrapped("Failed to parse profile data", cause) from cause


def _wrapped(message: str, cause: Exception) -> ProfilingError:
    return ProfilingError(f"{message}: {message_of(cause)}", hint_of(cause))


def _warn(notes: list[tuple[bool, str]]) -> None:
    for is_caution, note in notes:
        if is_caution:
            warnings.warn(note, UserWarning, stacklevel=3)
        else:
            _logger.warning("%s", note)
