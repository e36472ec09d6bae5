"""The drop-in profiler on recorded traces."""

from __future__ import annotations

import gc
import itertools
import logging
import os
import statistics
import sys
import weakref
from typing import Any

import pytest
from conftest import TRACES
from ergometer import profiler as module
from ergometer.errors import ErgometerError, ProfilingError
from ergometer.profiler import Profiler
from jax.profiler import ProfileData
from recorded_profiles import AUTOTUNE, seconds_by_id, read_recorded

KEY = "jit_autotune_fn_0(3981-281474976710658)"


def union_ns(intervals: list[tuple[float, float]]) -> float:
    total, end = 0.0, float("-inf")
    for start, stop in sorted(intervals):
        total += max(0.0, stop - max(start, end))
        end = max(end, stop)
    return total


def kernels_by_plain_loop(data: ProfileData) -> list[tuple[float, float, dict[str, Any]]]:
    plane = data.find_plane_with_name("/device:GPU:0")
    return sorted(
        (
            (event.start_ns, event.start_ns + event.duration_ns, dict(event.stats))
            for line in plane.lines
            for event in line.events
            if event.duration_ns >= 1000
        ),
        key=lambda kernel: kernel[0],
    )


@pytest.fixture
def data() -> ProfileData:
    return ProfileData.from_serialized_xspace(AUTOTUNE.read_bytes())


def test_events_of_a_plane_match_a_plain_loop(data: ProfileData) -> None:
    by_key: dict[str, list[tuple[float, float]]] = {}
    for start, end, stats in kernels_by_plain_loop(data):
        key = f"{stats['hlo_module']}({stats['program_id']}-{stats['scope_range_id']})"
        by_key.setdefault(key, []).append((start, end))
    expected = {key: union_ns(intervals) / 1e9 for key, intervals in by_key.items()}
    trace = read_recorded("gpu_autotune")
    [plane] = Profiler.find_device_plane_ids(trace, "gpu")
    found = Profiler().get_events_from_plane(trace, plane)
    assert found[KEY] == 4.191e-6
    assert found == pytest.approx(expected, rel=1e-12)
    assert len(found) == 50


def test_times_by_function_match_a_plain_loop(data: ProfileData) -> None:
    # Functions do not overlap in this trace, so events close in time are one execution.
    samples: dict[int, list[float]] = {}
    for name, kernels in itertools.groupby(kernels_by_plain_loop(data), key=lambda kernel: kernel[2]["hlo_module"]):
        busy_ns = union_ns([(start, end) for start, end, _ in kernels])
        samples.setdefault(int(name.removeprefix("jit_autotune_fn_")), []).append(busy_ns / 1e9)
    middle = {number: sorted(times)[1:-1] for number, times in samples.items()}
    found = seconds_by_id(Profiler(), read_recorded("gpu_autotune"), "gpu")
    assert list(found) == [0, 1, 2, 3]
    for number, (mean_s, std_s) in found.items():
        assert len(samples[number]) == 5
        assert mean_s == pytest.approx(statistics.fmean(middle[number]), rel=1e-9)
        assert std_s == pytest.approx(statistics.pstdev(middle[number]), rel=1e-6)
    assert found[0][0] == pytest.approx(13.0337e-6, abs=1e-10)


class Message:
    """Like an XSpace protobuf message: it can be serialized."""

    def __init__(self, content: bytes) -> None:
        self.content = content

    def SerializeToString(self) -> bytes:  # noqa: N802: protobuf's name
        return self.content


@pytest.mark.parametrize("name, device", [("gpu_autotune", "gpu"), ("small_cpu_666", "cpu"), ("gpu_train_3", "gpu")])
def test_every_kind_of_profile_gives_the_same_result(name: str, device: str) -> None:
    path = TRACES / f"{name}.xplane.pb"
    content = path.read_bytes()
    data = ProfileData.from_serialized_xspace(content)
    kinds = [data, content, bytearray(content), path, str(path), Message(content)]
    trace = Profiler.parse_profile_from_bytes(content)
    expected_planes = Profiler.find_device_plane_ids(trace, device)
    for profiler in (Profiler(), Profiler(prefix_filter="", event_filter_regex="fusion|gemm", min_duration_ns=0)):
        expected = profiler.get_events_from_plane(trace, expected_planes[0])
        assert any(seconds > 0 for seconds in expected.values())
        for kind in kinds:
            assert profiler.find_device_plane_ids(kind, device) == expected_planes
            assert profiler.get_events_from_plane(kind, expected_planes[0]) == pytest.approx(expected, rel=1e-9)


def test_plane_names_match_profile_data(data: ProfileData) -> None:
    trace = Profiler.parse_profile_from_bytes(AUTOTUNE.read_bytes())
    assert [plane.name for plane in trace.planes] == [plane.name for plane in data.planes]
    ours, theirs = trace.find_plane_with_name("/device:GPU:0"), data.find_plane_with_name("/device:GPU:0")
    assert ours is not None
    [our_line], [their_line] = ours.lines, theirs.lines
    assert our_line.name == their_line.name
    for one, other in zip(our_line.events, their_line.events, strict=True):
        assert (one.name, one.start_ns, one.duration_ns) == (other.name, other.start_ns, other.duration_ns)
        assert dict(one.stats) == dict(other.stats)


