"""The `ergo` that comes with the package: the same command, and no sign of Python around it."""

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
from metered import wait_for

VERSION = re.search(r'^version = "(.+)"', (REPOSITORY / "Cargo.toml").read_text(), re.MULTILINE)[1]


def start(*arguments, **options):
    """Starts the package's command and goes on. Python's own streams are what a person has: not made to flush."""
    command = [sys.executable, "-m", "ergometer", *map(str, arguments)]
    return subprocess.Popen(command, text=True, cwd=REPOSITORY, **options)


def test_the_console_script_is_the_same_command(console_script):
    done = subprocess.run([console_script, "--version"], capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stderr) == (0, "")
    assert VERSION in done.stdout
    assert done.stdout == ergo("--version").stdout


def test_the_version_is_one_everywhere():
    assert ergometer.__version__ == VERSION
    assert ergo("--version").stdout.strip() == f"ergo {VERSION}"


def test_wrong_usage_is_2():
    for arguments in (["--no-such-option"], ["no-such-command"], ["trace", "ops", "--top", "many"]):
        done = ergo(*arguments)
        assert done.returncode == 2
        assert done.stdout == ""
        assert "error:" in done.stderr
        assert "Traceback" not in done.stderr


def test_what_fails_is_1(tmp_path):
    done = ergo("trace", "ops", tmp_path / "none.xplane.pb")
    assert done.returncode == 1
    assert done.stderr.startswith("error: ")
    assert "Traceback" not in done.stderr


def test_help_names_the_command_and_not_python():
    done = ergo("--help")
    assert done.returncode == 0
    assert "Usage: ergo" in done.stdout


def test_the_exit_code_of_a_measured_command_is_passed_on():
    done = ergo("measure", "--quiet", "--idle", "0s", "--", sys.executable, "-c", "raise SystemExit(7)")
    assert done.returncode == 7, done.stderr


def test_ctrl_c_is_how_a_monitor_ends():
    """So that is no failure, of the binary and here: Python has nothing to add."""
    arguments = ["monitor", "--format", "jsonl", "--interval", "100ms"]
    monitor = start(*arguments, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert json.loads(monitor.stdout.readline())
    monitor.send_signal(signal.SIGINT)
    _, error = monitor.communicate(timeout=60)
    assert monitor.returncode == 0, error
    assert "Traceback" not in error and "KeyboardInterrupt" not in error


def test_ctrl_c_in_a_run_keeps_what_was_measured(tmp_path):
    endless = ["--dataset", "synthetic", "--dataset-param", "prompt_tokens=16", "--dataset-param", "output_tokens=4"]
    runs, log = tmp_path / "runs", tmp_path / "log"
    arguments = ["profile", *endless, "--duration", "10m", "--idle", "0s", "--output-dir", runs]
    # A pipe that nobody reads would be full some time, and the command would wait for it.
    with log.open("w") as said:
        run = start(*arguments, stdout=subprocess.DEVNULL, stderr=said)
    try:
        # A query that has ended is in the journal.
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
def test_a_reader_that_leaves_is_no_error(arguments):
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


def test_standard_input_is_the_commands(autotune_trace):
    with autotune_trace.open("rb") as file:
        done = ergo("trace", "functions", "-", "--format", "json", stdin=file)
    assert [row["id"] for row in json.loads(done.stdout)] == [0, 1, 2, 3]


def test_arguments_that_are_not_text(tmp_path):
    """A file's name is bytes; the one named here is not there, and the command says so in its own words."""
    command = [sys.executable, "-m", "ergometer", "trace", "ops", os.fsencode(tmp_path) + b"/\xff.xplane.pb"]
    done = subprocess.run(command, capture_output=True, timeout=60)
    assert done.returncode == 1
    assert b"Traceback" not in done.stderr
