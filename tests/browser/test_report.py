"""Tests reports of real runs and traces, written by `ergo`, in a browser."""

import json
import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest
from conftest import ROOT
from playwright.sync_api import expect


@pytest.fixture(scope="session", autouse=True)
def built() -> None:
    subprocess.run(["cargo", "build", "-q", "-p", "ergometer-cli"], cwd=ROOT, check=True)


def ergo(*arguments: str | Path) -> str:
    """Runs the `ergo` built by cargo, and returns its output."""
    target = Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target"))
    binary = ROOT / target / "debug" / "ergo"
    done = subprocess.run([str(binary), *map(str, arguments)], check=True, capture_output=True, text=True)
    return done.stdout


@pytest.fixture(scope="session")
def report_file(tmp_path_factory) -> Path:
    run = tmp_path_factory.mktemp("runs") / "h200_sixteen"
    shutil.copytree(ROOT / "fixtures/runs/h200_sixteen", run)
    return Path(ergo("report", run).strip())


@pytest.fixture(scope="session")
def trace_file(tmp_path_factory) -> Path:
    page = tmp_path_factory.mktemp("trace") / "trace.html"
    ergo("trace", "report", ROOT / "fixtures/xplane/gpu_infer_20.xplane.pb", "-o", page)
    return page


@pytest.fixture(scope="session")
def compared_file(tmp_path_factory) -> Path:
    page = tmp_path_factory.mktemp("compared") / "both.html"
    runs = [ROOT / "fixtures/runs" / name for name in ("h200_one", "h200_sixteen")]
    ergo("report", *runs, "-o", page)
    return page


def test_the_report_matches_the_summary(open_page, report_file):
    page = open_page(path=report_file)
    summary = json.loads((report_file.parent / "summary.json").read_text())
    joules = summary["energy"]["measured"]["gross_j_per_query"]["value"]
    overview = page.locator("#overview")
    expect(overview).to_contain_text(f"{joules:.2f}")
    expect(overview).not_to_contain_text("requests failed")


def test_the_report_counts_failed_requests(open_page, tmp_path):
    file = tmp_path / "limits.html"
    ergo("report", ROOT / "fixtures/runs/mock_limits", "-o", file)
    page = open_page(path=file)
    expect(page.locator("#overview")).to_contain_text("3 of 120 requests failed")


def test_the_timeline_zooms_to_a_request(open_page, report_file):
    page = open_page(path=report_file)
    whole = page.evaluate("window.ergometer.charts['power_timeline'].domain()")
    link = page.locator("#queries a", has_text=re.compile(r"^\d+$")).first
    link.click()
    near = page.evaluate("window.ergometer.charts['power_timeline'].domain()")
    assert near[1] - near[0] < whole[1] - whole[0]
    page.evaluate("window.ergometer.charts['power_timeline'].reset()")
    assert page.evaluate("window.ergometer.charts['power_timeline'].domain()") == whole


def test_every_chart_of_a_run_is_drawn(open_page, report_file):
    page = open_page(path=report_file)
    charts = page.evaluate("Object.keys(window.ergometer.charts)")
    wanted = {"power_timeline", "ttft_cdf", "tpot_cdf", "e2e_cdf", "latency", "energy", "energy_per_token"}
    assert wanted <= set(charts)
    assert page.get_by_text("no data").count() == 0


def test_several_runs_are_compared(open_page, compared_file):
    page = open_page(path=compared_file)
    expect(page.locator("h1")).to_contain_text("2 runs compared")
    assert page.locator("#overview table").count() >= 1
    assert {"power_timeline_1", "power_timeline_2"} <= set(page.evaluate("Object.keys(window.ergometer.charts)"))


def test_a_trace_has_its_devices_kernels_and_gaps(open_page, trace_file):
    page = open_page(path=trace_file)
    expect(page.locator("#overview")).to_contain_text("/device:GPU:0 was busy 29.79 ms of 42.32 ms")
    expect(page.locator("#modules table")).to_contain_text("jit_fwd")
    for section in ("kernels", "gaps", "executions"):
        assert page.locator(f"#{section} tbody tr").count() > 0
    whole = page.evaluate("window.ergometer.charts['trace_timeline'].domain()")
    page.evaluate("window.ergometer.charts['trace_timeline'].zoom(0.001, 0.002)")
    assert page.evaluate("window.ergometer.charts['trace_timeline'].domain()") != whole
