"""The figures of a trace are those of `ergo trace`, with every filter."""

from __future__ import annotations

import json

import pytest
from conftest import ergo


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


@pytest.mark.parametrize(
    ("command", "wanted"),
    [
        ("ops", ["plane", "name", "module", "class", "count", "self_ps", "total_ps", "busy_ps", "median_ps", "share"]),
        ("kernels", ["plane", "name", "count", "self_ps", "total_ps", "busy_ps", "median_ps", "max_ps"]),
        ("modules", ["plane", "module", "executions", "busy_ps", "total_ps", "self_ps"]),
        ("executions", ["plane", "module", "execution", "start_ps", "busy_ps", "span_ps", "events"]),
        ("scopes", ["plane", "scope", "depth", "count", "self_ps", "own_ps", "share", "median_ps"]),
        ("steps", ["plane", "step", "name", "found_by", "window_start_ps", "span_ps", "busy_ps", "executions"]),
        ("gaps", ["plane", "start_ps", "duration_ps", "before", "after", "before_module"]),
    ],
)
def test_figures_are_those_of_the_command(trace_path, trace, command, wanted):
    rows = told(command, trace_path)
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