def test_profile_data_is_converted_once(data: ProfileData) -> None:
    assert module._as_trace(data) is module._as_trace(data)
    other = ProfileData.from_serialized_xspace((TRACES / "small_cpu_666.xplane.pb").read_bytes())
    assert len(module._as_trace(other)) != len(module._as_trace(data))


def test_cached_profile_data_is_released_for_another_profile(data: ProfileData) -> None:
    held = sys.getrefcount(data)
    Profiler.find_device_plane_ids(data, "gpu")
    assert sys.getrefcount(data) == held + 1
    Profiler.find_device_plane_ids(read_recorded("gpu_autotune"), "gpu")
    assert sys.getrefcount(data) == held


def test_a_protobuf_message_is_not_cached() -> None:
    message = Message(AUTOTUNE.read_bytes())
    Profiler.find_device_plane_ids(message, "gpu")
    gone = weakref.ref(message)
    del message
    gc.collect()
    assert gone() is None


def test_attributes_have_the_values_of_the_arguments() -> None:
    profiler = Profiler()
    assert profiler.prefix_filter == "jit_"
    assert profiler.event_filter_regex is None
    assert profiler.min_duration_ns == 1000.0
    assert profiler.max_events_per_profile is None
    assert (profiler.verbose, profiler.require_tf) == (False, False)
    with pytest.raises(TypeError):
        Profiler("jit_")  # type: ignore[misc]


def test_attributes_can_change(data: ProfileData) -> None:
    profiler = Profiler()
    plane = profiler.find_device_plane_ids(data, "gpu")[0]
    profiler.prefix_filter = "jit_autotune_fn_3"
    profiler.min_duration_ns = 150_000
    assert len(profiler.get_events_from_plane(data, plane)) == 10
    profiler.event_filter_regex = "("
    with pytest.raises(ProfilingError, match=r"^Invalid regex pattern '\(': "):
        profiler.get_events_from_plane(data, plane)


def test_tensorflow_logs_are_silenced_only_by_default(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TF_CPP_MIN_LOG_LEVEL", raising=False)
    Profiler(silence_tf_cpp_logs=False)
    assert "TF_CPP_MIN_LOG_LEVEL" not in os.environ
    Profiler()
    assert os.environ["TF_CPP_MIN_LOG_LEVEL"] == "3"
    monkeypatch.setenv("TF_CPP_MIN_LOG_LEVEL", "1")
    Profiler()
    assert os.environ["TF_CPP_MIN_LOG_LEVEL"] == "1"


def test_invalid_profiles() -> None:
    with pytest.raises(ProfilingError, match="^Failed to parse profile data: ") as raised:
        Profiler.parse_profile_from_bytes(AUTOTUNE.read_bytes()[:-3])
    assert isinstance(raised.value, ErgometerError)
    with pytest.raises(ProfilingError, match="^Failed to parse profile data: "):
        Profiler.parse_profile_from_bytes(None)  # type: ignore[arg-type]
    with pytest.raises(ProfilingError, match="^Failed to parse profile data: "):
        Profiler.parse_profile_from_bytes(str(AUTOTUNE))  # type: ignore[arg-type]
    with pytest.raises(ProfilingError, match="^Invalid profile structure: "):
        Profiler.find_device_plane_ids(object(), "gpu")
    with pytest.raises(ProfilingError, match="^Failed to parse profile data: .*no_such_file"):
        Profiler.find_device_plane_ids("no_such_file.xplane.pb", "gpu")
    with pytest.raises(ProfilingError, match="^Failed to extract events from plane 0: Invalid profile structure: "):
        Profiler().get_events_from_plane(object(), 0)


def test_an_unknown_device() -> None:
    names = ["/host:metadata", "/host:__ScopeRangeCallStack__", "/device:GPU:0", "/host:CPU", "Task Environment"]
    with pytest.raises(ProfilingError) as raised:
        Profiler.find_device_plane_ids(read_recorded("gpu_autotune"), "tpu")
    assert str(raised.value) == f"No planes found for device 'tpu'. Available devices: {names}"


@pytest.mark.parametrize("plane", [9, -6])
def test_a_plane_out_of_range(plane: int) -> None:
    with pytest.raises(ProfilingError) as raised:
        Profiler().get_events_from_plane(read_recorded("gpu_autotune"), plane)
    expected = f"Failed to extract events from plane {plane}: Plane index {plane} out of range (0-4)"
    assert str(raised.value) == expected


def test_a_negative_plane_counts_from_the_end() -> None:
    trace = read_recorded("gpu_autotune")
    assert Profiler().get_events_from_plane(trace, -3) == Profiler().get_events_from_plane(trace, 2) != {}


def test_a_cap_that_leaves_out_events_warns() -> None:
    trace = read_recorded("med_cpu_26820")
    [plane] = Profiler.find_device_plane_ids(trace, "cpu")
    profiler = Profiler(max_events_per_profile=10_000)
    with pytest.warns(UserWarning, match="max_events_per_profile = 10000 left out") as warned:
        profiler.get_events_from_plane(trace, plane)
    assert warned[0].filename == __file__


def test_verbose_reports_short_events(caplog: pytest.LogCaptureFixture) -> None:
    trace = read_recorded("gpu_autotune")
    with caplog.at_level(logging.INFO, logger="ergometer"):
        Profiler().get_events_from_plane(trace, 2)
        assert caplog.messages == []
        Profiler(verbose=True).get_events_from_plane(trace, 2)
    expected = "5 events of /device:GPU:0 are shorter than min_duration_ns and left out, 3.839 µs together"
    assert caplog.messages == [expected]
