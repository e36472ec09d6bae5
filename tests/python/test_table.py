"""Tables in pyarrow, polars, pandas and DuckDB, through the Arrow PyCapsule interface."""

from __future__ import annotations

import gc
import math
import pickle
import sys

import duckdb
import ergometer
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from ergometer._native import table

COLUMNS = {
    "name": ["one", "two", None],
    "count": [1, None, 3],
    "seconds": [0.5, -2.0, None],
    "is_best": [True, False, None],
}


@pytest.fixture
def small():
    return table(COLUMNS)


@pytest.fixture(scope="module")
def ops(autotune_trace):
    return ergometer.read_trace(autotune_trace).ops()


def rows_of(columns):
    return [dict(zip(columns, values, strict=True)) for values in zip(*columns.values(), strict=True)]


def addresses(arrow):
    """The addresses of the buffers of a pyarrow table."""
    chunks = [chunk for column in arrow.columns for chunk in column.chunks]
    return [buffer.address for chunk in chunks for buffer in chunk.buffers() if buffer is not None]


def test_the_shape_of_a_table(small):
    assert small.column_names == list(COLUMNS)
    assert (small.num_rows, small.num_columns, small.shape, len(small)) == (3, 4, (3, 4), 3)
    assert "count" in small
    assert "counts" not in small
    assert 7 not in small


def test_values_keep_their_types(small):
    assert small.to_pydict() == COLUMNS
    assert small.to_pylist() == rows_of(COLUMNS)
    assert list(small) == rows_of(COLUMNS)
    assert small["count"] == [1, None, 3]
    # Types count: 1 is neither 1.0 nor True.
    assert [type(value) for value in small.to_pylist()[0].values()] == [str, int, float, bool]


def test_an_unknown_column_lists_the_columns(small):
    with pytest.raises(KeyError) as raised:
        small["seconds_"]
    assert "seconds_" in str(raised.value)
    for name in COLUMNS:
        assert name in str(raised.value)


def test_nan_becomes_none():
    assert table({"seconds": [1.0, math.nan, math.inf]})["seconds"] == [1.0, None, None]


def test_invalid_columns_are_an_error():
    with pytest.raises(ValueError, match="short"):
        table({"long": [1, 2], "short": [1]})
    with pytest.raises(TypeError, match="mixed"):
        table({"mixed": [1, "two"]})
    with pytest.raises(TypeError):
        table({"object": [object()]})


def test_pyarrow(ops):
    arrow = pa.table(ops)
    assert arrow.shape == ops.shape
    assert arrow.column_names == ops.column_names
    assert arrow.to_pylist() == ops.to_pylist()
    assert arrow.to_pydict() == ops.to_pydict()
    arrow.validate(full=True)
    assert ops.to_pyarrow().equals(arrow)
    assert pa.schema(ops) == arrow.schema


def test_pyarrow_shares_the_memory(ops):
    one, other = pa.table(ops), pa.table(ops)
    assert addresses(one) == addresses(other)
    assert len(addresses(one)) >= ops.num_columns
    read = pa.RecordBatchReader.from_stream(ops).read_all()
    assert addresses(read) == addresses(one)


def test_pyarrow_casts_to_a_schema_it_is_given(small):
    types = [pa.large_string(), pa.int32(), pa.float32(), pa.bool_()]
    asked = pa.schema(list(zip(COLUMNS, types, strict=True)))
    given = pa.table(small, schema=asked)
    assert given.schema == asked
    assert given.to_pydict() == COLUMNS


def test_polars(ops):
    frame = pl.DataFrame(ops)
    assert frame.shape == ops.shape
    assert frame.columns == ops.column_names
    assert frame.to_dicts() == ops.to_pylist()
    assert pl.from_arrow(pa.table(ops)).equals(frame)
    assert ops.to_polars().equals(frame)


def test_polars_converts_dictionaries_to_categories(autotune):
    events = autotune.events(stats=False)
    frame = pl.DataFrame(events)
    assert pa.types.is_dictionary(pa.schema(events).field("name").type)
    assert frame.schema["name"] == pl.Categorical
    assert frame.to_dicts() == events.to_pylist()


def test_pandas(ops):
    frame = pd.DataFrame.from_arrow(ops)
    assert frame.shape == ops.shape
    assert list(frame.columns) == ops.column_names
    for name in ("count", "self_ps", "name"):
        assert frame[name].tolist() == ops[name]


