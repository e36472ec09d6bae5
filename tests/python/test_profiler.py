"""The drop-in profiler, on recorded traces and with JAX on this machine's processor."""

from __future__ import annotations

import gc
import itertools
import logging
import os
import re
import statistics
import subprocess
import sys
import tempfile
import weakref
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import pytest
from jax.profiler import ProfileData

from ergometer import _native, profiler as module
from ergometer._capture import profile_files, profiler_session
from ergometer.errors import ErgometerError, ProfilingError
from ergometer._patterns import for_rules
from ergometer.profiler import Profiler

FIXTURES = Path(__file__).resolve().parents[2] / "fixtures" / "xplane"
AUTOTUNE = FIXTURES / "gpu_autotune.xplane.pb"
KEY = "jit_autotune_fn_0(3981-281474976710658)"


def trace_of(name: str) -> _native.Trace:
    return Profiler.parse_profile_from_bytes((FIXTURES / f"{name}.xplane.pb").read_bytes())


def seconds_by_id(profiler: Profiler, trace: _native.Trace, platform: str) -> dict[int, tuple[float, float]]:
    return profiler._rules(trace).function_seconds([trace], platform)[0]


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


def test_events_of_a_plane_are_those_of_a_plain_loop(data: ProfileData) -> None:
    by_key: dict[str, list[tuple[float, float]]] = {}
    for start, end, stats in kernels_by_plain_loop(data):
        key = f"{stats['hlo_module']}({stats['program_id']}-{stats['scope_range_id']})"
        by_key.setdefault(key, []).append((start, end))
    expected = {key: union_ns(intervals) / 1e9 for key, intervals in by_key.items()}
    trace = trace_of("gpu_autotune")
    [plane] = Profiler.find_device_plane_ids(trace, "gpu")
    found = Profiler().get_events_from_plane(trace, plane)
    assert found[KEY] == 4.191e-6
    assert found == pytest.approx(expected, rel=1e-12)
    assert len(found) == 50


def test_times_by_function_are_those_of_a_plain_loop(data: ProfileData) -> None:
    # Nothing overlaps between two functions here, so what stands together in time is one execution.
    samples: dict[int, list[float]] = {}
    for name, kernels in itertools.groupby(kernels_by_plain_loop(data), key=lambda kernel: kernel[2]["hlo_module"]):
        busy_ns = union_ns([(start, end) for start, end, _ in kernels])
        samples.setdefault(int(name.removeprefix("jit_autotune_fn_")), []).append(busy_ns / 1e9)
    middle = {number: sorted(times)[1:-1] for number, times in samples.items()}
    found = seconds_by_id(Profiler(), trace_of("gpu_autotune"), "gpu")
    assert list(found) == [0, 1, 2, 3]
    for number, (mean_s, std_s) in found.items():
        assert len(samples[number]) == 5
        assert mean_s == pytest.approx(statistics.fmean(middle[number]), rel=1e-9)
        assert std_s == pytest.approx(statistics.pstdev(middle[number]), rel=1e-6)
    assert found[0][0] == pytest.approx(13.0337e-6, abs=1e-10)


class Message:
    """As an XSpace of protobuf: it knows how to be bytes."""

    def __init__(self, content: bytes) -> None:
        self.content = content

    def SerializeToString(self) -> bytes:  # noqa: N802: protobuf's name
        return self.content


@pytest.mark.parametrize("name, device", [("gpu_autotune", "gpu"), ("small_cpu_666", "cpu"), ("gpu_train_3", "gpu")])
def test_every_kind_of_profile_gives_the_same(name: str, device: str) -> None:
    path = FIXTURES / f"{name}.xplane.pb"
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


def test_the_names_of_planes_are_as_in_profile_data(data: ProfileData) -> None:
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
    assert module._trace_of(data) is module._trace_of(data)
    other = ProfileData.from_serialized_xspace((FIXTURES / "small_cpu_666.xplane.pb").read_bytes())
    assert len(module._trace_of(other)) != len(module._trace_of(data))


def test_profile_data_is_let_go_when_another_profile_is_given(data: ProfileData) -> None:
    held = sys.getrefcount(data)
    Profiler.find_device_plane_ids(data, "gpu")
    assert sys.getrefcount(data) == held + 1
    Profiler.find_device_plane_ids(trace_of("gpu_autotune"), "gpu")
    assert sys.getrefcount(data) == held


def test_a_message_is_not_held() -> None:
    message = Message(AUTOTUNE.read_bytes())
    Profiler.find_device_plane_ids(message, "gpu")
    gone = weakref.ref(message)
    del message
    gc.collect()
    assert gone() is None


def test_attributes_are_those_given() -> None:
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


