"""The `ergo` of the package: behaves like the binary, without traces of Python."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys

import ergometer
import pytest
from conftest import REPOSITORY, TRACES, ergo
from energy_sensors import wait_for

VERSION = re.search(r'^version = "(.+)"', (REPOSITORY / "Cargo.toml").read_text(), re.MULTILINE)[1]


def start(*arguments, **options):
    """Starts the package's command in the background, with Python's default buffering."""
    command = [sys.executable, "-m", "ergometer", *map(str, arguments)]
    return subprocess.Popen(command, text=True, cwd=REPOSITORY, **options)


def test_the_console_script_runs_the_same_command(console_script):
    done = subprocess.run([console_script, "--version"], capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stderr) == (0, "")
    assert VERSION in done.stdout
    assert done.stdout == ergo("--version").stdout


def test_the_version_is_the_same_everywhere():
    assert ergometer.__version__ == VERSION
    assert ergo("--version").stdout.strip() == f"ergo {VERSION}"


def test_wrong_usage_exits_with_2():
    for arguments in (["--no-such-option"], ["no-such-command"], ["trace", "ops", "--top", "many"]):
        done = ergo(*arguments)
        assert done.returncode == 2
        assert done.stdout == ""
        assert "error:" in done.stderr
        assert "Traceback" not in done.stderr


def test_a_failure_exits_with_1(tmp_path):
    done = ergo("trace", "ops", tmp_path / "none.xplane.pb")
    assert done.returncode == 1
    assert done.stderr.startswith("error: ")
    assert "Traceback" not in done.stderr


def test_help_names_ergo_not_python():
    done = ergo("--help")
    assert done.returncode == 0
    assert "Usage: ergo" in done.stdout


def test_the_exit_code_of_a_measured_command_is_passed_on():
    done = ergo("measure", "--quiet", "--idle", "0s", "--", sys.executable, "-c", "raise SystemExit(7)")
    assert done.returncode == 7, done.stderr


def test_ctrl_c_ends_a_monitor():
    """Ctrl-C is the normal way to end a monitor, so there is no traceback of Python."""
    arguments = ["monitor", "--format", "jsonl", "--interval", "100ms"]
    monitor = start(*arguments, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert json.loads(monitor.stdout.readline())
    monitor.send_signal(signal.SIGINT)
    _, error = monitor.communicate(timeout=60)
    assert monitor.returncode == 0, error
    assert "Traceback" not in error and "KeyboardInterrupt" not in error


def test_ctrl_c_in_a_run_keeps_the_results(tmp_path):
    endless = ["--dataset", "synthetic", "--dataset-param", "prompt_tokens=16", "--dataset-param", "output_tokens=4"]
    runs, log = tmp_path / "runs", tmp_path / "log"
    arguments = ["profile", *endless, "--duration", "10m", "--idle", "0s", "--output-dir", runs]
    # The command would block on a full pipe that is never read.
    with log.open("w") as log_file:
        run = start(*arguments, stdout=subprocess.DEVNULL, stderr=log_file)
    try:
        # The journal has every finished query.
        wait_for(
            lambda: run.poll() is not None
            or any('"ended"' in file.read_text() for file in runs.glob("*/journal/*.events.jsonl"))
        )
        assert run.poll() is None, log.read_text()
        run.send_signal(signal.SIGINT)
        assert run.wait(60) == 130, log.read_text()
    finally:
        run.kill()
    assert "Traceback" not in log.read_text() and "KeyboardInterrupt" not in log.read_text()
    (folder,) = runs.iterdir()
    run = ergometer.load_run(folder)
    assert run.summary_dict["closing"] == "interrupted"
    assert run.records.num_rows > 0


def test_a_run_with_the_embedded_model(tmp_path):
    done = ergo("profile", "--max-queries", 3, "--idle", "0s", "--output-dir", tmp_path)
    assert done.returncode == 0, done.stderr
    (folder,) = tmp_path.iterdir()
    run = ergometer.load_run(folder)
    assert run.records.num_rows == run.requests.num_rows == 3
    assert run.requests["outcome"] == ["completed"] * 3
    assert run.summary_dict["client"] == "embedded"


@pytest.mark.parametrize("arguments", [["list"], ["trace", "cat", TRACES / "med_cpu_26820.xplane.pb"]])
def test_a_closed_pipe_is_not_an_error(arguments):
    """As in `ergo list | head -1`."""
    reading, writing = os.pipe()
    process = start(*arguments, stdout=writing, stderr=subprocess.PIPE)
    os.close(writing)
    os.read(reading, 1)
    os.close(reading)
    _, error = process.communicate(timeout=60)
    assert "Traceback" not in error
    assert "BrokenPipeError" not in error
    assert "panicked" not in error


def test_the_command_reads_standard_input(autotune_trace):
    with autotune_trace.open("rb") as file:
        done = ergo("trace", "functions", "-", "--format", "json", stdin=file)
    assert [row["id"] for row in json.loads(done.stdout)] == [0, 1, 2, 3]


def test_arguments_that_are_not_utf_8(tmp_path):
    """File names are bytes. The command reports that the file does not exist."""
    command = [sys.executable, "-m", "ergometer", "trace", "ops", os.fsencode(tmp_path) + b"/\xff.xplane.pb"]
    done = subprocess.run(command, capture_output=True, timeout=60)
    assert done.returncode == 1
    assert b"Traceback" not in done.stderr
