"""Traces: every way to hand one over, and figures that are those of `ergo trace` and of JAX's own reader."""

from __future__ import annotations

import copy
import gzip
import json
import lzma
import pickle
import shutil
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import ergometer
import pyarrow as pa
import pytest
from conftest import PLAIN_TRACES, TRACES, ergo
from ergometer.errors import ErgometerError, TraceError
from jax.profiler import ProfileData

PACKED = TRACES / "gpu_train_200.xplane.pb.xz"


def short_name(path):
    return path.name.removesuffix(".xz").removesuffix(".xplane.pb")


@pytest.fixture(scope="module", params=PLAIN_TRACES, ids=short_name)
def path(request):
    return request.param


@pytest.fixture(scope="module")
def trace(path):
    return ergometer.read_trace(path)


@pytest.fixture(scope="module")
def autotune(autotune_trace):
    return ergometer.read_trace(autotune_trace)


def told(command, *arguments):
    """The rows `ergo trace` prints."""
    done = ergo("trace", command, "--format", "json", *arguments)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def flat(row, before=""):
    """A row as a table may have it: what is in a dictionary has the names of both, joined."""
    columns = {}
    for name, value in row.items():
        columns.update(flat(value, f"{before}{name}_") if isinstance(value, dict) else {f"{before}{name}": value})
    return columns


def assert_same_rows(table, rows, *wanted):
    """Every column that both have is the same, and those that matter are there."""
    ours, theirs = [flat(row) for row in table], [flat(row) for row in rows]
    assert len(ours) == len(theirs) > 0
    shared = [name for name in theirs[0] if name in ours[0]]
    assert set(wanted) <= set(shared), f"{set(wanted) - set(shared)} is missing among {list(ours[0])}"
    for row, other in zip(ours, theirs, strict=True):
        assert {name: row[name] for name in shared} == {name: other[name] for name in shared}


# Every way in gives the same trace.


def test_there_are_traces():
    assert len(PLAIN_TRACES) >= 4


def test_a_path_and_a_text_and_bytes_of_every_kind(path, trace):
    expected = trace.ops().to_pylist()
    data = path.read_bytes()
    assert expected or trace.events().num_rows
    for source in (str(path), data, bytearray(data), memoryview(data)):
        read = ergometer.read_trace(source)
        assert len(read) == len(trace)
        assert read.ops().to_pylist() == expected


def test_a_slice_of_memory_that_is_not_in_one_piece(autotune_trace, autotune):
    doubled = bytes(byte for byte in autotune_trace.read_bytes() for _ in range(2))
    sparse = memoryview(doubled)[::2]
    try:
        read = ergometer.read_trace(sparse)
    except (BufferError, TypeError, ValueError):
        return
    assert read.ops().to_pylist() == autotune.ops().to_pylist()


def test_what_jax_has_read(path, trace):
    """It does not tell the name of the host, nor which scope lies in which: CUDA graphs have no executions then."""
    read = ergometer.read_trace(ProfileData.from_file(str(path)))
    assert len(read) == len(trace)
    is_gpu = trace.find_plane_with_name("/device:GPU:0") is not None
    for method in ("ops", "kernels") if is_gpu else ("ops", "kernels", "modules", "executions"):
        expected = [{**row, "host": None} for row in getattr(trace, method)()]
        assert getattr(read, method)().to_pylist() == expected


def test_functions_of_what_jax_has_read(autotune, autotune_trace):
    read = ergometer.read_trace(ProfileData.from_file(str(autotune_trace)))
    assert read.functions().to_pylist() == autotune.functions().to_pylist()


@pytest.mark.parametrize(("ending", "pack"), [(".gz", gzip.compress), (".xz", lzma.compress)])
def test_packed(tmp_path, autotune_trace, autotune, ending, pack):
    packed = tmp_path / f"trace.xplane.pb{ending}"
    packed.write_bytes(pack(autotune_trace.read_bytes()))
    assert ergometer.read_trace(packed).ops().to_pylist() == autotune.ops().to_pylist()
    assert ergometer.read_trace(packed.read_bytes()).ops().to_pylist() == autotune.ops().to_pylist()


