"""Shared by the tests: the binary, the library that changes system calls, a meter, and the loop of the servers."""

import os
import random
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
from processes import Tools
from run_folder import METER_W
from scripted_server import EventLoop

REPOSITORY = Path(__file__).resolve().parents[2]
TARGET = Path(os.environ.get("CARGO_TARGET_DIR", REPOSITORY / "target"))

# How often the meter has a new value.
METER_S = 0.04

if sys.platform != "linux":
    collect_ignore_glob = ["test_*.py"]


@pytest.fixture(scope="session")
def ergo():
    """The path of the binary; builds it if the Rust tests have not."""
    program = REPOSITORY.joinpath(TARGET, "debug", "ergo")
    if not program.is_file():
        subprocess.run(["cargo", "build", "-q", "--workspace", "--bins", "--examples"], cwd=REPOSITORY, check=True)
    return program


@pytest.fixture(scope="session")
def library(tmp_path_factory):
    """The library for LD_PRELOAD, compiled from inject.c."""
    path = tmp_path_factory.mktemp("library") / "inject.so"
    source = Path(__file__).with_name("inject.c")
    flags = ["-O1", "-Wall", "-Wextra", "-Werror", "-shared", "-fPIC"]
    subprocess.run([os.environ.get("CC", "cc"), *flags, "-o", path, source, "-ldl"], check=True)
    return path


@pytest.fixture(scope="session")
def meter(tmp_path_factory):
    """A table that grows while the tests run: a power that never changes."""
    path = tmp_path_factory.mktemp("meter") / "meter.csv"
    stop = threading.Event()

    def measure():
        with path.open("a", buffering=1) as file:
            while not stop.wait(METER_S):
                file.write(f"{time.time_ns()},{METER_W}\n")

    path.write_text(f"time,power_w\n{time.time_ns()},{METER_W}\n")
    thread = threading.Thread(target=measure, daemon=True)
    thread.start()
    yield path
    stop.set()
    thread.join()


@pytest.fixture(scope="session")
def events():
    loop = EventLoop()
    yield loop
    loop.stop()


@pytest.fixture(scope="session")
def tools(ergo, library, meter, events):
    return Tools(ergo, library, meter, events)


@pytest.fixture(scope="session")
def seed():
    """The seed of all random choices: the same each time, a number in ERGOMETER_CHAOS_SEED, or a new one with `random`."""
    chosen = os.environ.get("ERGOMETER_CHAOS_SEED", "11")
    return random.SystemRandom().randrange(1 << 32) if chosen == "random" else int(chosen)
