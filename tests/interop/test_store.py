"""Opens the files of a run with datasets, pyarrow, DuckDB and pandas."""

import json

import datasets
import duckdb
import pandas
import pyarrow
import pyarrow.parquet
import pytest
from conftest import write_sample

MODEL = "org/modèle-1.5B.q4"
START_NS = 1_794_730_772_000_000_001
COMPLETED, FAILED = 0, 3

STATS = {name: "double" for name in ["avg", "max", "median", "min"]}
WATTS = {"per_query_watts": STATS, "total_watts": STATS}
ENERGY = {"joules": "double", "low": "double", "high": "double", "method": "string", "provenance": "string"}
GROSS_AND_NET = {"gross": ENERGY, "net": ENERGY}


def doubles(*names):
    return dict.fromkeys(names, "double")


# Every field of the record, with its type.
METRICS = {
    "compute_metrics": doubles("flops_per_request", "macs_per_request", "total_flops", "flops_per_token"),
    "energy_metrics": doubles(
        "per_query_joules",
        "total_joules",
        "cpu_per_query_joules",
        "cpu_total_joules",
        "ane_per_query_joules",
        "ane_total_joules",
    ),
    "latency_metrics": doubles(
        "per_token_ms", "throughput_tokens_per_sec", "time_to_first_token_seconds", "total_query_seconds"
    ),
    "memory_metrics": {"cpu_mb": STATS, "gpu_mb": STATS},
    "power_metrics": {"gpu": WATTS, "cpu": WATTS},
    "temperature_metrics": STATS,
    "token_metrics": {"input": "int64", "output": "int64", "total": "int64"},
    "phase_metrics": doubles(
        "prefill_energy_j",
        "decode_energy_j",
        "prefill_duration_ms",
        "decode_duration_ms",
        "prefill_power_avg_w",
        "decode_power_avg_w",
        "prefill_energy_per_input_token_j",
        "decode_energy_per_output_token_j",
    ),
    "hardware_utilization": {
        "gpu": doubles(
            "compute_utilization_pct",
            "memory_bandwidth_utilization_pct",
            "tensor_core_utilization_pct",
            "memory_used_gb",
            "memory_total_gb",
        ),
        "derived": doubles("mfu", "mbu", "arithmetic_intensity"),
    },
    "cost": doubles("input_cost_usd", "output_cost_usd", "tool_cost_usd", "total_cost_usd"),
    "gpu_info": {
        "name": "string",
        "vendor": "string",
        "device_id": "int64",
        "device_type": "string",
        "backend": "string",
    },
    "system_info": {
        "os_name": "string",
        "os_version": "string",
        "kernel_version": "string",
        "host_name": "string",
        "cpu_count": "int64",
        "cpu_brand": "string",
    },
    "lm_correctness": "bool",
    "lm_response": "string",
}
ERGOMETER = {
    "query_index": "int64",
    "request": "int64",
    "session": "int64",
    "outcome": "string",
    "failure": "string",
    "cause": "string",
    "attempts": "int64",
    "scheduled_ns": "int64",
    "sent_ns": "int64",
    "first_token_ns": "int64",
    "last_token_ns": "int64",
    "end_ns": "int64",
    "token_source": "string",
    "cached_tokens": "int64",
    "finish": "string",
    "reasoning": "string",
    "tool_calls": "string",
    "server_times": {"load_s": "double", "prompt_s": "double", "output_s": "double", "total_s": "double"},
    "processor_seconds": "double",
    "energy": {
        "measured": GROSS_AND_NET,
        "modelled": GROSS_AND_NET,
        "devices": [{"device": "string", "scope": "string", **GROSS_AND_NET}],
        "attribution": {
            "share": "double",
            "low": "double",
            "high": "double",
            "prefill_j": "double",
            "decode_j": "double",
            "marginal": "double",
            "alone": "double",
            "method": "string",
        },
    },
    "grade": {"grader": "string", "correct": "bool", "extracted": "string", "reply": "string"},
    "conversation": "int64",
    "turn": "int64",
}
METADATA = {"level": "int64", "weight": "double", "choices": "string", "a.b/c d": "bool", "source": "string"}
RECORD = {
    "problem": "string",
    "answer": "string",
    "subject": "string",
    "dataset_metadata": METADATA,
    "model_answers": {MODEL: "string"},
    "model_metrics": {MODEL: METRICS},
    "ergometer": ERGOMETER,
}


def described(kind):
    """An Arrow type in the notation of the tables above."""
    if pyarrow.types.is_struct(kind):
        return {field.name: described(field.type) for field in kind}
    if pyarrow.types.is_list(kind):
        return [described(kind.value_type)]
    return str(kind)


def leaves(value, path=()):
    """Every value that is not a struct, with its path."""
    if isinstance(value, dict):
        for name, inner in value.items():
            yield from leaves(inner, (*path, name))
    else:
        yield path, value


