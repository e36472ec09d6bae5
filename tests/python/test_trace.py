"""Reading traces from every kind of source, and the errors."""

from __future__ import annotations

import copy
import gzip
import lzma
import pickle
import random
import shutil
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace

import ergometer
import pyarrow
import pytest
from conftest import PLAIN_TRACES, TRACES
from ergometer.errors import ErgometerError, TraceError
from jax.profiler import ProfileData

PACKED = TRACES / "gpu_train_200.xplane.pb.xz"


def test_there_are_traces():
    assert len(PLAIN_TRACES) >= 4


def test_paths_strings_and_bytes(trace_path, trace):
    expected = trace.ops().to_pylist()
    data = trace_path.read_bytes()
    assert expected or trace.events().num_rows
    for source in (str(trace_path), data, bytearray(data), memoryview(data)):
        read = ergometer.read_trace(source)
        assert len(read) == len(trace)
        assert read.ops().to_pylist() == expected


def test_a_memoryview_that_is_not_contiguous(autotune_trace, autotune):
    doubled = bytes(byte for byte in autotune_trace.read_bytes() for _ in range(2))
    read = ergometer.read_trace(memoryview(doubled)[::2])
    assert read.ops().to_pylist() == autotune.ops().to_pylist()


def test_profile_data_of_jax(trace_path, trace):
    """It lacks the host name and the nesting of scopes, so CUDA graphs have no executions."""
    read = ergometer.read_trace(ProfileData.from_file(str(trace_path)))
    assert len(read) == len(trace)
    is_gpu = trace.find_plane_with_name("/device:GPU:0") is not None
    for method in ("ops", "kernels") if is_gpu else ("ops", "kernels", "modules", "executions"):
        expected = [{**row, "host": None} for row in getattr(trace, method)()]
        assert getattr(read, method)().to_pylist() == expected


def test_functions_of_profile_data(autotune, autotune_trace):
    read = ergometer.read_trace(ProfileData.from_file(str(autotune_trace)))
    assert read.functions().to_pylist() == autotune.functions().to_pylist()


@pytest.mark.parametrize(("ending", "pack"), [(".gz", gzip.compress), (".xz", lzma.compress)])
def test_compressed_files(tmp_path, autotune_trace, autotune, ending, pack):
    packed = tmp_path / f"trace.xplane.pb{ending}"
    packed.write_bytes(pack(autotune_trace.read_bytes()))
    assert ergometer.read_trace(packed).ops().to_pylist() == autotune.ops().to_pylist()
    assert ergometer.read_trace(packed.read_bytes()).ops().to_pylist() == autotune.ops().to_pylist()


def test_the_compressed_fixture():
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


def test_the_files_of_a_trace(autotune_trace, autotune):
    assert [Path(file).name for file in autotune.files] == [autotune_trace.name]
    assert autotune.warnings == []
    assert autotune.start_time_ns > 1_600_000_000 * 10**9
    planes = ", ".join(plane.name for plane in autotune.planes)
    assert repr(autotune) == f"<ergometer.Trace of {len(autotune)} events on {planes}>"


def test_a_missing_file(tmp_path):
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
def test_an_unsupported_source(source):
    with pytest.raises((TypeError, ValueError)):
        ergometer.read_trace(source)


def test_damaged_bytes(autotune_trace, autotune):
    cut = autotune_trace.read_bytes()[:-1000]
    with pytest.raises(TraceError) as raised:
        ergometer.read_trace(cut)
    assert isinstance(raised.value, ValueError)
    assert "byte" in str(raised.value)
    assert raised.value.hint and "lenient" in raised.value.hint
    assert "--lenient" not in raised.value.hint, "that is an option of the command line"
    read = ergometer.read_trace(cut, lenient=True)
    assert 0 < len(read) <= len(autotune)
    assert read.warnings


@pytest.mark.parametrize("data", [b"<html>not a trace</html>", b"\xff" * 64, b"\x1f\x8b\x08broken"])
def test_bytes_that_are_not_a_trace(data):
    with pytest.raises(TraceError):
        ergometer.read_trace(data)


def test_reading_a_trace_object_shares_its_memory(autotune):
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


def test_a_trace_survives_changes_of_its_file(autotune_trace, tmp_path):
    path = tmp_path / "changing.xplane.pb"
    shutil.copy(autotune_trace, path)
    trace = ergometer.read_trace(path)
    path.write_bytes(b"")
    assert trace.events().to_pydict() == ergometer.read_trace(autotune_trace).events().to_pydict()


def test_skipped_sessions_are_reported(autotune_trace, tmp_path):
    for session in ("2026_01_01", "2026_01_02"):
        folder = tmp_path / "plugins" / "profile" / session
        folder.mkdir(parents=True)
        shutil.copy(autotune_trace, folder / "host.xplane.pb")
    (warning,) = ergometer.read_trace(tmp_path).warnings
    assert "skipped" in warning and "2026_01_01" in warning
    (tmp_path / "plugins" / "profile" / "2026_01_03").mkdir()
    assert any("2026_01_03: it has no trace" in warning for warning in ergometer.read_trace(tmp_path).warnings)


def test_columns_do_not_depend_on_the_filter(autotune_trace):
    trace = ergometer.read_trace(autotune_trace)
    schemas = [pyarrow.table(trace.events(**one)).schema for one in ({}, {"device": "gpu"}, {"min_duration_ns": 1e12})]
    assert schemas[0] == schemas[1] == schemas[2]


def test_times_since_the_epoch_of_profile_data():
    """Lines can count from the epoch; picoseconds since the epoch do not fit into 64 bits."""
    start_ns = 1_790_000_000_000_000_000.0
    events = [
        SimpleNamespace(name="op", start_ns=start_ns + 4096 * number, duration_ns=1024.0, stats=[("hlo_module", "jit_f")])
        for number in range(3)
    ]
    line = SimpleNamespace(name="Stream #1", events=events)
    plane = SimpleNamespace(name="/device:GPU:0", lines=[line], stats=[])
    (kernel,) = ergometer.read_trace(SimpleNamespace(planes=[plane])).kernels()
    assert (kernel["count"], kernel["busy_ps"]) == (3, 3 * 1_024_000)


def damage_of_a_stat(path):
    """The bytes of a trace that can be read, except the stats of one event."""
    draws = random.Random(0)
    for _ in range(500):
        data = bytearray(path.read_bytes())
        data[draws.randrange(len(data))] = draws.randrange(256)
        try:
            trace = ergometer.read_trace(data)
        except TraceError:
            continue
        try:
            trace.events()
        except TraceError:
            return data
    raise AssertionError("no changed byte damages only the stats")


def test_lenient_leaves_out_damaged_stats():
    data = damage_of_a_stat(TRACES / "small_cpu_666.xplane.pb")
    with pytest.raises(TraceError, match="lenient=True"):
        stats_of_all(ergometer.read_trace(data))
    lenient = ergometer.read_trace(data, lenient=True)
    assert [] in stats_of_all(lenient)
    with pytest.warns(UserWarning, match="some stats are damaged"):
        assert lenient.events().num_rows == len(lenient)


def stats_of_all(trace):
    return [event.stats for plane in trace.planes for line in plane.lines for event in line.events]


def test_a_missing_file_has_a_hint(tmp_path):
    with pytest.raises(FileNotFoundError) as raised:
        ergometer.read_trace(tmp_path / "none")
    error = raised.value
    assert isinstance(error, ErgometerError) and error.hint and error.filename == tmp_path / "none" and error.errno == 2