def test_the_packed_fixture():
    assert sum(ergometer.read_trace(PACKED).kernels()["count"]) > 70_000


def test_a_log_folder_of_jax(tmp_path, autotune_trace, autotune):
    session = tmp_path / "plugins" / "profile" / "2026_01_01_00_00_00"
    session.mkdir(parents=True)
    shutil.copy(autotune_trace, session / "vm.xplane.pb")
    read = ergometer.read_trace(tmp_path)
    assert read.ops().to_pylist() == autotune.ops().to_pylist()
    assert [Path(file).name for file in read.files] == ["vm.xplane.pb"]


def test_several_files_are_one_trace(tmp_path, autotune_trace, autotune):
    files = [shutil.copy(autotune_trace, tmp_path / f"{name}.xplane.pb") for name in ("one", "two")]
    read = ergometer.read_trace(files)
    assert len(read.files) == 2
    assert sum(read.ops()["count"]) == 2 * sum(autotune.ops()["count"])
    assert ergometer.read_trace(tuple(map(str, files))).ops().to_pylist() == read.ops().to_pylist()


def test_a_trace_knows_its_files(autotune_trace, autotune):
    assert [Path(file).name for file in autotune.files] == [autotune_trace.name]
    assert autotune.warnings == []
    assert autotune.start_time_ns > 1_600_000_000 * 10**9
    assert "gpu" in repr(autotune).lower() or "trace" in repr(autotune).lower()


# The figures are those of the command.


@pytest.mark.parametrize(
    ("command", "wanted"),
    [
        ("ops", ["plane", "name", "module", "class", "count", "self_ps", "total_ps", "busy_ps", "median_ps", "share"]),
        ("kernels", ["plane", "name", "count", "self_ps", "total_ps", "busy_ps", "median_ps", "max_ps"]),
        ("modules", ["plane", "module", "executions", "busy_ps", "total_ps", "self_ps"]),
        ("executions", ["plane", "module", "execution", "start_ps", "busy_ps", "span_ps", "events"]),
    ],
)
def test_figures_are_those_of_the_command(path, trace, command, wanted):
    rows = told(command, path)
    if not rows:
        assert getattr(trace, command)().num_rows == 0
        return
    assert_same_rows(getattr(trace, command)(), rows, *wanted)


def test_modules_have_the_times_of_an_execution(autotune, autotune_trace):
    rows = told("modules", autotune_trace)
    for what in ("busy", "span"):
        for figure in ("mean", "median", "p90", "min", "max"):
            expected = [row[f"{what}_per_execution_ps"][figure] for row in rows]
            assert autotune.modules()[f"{what}_per_execution_{figure}_ps"] == expected


def test_names_are_those_of_modules_ops_and_events(autotune):
    names = autotune.names()
    assert names == sorted(set(names))
    assert {"jit_autotune_fn_0", "gemm_fusion_dot_general.2", "gemm_fusion_dot_general_2"} <= set(names)


def test_functions_are_those_of_the_command(autotune, autotune_trace):
    table, rows = autotune.functions(), told("functions", autotune_trace)
    assert table["id"] == [row["id"] for row in rows] == [0, 1, 2, 3]
    assert table["n"] == [row["n"] for row in rows]
    assert table["modules"] == [row["modules"] for row in rows]
    assert table["busy_times_ps"] == [row["busy_times_ps"] for row in rows]
    assert table["span_times_ps"] == [row["span_times_ps"] for row in rows]
    for figure in ("median_ps", "mean_ps", "std_ps", "mad_ps", "min_ps", "max_ps"):
        assert table[f"busy_{figure}"] == pytest.approx([row["busy"][figure] for row in rows], abs=0.001)
    trimmed = [row["busy"]["trimmed"]["mean_ps"] for row in rows]
    assert table["busy_trimmed_mean_ps"] == pytest.approx(trimmed, abs=0.001)
    compared = [row["comparison"] for row in told("functions", autotune_trace, "--compare")]
    for column in ("ratio", "p", "corrected_p", "verdict"):
        assert table[column] == [row[column] for row in compared]


