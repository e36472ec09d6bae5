"""Traces: every way to hand one over, and what goes wrong says what, where, and what to do."""

from __future__ import annotations

import copy
import gzip
import lzma
import pickle
import shutil
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import ergometer
import pytest
from conftest import PLAIN_TRACES, TRACES
from ergometer.errors import ErgometerError, TraceError
from jax.profiler import ProfileData

PACKED = TRACES / "gpu_train_200.xplane.pb.xz"


def test_there_are_traces():
    assert len(PLAIN_TRACES) >= 4


def test_a_path_and_a_text_and_bytes_of_every_kind(trace_path, trace):
    expected = trace.ops().to_pylist()
    data = trace_path.read_bytes()
    assert expected or trace.events().num_rows
    for source in (str(trace_path), data, bytearray(data), memoryview(data)):
        read = ergometer.read_trace(source)
        assert len(read) == len(trace)
        assert read.ops().to_pylist() == expected


def test_a_slice_of_memory_that_is_not_in_one_piece(autotune_trace, autotune):
    doubled = bytes(byte for byte in autotune_trace.read_bytes() for _ in range(2))
    read = ergometer.read_trace(memoryview(doubled)[::2])
    assert read.ops().to_pylist() == autotune.ops().to_pylist()


def test_what_jax_has_read(trace_path, trace):
    """It does not tell the name of the host, nor which scope lies in which: CUDA graphs have no executions then."""
    read = ergometer.read_trace(ProfileData.from_file(str(trace_path)))
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
    planes = ", ".join(plane.name for plane in autotune.planes)
    assert repr(autotune) == f"<ergometer.Trace of {len(autotune)} events on {planes}>"


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