def test_records_have_every_field_in_order(run_folder):
    schema = datasets.load_from_disk(run_folder).data.schema
    found = {field.name: described(field.type) for field in schema}
    assert found == RECORD
    assert list(found["model_metrics"][MODEL]) == list(METRICS)


def test_a_completed_query_has_its_values(run_folder):
    row = datasets.load_from_disk(run_folder)[COMPLETED]
    metrics = row["model_metrics"][MODEL]
    assert row["model_answers"][MODEL] == metrics["lm_response"] == "четыре " * 32
    assert row["dataset_metadata"] == {
        "level": 0,
        "weight": 1.0,
        "choices": '["a","ß",0]',
        "a.b/c d": True,
        "source": None,
    }
    energy = metrics["energy_metrics"]
    assert energy["per_query_joules"] == energy["total_joules"] == 140.0
    assert energy["cpu_per_query_joules"] == energy["cpu_total_joules"] == 30.0
    watts = metrics["power_metrics"]["gpu"]
    assert watts["per_query_watts"] == watts["total_watts"] == {"avg": 350, "max": 370, "median": 351, "min": 330}
    assert metrics["token_metrics"] == {"input": 120, "output": 33, "total": 153}
    absent = {path for path, value in leaves(metrics) if value is None}
    assert absent == {
        ("energy_metrics", "ane_per_query_joules"),
        ("energy_metrics", "ane_total_joules"),
        ("cost", "tool_cost_usd"),
        ("system_info", "kernel_version"),
        ("system_info", "host_name"),
        ("system_info", "cpu_brand"),
    }
    ours = row["ergometer"]
    assert ours["sent_ns"] == START_NS and ours["first_token_ns"] == START_NS + 40_000_000
    assert ours["grade"] == {"grader": "number", "correct": False, "extracted": "4", "reply": None}
    assert ours["energy"]["modelled"] is None
    assert ours["energy"]["measured"]["net"]["joules"] == 100.0
    devices = [(share["device"], share["scope"], share["net"] is None) for share in ours["energy"]["devices"]]
    assert devices == [("gpu:0", "device", False), ("cpu:0", "package", True)]


def test_unknown_values_of_a_failed_query_are_null(run_folder):
    row = datasets.load_from_disk(run_folder)[FAILED]
    metrics = row["model_metrics"][MODEL]
    assert row["model_answers"] == {MODEL: None}
    assert [path for path, value in leaves(metrics) if value is not None] == []
    whole = ("gpu_info", "system_info", "lm_correctness", "lm_response")
    assert [name for name, value in metrics.items() if value is None] == list(whole)
    assert metrics["power_metrics"]["gpu"]["per_query_watts"] == {"avg": None, "max": None, "median": None, "min": None}
    ours = row["ergometer"]
    assert (ours["outcome"], ours["failure"], ours["cause"]) == ("failed", "timeout_total", "no response within 60 s")
    assert ours["energy"] == {"measured": None, "modelled": None, "devices": [], "attribution": None}
    assert ours["grade"] is None and ours["first_token_ns"] is None


def test_map_and_filter_work_and_the_folder_still_opens(run_folder, tmp_path):
    dataset = datasets.load_from_disk(run_folder)
    completed = dataset.filter(lambda row: row["ergometer"]["outcome"] == "completed")
    assert (len(dataset), len(completed)) == (12, 9)
    wider = completed.map(lambda row: {"length": len(row["problem"])})
    wider.save_to_disk(tmp_path / "wider")
    again = datasets.load_from_disk(tmp_path / "wider")
    assert again[0] == wider[0] and again[0]["model_metrics"] == dataset[0]["model_metrics"]
    assert len(datasets.load_from_disk(run_folder)) == 12, "files of map and filter are not read as data"
    wider.to_parquet(tmp_path / "wider.parquet")
    assert duckdb.sql(f"SELECT count(*) FROM '{tmp_path / 'wider.parquet'}'").fetchall() == [(9,)]


def test_the_state_has_seven_keys_and_is_deterministic(run_folder, tmp_path):
    state = json.loads((run_folder / "state.json").read_text())
    assert sorted(state) == [
        "_data_files",
        "_fingerprint",
        "_format_columns",
        "_format_kwargs",
        "_format_type",
        "_output_all_columns",
        "_split",
    ]
    write_sample(tmp_path / "again")
    assert json.loads((tmp_path / "again" / "state.json").read_text()) == state
    assert sorted(path.name for path in run_folder.iterdir()) == [
        "data-00000-of-00001.arrow",
        "dataset_info.json",
        "requests.parquet",
        "state.json",
        "telemetry.parquet",
    ], "nothing half-written is left"