def test_functions_by_another_name(autotune):
    assert autotune.functions(name=r"^jit_autotune_fn_([23])").to_pydict()["id"] == [2, 3]
    assert autotune.functions(name="^nothing_([0-9]+)").num_rows == 0
    with pytest.raises(ValueError, match="regular expression"):
        autotune.functions(name="([")
    for level in (0, 1, 95, float("nan")):
        with pytest.raises(ValueError, match="level"):
            autotune.functions(level=level)


@pytest.mark.parametrize(
    ("keywords", "arguments"),
    [
        ({"device": "GPU:0"}, ["--device", "GPU:0"]),
        ({"prefix": "jit_autotune_fn_2"}, ["--prefix", "jit_autotune_fn_2"]),
        ({"pattern": "gemm.*2$"}, ["--regex", "gemm.*2$"]),
        ({"min_duration_ns": 20_000.0}, ["--min-duration", "20us"]),
        ({"prefix": "gemm", "min_duration_ns": 10_000.0}, ["--prefix", "gemm", "--min-duration", "10us"]),
    ],
)
@pytest.mark.parametrize("command", ["ops", "kernels"])
def test_filters_are_those_of_the_command(autotune, autotune_trace, command, keywords, arguments):
    everything, rows = told(command, autotune_trace), told(command, autotune_trace, *arguments)
    if keywords != {"device": "GPU:0"}:
        assert rows != everything, "a filter that leaves all as it was says nothing"
    if rows:
        assert_same_rows(getattr(autotune, command)(**keywords), rows, "name", "count", "self_ps", "total_ps")
    else:
        assert getattr(autotune, command)(**keywords).num_rows == 0


def test_several_devices(autotune):
    both = autotune.events(device=["/device:GPU:0", "/host:CPU"], stats=False)
    assert set(both["plane"]) == {"/device:GPU:0", "/host:CPU"}
    assert set(autotune.events(device="/host:CPU", stats=False)["plane"]) == {"/host:CPU"}


def test_a_device_that_is_not_there_names_those_that_are(autotune):
    with pytest.raises(ValueError, match="hint: ") as raised:
        autotune.ops(device="/device:TPU:7")
    assert "/device:TPU:7" in str(raised.value)
    assert "/device:GPU:0" in str(raised.value)


def test_filters_that_make_no_sense(autotune):
    with pytest.raises(ValueError, match="gemm"):
        autotune.ops(pattern="gemm(")
    for duration in (-1.0, float("nan")):
        with pytest.raises(ValueError):
            autotune.ops(min_duration_ns=duration)
    with pytest.raises(TypeError):
        autotune.ops("GPU:0")


# Planes, lines and events are those of JAX's own reader.


def plain(stats):
    """Stats as they have them: bytes are characters there."""
    def text(value):
        return value.decode("utf-8", "surrogateescape") if isinstance(value, bytes) else value

    return [(name, text(value)) for name, value in stats]


def test_planes_and_lines(path, trace):
    theirs = list(ProfileData.from_file(str(path)).planes)
    assert [plane.name for plane in trace.planes] == [plane.name for plane in theirs]
    for plane, other in zip(trace.planes, theirs, strict=True):
        lines = [(line.name, len(list(line.events))) for line in other.lines]
        assert [(line.name, len(line)) for line in plane.lines] == lines
        # Where the trace has no name for a stat they make none up, and sometimes lose the value; we have its number.
        named = [stat for stat in other.stats if stat[0]]
        assert [stat for stat in plain(plane.stats) if not stat[0].isdigit()] == named


def test_planes_are_found_by_name(autotune):
    assert autotune.find_plane_with_name("/device:GPU:0").name == "/device:GPU:0"
    assert autotune.find_plane_with_name("/device:TPU:0") is None


def test_every_event_and_every_stat(path, trace):
    """Theirs are floating nanoseconds, which tell picoseconds apart for two hours."""
    stats = 0
    for plane, other_plane in zip(trace.planes, ProfileData.from_file(str(path)).planes, strict=True):
        for line, other_line in zip(plane.lines, other_plane.lines, strict=True):
            for event, other in zip(line.events, other_line.events, strict=True):
                assert (event.name, event.start_ns, event.duration_ns, event.end_ns) == (
                    other.name,
                    other.start_ns,
                    other.duration_ns,
                    other.end_ns,
                )
                assert event.start_ps == round(other.start_ns * 1000)
                assert event.duration_ps == round(other.duration_ns * 1000)
                ours, found = plain(event.stats), list(other.stats)
                assert ours == found
                # An equal value of another type is another value: 1 is not 1.0, nor True.
                assert [type(value) for _, value in ours] == [type(value) for _, value in found]
                stats += len(found)
    assert stats > 500


