"""Saved runs: the tables of `load_run` equal those of datasets, pyarrow and others."""

from __future__ import annotations

import json
import math
import pickle
import shutil
from pathlib import Path

import datasets
import ergometer
import polars as pl
import pyarrow as pa
import pyarrow.parquet
import pytest
from conftest import RUNS, SAVED_RUNS, SWEEP
from ergometer.errors import RunError


@pytest.fixture(scope="module", params=SAVED_RUNS, ids=lambda folder: folder.name)
def folder(request):
    return request.param


@pytest.fixture(scope="module")
def run(folder):
    return ergometer.load_run(folder)


@pytest.fixture
def copied(tmp_path):
    """A copy of a run, for tests that damage it."""
    return Path(shutil.copytree(RUNS / "h200_graded", tmp_path / "run"))


def test_there_are_recorded_runs():
    assert len(SAVED_RUNS) >= 4


def test_records_match_datasets(run, folder, tmp_path):
    # `datasets` may write files into the folder it reads.
    theirs = datasets.load_from_disk(str(shutil.copytree(folder, tmp_path / "run")))
    assert run.records.column_names == theirs.column_names
    assert run.records.num_rows == len(theirs) > 0
    for ours, other in zip(run.records.to_pylist(), theirs, strict=True):
        assert ours == other


def test_records_match_the_arrow_file(run, folder):
    with pa.OSFile(str(folder / "data-00000-of-00001.arrow")) as file:
        stored = pa.ipc.open_stream(file).read_all()
    assert pa.table(run.records).equals(stored)


@pytest.mark.parametrize("name", ["requests", "telemetry"])
def test_tables_match_the_parquet_files(run, folder, name):
    stored = pyarrow.parquet.read_table(folder / f"{name}.parquet")
    table = getattr(run, name)
    assert table.shape == stored.shape
    assert pa.table(table).to_pylist() == stored.to_pylist()
    assert table.to_pylist() == stored.to_pylist()


def test_tables_convert_to_data_frames(run):
    frame = pl.DataFrame(run.telemetry)
    assert frame.height == run.telemetry.num_rows > 0
    assert frame["time_ns"].to_list() == run.telemetry["time_ns"]
    assert frame["value"].to_list() == run.telemetry["value"]


def leaves(value, name=""):
    """Every value in nested dictionaries, by its path."""
    if isinstance(value, dict):
        for key, inner in value.items():
            yield from leaves(inner, f"{name}.{key}" if name else key)
    elif not isinstance(value, list):
        yield name, value


def test_the_summary_is_one_row_with_the_values_of_the_file(run, folder):
    """Columns are named by their path."""
    stored = json.loads((folder / "summary.json").read_text())
    assert run.summary.num_rows == 1
    (row,) = run.summary
    assert row["model"] == stored["model"]
    assert row["total_queries"] == stored["total_queries"]
    assert row["duration_s"] == stored["duration_s"]
    found = dict(leaves(row))
    compared = 0
    for name, value in leaves(stored):
        if name in found:
            assert found[name] == value or (isinstance(value, float) and math.isclose(found[name], value)), name
            compared += 1
    assert compared > 20, f"only {compared} values of the summary are among {run.summary.column_names}"
    assert pa.table(run.summary).num_rows == 1


def test_the_summary_dict_matches_the_file(run, folder):
    assert run.summary_dict == json.loads((folder / "summary.json").read_text())
    run.summary_dict.clear()
    assert run.summary_dict, "each access returns a new copy"


def test_the_name_folder_and_repr_of_a_run(run, folder):
    assert run.folder == folder
    assert run.name == folder.name
    assert run.name in repr(run)
    assert run.summary_dict["model"] in repr(run)
    assert run.requests is run.requests, "tables are cached"


def test_a_path_can_be_a_string():
    assert ergometer.load_run(str(SAVED_RUNS[0])).summary_dict == ergometer.load_run(SAVED_RUNS[0]).summary_dict


def test_a_relative_path(monkeypatch):
    monkeypatch.chdir(RUNS / "h200_one")
    assert ergometer.load_run(".").name == "h200_one"


def test_a_missing_folder(tmp_path):
    with pytest.raises(FileNotFoundError) as raised:
        ergometer.load_run(tmp_path / "none")
    assert "none" in str(raised.value)