def test_to_pandas_keeps_integers(small, ops):
    """By default pandas converts integers with missing values to floats, which lose picoseconds."""
    frame = small.to_pandas()
    assert frame["count"].tolist() == [1, pd.NA, 3]
    assert str(frame["count"].dtype) == "Int64"
    frame = ops.to_pandas()
    assert frame.shape == ops.shape
    assert frame["self_ps"].tolist() == ops["self_ps"]


def test_duckdb_finds_a_table_by_its_variable(ops):
    by_name = duckdb.sql("select name, count, self_ps from ops order by self_ps desc, name").fetchall()
    rows = sorted(ops, key=lambda row: (-row["self_ps"], row["name"]))
    assert by_name == [(row["name"], row["count"], row["self_ps"]) for row in rows]
    assert duckdb.from_arrow(pa.table(ops)).shape == ops.shape


def test_a_table_can_be_exported_many_times(small):
    capsule = small.__arrow_c_stream__()
    stream = type("Stream", (), {"__arrow_c_stream__": lambda self, requested_schema=None: capsule})()
    assert pa.RecordBatchReader.from_stream(stream).read_all().num_rows == 3
    with pytest.raises((ValueError, pa.ArrowInvalid)):
        pa.RecordBatchReader.from_stream(stream).read_all()
    assert pa.table(small).num_rows == 3


def test_unused_capsules_are_freed(ops):
    for _ in range(1000):
        ops.__arrow_c_stream__()
        ops.__arrow_c_schema__()
    gc.collect()
    assert pa.table(ops).shape == ops.shape


def test_exported_data_outlives_table_and_trace(autotune_trace):
    trace = ergometer.read_trace(autotune_trace)
    events = trace.events()
    expected = events.to_pylist()
    arrow = pa.table(events)
    del trace
    gc.collect()
    assert events.to_pylist() == expected
    del events
    gc.collect()
    assert arrow.to_pylist() == expected


def test_an_empty_table_keeps_its_columns(autotune_trace):
    ops = ergometer.read_trace(autotune_trace).ops()
    empty = ergometer.read_trace(autotune_trace).ops(prefix="no such op")
    assert empty.shape == (0, ops.num_columns)
    assert empty.to_pylist() == []
    assert list(empty) == []
    assert pa.table(empty).schema == pa.table(ops).schema
    assert pl.DataFrame(empty).schema == pl.DataFrame(ops).schema
    assert pd.DataFrame.from_arrow(empty).empty
    assert repr(empty)
    assert empty._repr_html_()


def test_a_table_without_columns():
    none = table({})
    assert none.shape == (0, 0)
    assert none.to_pylist() == []
    assert pa.table(none).num_columns == 0


def test_repr_has_columns_and_rows(small):
    shape, header, *rows = repr(small).splitlines()
    assert shape == "3 rows, 4 columns"
    assert header.split() == list(COLUMNS)
    assert [row.split() for row in rows] == [
        ["one", "1", "0.5", "True"],
        ["two", "-", "-2.0", "False"],
        ["-", "3", "-", "-"],
    ]


def test_repr_is_short_for_many_rows():
    shape, *rows = repr(table({"number": list(range(100_000))})).splitlines()
    assert shape == "100000 rows, 1 column, the first 10"
    assert rows == ["number", *map(str, range(10))]


def test_html_is_escaped():
    hostile = "<script>alert('&')</script>"
    html = table({hostile: [hostile, "plain"]})._repr_html_()
    assert "<table" in html
    assert "plain" in html
    assert "<script" not in html
    assert "&lt;script&gt;" in html


def test_a_table_cannot_be_constructed_directly():
    with pytest.raises(TypeError):
        ergometer.Table()
    with pytest.raises(TypeError):
        type("Mine", (ergometer.Table,), {})


def test_a_table_can_be_pickled(autotune_trace):
    table = ergometer.read_trace(autotune_trace).events()
    again = pickle.loads(pickle.dumps(table))
    assert again.column_names == table.column_names and again.to_pydict() == table.to_pydict()
    with pytest.raises(ValueError, match="not a table"):
        ergometer._native.table_from_stream(b"nothing")


def test_a_broken_package_is_not_reported_as_missing(ops, tmp_path, monkeypatch):
    (tmp_path / "polars.py").write_text("raise RuntimeError('broken build')")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "polars", raising=False)
    with pytest.raises(RuntimeError, match="broken build"):
        ops.to_polars()


def test_columns_are_selected_by_name(ops):
    with pytest.raises(TypeError, match="by its name"):
        ops[0]