@pytest.mark.parametrize("records", [0, 2500])
def test_empty_and_large_folders_open(tmp_path, records):
    write_sample(tmp_path, records)
    dataset = datasets.load_from_disk(tmp_path)
    assert [row["query_index"] for row in dataset["ergometer"]] == list(range(records))
    described_types = {field.name: described(field.type) for field in dataset.data.schema}
    # Without records there is no metadata to infer types from; the rest is the same.
    shape = {"dataset_metadata": METADATA if records else {"other_json": "string"}}
    assert described_types == {**RECORD, **shape}
    assert len(dataset.filter(lambda row: row["ergometer"]["failure"] is None)) == records - records // 4
    assert pyarrow.parquet.read_metadata(tmp_path / "requests.parquet").num_rows == records
    assert pyarrow.parquet.read_metadata(tmp_path / "telemetry.parquet").num_rows == records * 200


def test_pyarrow_reads_the_requests(run_folder):
    table = pyarrow.parquet.read_table(run_folder / "requests.parquet")
    assert table.column_names == [
        "request",
        "session",
        "attempt",
        "query_index",
        "scheduled_ns",
        "sent_ns",
        "first_byte_ns",
        "first_token_ns",
        "first_output_ns",
        "last_token_ns",
        "end_ns",
        "chunk_offsets_ns",
        "chunk_is_reasoning",
        "chunk_choices",
        "input_tokens",
        "output_tokens",
        "cached_tokens",
        "token_source",
        "finish",
        "processor_ns",
        "server_load_ns",
        "server_prompt_ns",
        "server_output_ns",
        "server_total_ns",
        "outcome",
        "failure",
        "is_retried",
        "cause",
        "protocol",
        "connect_ms",
        "waited_ms",
        "conversation",
        "turn",
        "request_id",
        "share",
        "low",
        "high",
        "prefill_j",
        "decode_j",
        "marginal",
        "alone",
        "method",
    ]
    completed, failed = (table.slice(row, 1).to_pylist()[0] for row in (COMPLETED, FAILED))
    assert completed["chunk_offsets_ns"] == [40_000_000, *range(60_000_000, 380_000_000, 10_000_000)]
    assert completed["chunk_is_reasoning"] == [True] + [False] * 32
    assert completed["sent_ns"] + completed["chunk_offsets_ns"][-1] == completed["last_token_ns"]
    assert failed["chunk_offsets_ns"] == [] and failed["chunk_is_reasoning"] is None
    assert failed["output_tokens"] is None and failed["failure"] == "timeout_total"


def test_pyarrow_reads_the_telemetry(run_folder):
    table = pyarrow.parquet.read_table(run_folder / "telemetry.parquet")
    columns = ["time_ns", "after_ns", "session", "sensor", "device", "scope", "signal", "value", "unit", "provenance"]
    assert table.column_names == columns
    first, second = table.slice(0, 2).to_pylist()
    assert first["time_ns"] == START_NS and first["after_ns"] == START_NS - 5_000_000
    assert second["after_ns"] is None
    channel = (first["device"], first["scope"], first["signal"], first["unit"], first["provenance"])
    assert channel == ("gpu:0", "device", "energy", "J", "counter")
    one = pyarrow.parquet.read_table(run_folder / "telemetry.parquet", filters=[("signal", "=", "temperature")])
    assert one.num_rows == table.num_rows // 2


def test_duckdb_joins_readings_requests_and_records(run_folder):
    requests, telemetry = (f"'{run_folder / name}'" for name in ("requests.parquet", "telemetry.parquet"))
    energy = duckdb.sql(f"""
        SELECT request, max(value) - min(value) AS joules, count(*) AS readings
        FROM {requests} AS requests JOIN {telemetry} AS telemetry
          ON telemetry.session = requests.session AND time_ns BETWEEN sent_ns AND end_ns
        WHERE signal = 'energy' AND device = 'gpu:0'
        GROUP BY request ORDER BY request
    """).fetchall()
    assert energy == [(request, pytest.approx(140.0), 41) for request in range(12)]

    records = datasets.load_from_disk(run_folder).data.table  # DuckDB finds the variable by its name.
    joined = duckdb.sql(f"""
        SELECT count(*), count(*) FILTER (sent_ns = records.ergometer.sent_ns), sum(output_tokens)
        FROM {requests} AS requests JOIN records
          ON records.ergometer.request = requests.request AND records.ergometer.session = requests.session
    """).fetchall()
    assert joined == [(12, 12, 9 * 33)]
    when = f"SELECT epoch_ns(make_timestamp_ns(sent_ns)) FROM {requests} LIMIT 1"
    assert duckdb.sql(when).fetchall() == [(START_NS,)], "a time is exact to the nanosecond"


def test_pandas_reads_both(run_folder):
    telemetry = pandas.read_parquet(run_folder / "telemetry.parquet")
    assert telemetry.groupby(["session", "signal"], observed=True).size().tolist() == [600, 600, 600, 600]
    assert telemetry["time_ns"].dtype == "int64"
    assert str(pandas.to_datetime(telemetry["time_ns"], unit="ns", utc=True)[0]) == "2026-11-15 08:19:32.000000001+00:00"
    requests = pandas.read_parquet(run_folder / "requests.parquet")
    assert requests["cause"].notna().tolist() == [index % 4 == 3 for index in range(12)]