def test_tensorflow_is_silenced_only_where_nobody_chose(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TF_CPP_MIN_LOG_LEVEL", raising=False)
    Profiler(silence_tf_cpp_logs=False)
    assert "TF_CPP_MIN_LOG_LEVEL" not in os.environ
    Profiler()
    assert os.environ["TF_CPP_MIN_LOG_LEVEL"] == "3"
    monkeypatch.setenv("TF_CPP_MIN_LOG_LEVEL", "1")
    Profiler()
    assert os.environ["TF_CPP_MIN_LOG_LEVEL"] == "1"


def test_what_is_no_profile() -> None:
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


def test_no_such_device() -> None:
    names = ["/host:metadata", "/host:__ScopeRangeCallStack__", "/device:GPU:0", "/host:CPU", "Task Environment"]
    with pytest.raises(ProfilingError) as raised:
        Profiler.find_device_plane_ids(trace_of("gpu_autotune"), "tpu")
    assert str(raised.value) == f"No planes found for device 'tpu'. Available devices: {names}"


@pytest.mark.parametrize("plane", [9, -6])
def test_no_such_plane(plane: int) -> None:
    with pytest.raises(ProfilingError) as raised:
        Profiler().get_events_from_plane(trace_of("gpu_autotune"), plane)
    expected = f"Failed to extract events from plane {plane}: Plane index {plane} out of range (0-4)"
    assert str(raised.value) == expected


def test_a_plane_can_be_counted_from_the_last() -> None:
    trace = trace_of("gpu_autotune")
    assert Profiler().get_events_from_plane(trace, -3) == Profiler().get_events_from_plane(trace, 2) != {}


def test_a_pattern_that_is_none() -> None:
    with pytest.raises(re.error):
        Profiler(event_filter_regex="gemm(")


def test_a_pattern_with_look_ahead() -> None:
    trace = trace_of("gpu_autotune")
    pattern = r"gemm_fusion_dot(?![._]1)"
    assert not _native.is_pattern(pattern)
    looking = seconds_by_id(Profiler(event_filter_regex=pattern), trace, "gpu")
    # Of fn_0 the first product is gemm_fusion_dot, the second gemm_fusion_dot_1, and its op gemm_fusion_dot.1.
    plain = seconds_by_id(Profiler(event_filter_regex="gemm_fusion_dot$"), trace, "gpu")
    assert looking[0] == plain[0]
    both = seconds_by_id(Profiler(event_filter_regex="gemm_fusion_dot"), trace, "gpu")
    assert 0 < looking[0][0] < both[0][0]
    assert seconds_by_id(Profiler(event_filter_regex="(?=never)never"), trace, "gpu") == {}


@pytest.mark.filterwarnings("ignore:Possible set:FutureWarning", "ignore:Possible nested set:FutureWarning")
def test_patterns_mean_what_they_mean_in_python() -> None:
    trace = trace_of("gpu_autotune")
    names = trace.names()
    for pattern in [r"gemm", r"(?<=loop_)reduce", r"(.)\1", r"[a&&b]", r"fusion\Z", r"\<", r"[[f]usion", r"(?!)"]:
        compiled = re.compile(pattern)
        translated = for_rules(pattern, trace)
        assert _native.is_pattern(translated), pattern
        expected = [name for name in names if compiled.search(name)]
        assert [name for name in names if re.search(translated, name)] == expected, pattern


@pytest.mark.skipif(sys.version_info < (3, 11), reason="they came with Python 3.11")
@pytest.mark.parametrize("pattern", [r"[a-z_]*+fusion", r"m++m", r"_?+_", r"m{1,2}+m", r"(?>[a-z_]*)fusion"])
def test_what_gives_nothing_back_means_what_it_means_in_python(pattern: str) -> None:
    """To Rust `[a-z_]*+fusion` is `([a-z_]*)+fusion`, which finds what Python does not."""
    trace = trace_of("gpu_autotune")
    names = trace.names()
    translated = for_rules(pattern, trace)
    found = [name for name in names if re.search(translated, name)]
    assert found == [name for name in names if re.search(pattern, name)]
    giving = re.sub(r"([*+?}])\+", r"\1", pattern.replace("(?>", "(?:"))
    assert found != [name for name in names if re.search(giving, name)], "no name tells the two apart"


def test_names_with_any_character_can_stand_for_a_pattern() -> None:
    for character in map(chr, [*range(1, 128), 0xE9, 0x2028]):
        assert _native.is_pattern("^(?:" + re.escape(f"a{character}b") + ")$"), repr(character)


def test_a_cap_that_cuts_warns() -> None:
    trace = trace_of("med_cpu_26820")
    [plane] = Profiler.find_device_plane_ids(trace, "cpu")
    profiler = Profiler(max_events_per_profile=10_000)
    with pytest.warns(UserWarning, match="max_events_per_profile = 10000 left out") as warned:
        profiler.get_events_from_plane(trace, plane)
    assert warned[0].filename == __file__


def test_verbose_tells_what_was_too_short(caplog: pytest.LogCaptureFixture) -> None:
    trace = trace_of("gpu_autotune")
    with caplog.at_level(logging.INFO, logger="ergometer"):
        Profiler().get_events_from_plane(trace, 2)
        assert caplog.messages == []
        Profiler(verbose=True).get_events_from_plane(trace, 2)
    expected = "5 events of /device:GPU:0 are shorter than min_duration_ns and left out, 3.839 µs together"
    assert caplog.messages == [expected]


# With JAX on this machine.


def named(number: int) -> Any:
    def function(x: jax.Array) -> jax.Array:
        return jnp.sin(x @ x)

    function.__name__ = f"autotune_fn_{number}"
    return jax.jit(function)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where temporary folders are made: what stays behind can be seen."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    return tmp_path


def test_functions_are_timed(folder: Path) -> None:
    small, large = named(3), named(11)
    x, y = jnp.ones((64, 64)), jnp.ones((512, 512))
    small(x), large(y)

    def closure() -> None:
        small(x)
        large(y)

    profiler = Profiler(min_duration_ns=0)
    found = profiler.profile_time_by_function_id(closure, platform="cpu", total_calls_number=5)
    assert sorted(found) == [3, 11]
    assert 0 < found[3][0] < found[11][0]
    assert all(std_s >= 0 for _, std_s in found.values())
    assert list(folder.iterdir()) == []


def test_results_that_nobody_holds_are_waited_for(tmp_path: Path) -> None:
    function, x = named(2), jnp.ones((600, 600))
    function(x).block_until_ready()
    with profiler_session(tmp_path):
        for _ in range(10):
            function(x)
    [row] = _native.read_trace(profile_files(tmp_path)).functions(device="cpu")
    assert (row["id"], row["n"]) == (2, 10)


def test_a_closure_that_raises_ends_its_session(folder: Path) -> None:
    function, x = named(1), jnp.ones((128, 128))

    class OutOfLuckError(Exception):
        pass

    def closure() -> None:
        function(x)
        raise OutOfLuckError

    for _ in range(2):
        with pytest.raises(OutOfLuckError):
            Profiler().profile_time_by_function_id(closure, "cpu", 3)
    assert list(folder.iterdir()) == []
    found = Profiler(min_duration_ns=0).profile_time_by_function_id(lambda: function(x), "cpu", 3)
    assert list(found) == [1]


def test_a_session_is_active_already(tmp_path: Path) -> None:
    with jax.profiler.trace(str(tmp_path)):
        with pytest.raises(ProfilingError, match="cannot start the profiler") as raised:
            Profiler().profile_time_by_function_id(lambda: None, "cpu", 1)
        assert raised.value.hint is not None and "stop_trace" in raised.value.hint


def test_nothing_ran_on_a_platform_that_is_there() -> None:
    assert Profiler().profile_time_by_function_id(lambda: None, "cpu", 1) == {}


def test_a_platform_that_is_not_there(folder: Path) -> None:
    with pytest.raises(ProfilingError, match="^No planes found for device 'tpu'"):
        Profiler().profile_time_by_function_id(lambda: None, "tpu", 1)
    assert list(folder.iterdir()) == []


def test_no_profile_was_created(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    stop = jax.profiler.stop_trace

    def stop_and_lose() -> None:
        stop()
        for file in folder.glob("**/*.xplane.pb"):
            file.unlink()

    monkeypatch.setattr(jax.profiler, "stop_trace", stop_and_lose)
    with pytest.raises(RuntimeError, match=r"^No profile was created\.$"):
        Profiler().profile_time_by_function_id(lambda: None, "cpu", 1)


@pytest.mark.parametrize("number", [0, -1])
def test_nothing_to_run(number: int) -> None:
    with pytest.raises(ProfilingError, match="total_calls_number"):
        Profiler().profile_time_by_function_id(lambda: None, "cpu", number)


def test_tensorflow_can_be_asked_for() -> None:
    calls: list[int] = []
    with pytest.raises(ProfilingError, match="^TensorFlow Python profiler hooks are not available$"):
        Profiler(require_tf=True).profile_time_by_function_id(lambda: calls.append(1), "cpu", 1)
    assert calls == []


def test_without_jax() -> None:
    program = """
import sys
sys.modules["jax"] = None
from ergometer.profiler import Profiler
from ergometer.errors import ProfilingError
profile = Profiler.parse_profile_from_bytes(open(sys.argv[1], "rb").read())
assert len(Profiler().get_events_from_plane(profile, 2)) == 50
try:
    Profiler().profile_time_by_function_id(lambda: None, "gpu", 1)
except ProfilingError as error:
    assert "without JAX" in str(error) and error.hint == "pip install jax", error
else:
    raise SystemExit("no error")
assert "numpy" not in sys.modules and "tensorflow" not in sys.modules
"""
    subprocess.run([sys.executable, "-c", program, str(AUTOTUNE)], check=True, timeout=60)
