"""Compares the results of `ergo analyze` with numpy, scipy and statsmodels, computed from the files of the run."""

import csv
import io
import json
import math
import shutil
import subprocess
from pathlib import Path

import numpy
import pyarrow
import pyarrow.parquet
import pytest
import scipy.stats
import statsmodels.api
from conftest import REPOSITORY, built, ergo

RUNS = REPOSITORY / "fixtures" / "runs"


@pytest.fixture(scope="module")
def varied(tmp_path_factory):
    """A run against the mock server, with answers of different lengths and some failures."""
    command = [built("ergo"), "mock-server", "--port", "0", "--format", "json", "--ttft", "normal:4ms,1ms", "--gap", "200us"]
    command += ["--tokens", "uniform:8..90", "--fault", "500=10%", "--seed", "5"]
    runs = tmp_path_factory.mktemp("varied")
    with subprocess.Popen(list(map(str, command)), stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as server:
        try:
            address = json.loads(server.stdout.readline())["listening"]
            arguments = ["profile", "--base-url", address, "--dataset", "synthetic", "-n", "150", "--idle", "200ms"]
            arguments += ["--dataset-param", "prompt_tokens=uniform:5..400", "--output-dir", runs, "--quiet"]
            done = subprocess.run([str(built("ergo")), *map(str, arguments)], stdout=subprocess.DEVNULL)
            assert done.returncode == 3, "exit code 3: some requests failed"
        finally:
            server.terminate()
    (folder,) = runs.iterdir()
    return folder


class Analysed:
    """A run, its records, and the files of `ergo analyze`."""

    def __init__(self, folder):
        self.folder = folder
        self.printed = json.loads(ergo("analyze", "--format", "json", folder))
        (state,) = json.loads((folder / "state.json").read_text())["_data_files"]
        with pyarrow.OSFile(str(folder / state["filename"])) as file:
            rows = pyarrow.ipc.open_stream(file).read_all().to_pylist()
        self.records = [(next(iter(row["model_metrics"].values())), row["ergometer"]) for row in rows]

    def artifact(self, name):
        return json.loads((self.folder / "analysis" / f"{name}.json").read_text())

    def completed(self):
        return [record for record in self.records if record[1]["outcome"] == "completed"]


@pytest.fixture(scope="module", params=["embedded", "mock", "h200_one", "h200_four", "h200_sixteen", "h200_graded"])
def analysed(request, tmp_path_factory):
    given = {"embedded": "profiled", "mock": "varied"}.get(request.param)
    source = request.getfixturevalue(given) if given else RUNS / request.param
    # Analyses are written into the run folder, and the fixture must not change.
    return Analysed(Path(shutil.copytree(source, tmp_path_factory.mktemp("analysed") / "run")))


def finite(value):
    return value if value is not None and math.isfinite(value) else None


def total(metrics):
    tokens = metrics["token_metrics"]
    if tokens["total"] is not None:
        return tokens["total"]
    return (tokens["input"] or 0) + (tokens["output"] or 0) if (tokens["input"], tokens["output"]) != (None, None) else None


def watts(metrics):
    found = metrics["power_metrics"]["gpu"]["per_query_watts"]
    return next((found[name] for name in ("avg", "median", "max", "min") if finite(found[name]) is not None), None)


def gross(ours, which="gross"):
    energy = ours["energy"]["measured"] or ours["energy"]["modelled"]
    return energy and energy[which] and energy[which]["joules"]


def samples(analysed):
    """The pairs of every regression by name, as in intelligence-per-watt."""

    def pairs(x, y):
        found = [(x(*record), finite(y(*record))) for record in analysed.records]
        return [(x, y) for x, y in found if x is not None and y is not None]

    power = [(x, y) for x, y in pairs(lambda m, o: total(m), lambda m, o: watts(m)) if abs(y) >= 1e-12]
    return {
        "input_tokens_vs_ttft": pairs(lambda m, o: m["token_metrics"]["input"], lambda m, o: m["latency_metrics"]["time_to_first_token_seconds"]),
        "total_tokens_vs_energy": pairs(lambda m, o: total(m), lambda m, o: m["energy_metrics"]["per_query_joules"]),
        "total_tokens_vs_latency": pairs(lambda m, o: total(m), lambda m, o: m["latency_metrics"]["total_query_seconds"]),
        "total_tokens_vs_power": power,
        "total_tokens_vs_power_log": [(math.log(x), y) for x, y in power if x > 0],
        "total_tokens_vs_gross_energy": pairs(lambda m, o: total(m), lambda m, o: gross(o)),
        "total_tokens_vs_net_energy": pairs(lambda m, o: total(m), lambda m, o: gross(o, "net")),
    }


THEIRS = 5


def near(wanted, rel=1e-9, scale=0.0):
    """Approximately equal, relative to the value or to `scale`."""
    return pytest.approx(wanted, rel=rel, abs=rel * abs(scale))


def test_the_five_regressions_match_numpy(analysed):
    written = analysed.artifact("regression")
    assert list(written) == ["analysis", "summary", "warnings", "data"] and written["analysis"] == "regression"
    assert written["summary"] == {"total_samples": len(analysed.records)}
    found = written["data"]["regressions"]
    wanted = samples(analysed)
    assert list(found) == list(wanted)[:THEIRS]
    for name, line in found.items():
        assert list(line) == ["count", "slope", "intercept", "r2", "avg_y"]
        pairs = wanted[name]
        assert line["count"] == len(pairs)
        mean_pairs = wanted["total_tokens_vs_power"] if name.endswith("_log") else pairs
        assert line["avg_y"] == (near(numpy.mean([y for _, y in mean_pairs])) if mean_pairs else None)
        x, y = numpy.array(pairs, dtype=float).reshape(-1, 2).T
        if len(set(x)) < 2:
            assert line["slope"] is line["intercept"] is line["r2"] is None
            continue
        slope, intercept = numpy.polyfit(x, y, 1)
        rest, whole = numpy.sum((y - slope * x - intercept) ** 2), numpy.sum((y - y.mean()) ** 2)
        # A slope near zero is a small difference of large sums: compare its effect over the range.
        assert line["slope"] == near(slope, scale=numpy.ptp(y) / numpy.ptp(x))
        assert line["intercept"] == near(intercept, scale=numpy.abs(y).max())
        assert line["r2"] == pytest.approx(1.0 if whole == 0 else 1 - rest / whole, abs=1e-9)


def test_warnings_about_zeros_match_intelligence_per_watt(analysed):
    def zeros(value):
        return sum(1 for record in analysed.records if (found := finite(value(*record))) is not None and abs(found) < 1e-12)

    counts = {
        "per-query energy": zeros(lambda m, o: m["energy_metrics"]["per_query_joules"]),
        "per-query power": zeros(lambda m, o: watts(m)),
        "TTFT": zeros(lambda m, o: m["latency_metrics"]["time_to_first_token_seconds"]),
        "latency": zeros(lambda m, o: m["latency_metrics"]["total_query_seconds"]),
        "completion-token": zeros(lambda m, o: m["token_metrics"]["output"]),
        "prompt-token": zeros(lambda m, o: m["token_metrics"]["input"]),
        "total-token": zeros(lambda m, o: total(m)),
    }
    wanted = [f"encountered {count} {name} samples equal to 0.0 in dataset" for name, count in counts.items() if count]
    assert [warning for warning in analysed.artifact("regression")["warnings"] if warning.startswith("encountered")] == wanted


def test_intervals_match_statsmodels(analysed):
    fits = analysed.artifact("regression")["data"]["fits"]
    wanted = samples(analysed)
    for name, fit in fits.items():
        x, y = numpy.array(wanted[name], dtype=float).reshape(-1, 2).T
        assert fit["count"] == len(x)
        line = fit["least_squares"]
        assert (line is None) == (len(set(x)) < 2)
        if line is None or len(x) < 3:
            continue
        model = statsmodels.api.OLS(y, statsmodels.api.add_constant(x)).fit()
        errors = dict(zip(["intercept", "slope"], model.bse))
        for place, of in enumerate(["intercept", "slope"]):
            low, high = model.conf_int()[place]
            assert line[of]["standard_error"] == near(errors[of], rel=1e-7)
            assert line[of]["low"] == near(low, rel=1e-7, scale=high - low)
            assert line[of]["high"] == near(high, rel=1e-7, scale=high - low)
        low, high = model.conf_int()[1]
        if low <= 0 <= high:
            assert not fit["is_evidence"] and fit["verdict"].startswith("no evidence of a slope")


def test_theil_sen_matches_scipy(analysed):
    fits = analysed.artifact("regression")["data"]["fits"]
    compared = 0
    for name, pairs in samples(analysed).items():
        x, y = numpy.array(pairs, dtype=float).reshape(-1, 2).T
        if name not in fits or len(set(x)) < 2:
            continue
        line = fits[name]["theil_sen"]
        wanted = scipy.stats.theilslopes(y, x, method="joint")
        assert line["used"] == len(x)
        assert line["slope"] == near(wanted.slope, rel=1e-12)
        assert line["intercept"] == near(wanted.intercept, rel=1e-12, scale=numpy.abs(y).max())
        if len(x) >= 5:
            assert line["interval"] == {"low": near(wanted.low_slope, rel=1e-12), "high": near(wanted.high_slope, rel=1e-12)}
        compared += 1
    assert compared >= 2


def test_huber_matches_statsmodels(analysed):
    fits = analysed.artifact("regression")["data"]["fits"]
    for name, pairs in samples(analysed).items():
        x, y = numpy.array(pairs, dtype=float).reshape(-1, 2).T
        # The net energy of an idle machine is only rounding error, for which programs fit different lines.
        if name not in fits or len(set(x)) < 2 or numpy.ptp(y) < 1e-12:
            continue
        model = statsmodels.api.RLM(y, statsmodels.api.add_constant(x), M=statsmodels.api.robust.norms.HuberT())
        line = fits[name]["huber"]
        # By default statsmodels stops within about 1e-5 of convergence; ours iterates until nothing changes. Its smallest
        # tolerance is absolute: small slopes (1e-7 s per token) still change by 1e-6 of their value.
        for wanted, limit in [(model.fit(), 3e-5), (model.fit(maxiter=1000, tol=1e-13, conv="coefs"), 1e-6)]:
            assert line["slope"] == near(wanted.params[1], rel=limit, scale=numpy.ptp(y) / numpy.ptp(x))
            assert line["intercept"] == near(wanted.params[0], rel=limit, scale=numpy.abs(y).max())


def test_percentiles_match_numpy(analysed):
    found = analysed.artifact("percentiles")["data"]
    records = analysed.completed()

    def tpot(metrics, ours):
        tokens, first, last = metrics["token_metrics"]["output"], ours["first_token_ns"], ours["last_token_ns"]
        return (last - first) / 1e6 / (tokens - 1) if tokens and tokens > 1 and first is not None and last > first else None

    requests = pyarrow.parquet.read_table(analysed.folder / "requests.parquet").to_pylist()
    gaps = [numpy.diff(row["chunk_offsets_ns"]) for row in requests if row["outcome"] == "completed"]
    values = {
        "ttft_ms": [finite(m["latency_metrics"]["time_to_first_token_seconds"]) for m, _ in records],
        "tpot_ms": [tpot(m, o) for m, o in records],
        "e2e_ms": [(o["last_token_ns"] - o["sent_ns"]) / 1e6 for _, o in records if o["last_token_ns"] is not None],
        "itl_ms": list(numpy.concatenate(gaps) / 1e6),
        "schedule_lag_ms": [(o["sent_ns"] - o["scheduled_ns"]) / 1e6 for _, o in analysed.records if o["sent_ns"] is not None],
        "input_tokens": [m["token_metrics"]["input"] for m, _ in records],
        "output_tokens": [m["token_metrics"]["output"] for m, _ in records],
        "joules_per_query": [gross(o) for _, o in records],
        "net_joules_per_query": [gross(o, "net") for _, o in records],
        "gpu_watts": [watts(m) for m, _ in records],
    }
    values["ttft_ms"] = [value and value * 1e3 for value in values["ttft_ms"]]
    for name, given in values.items():
        given = numpy.array([value for value in given if value is not None], dtype=float)
        if not len(given):
            assert found[name] is None, name
            continue
        distribution = found[name]
        assert distribution["count"] == len(given), name
        assert distribution["mean"] == near(given.mean()), name
        assert distribution["std"] == near(given.std(ddof=1), scale=1e-6 * abs(given).max()), name
        for percent in (50, 90, 95, 99):
            wanted = None if percent == 99 and len(given) < 100 else near(numpy.percentile(given, percent))
            assert distribution[f"p{percent}"] == wanted, f"{name} p{percent}"
        if name != "itl_ms" and len(given) >= 6:
            interval = scipy.stats.quantile_test(given, p=0.5).confidence_interval(0.95)
            assert distribution["p50_interval"] == {"low": near(interval.low), "high": near(interval.high)}, name


def test_percentiles_match_the_summary(analysed):
    found = analysed.artifact("percentiles")["data"]
    latency = json.loads((analysed.folder / "summary.json").read_text())["latency"]
    compared = [name for name in latency if name in found and latency[name]]
    assert {"ttft_ms", "e2e_ms"} <= set(compared)
    for name in compared:
        for field, value in latency[name].items():
            assert found[name][field] == (None if value is None else near(value, scale=1e-6)), f"{name} {field}"


def test_joules_per_token_are_ratios_of_sums(analysed):
    data = analysed.artifact("energy_per_token")["data"]
    counted = [(m, o) for m, o in analysed.completed() if m["token_metrics"]["output"] and gross(o) is not None]
    parts = data["by_output_tokens"]
    assert sum(part["queries"] for part in parts) == data["all"]["queries"] == len(counted)
    for part in [data["all"], *parts]:
        low, high = part["from_output_tokens"] or 0, part["to_output_tokens"] or math.inf
        inside = [(m, o) for m, o in counted if low <= m["token_metrics"]["output"] <= high]
        joules = sum(gross(o) for _, o in inside)
        found = part["gross_j_per_output_token"]
        if not inside:
            assert found is None
            continue
        assert found["value"] == near(joules / sum(m["token_metrics"]["output"] for m, _ in inside))
        assert part["gross_j_per_token"]["value"] == near(joules / sum(total(m) for m, _ in inside))
        if found["low"] is not None:
            assert found["low"] <= found["value"] <= found["high"]


def test_token_costs_match_statsmodels(analysed):
    data = analysed.artifact("phases")["data"]
    costs = {
        "time_s": lambda m, o: m["latency_metrics"]["total_query_seconds"],
        "gross_energy_j": lambda m, o: gross(o),
        "net_energy_j": lambda m, o: gross(o, "net"),
    }
    for name, found in data["by_regression"].items():
        rows = [(m["token_metrics"]["input"], m["token_metrics"]["output"], costs[name](m, o)) for m, o in analysed.completed()]
        u, v, y = numpy.array([row for row in rows if None not in row], dtype=float).reshape(-1, 3).T
        if "reason" in found:
            likeness = numpy.corrcoef(u, v)[0, 1] if len(set(u)) > 1 and len(set(v)) > 1 else 1.0
            found_shares = [o["energy"].get("attribution") for _, o in analysed.completed()]
            methods = {share["method"] for share in found_shares if share}
            is_modelled = name != "time_s" and not methods.isdisjoint({"step_log", "arrivals", "tokens"})
            assert len(u) < 3 or likeness**2 >= 0.99 or is_modelled
            continue
        model = statsmodels.api.OLS(y, statsmodels.api.add_constant(numpy.column_stack([u, v]))).fit()
        assert found["r2"] == pytest.approx(model.rsquared, abs=1e-9)
        for place, of in enumerate(["constant", "per_input_token", "per_output_token"]):
            low, high = model.conf_int()[place]
            assert found[of]["value"] == near(model.params[place], rel=1e-7, scale=high - low)
            assert found[of]["standard_error"] == near(model.bse[place], rel=1e-7)
            assert found[of]["low"] == near(low, rel=1e-7, scale=high - low)
            assert found[of]["high"] == near(high, rel=1e-7, scale=high - low)


def test_phases_are_sums_of_the_records(analysed):
    clock = analysed.artifact("phases")["data"]["by_clock"]
    phases = [m["phase_metrics"] for m, _ in analysed.completed()]
    for phase in ("prefill", "decode"):
        for found, name, factor in [(clock[phase]["time_s"], "duration_ms", 1e3), (clock[phase]["energy_j"], "energy_j", 1.0)]:
            values = [row[f"{phase}_{name}"] for row in phases if row[f"{phase}_{name}"] is not None]
            assert found["queries"] == len(values)
            assert found["sum"] == (near(sum(values) / factor) if values else None)
    if clock["prefill"]["time_s"]["share"] is not None:
        assert clock["prefill"]["time_s"]["share"] + clock["decode"]["time_s"]["share"] == pytest.approx(1.0)


def test_printed_json_equals_written_json(analysed):
    (run,) = analysed.printed
    for findings in run["findings"]:
        assert findings == analysed.artifact(findings["analysis"])
    rows = list(csv.DictReader(io.StringIO(ergo("analyze", "--no-save", "--format", "csv", analysed.folder))))
    assert {row["run"] for row in rows} == {str(analysed.folder)}
    (mean,) = [row for row in rows if (row["table"], row["row"], row["column"]) == ("percentiles", "TTFT, ms", "mean")]
    assert float(mean["value"]) == analysed.artifact("percentiles")["data"]["ttft_ms"]["mean"]
