"""The tables of a trace equal those of `ergo trace`, with every filter."""

from __future__ import annotations

import json

import pytest
from conftest import ergo


def command_rows(command, *arguments):
    """The rows that `ergo trace` prints."""
    done = ergo("trace", command, "--format", "json", *arguments)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def flat(row, before=""):
    """A row with nested dictionaries flattened: keys are joined."""
    columns = {}
    for name, value in row.items():
        columns.update(flat(value, f"{before}{name}_") if isinstance(value, dict) else {f"{before}{name}": value})
    return columns


def assert_same_rows(table, rows, *wanted):
    """Compares the columns that both have, and checks that the required ones exist."""
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
def test_tables_match_the_command(trace_path, trace, command, wanted):
    rows = command_rows(command, trace_path)
    if not rows:
        assert getattr(trace, command)().num_rows == 0
        return
    assert_same_rows(getattr(trace, command)(), rows, *wanted)


def test_modules_have_the_times_of_an_execution(autotune, autotune_trace):
    rows = command_rows("modules", autotune_trace)
    for what in ("busy", "span"):
        for figure in ("mean", "median", "p90", "min", "max"):
            expected = [row[f"{what}_per_execution_ps"][figure] for row in rows]
            assert autotune.modules()[f"{what}_per_execution_{figure}_ps"] == expected


def test_names_of_modules_ops_and_events(autotune):
    names = autotune.names()
    assert names == sorted(set(names))
    assert {"jit_autotune_fn_0", "gemm_fusion_dot_general.2", "gemm_fusion_dot_general_2"} <= set(names)


def test_functions_match_the_command(autotune, autotune_trace):
    table, rows = autotune.functions(), command_rows("functions", autotune_trace)
    assert table["id"] == [row["id"] for row in rows] == [0, 1, 2, 3]
    assert table["n"] == [row["n"] for row in rows]
    assert table["modules"] == [row["modules"] for row in rows]
    assert table["busy_times_ps"] == [row["busy_times_ps"] for row in rows]
    assert table["span_times_ps"] == [row["span_times_ps"] for row in rows]
    for figure in ("median_ps", "mean_ps", "std_ps", "mad_ps", "min_ps", "max_ps"):
        assert table[f"busy_{figure}"] == pytest.approx([row["busy"][figure] for row in rows], abs=0.001)
    trimmed = [row["busy"]["trimmed"]["mean_ps"] for row in rows]
    assert table["busy_trimmed_mean_ps"] == pytest.approx(trimmed, abs=0.001)
    compared = [row["comparison"] for row in command_rows("functions", autotune_trace, "--compare")]
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
def test_filters_match_the_command(autotune, autotune_trace, command, keywords, arguments):
    everything, rows = command_rows(command, autotune_trace), command_rows(command, autotune_trace, *arguments)
    if keywords != {"device": "GPU:0"}:
        assert rows != everything, "the filter has no effect"
    if rows:
        assert_same_rows(getattr(autotune, command)(**keywords), rows, "name", "count", "self_ps", "total_ps")
    else:
        assert getattr(autotune, command)(**keywords).num_rows == 0


def test_several_devices(autotune):
    both = autotune.events(device=["/device:GPU:0", "/host:CPU"], stats=False)
    assert set(both["plane"]) == {"/device:GPU:0", "/host:CPU"}
    assert set(autotune.events(device="/host:CPU", stats=False)["plane"]) == {"/host:CPU"}


def test_an_unknown_device_lists_the_planes(autotune):
    with pytest.raises(ValueError, match="hint: ") as raised:
        autotune.ops(device="/device:TPU:7")
    assert "/device:TPU:7" in str(raised.value)
    assert "/device:GPU:0" in str(raised.value)


def test_invalid_filters(autotune):
    with pytest.raises(ValueError, match="gemm"):
        autotune.ops(pattern="gemm(")
    for duration in (-1.0, float("nan")):
        with pytest.raises(ValueError):
            autotune.ops(min_duration_ns=duration)
    with pytest.raises(TypeError):
        autotune.ops("GPU:0")
