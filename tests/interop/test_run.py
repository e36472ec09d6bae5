"""Opens a run of `ergo profile` with common tools, and checks that its files agree."""

import json

import datasets
import duckdb
import pyarrow.parquet
import pytest


@pytest.fixture(scope="module")
def records(profiled):
    return datasets.load_from_disk(str(profiled))


@pytest.fixture(scope="module")
def summary(profiled):
    return json.loads((profiled / "summary.json").read_text())


def test_records_are_in_dataset_order(records, summary):
    assert len(records) == summary["total_queries"] == 120
    assert records[0]["problem"] == "What is 39 + 1?"
    assert [column["query_index"] for column in records["ergometer"]] == list(range(120))


def test_the_answers_are_graded(records, summary):
    grades = [metrics["tiny"]["lm_correctness"] for metrics in records["model_metrics"]]
    assert sum(grades) == summary["accuracy"]["correct"]
    for record, right in zip(records, grades):
        assert (record["model_answers"]["tiny"] == record["answer"]) == right


def test_joules_are_conserved(records, summary):
    totals = summary["energy"]["measured"] or summary["energy"]["modelled"]
    balance = totals["balance"]
    parts = balance["requests_j"] + balance["idle_j"] + balance["unattributed_j"]
    assert parts == pytest.approx(balance["meter_j"], rel=1e-9)
    energies = [column["energy"]["measured"] or column["energy"]["modelled"] for column in records["ergometer"]]
    assert sum(energy["gross"]["joules"] for energy in energies) == pytest.approx(balance["requests_j"], rel=1e-6)
    assert {energy["gross"]["method"] for energy in energies} <= {"equal_share", "modelled"}
    for metrics in records["model_metrics"]:
        phases = metrics["tiny"]["phase_metrics"]
        if phases["prefill_energy_j"] is not None and metrics["tiny"]["energy_metrics"]["per_query_joules"] is None:
            whole = phases["prefill_energy_j"] + phases["decode_energy_j"]
            assert whole == pytest.approx(metrics["tiny"]["energy_metrics"]["cpu_per_query_joules"], rel=1e-6)


def test_times_are_in_order_and_match_durations(records):
    for record in records:
        ours, latency = record["ergometer"], record["model_metrics"]["tiny"]["latency_metrics"]
        assert ours["scheduled_ns"] <= ours["sent_ns"] <= ours["first_token_ns"] <= ours["last_token_ns"] <= ours["end_ns"]
        assert latency["total_query_seconds"] == pytest.approx((ours["end_ns"] - ours["sent_ns"]) / 1e9)
        first = (ours["first_token_ns"] - ours["sent_ns"]) / 1e9
        assert latency["time_to_first_token_seconds"] == pytest.approx(first)


def test_requests_and_telemetry_join(profiled, summary):
    requests = pyarrow.parquet.read_table(profiled / "requests.parquet")
    assert requests.num_rows == 120
    assert sum(requests["output_tokens"].to_pylist()) == summary["tokens"]["output"]
    most = duckdb.sql(
        f"""
        SELECT count(*) FROM '{profiled}/requests.parquet' AS one JOIN '{profiled}/requests.parquet' AS other
        ON one.sent_ns < other.end_ns AND other.sent_ns < one.end_ns GROUP BY one.request ORDER BY 1 DESC LIMIT 1
        """
    ).fetchall()[0][0]
    assert most > 1, "requests overlap with concurrency 3"
    first, last = duckdb.sql(f"SELECT min(sent_ns), max(end_ns) FROM '{profiled}/requests.parquet'").fetchall()[0]
    earliest, latest = duckdb.sql(f"SELECT min(time_ns), max(time_ns) FROM '{profiled}/telemetry.parquet'").fetchall()[0]
    assert earliest < first and last < latest, "the readings cover the requests"