def test_the_table_of_events_has_every_event(path, trace):
    """Beside its time an event has all its stats: what the loop over events gives, in columns."""
    table = pa.table(trace.events())
    looped = [
        (plane.name, line.name, event.name, event.start_ps, event.duration_ps)
        for plane in trace.planes
        for line in plane.lines
        for event in line.events
    ]
    columns = [table[name].to_pylist() for name in ("plane", "line", "name", "start_ps", "duration_ps")]
    assert sorted(zip(*columns, strict=True)) == sorted(looped)
    assert len(looped) == len(trace) > 0
    assert table.num_columns > trace.events(stats=False).num_columns


def test_lines_as_a_table(path, trace):
    rows = [(plane.name, line.name, len(line)) for plane in trace.planes for line in plane.lines]
    table = trace.lines()
    assert list(zip(table["plane"], table["line"], table["events"], strict=True)) == rows


def test_an_event_outlives_its_trace(autotune_trace):
    plane = ergometer.read_trace(autotune_trace).find_plane_with_name("/device:GPU:0")
    event = next(event for line in plane.lines for event in line.events)
    del plane
    assert event.duration_ps > 0
    assert event.stats


# What goes wrong says what, where, and what to do.


def test_a_file_that_is_not_there(tmp_path):
    with pytest.raises(FileNotFoundError) as raised:
        ergometer.read_trace(tmp_path / "none.xplane.pb")
    assert "none.xplane.pb" in str(raised.value)
    with pytest.raises(FileNotFoundError):
        ergometer.read_trace([tmp_path / "none.xplane.pb"])


def test_a_folder_without_a_trace(tmp_path):
    with pytest.raises(ErgometerError) as raised:
        ergometer.read_trace(tmp_path)
    assert str(tmp_path) in str(raised.value)


@pytest.mark.parametrize("source", [None, 7, 1.5, [], [b"bytes"], {"a": 1}, object()])
def test_what_is_no_trace_at_all(source):
    with pytest.raises((TypeError, ValueError)):
        ergometer.read_trace(source)


def test_damaged_bytes(autotune_trace, autotune):
    cut = autotune_trace.read_bytes()[:-1000]
    with pytest.raises(TraceError) as raised:
        ergometer.read_trace(cut)
    assert isinstance(raised.value, ValueError)
    assert "byte" in str(raised.value)
    assert raised.value.hint and "lenient" in raised.value.hint
    assert "--lenient" not in raised.value.hint, "that is how the command line says it"
    read = ergometer.read_trace(cut, lenient=True)
    assert 0 < len(read) <= len(autotune)
    assert read.warnings


@pytest.mark.parametrize("data", [b"<html>not a trace</html>", b"\xff" * 64, b"\x1f\x8b\x08broken"])
def test_bytes_of_something_else(data):
    with pytest.raises(TraceError):
        ergometer.read_trace(data)


def test_a_trace_is_not_copied_behind_ones_back(autotune):
    for attempt in (pickle.dumps, copy.copy, copy.deepcopy):
        with pytest.raises(TypeError):
            attempt(autotune)
    with pytest.raises(TypeError):
        ergometer.Trace()


def test_four_threads_on_one_trace(autotune):
    expected = [autotune.ops().to_pylist(), autotune.events().to_pylist(), autotune.functions().to_pylist()]

    def ask(_):
        names = [event.name for plane in autotune.planes for line in plane.lines for event in line.events]
        return [autotune.ops().to_pylist(), autotune.events().to_pylist(), autotune.functions().to_pylist()], len(names)

    with ThreadPoolExecutor(4) as threads:
        for found, events in threads.map(ask, range(12)):
            assert found == expected
            assert events == len(autotune)