def test_a_folder_that_is_not_a_run(tmp_path):
    with pytest.raises(RunError) as raised:
        ergometer.load_run(tmp_path)
    assert str(tmp_path) in str(raised.value)
    assert raised.value.hint


def test_an_unfinished_run(tmp_path):
    """The folder of an unfinished run has only a journal."""
    (tmp_path / "journal").mkdir()
    (tmp_path / "journal" / "events.jsonl").write_text("")
    with pytest.raises(RunError) as raised:
        ergometer.load_run(tmp_path)
    assert raised.value.hint and "ergo finalize" in raised.value.hint


def test_load_run_of_a_sweep_has_a_hint():
    with pytest.raises(RunError) as raised:
        ergometer.load_run(SWEEP)
    assert str(SWEEP) in str(raised.value)
    assert raised.value.hint and "load_sweep" in raised.value.hint


@pytest.mark.parametrize("file", ["requests.parquet", "telemetry.parquet", "data-00000-of-00001.arrow"])
def test_a_damaged_file_is_named(copied, file):
    (copied / file).write_bytes((copied / file).read_bytes()[:1000])
    with pytest.raises(RunError) as raised:
        run = ergometer.load_run(copied)
        for table in (run.records, run.requests, run.telemetry):
            assert table.num_rows
    assert file in str(raised.value)


def test_a_damaged_summary_is_named(copied):
    (copied / "summary.json").write_text("{")
    with pytest.raises(RunError, match="summary.json"):
        ergometer.load_run(copied)


def test_cached_tables_survive_their_folder(copied):
    run = ergometer.load_run(copied)
    requests = run.requests
    expected = requests.to_pylist()
    shutil.rmtree(copied)
    assert requests.to_pylist() == expected


def test_a_sweep_has_its_runs_in_order():
    runs = ergometer.load_sweep(SWEEP)
    assert [run.name for run in runs] == [f"concurrency_{number}" for number in (1, 2, 4, 8, 16, 32, 64)]
    assert (runs.axis, runs.folder) == ("concurrency", SWEEP)
    assert [run.summary_dict["load"]["concurrency"] for run in runs] == runs.values == [1, 2, 4, 8, 16, 32, 64]
    assert runs.points["concurrency"] == runs.values
    assert repr(runs) == "<Sweep h200_sweep: 7 runs by concurrency>"
    assert ergometer.load_sweep(str(SWEEP))[0].requests.num_rows == runs[0].requests.num_rows


def test_a_folder_that_is_not_a_sweep(tmp_path):
    with pytest.raises(RunError) as raised:
        ergometer.load_sweep(RUNS / "h200_one")
    assert raised.value.hint and "load_run" in raised.value.hint
    with pytest.raises(FileNotFoundError):
        ergometer.load_sweep(tmp_path / "none")
    (tmp_path / "sweep.json").write_text('{"points": 7}')
    with pytest.raises(RunError, match="sweep.json"):
        ergometer.load_sweep(tmp_path)


def test_a_sweep_has_its_axis_and_its_points():
    sweep = ergometer.load_sweep(RUNS / "h200_sweep")
    written = json.loads((RUNS / "h200_sweep" / "sweep.json").read_text())
    assert sweep.axis == written["axis"] and len(sweep) == len(sweep.values)
    assert sweep.points[sweep.axis] == [point["schedule"][sweep.axis] for point in written["points"]]
    for name, figure in written["points"][0]["figures"].items():
        assert sweep.points[name][0] == figure["mean"], name
    assert [run.name for run in sweep[:2]] == [sweep[0].name, sweep[1].name]


def test_summaries_of_a_sweep_fit_into_one_data_frame():
    frames = [pl.DataFrame(run.summary) for run in ergometer.load_sweep(RUNS / "h200_sweep")]
    together = pl.concat(frames, how="diagonal")
    assert together.height == len(frames) and together["energy.measured.gross_j.value"].null_count() == 0


def test_a_run_can_be_pickled():
    run = ergometer.load_run(RUNS / "h200_one")
    assert pickle.loads(pickle.dumps(run)).requests.to_pylist() == run.requests.to_pylist()
