"""Compares `ergo compare` with scipy and numpy."""

import json

import datasets
import numpy
import pytest
import scipy.stats
from conftest import ergo


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """Three runs of each of the two demo models on the same 400 problems."""

    def profile(model, repeat):
        folder = tmp_path_factory.mktemp(f"{model}_{repeat}")
        ergo("profile", "--quiet", "--model", model, "-n", 400, "--idle", "0s", "--output-dir", folder)
        (run,) = folder.iterdir()
        return run

    return {model: [profile(model, repeat) for repeat in range(3)] for model in ("tiny", "small")}


def rows(baseline, candidate):
    found = json.loads(ergo("compare", "--format", "json", baseline, candidate))
    (candidate,) = found["candidates"]
    return candidate, {row["metric"]: row for row in candidate["rows"]}


@pytest.fixture(scope="module")
def compared(runs):
    return rows(runs["tiny"][0], runs["small"][0])


def query_values(run, model, read):
    records = datasets.load_from_disk(str(run))
    return numpy.array([read(metrics[model]) for metrics in records["model_metrics"]], dtype=float)


def width(interval):
    return interval["high"] - interval["low"]


def test_the_accuracy_interval_matches_a_paired_bootstrap(runs, compared):
    candidate, found = compared
    assert candidate["paired_queries"] == 400
    right = [query_values(runs[model][0], model, lambda metrics: metrics["lm_correctness"]) for model in ("tiny", "small")]
    change = found["accuracy"]["change"]
    assert change["value"] == pytest.approx(right[1].mean() - right[0].mean())
    # The built-in problems alternate between subjects, so blocks vary less than queries, and the interval of single
    # queries applies.
    theirs = scipy.stats.bootstrap(
        right,
        lambda one, other, axis: other.mean(axis) - one.mean(axis),
        paired=True,
        vectorized=True,
        n_resamples=5000,
        method="percentile",
        random_state=1,
    ).confidence_interval
    ours = change["interval"]
    # With 2,000 draws the width has an error of about 3 %.
    assert width(ours) == pytest.approx(theirs.high - theirs.low, rel=0.1)
    assert [ours["low"], ours["high"]] == pytest.approx([theirs.low, theirs.high], abs=0.1 * width(ours))


def test_medians_match_numpy(runs, compared):
    _, found = compared
    times = [
        query_values(runs[model][0], model, lambda metrics: metrics["latency_metrics"]["time_to_first_token_seconds"])
        for model in ("tiny", "small")
    ]
    for percent in (50, 90, 99):
        row = found[f"ttft_p{percent}"]
        expected = [numpy.percentile(values, percent) for values in times]
        assert [row["baseline"], row["candidate"]] == pytest.approx(expected, rel=1e-6)
        assert row["change"]["value"] == pytest.approx(expected[1] - expected[0], rel=1e-6)
        assert row["change"]["interval"]["low"] <= row["change"]["value"] <= row["change"]["interval"]["high"]


def test_repeats_have_the_interval_of_welchs_t_test(runs):
    joined = ["+".join(map(str, runs[model])) for model in ("tiny", "small")]
    _, found = rows(*joined)

    def values(model, read):
        return [read(json.loads((run / "summary.json").read_text())) for run in runs[model]]

    def both(read):
        return numpy.array(values("tiny", read)), numpy.array(values("small", read))

    before, after = both(lambda summary: summary["load"]["e2e_ms"]["p50"] / 1e3)
    theirs = scipy.stats.ttest_ind(after, before, equal_var=False).confidence_interval()
    ours = found["e2e_p50"]["change"]
    assert (ours["kind"], ours["method"]) == ("difference", "welch")
    assert [ours["interval"]["low"], ours["interval"]["high"]] == pytest.approx([theirs.low, theirs.high], rel=1e-9)
    before, after = both(lambda summary: summary["load"]["requests_per_second"])
    ours = found["requests_per_second"]["change"]
    if ours["interval"] is None:
        # On a busy machine runs may vary so much that the interval of the baseline contains zero.
        assert numpy.mean(before) <= scipy.stats.t.ppf(0.975, 2) * scipy.stats.sem(before)
        return
    assert (ours["kind"], ours["method"]) == ("ratio", "fieller")
    assert ours["interval"]["low"] < numpy.mean(after) / numpy.mean(before) < ours["interval"]["high"]
    # An end of the interval is a ratio that the test only just rejects.
    for end in (ours["interval"]["low"], ours["interval"]["high"]):
        assert scipy.stats.ttest_ind(after, end * before, equal_var=False).pvalue == pytest.approx(0.05, rel=1e-6)
